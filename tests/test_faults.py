"""What the list of public faults (shared/cases) demands beyond what the tests of each module hold; by the awkward server."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from langchain_core.messages import ToolMessage, messages_to_dict

from tests.servers import awkward, raw
from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from tests.test_magics import AWKWARD, Kernel, kernel  # noqa: F401 - a fixture
from workbench import NotConnected, Session, Turn, tokens

SUBSCRIPTION = "crm://customer/4471/subscription"


@pytest.fixture(scope="module")
def wb() -> Iterator[Session]:
    with Session() as session:
        session.connect("a", command=awkward("--huge", "8000000"))
        session.connect("b", command=awkward("--name", "b"))
        yield session


def ask(wb: Session, *calls: tuple[str, dict[str, Any]], approve: Any = "none") -> tuple[Turn, list[str]]:
    """A turn whose model makes these calls in one step, and the results that it got."""
    made = tuple(Call(id=f"c{number}", name=name, args=args) for number, (name, args) in enumerate(calls))
    model = Scripted(replies=[Reply(calls=made), Reply(text="done")])
    turn = wb.ask("go", model=model, new=True, approve=approve)
    return turn, [str(message.content) for message in model.seen[1] if isinstance(message, ToolMessage)]


def read(wb: Session, uri: str) -> tuple[Turn, str]:
    turn, (said,) = ask(wb, ("read_resource", {"uri": uri, "server": "a"}))
    return turn, said


def test_a_kernel_whose_stderr_is_no_file_starts_servers_and_hears_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """P01: as on Windows and Colab."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Session() as wb:
        wb.connect("a", command=awkward())
        with pytest.raises(NotConnected, match="fatal: simulated crash"):
            wb.read("res://files/die")
        assert sys.stderr.getvalue() == ""


def test_what_one_turn_leaves_behind_is_plain_data(wb: Session) -> None:
    """P14: messages, artifacts and spans; one type of the SDK in them would end a run that is checkpointed."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    calls = [("read_resource", {"uri": "https://Docs.Example.com", "server": "a"}), ("a__link", {}), ("a__sound", {})]
    turn, _ = ask(wb, *calls, ("invoke_prompt", {"name": "with-file", "server": "a"}), approve="all")
    assert [span.status for span in turn.spans] == ["ok"] * len(turn.spans)
    json.dumps(messages_to_dict(list(turn.messages)))
    json.dumps([span.to_json() for span in turn.spans])
    stored = JsonPlusSerializer().dumps_typed(list(turn.messages))
    assert stored[0] == "msgpack" and b"AnyUrl" not in stored[1] and b"mcp.types" not in stored[1]


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        (
            "res://files/report",
            "[Binary: application/pdf, could not be read as a PDF (PdfStreamError), 100.0 KB.",
        ),  # P19
        ("res://files/nomime", "no type declared, found to be image/png"),  # P18
        ("res://files/latin1", "[not valid utf-8: 1 places could not be decoded]\ncaf\ufffd, 12 EUR"),  # P17
    ],
)
def test_what_is_no_text_costs_the_words_that_stand_for_it(wb: Session, uri: str, says: str) -> None:
    """P17, P18, P19, P40: and the figure is for what the model received."""
    turn, said = read(wb, uri)
    assert says in said
    row = turn.reads().iloc[0]
    assert row.tokens == tokens.count(said) < 100
    assert row.bytes == wb.read(uri, "a").size


def test_a_directory_arrives_part_by_part_under_one_row(wb: Session) -> None:
    """P20."""
    turn, said = read(wb, "res://dir/")
    places = [said.index(f'<resource uri="res://dir/{name}" type="{mime}"') for name, mime in DIRECTORY.items()]
    assert places == sorted(places)
    assert said.index("part A") < said.index("part B") < said.index("[Binary: image/png, 1 x 1 pixels, 70 B.")
    (row,) = turn.reads().itertuples()
    assert (row.bytes, row.tokens) == (6 + 6 + 70, tokens.count(said))


DIRECTORY = {"a.txt": "text/plain", "b.txt": "text/plain", "c.png": "image/png"}


def test_no_output_of_a_cell_holds_the_base64_of_a_binary(kernel: Kernel) -> None:  # noqa: F811
    """P19."""
    kernel.run(f"%mcp connect awkward -- {AWKWARD}")
    kernel.run("%mcp read res://files/report")
    shown = kernel.text("import workbench\nworkbench.session().read('res://files/report', 'awkward')")
    assert "data=<102,414 bytes>" in shown
    kernel.run("workbench.session().attach('res://files/report', 'awkward')")
    assert "<102,414 bytes>" in kernel.text("workbench.session().attachments")
    saved = nbformat.writes(kernel.book)
    assert "JVBERi0xLjcK4uPP" not in saved and "xe2" not in saved
    kernel.run("%mcp detach res://files/report")


def test_a_huge_read_arrives_whole_and_keeps_nobody_else_waiting(wb: Session) -> None:
    """P21."""
    job = wb.start_read("res://files/huge", "a")
    for _ in range(3):
        assert wb.read("urn:isbn:123", "b").parts[0].data == "a book"
    assert not job.future.done(), "the small reads were answered meanwhile"
    assert job.future.result(60).size == 8_000_000


PAGES: dict[str, tuple[str, Callable[[int], dict[str, Any]]]] = {
    "resources/list": ("resources", lambda number: {"uri": f"a:{number}", "name": "n"}),
    "resources/templates/list": (
        "resourceTemplates",
        lambda number: {"uriTemplate": f"a:{number}/{{id}}", "name": "n"},
    ),
    "prompts/list": ("prompts", lambda number: {"name": f"p{number}"}),
    "tools/list": ("tools", lambda number: {"name": f"t{number}", "inputSchema": {"type": "object"}}),
}


def test_each_of_the_four_lists_is_read_to_its_last_page(tmp_path: Path) -> None:
    """P22."""
    replies = {
        method: [{key: [make(page)], **({"nextCursor": f"{page}"} if page < 2 else {})} for page in range(3)]
        for method, (key, make) in PAGES.items()
    }
    (tmp_path / "replies.json").write_text(json.dumps(replies))
    with Session() as wb:
        offer = wb.connect("r", command=raw(tmp_path / "replies.json"))
        assert [len(x) for x in (offer.resources, offer.templates, offer.prompts, offer.tools)] == [3, 3, 3, 3]


def test_a_call_reads_and_prompts_are_answered_by_one_process(wb: Session) -> None:
    """P28."""
    pid = wb.connections["a"].pid
    for _ in range(2):
        _, said = ask(wb, ("a__whoami", {}), ("read_resource", {"uri": "urn:isbn:123", "server": "a"}), approve="all")
        assert said[0] == f"awkward {pid}"
        wb.prompt("dialogue", server="a")
    assert wb.connections["a"].pid == pid


def test_the_trace_says_which_of_two_servers_ran_a_tool_and_by_which_name(wb: Session) -> None:
    """P30, P32."""
    turn, said = ask(wb, ("b__add", {"a": 1, "b": 2}), ("a__files_read_all_v2", {}), approve="all")
    assert said == ["3", "called files.read/all v2"]
    ran = {(s.detail["server"], s.name, s.detail["called_as"]) for s in turn.spans if s.kind == "tool"}
    assert ran == {("b", "add", "b__add"), ("a", "files.read/all v2", "a__files_read_all_v2")}


def test_a_servers_read_resource_is_not_let_through_by_its_name(wb: Session) -> None:
    """P31: ours runs unasked, the server's of the same name does not."""
    asked: list[tuple[str, str]] = []

    def no(call: Any) -> bool:
        asked.append((call.server, call.tool))
        return False

    _, said = ask(
        wb, ("a__read_resource", {"uri": "x"}), ("read_resource", {"uri": SUBSCRIPTION, "server": "a"}), approve=no
    )
    assert asked == [("a", "read_resource")]
    assert "SERVER-SIDE" not in said[0] and "annual" in said[1]


def test_a_server_that_ended_is_called_ended_in_the_status(kernel: Kernel) -> None:  # noqa: F811
    """P06."""
    kernel.run(f"%mcp connect mortal -- {AWKWARD}")
    kernel.fails("%mcp read res://files/die --server mortal")
    (line,) = [line for line in kernel.text("%mcp").splitlines() if line.strip().startswith("mortal")]
    assert "ended" in line
    kernel.run(f"%mcp connect mortal -- {AWKWARD}")
    assert "a book" in kernel.text("%mcp read urn:isbn:123 --server mortal")
    kernel.run("%mcp disconnect mortal")
