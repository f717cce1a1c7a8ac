"""TAB in our lines, asked of a real kernel as JupyterLab asks it."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.servers import raw

MATRIX = "sap-btp://sum-abap-v1"


@pytest.fixture(scope="module")
def kernel() -> Iterator[BlockingKernelClient]:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        reply = client.execute("%load_ext workbench\n%mcp connect demo", reply=True, timeout=60)
        assert reply["content"]["status"] == "ok"
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _completed(kernel: BlockingKernelClient, code: str) -> list[str]:
    """What `code` can become by TAB at its end."""
    content = kernel.complete(code, reply=True, timeout=60)["content"]
    assert content["status"] == "ok"
    return [code[: content["cursor_start"]] + match + code[content["cursor_end"] :] for match in content["matches"]]


@pytest.mark.parametrize(
    "typed, whole",
    [
        ("%mcp conn", ["%mcp connect"]),
        ("%mcp connect --head", ["%mcp connect --header"]),
        ("%mcp disconnect d", ["%mcp disconnect demo"]),
        ("%mcp attach sap-btp://sum", [f"%mcp attach {MATRIX}"]),
        (f"%mcp attach {MATRIX} --refresh t", [f"%mcp attach {MATRIX} --refresh turn"]),
        (f"%mcp read {MATRIX} --server d", [f"%mcp read {MATRIX} --server demo"]),
        ("%%agent --m", ["%%agent --model"]),
        ("%%agent --model de", ["%%agent --model demo"]),
        ("%%agent --approve a", ["%%agent --approve all", "%%agent --approve ask"]),
        (f"%mcp attach {MATRIX} --ref", [f"%mcp attach {MATRIX} --refresh"]),
        ("%mcp connect x -- dem", []),
        ("%%agent --pattern c", ["%%agent --pattern catalog", "%%agent --pattern companion"]),
        (
            "%mcp read crm://customer/45",
            ["%mcp read crm://customer/4502/subscription", "%mcp read crm://customer/4519/subscription"],
        ),
        ("%mcp prompt summarize_ticket t", ["%mcp prompt summarize_ticket ticket_id="]),
        ("%mcp prompt summarize_ticket ticket_id=T-104", ["%mcp prompt summarize_ticket ticket_id=T-1041"]),
        ("%%compare --rep", ["%%compare --repeat"]),
        ("%replay --mod", ["%replay --models"]),
        ("%replay turns --patterns dump,ca", ["%replay turns --patterns dump,catalog"]),
        ("%replay turns --models de", ["%replay turns --models demo"]),
        ("%replay turns --approve n", ["%replay turns --approve none"]),
        ("%%compare --patterns dump,ca", ["%%compare --patterns dump,catalog"]),
        (
            "%%compare --patterns dump,attach+c",
            [f"%%compare --patterns dump,attach+{x}" for x in ("catalog", "companion")],
        ),
        ("%%agent --pattern attach(sap-btp://sum", [f"%%agent --pattern attach({MATRIX})"]),
        (
            "%%compare --patterns attach(a,b),attach(sap-btp://sum",
            [f"%%compare --patterns attach(a,b),attach({MATRIX})"],
        ),
        ("%mcp policy sap-btp://sum", [f"%mcp policy {MATRIX}"]),
        (f"%mcp policy {MATRIX} --al", [f"%mcp policy {MATRIX} --always"]),
        ("%%agent\nWhat says @demo:sap-btp://sum", [f"%%agent\nWhat says @demo:{MATRIX}"]),
        ("%%compare --repeat 2\n@demo:sap-btp://sum", [f"%%compare --repeat 2\n@demo:{MATRIX}"]),
        ("%%agent\nto a@demo:sap", []),
        ("x = 1\n@demo:sap", []),
        ("x = 1\n%mcp reso", ["x = 1\n%mcp resources"]),
    ],
)
def test_tab_completes_our_words_and_nothing_else(kernel: BlockingKernelClient, typed: str, whole: list[str]) -> None:
    assert _completed(kernel, typed) == whole


TEMPLATES = ["geo://{region}/customer/{id}", "files:///{+path}", "find://tickets{?query,since}"]
PROMPT = {"name": "two words", "arguments": [{"name": "tone", "required": True}, {"name": "lines"}]}


@pytest.fixture
def completing(kernel: BlockingKernelClient, tmp_path: Path) -> Iterator[Any]:
    """Connects a server that answers every completion with these values; with `None` it never answers."""

    def connect(values: list[str] | None, name: str = "r") -> None:
        capabilities = {"resources": {}, "prompts": {}, "completions": {}}
        info = {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "serverInfo": {"name": name, "version": "1"},
        }
        replies = {
            "initialize": [info], "prompts/list": [{"prompts": [PROMPT]}],
            "resources/templates/list": [{"resourceTemplates": [{"uriTemplate": uri, "name": "t"} for uri in TEMPLATES]}],
            "completion/complete": [None if values is None else {"completion": {"values": values}}],
        }  # fmt: skip
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(replies))
        reply = kernel.execute(f"%mcp connect {name} -- {shlex.join(raw(path))}", reply=True, timeout=60)
        assert reply["content"]["status"] == "ok"

    yield connect
    assert kernel.execute("%mcp disconnect r", reply=True, timeout=60)["content"]["status"] == "ok"


HOSTILE = ["two\nlines", "\u202eodd", "\x1b[31m", ""]


@pytest.mark.parametrize(
    "values, typed, words",
    [
        (["münchen", "köln"], "read geo://", ["geo://k%C3%B6ln/customer/", "geo://m%C3%BCnchen/customer/"]),
        (["münchen", "köln"], "read geo://mü", ["'geo://münchen/customer/'"]),
        (["münchen"], "read geo://m%C3%BC", ["geo://m%C3%BCnchen/customer/"]),
        (["4471", "4502"], "attach geo://köln/customer/44", ["'geo://köln/customer/4471'"]),
        (["a b/c.md", "x.md"], "read files:///a", ["files:///a%20b/c.md"]),
        (["a/b"], "read --server r geo://k/customer/a", ["geo://k/customer/a%2Fb"]),
        (["open"], "read find://", ["'find://tickets?query=open'"]),
        (["open"], "read 'find://tickets?query=o", ["'find://tickets?query=open'"]),
        (HOSTILE, "read geo://k/customer/t", ["geo://k/customer/two%0Alines"]),
        (["x"], "read geo://köln/customer/44", ["geo://köln/customer/44"]),  # it stays as it is
        ([], "prompt 'two words' ", ["lines=", "tone="]),
        ([], "prompt 'two words' tone=x ", ["lines="]),
        (["kind", "very kind"], "prompt 'two words' tone=", ["tone=kind", "'tone=very kind'"]),
        (["kind", "very kind"], "prompt 'two words' 'tone=very k", ["'tone=very kind'"]),
        ([*HOSTILE, "ok", "it's"], "prompt 'two words' tone=", ["'tone=it'\"'\"'s'", "tone=", "tone=ok"]),
        (["kind"], "prompt nobody tone=", ["tone="]),
    ],
)
def test_tab_fills_in_what_a_server_suggests(
    kernel: BlockingKernelClient, completing: Any, values: list[str], typed: str, words: list[str]
) -> None:
    completing(values)
    found = kernel.complete(f"%mcp {typed}", reply=True, timeout=60)["content"]["matches"]
    assert sorted(word for word in found if not word.startswith("--")) == sorted(words)


def test_tab_does_not_wait_for_servers_that_never_answer(kernel: BlockingKernelClient, completing: Any) -> None:
    completing(None)
    started = time.monotonic()
    assert _completed(kernel, "%mcp read geo") == ["%mcp read geo"]
    assert _completed(kernel, "%mcp read fi")[0] == "%mcp read file:///repo/architecture.png"
    assert _completed(kernel, "%mcp prompt 'two words' tone=x") == ["%mcp prompt 'two words' tone=x"]
    assert time.monotonic() - started < 3.0
    everywhere = kernel.complete("%mcp read ", reply=True, timeout=60)  # three templates
    assert "docs://style-guide" in everywhere["content"]["matches"]
    assert time.monotonic() - started < 4.0, "half a second for all of them together"


def test_tab_after_mcp_offers_every_subcommand(kernel: BlockingKernelClient) -> None:
    from workbench.magics import COMMANDS

    assert _completed(kernel, "%mcp ") == sorted(f"%mcp {name}" for name in COMMANDS)


def test_lines_that_are_not_ours_are_completed_as_ever(kernel: BlockingKernelClient) -> None:
    assert "import os; os.path" in _completed(kernel, "import os; os.pa")
    assert "%mcpx connect" not in _completed(kernel, "%mcpx conn")
