"""The kernel's side of the two widgets, against a comm that writes down what would go to the page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import workbench.widget
from workbench.content import Completion, Part
from workbench.saving import LARGEST, files
from workbench.widget import Catalog, CatalogRow, Trace

HERE = Path(workbench.widget.__file__).parent
STATIC = {"text/html": "<p>static</p>", "text/plain": "static"}


class FakeComm:
    """Refuses what the real one could not send."""

    def __init__(self, **opened: Any) -> None:
        self.comm_id, self.opened = "a-comm", opened
        self.sent: list[dict[str, Any]] = []

    def send(self, data: Any = None, buffers: Any = None, **_: Any) -> None:
        json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
        if data["method"] == "custom":
            self.sent.append(data["content"])
            self.buffers = list(buffers or [])
            self.heard()

    def heard(self) -> None: ...

    def on_msg(self, callback: Callable[..., None]) -> None:
        self.deliver = callback

    def on_close(self, callback: Callable[..., None]) -> None: ...
    def close(self, *args: Any, **kwargs: Any) -> None: ...


@pytest.fixture(autouse=True)
def comms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("comm.create_comm", lambda **opened: FakeComm(**opened))


def row(key: str = "k", **changes: Any) -> CatalogRow:
    return replace(CatalogRow(key=key, server="demo", kind="resource", label="A", uri=f"demo://{key}"), **changes)


def catalog(*rows: CatalogRow, act: Callable[[dict[str, Any]], None] = lambda message: None) -> Catalog:
    return Catalog(rows, act, STATIC)


def click(widget: Any, **content: Any) -> list[dict[str, Any]]:
    """What the page hears in return."""
    comm: FakeComm = widget.comm
    before = len(comm.sent)
    comm.deliver({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})
    return comm.sent[before:]


def sent(widget: Any) -> list[dict[str, Any]]:
    return list(widget.comm.sent)


def test_all_rows_travel_in_chunks_and_none_in_the_state_that_notebooks_save() -> None:
    made = catalog(*(row(str(i), label="a-label-of-a-server") for i in range(4_500)))
    sent = made.comm.sent
    assert [(m["from"], len(m["rows"]), m["total"]) for m in sent] == [
        (0, 2000, 4500), (2000, 2000, 4500), (4000, 500, 4500)
    ]  # fmt: skip
    assert [r[0] for m in sent for r in m["rows"]] == [str(i) for i in range(4_500)]
    assert "a-label-of-a-server" not in json.dumps(made.get_state())


def test_an_empty_catalog_says_that_it_is_empty() -> None:
    assert catalog().comm.sent == [{"kind": "rows", "from": 0, "total": 0, "rows": []}]


def test_huge_names_make_small_messages_and_stay_whole() -> None:
    sent = catalog(*(row(str(i), label="N" * 400_000) for i in range(5))).comm.sent
    assert [len(m["rows"]) for m in sent] == [2, 2, 1]
    assert all(len(r[3]) == 400_000 for m in sent for r in m["rows"])


def test_a_row_on_the_wire_has_the_fields_in_the_order_that_the_page_names_them() -> None:
    names = [field.name for field in fields(CatalogRow)]
    assert f"put(at, [{', '.join(names)}])" in (HERE / "catalog.js").read_text()


def test_a_reloaded_page_is_told_the_rows_as_they_are_now() -> None:
    made = catalog(row("a"), row("b"))
    made.update(row("a", state="attached"))
    made.update(row("c"))
    (again,) = click(made, kind="hello")
    assert (again["from"], again["total"]) == (0, 3)
    assert [(r[0], r[10]) for r in again["rows"]] == [("a", "attached"), ("b", ""), ("c", "")]


def test_a_click_reaches_the_callback_with_the_key_and_the_filled_values_of_known_variables() -> None:
    heard: list[dict[str, Any]] = []
    made = catalog(row("t", kind="template", variables=("id", "since")), act=heard.append)
    click(made, kind="attach", key="t", values={"id": "44", "since": "", "other": "x"})
    assert heard == [{"kind": "attach", "key": "t", "values": {"id": "44"}}]


def test_the_page_learns_when_the_kernel_has_taken_a_click() -> None:
    assert click(catalog(row("k")), kind="preview", key="k", values={}) == [{"kind": "done", "key": "k"}]


@pytest.mark.parametrize(
    "content",
    [{}, {"kind": "attach"}, {"kind": "attach", "key": "nobody"}, {"kind": "erase", "key": "k"}],
)
def test_messages_that_are_no_click_on_a_row_are_left_alone(content: dict[str, Any]) -> None:
    heard: list[dict[str, Any]] = []
    assert click(catalog(row("k"), act=heard.append), **content) == []
    assert heard == []


@pytest.mark.parametrize(("error", "reason"), [(KeyError("gone"), "'gone'"), (TimeoutError(), "TimeoutError")])
def test_what_the_callback_raises_is_shown_in_the_row(error: Exception, reason: str) -> None:
    def act(message: dict[str, Any]) -> None:
        raise error

    failed, done = click(catalog(row("k"), act=act), kind="attach", key="k", values={})
    assert (failed["kind"], failed["row"][10], failed["row"][11], done["kind"]) == ("update", "failed", reason, "done")


def test_a_lone_surrogate_from_a_server_is_sent_as_text_and_its_row_is_still_found() -> None:
    heard: list[dict[str, Any]] = []
    made = catalog(row("\ud800", label="half \ud83d", description="\ud83d\ude00"), act=heard.append)
    sent = made.comm.sent[0]["rows"][0]
    assert (sent[3], sent[7]) == ("half \ufffd", "\U0001f600")
    click(made, kind="preview", key=sent[0], values={})
    assert heard == [{"kind": "preview", "key": "\ud800", "values": {}}]
    made.preview("\ud800", "title \udc00", "text \udc00", "note")
    assert made.comm.sent[-1]["key"] == sent[0]


def test_two_rows_with_one_key_are_refused() -> None:
    with pytest.raises(ValueError, match="1 of 2 rows"):
        catalog(row("k"), row("k"))


def test_unknown_size_and_tokens_stay_unknown_on_the_wire() -> None:
    sent = catalog(row()).comm.sent[0]["rows"][0]
    assert (sent[6], sent[8]) == (None, None)


def test_preview_and_notice_send_their_text_whole() -> None:
    made = catalog(row("k"))
    made.preview("k", "A", "x" * 10, "10 of 20 characters")
    made.notice("<b>")
    assert made.comm.sent[1:] == [
        {"kind": "preview", "key": "k", "title": "A", "text": "x" * 10, "note": "10 of 20 characters", "files": []},
        {"kind": "notice", "text": "<b>"},
    ]


def previewed(*data: str | bytes) -> Catalog:
    made = catalog(row("k"))
    made.preview(
        "k", "A", "text", "", files([Part(uri=f"x://{i}", mime="text/plain", data=d) for i, d in enumerate(data)])
    )
    return made


def test_a_file_goes_out_when_it_is_asked_for_byte_for_byte_and_not_before() -> None:
    made = previewed(b"\x00\xff", "ü")
    assert sent(made)[-1]["files"] == [["0.txt", 2, None], ["1.txt", 2, None]]
    assert made.comm.buffers == [] and b"\xff" not in str(made.get_state()).encode()
    for number, data in enumerate((b"\x00\xff", "ü".encode())):
        assert click(made, kind="save", key="k", number=number, token="t") == [{"kind": "file", "token": "t"}]
        assert made.comm.buffers == [data]


@pytest.mark.parametrize(
    "wanted", [{"number": 1}, {"number": -1}, {"number": "0"}, {"number": [0]}, {}, {"key": "other"}]
)
def test_a_file_that_is_not_there_is_answered_without_bytes(wanted: dict[str, Any]) -> None:
    made = previewed(b"x")
    asked = {"kind": "save", "key": "k", "token": 7, **({"number": 0} if "key" in wanted else {}), **wanted}
    assert click(made, **asked) == [{"kind": "file", "token": "7"}]
    assert made.comm.buffers == []


def test_a_file_that_is_too_large_for_a_page_is_refused_with_the_reason() -> None:
    made = previewed(bytes(LARGEST + 1))
    assert sent(made)[-1]["files"][0][1:] == [LARGEST + 1, "is larger than the 20.0 MB that go to a page"]
    click(made, kind="save", key="k", number=0, token="t")
    assert made.comm.buffers == []


def test_another_preview_lets_the_bytes_of_the_last_one_go() -> None:
    made = previewed(b"x")
    made.preview("k", "A", "described")
    click(made, kind="save", key="k", number=0, token="t")
    assert made.comm.buffers == []


@pytest.mark.parametrize(
    ("found", "options", "total"),
    [
        (Completion(values=("a", "b"), total=2), ["a", "b"], 2),
        (Completion(values=("a",)), ["a"], 1),
        (Completion(values=("a",), more=True), ["a"], None),
        (Completion(values=("a",), total=500, more=True), ["a"], 500),
        (Completion(values=("two\nlines", "\u202eodd", "\ud800", "<b>"), total=0), ["<b>"], 4),
        (Completion(), [], 0),
    ],
)
def test_suggestions_are_what_can_be_typed_and_say_how_many_there_are(
    found: Completion, options: list[str], total: int | None
) -> None:
    made = catalog(row("t", variables=("id",)))
    made.suggest("t", "id", "", found)
    assert (sent(made)[-1]["options"], sent(made)[-1]["total"]) == (options, total)


def test_typing_asks_for_suggestions_in_known_fields_only_and_a_failure_is_silent() -> None:
    heard: list[dict[str, Any]] = []

    def act(message: dict[str, Any]) -> None:
        heard.append(message)
        raise RuntimeError("the server is gone")

    made = catalog(row("t", variables=("id", "since")), act=act)
    assert click(made, kind="complete", key="t", name="id", values={"id": "4", "since": "x"}) == []
    assert click(made, kind="complete", key="t", name="nobody", values={}) == []
    assert heard == [{"kind": "complete", "key": "t", "name": "id", "values": {"id": "4", "since": "x"}}]


def test_the_saved_output_holds_the_static_table_beside_the_view() -> None:
    data, _ = catalog(row())._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"]
    assert {**data, **STATIC} == data


def test_a_catalog_that_cannot_be_shown_warns_and_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, **kwargs: object) -> None:
        raise RuntimeError("no view")

    monkeypatch.setattr("anywidget.AnyWidget._repr_mimebundle_", broken)
    made = catalog(row())
    with pytest.warns(RuntimeWarning, match="no view"), pytest.raises(RuntimeError, match="no view"):
        made._repr_mimebundle_()


# ------------------------------------------------------------------------------------------------ trace
def trace(answer: Callable[[str, str, str], None] = lambda *_: None, stop: Callable[[], None] = lambda: None) -> Trace:
    return Trace(answer, stop)


def asked(identity: str = "q") -> dict[str, Any]:
    return {"kind": "ask", "id": identity, "title": "?", "server": "s", "tool": "t", "arguments": "{}", "why": "rule"}


def text(words: str) -> dict[str, Any]:
    return {"kind": "text", "text": words}


def test_events_of_one_frame_are_one_message_and_neighbouring_text_is_one_event() -> None:
    async def run() -> list[dict[str, Any]]:
        made = trace()
        for event in (asked(), text("a"), text("b"), {"kind": "answered", "id": "q", "verdict": "deny"}, text("c")):
            made.event(event)
        assert made.comm.sent == []
        made.flush()
        return sent(made)

    (batch,) = asyncio.run(run())
    assert [e["kind"] for e in batch["events"]] == ["ask", "text", "answered", "text"]
    assert batch["events"][1]["text"] == "ab"


def test_a_frame_goes_out_by_itself() -> None:
    async def run() -> list[dict[str, Any]]:
        made, out = trace(), asyncio.Event()
        made.comm.heard = out.set
        made.event(text("a"))
        await asyncio.wait_for(out.wait(), 5)
        return sent(made)

    assert asyncio.run(run()) == [{"kind": "batch", "from": 0, "events": [text("a")]}]


def test_without_a_loop_events_go_out_at_once() -> None:
    made = trace()
    made.event(text("a"))
    assert made.comm.sent == [{"kind": "batch", "from": 0, "events": [text("a")]}]


def test_the_events_given_are_not_changed() -> None:
    async def run() -> dict[str, Any]:
        made, first = trace(), text("a")
        made.event(first)
        made.event(text("b"))
        made.close()
        return first

    assert asyncio.run(run()) == text("a")


def test_halves_of_a_character_streamed_apart_meet_in_one_frame() -> None:
    async def run() -> list[dict[str, Any]]:
        made = trace()
        made.event(text("\ud83d"))
        made.event(text("\ude00"))
        made.flush()
        return sent(made)

    assert asyncio.run(run()) == [{"kind": "batch", "from": 0, "events": [text("\U0001f600")]}]


def test_a_question_is_answered_once_however_often_it_is_clicked() -> None:
    heard: list[tuple[str, ...]] = []
    made = trace(lambda *answer: heard.append(answer))
    made.event(asked())
    click(made, kind="deny", id="q", reason="not today")
    click(made, kind="approve", id="q", reason="")
    click(made, kind="approve", id="never asked")
    assert heard == [("q", "deny", "not today")]


def test_a_settled_question_cannot_be_answered_any_more() -> None:
    heard: list[tuple[str, ...]] = []
    made = trace(lambda *answer: heard.append(answer))
    made.event(asked())
    made.event({"kind": "answered", "id": "q", "verdict": "cancelled"})
    click(made, kind="approve", id="q")
    assert heard == []


def test_an_answer_that_failed_is_shown_and_can_be_given_again() -> None:
    heard: list[str] = []

    def answer(identity: str, verdict: str, reason: str) -> None:
        heard.append(verdict)
        if len(heard) == 1:
            raise RuntimeError("the loop is closed")

    made = trace(answer)
    made.event(asked())
    (failed,) = click(made, kind="approve", id="q")
    assert failed == {"kind": "failed", "id": "q", "text": "the loop is closed"}
    click(made, kind="deny", id="q")
    assert heard == ["approve", "deny"]


def test_a_form_is_sent_once_and_again_only_when_it_was_not_taken() -> None:
    heard: list[tuple[Any, ...]] = []

    def take(identity: str, action: str, values: list[Any]) -> None:
        heard.append((identity, action, values))
        if len(heard) == 1:
            raise RuntimeError("Days: 0 is too few")

    made = Trace(lambda *_: None, lambda: None, take)
    made.event({"kind": "form", "id": "request r1"})
    assert click(made, kind="accept", id="request r1", values=["0"]) == [
        {"kind": "failed", "id": "request r1", "text": "Days: 0 is too few"}
    ]
    click(made, kind="accept", id="request r1", values=["3"])
    click(made, kind="decline", id="request r1", values=[])
    click(made, kind="accept", id="request r2", values="nonsense")
    assert heard == [("request r1", "accept", ["0"]), ("request r1", "accept", ["3"])]


def test_stop_is_called_and_its_failure_shown() -> None:
    def stop() -> None:
        raise RuntimeError("nothing runs")

    (failed,) = click(trace(stop=stop), kind="stop")
    assert failed == {"kind": "failed", "id": None, "text": "nothing runs"}


def test_a_reloaded_page_hears_every_event_again() -> None:
    made = trace()
    made.event(text("a"))
    made.event(asked())
    assert click(made, kind="hello") == [{"kind": "batch", "from": 0, "events": [text("a"), asked()]}]


def test_a_reloaded_page_hears_of_a_row_once_where_it_was_first_and_counts_as_before() -> None:
    made = trace()
    rows = [{"kind": "row", "id": "slow", "figures": str(n)} for n in range(1000)]
    for event in (rows[0], {"kind": "row", "id": "other"}, *rows[1:]):
        made.event(event)
    (again,) = click(made, kind="hello")
    assert again["events"][:2] == [rows[-1], {"kind": "row", "id": "other"}]
    assert again["events"][2:] == [{"kind": "row before"}] * 999
    made.event(text("next"))
    assert sent(made)[-1]["from"] == len(again["events"]), "else the page would think that it had missed something"


def test_nothing_is_sent_once_the_trace_is_closed() -> None:
    async def run() -> list[dict[str, Any]]:
        made = trace()
        comm = made.comm
        made.event(text("late"))
        made.close()
        made.event(text("later"))
        made.flush()
        return list(comm.sent)

    assert asyncio.run(run()) == []


def test_each_frame_says_how_many_events_went_before_it() -> None:
    made = trace()
    for word in "abc":
        made.event(text(word))
    assert [m["from"] for m in made.comm.sent] == [0, 1, 2]


# --------------------------------------------------------------------------------------------- the page's files
SCRIPTS = ["catalog.js", "trace.js"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_can_turn_text_into_markup_or_load_anything(name: str) -> None:
    source = (HERE / name).read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "import", "http", "eval("):
        assert word not in source


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_element_is_made_by_the_one_function_that_keeps_keys_from_the_notebook(name: str) -> None:
    source = (HERE / name).read_text()
    assert source.count("createElement(") == 1
    assert source.count("data-lm-suppress-shortcuts") == 1


def test_both_scripts_make_hidden_characters_visible_by_the_same_lines() -> None:
    first, second = ((HERE / name).read_text().split("// -- until here")[0] for name in SCRIPTS)
    start = "const HIDDEN"
    assert first[first.index(start) :] == second[second.index(start) :]
