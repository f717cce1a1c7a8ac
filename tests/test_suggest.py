"""Values that servers suggest: to a script, to a model whose read was refused, and what of them is not believed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp.server.fastmcp import FastMCP
from mcp.types import Completion

from tests.servers import raw
from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from workbench import Session, completion, magics, suggest
from workbench.content import Completion as Values
from workbench.content import Prompt, Template

CUSTOMERS = [str(4471 + number) for number in range(20)]


def server(hostile: bool = False) -> FastMCP:
    made = FastMCP("s")

    @made.resource("crm://{region}/customer/{id}", name="customer")
    def customer(region: str, id: str) -> str:
        if id not in CUSTOMERS:
            raise ValueError("no such customer")
        return f"customer {id} of {region}"

    @made.resource("files://{path}", name="files")
    def files(path: str) -> str:
        return path

    @made.prompt()
    def review(language: str, code: str) -> str:
        return f"{language}: {code}"

    @made.completion()
    async def complete(reference: Any, argument: Any, context: Any) -> Completion | None:
        if hostile:
            return Completion(
                values=["x" * 5000, "two\nlines", "\u202eodd", *map(str, range(97))], total=10**9, hasMore=True
            )
        given = (context.arguments or {}) if context else {}
        values = {"id": CUSTOMERS, "region": ["münchen", "köln"], "language": ["python", f"like {given.get('code')}"]}
        found = [value for value in values.get(argument.name, []) if value.startswith(argument.value)]
        return Completion(values=found, total=len(found))

    return made


@pytest.fixture(scope="module")
def wb() -> Iterator[Session]:
    with Session() as session:
        session.connect("s", server=server())
        yield session


def entry(wb: Session, name: str) -> Template | Prompt:
    return next(x for x in (*wb.offer.templates, *wb.offer.prompts) if x.name == name)


def read(wb: Session, uri: str) -> str:
    replies = [Reply(calls=(Call(id="c", name="read_resource", args={"uri": uri}),)), Reply(text="done")]
    model = Scripted(replies=replies)
    wb.ask("go", model=model, new=True)
    return str(model.seen[-1][-1].content)


def test_a_script_gets_what_the_server_suggests(wb: Session) -> None:
    found = wb.complete(entry(wb, "customer"), "id", "448")
    assert (found.values, found.total, found.more) == (tuple(str(n) for n in range(4480, 4490)), 10, False)
    assert wb.complete(entry(wb, "review"), "language", "", {"code": "this"}).values == ("python", "like this")
    assert wb.complete(entry(wb, "files"), "path").values == ()


@pytest.mark.parametrize("uri", ["crm://{region}/customer/{id}", "crm://köln/customer/{id}", "crm://köln/customer/1"])
def test_a_model_whose_read_is_refused_learns_what_there_is(wb: Session, uri: str) -> None:
    said = read(wb, uri)
    assert (
        "Values for region: münchen, köln. Values for id: 4471, 4472, 4473, 4474, 4475, 4476, 4477, 4478 and 12 more."
        in said
    )
    assert "\n" not in said


def test_what_is_filled_in_already_is_told_to_the_server() -> None:
    made, told = FastMCP("s"), list[tuple[str, Any]]()
    made.resource("crm://{region}/{id}/x", name="x")(lambda region, id: 1 / 0)

    @made.completion()
    async def complete(reference: Any, argument: Any, context: Any) -> Completion:
        told.append((argument.name, context.arguments if context else None))
        return Completion(values=["1"])

    with Session() as wb:
        wb.connect("s", server=made)
        read(wb, "crm://k%C3%B6ln/7/x")
        assert sorted(told) == [("id", {"region": "köln"}), ("region", {"id": "7"})]
        told.clear()
        read(wb, "crm://köln/{id}/x")
        assert sorted(told) == [("id", {"region": "köln"}), ("region", {})]


def test_one_variable_that_takes_too_long_does_not_lose_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggest, "_SECONDS", 0.3)
    made = FastMCP("s")
    made.resource("crm://{region}/{id}", name="x")(lambda region, id: "")

    @made.completion()
    async def complete(reference: Any, argument: Any, context: Any) -> Completion:
        if argument.name == "region":
            await anyio.sleep_forever()
        return Completion(values=["1"])

    with Session() as wb:
        wb.connect("s", server=made)
        assert read(wb, "crm://{region}/{id}").endswith(" Values for id: 1.")


def test_values_of_a_template_for_people_only_are_not_told_to_a_model(tmp_path: Path) -> None:
    template = {"uriTemplate": "crm://{id}", "name": "x", "annotations": {"audience": ["user"]}}
    with Session() as wb:
        wb.connect("s", command=raw(_replies(tmp_path, [template], {"values": ["4471"]})))
        assert wb.complete(entry(wb, "x"), "id").values == ("4471",)
        for uri in ("crm://{id}", "crm://1"):
            assert "4471" not in read(wb, uri)


def _replies(folder: Path, templates: list[dict[str, Any]], completion: Any) -> Path:
    info = {
        "protocolVersion": "2025-11-25", "capabilities": {"resources": {}, "completions": {}},
        "serverInfo": {"name": "r", "version": "1"},
    }  # fmt: skip
    answer = completion if completion is None or isinstance(completion, str) else {"completion": completion}
    replies = {
        "initialize": [info], "resources/templates/list": [{"resourceTemplates": templates}],
        "completion/complete": [answer],
    }  # fmt: skip
    path = folder / "replies.json"
    path.write_text(json.dumps(replies))
    return path


ERROR = '{{"jsonrpc": "2.0", "id": @ID@, "error": {{"code": {}, "message": "no"}}}}'


@pytest.mark.parametrize(
    "answered, values, total, more",
    [
        ({"values": ["a", 7, None, ["b"], "c"], "total": "many", "hasMore": "yes"}, ("a", "c"), None, False),
        ({"values": "abc"}, (), None, False),
        ({"values": ["a"], "total": True}, ("a",), None, False),
        ({"values": ["a"], "total": -3, "hasMore": True}, ("a",), None, True),
        ({"values": [str(i) for i in range(5000)]}, tuple(map(str, range(100))), None, True),
        ({"values": ["x" * 1001, "x" * 1000]}, ("x" * 1000,), None, False),
        ([], (), None, False),
        (ERROR.format(-32601), (), None, False),
        (ERROR.format(-32602), (), None, False),
        (None, (), None, False),
    ],
)
def test_a_completion_of_any_shape_is_read_or_is_none(
    tmp_path: Path, answered: Any, values: tuple[str, ...], total: int | None, more: bool
) -> None:
    with Session() as wb:
        wb.connect("s", command=raw(_replies(tmp_path, [{"uriTemplate": "x://{id}", "name": "x"}], answered)))
        found = wb.complete(entry(wb, "x"), "id", seconds=0.3 if answered is None else 5.0)
        assert (found.values, found.total, found.more) == (values, total, more)
        assert wb.connections["s"].alive


@pytest.mark.parametrize(
    "uri, typed, found",
    [
        ("crm://customer/{id}/sub", "", ("id", "", {}, "crm://customer/", "{id}", "/sub")),
        ("crm://customer/{id}/sub", "crm://cust", ("id", "", {}, "crm://customer/", "{id}", "/sub")),
        ("crm://customer/{id}/sub", "crm://customer/44", ("id", "44", {}, "crm://customer/", "{id}", "/sub")),
        ("crm://{r}/{id}", "crm://k%C3%B6ln/ü", ("id", "ü", {"r": "köln"}, "crm://k%C3%B6ln/", "{id}", "")),
        ("f:///{+path}", "f:///a/b", ("path", "a/b", {}, "f:///", "{+path}", "")),
        ("t://x{?query,since}", "t://x", ("query", "", {}, "t://x", "{?query}", "")),
        ("t://x{?query,since}", "t://x?query=a", ("query", "a", {}, "t://x", "{?query}", "")),
        ("t://x{/a*}", "t://x/b", ("a", "b", {}, "t://x", "{/a*}", "")),
        ("t://{id:3}", "t://1", ("id", "1", {}, "t://", "{id:3}", "")),
        ("t://x{?query,since}", "t://x?since=a", None),
        ("crm://customer/{id}/sub", "crm://customer/44/sub", None),
        ("crm://customer/{id}/sub", "docs://", None),
        ("crm://{r}/{id}", "crm:///1", ("r", "/1", {}, "crm://", "{r}", "/")),
        ("board://now", "board", None),
        ("x://{,}", "x://", None),
        ("x://{a}" + "y" * 9000, "x://", None),
    ],
)
def test_where_somebody_is_who_types_a_templates_uri(uri: str, typed: str, found: tuple[Any, ...] | None) -> None:
    where = suggest.gap(Template(server="s", name="t", uri=uri), typed)
    assert (where and where[:6]) == found


def test_values_are_filled_in_as_the_expression_says_and_what_is_typed_stays() -> None:
    def typed(uri: str, *values: str, so_far: str = "") -> list[str]:
        where = suggest.gap(Template(server="s", name="t", uri=uri), so_far)
        assert where is not None
        return suggest.expansions(where, Values(values=values))

    assert typed("x://{id}/y", "a/b ü", "") == ["x://a%2Fb%20%C3%BC/y"]
    assert typed("x://{id}/y", "ü/b", so_far="x://ü") == ["x://ü%2Fb/y"]
    assert typed("x://{+path}", "ü/b c", "ü", so_far="x://ü") == ["x://ü/b%20c", "x://ü"]
    assert typed("x://t{?q}", "üb", so_far="x://t?q=ü") == ["x://t?q=üb"]
    assert typed("x://{+path}", "a/b ü") == ["x://a/b%20%C3%BC"]
    assert typed("x://t{?q,since}", "a&b") == ["x://t?q=a%26b"]
    assert typed("x://{a-b}", "1") == []  # no name that RFC 6570 knows


def test_what_is_no_template_gets_no_suggestions(wb: Session) -> None:
    assert "Values for" not in read(wb, "nothing://here")


def test_a_read_that_works_asks_for_none(wb: Session) -> None:
    assert "customer 4471 of k" in read(wb, "crm://köln/customer/4471")


def test_a_server_that_completes_nothing_leaves_the_refusal_as_it_was() -> None:
    made = FastMCP("s")
    made.resource("x://{id}", name="x")(lambda id: id)
    with Session() as wb:
        wb.connect("s", server=made)
        assert "Values for" not in read(wb, "x://{id}")
        assert wb.complete(entry(wb, "x"), "id").values == ()


def test_hostile_suggestions_are_bounded_and_on_one_line() -> None:
    with Session() as wb:
        wb.connect("s", server=server(hostile=True))
        found = wb.complete(entry(wb, "customer"), "id")
        assert len(found.values) == 99 and found.more, "what is absurdly long is left out"
        said = read(wb, "crm://{region}/customer/{id}")
    assert "two lines" in said and "\u202e" not in said and "\n" not in said and len(said) < 1500


def tab(wb: Session, line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(magics, "current", lambda: SimpleNamespace(session=wb))
    context: Any = SimpleNamespace(text_until_cursor=line)
    return [each.text for each in completion.complete(context)["completions"]]


def suggesting(*values: str) -> FastMCP:
    made = FastMCP("s")
    for number in range(3):
        made.resource(f"crm://{number}/{{id}}", name=f"t{number}")(lambda id: id)

    @made.prompt()
    def review(language: str) -> str:
        return language

    @made.completion()
    async def complete(_reference: Any, argument: Any, _context: Any) -> Completion:
        return Completion(values=[value for value in values if value.startswith(argument.value)])

    return made


def test_tab_keeps_what_is_typed_and_escapes_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    with Session() as wb:
        wb.connect("s", server=suggesting("a/b", "münchen"))
        assert "crm://0/a%2Fb" in tab(wb, "%mcp read crm://", monkeypatch), "the template's own text is no value"
        assert tab(wb, "%mcp read crm://0/mü", monkeypatch) == ["'crm://0/münchen'"]
        assert tab(wb, "%mcp read crm://0/m%C3%BC", monkeypatch) == ["crm://0/m%C3%BCnchen"]


def test_no_suggestion_of_tab_can_leave_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with Session() as wb:
        wb.connect("s", server=suggesting("py\nimport os; os.abort()  #", "x\u202ey", "python"))
        assert tab(wb, "%mcp prompt review language=", monkeypatch) == ["language=python"]
