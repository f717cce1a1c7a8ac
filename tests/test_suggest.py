"""Values that servers suggest: to a script, to a model whose read was refused, and what of them is not believed."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.server.fastmcp import FastMCP
from mcp.types import Completion

from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from workbench import Session, completion, magics
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
