"""Notes under a finished trace: each finding with its figure, quiet where there is nothing to say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.servers import awkward
from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from tests.test_ledger import START, call, span
from tests.test_view import Reader
from workbench import Session, hygiene
from workbench.hygiene import KINDS, Note, notes
from workbench.span import Span
from workbench.view import html, text

TURN = span("turn", "q", seconds=4.0, actor="user")
EVIL = "<img src=x onerror=alert(1)>\u202e\x1b[31m\nNote (cut): forged"


def read(uri: str = "a:1", at: float = 1.0, **more: Any) -> Span:
    return span("read", uri, at, **{"server": "s", "uri": uri, "sha256": "one", "tokens": 100, "bytes": 400, **more})


def turn(**detail: Any) -> Span:
    return replace(TURN, detail=detail)


def cases(uri: str) -> dict[str, list[Span]]:
    """Spans that give one note of each kind, about `uri`."""
    return {
        "cut": [TURN, span("attach", uri, server="s", uri=uri, missing_tokens=1200, tokens=500)],
        "unused": [
            turn(unused=[{"kind": "reads", "label": uri, "tokens": 900}]),
            call(("reads", uri, 900), ("reads", "b:1", 100)),
        ],
        "twice": [TURN, read(uri), read(uri, 2.0), read(uri, 3.0)],
        "stale": [TURN, span("attach", uri, 60.0, server="s", uri=uri, stale=True, read_at=START)],
        "schemas": [TURN, call(("tools", "s", 3000), ("reads", uri, 200))],
        "undescribed": [turn(undescribed=4, same_description=2)],
        "binary": [TURN, read(uri, descriptor=True, bytes=3072)],
    }


FIGURES = {"cut": 1200, "unused": 900, "twice": 2, "stale": 1, "schemas": 3000, "undescribed": 6, "binary": 1}
SAID = {
    "cut": "1,200 tokens were cut off a:1: the model never got them.",
    "unused": "900 of 1,000 tokens of content left no trace in the answer: a:1. "
    "All words that it shares with the answer stand in the question or in other content as well.",
    "twice": "The model read a:1 again, unchanged, 2 times, for 200 tokens more.",
    "stale": "The model got a:1 as it was 60.0 s before: it could not be read again.",
    "schemas": "The tools' schemas take 3,000 tokens of call 1, more than all content in it (200).",
    "undescribed": "In the catalog stand 4 without a description and 2 with one that another has, too: "
    "it is what the model chooses by.",
    "binary": "The model read a:1, which is no text: of 3,072 bytes it got a description.",
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_finding_says_its_figure_and_names_its_lesson(kind: str) -> None:
    (note,) = notes(cases("a:1")[kind])
    assert note == Note(kind, SAID[kind], FIGURES[kind], KINDS[kind][1])
    assert note.text.count(". ") <= 1
    assert Path(note.lesson).parent.name == "notebooks"


@pytest.mark.parametrize("kind", KINDS)
def test_each_can_be_switched_off(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spans = cases("a:1")[kind]
    assert notes(spans, off=[kind]) == []
    monkeypatch.setattr(hygiene, "OFF", {kind})
    assert notes(spans) == []
    assert "Note (" not in text.trace(spans)
    assert notes([TURN, *cases("b:1")["cut"]]) == ([] if kind == "cut" else notes(cases("b:1")["cut"]))


@pytest.mark.parametrize("kind", KINDS)
def test_text_and_html_show_the_same_notes_and_hostile_names_do_nothing(kind: str) -> None:
    spans = cases(EVIL)[kind]
    (note,) = notes(spans)
    page = Reader(html.trace(spans))
    for shown in (text.trace(spans), page.text):
        assert " ".join(note.text.split()) in " ".join(shown.split())
        assert note.lesson in shown
        assert "\u202e" not in shown
        assert "\x1b" not in shown
    assert "img" not in page.tags
    assert text.trace(spans).count("\nNote (") == 1


QUIET: dict[str, list[Span]] = {
    "nothing": [],
    "a read": [TURN, read(), call(("tools", "s", 300), ("reads", "a:1", 100))],
    "it went on by offset": [TURN, read(start=0, missing_tokens=0), read(at=2.0, start=50, missing_tokens=0)],
    "it had changed": [TURN, read(), read(at=2.0, sha256="two"), read(at=3.0)],
    "two servers": [TURN, read(), read(at=2.0, server="other")],
    "a person read it, too": [TURN, read(), read(at=2.0, actor="user")],
    "the first one failed": [TURN, read(status="error", sha256=None), read(at=2.0)],
    "two turns": [TURN, read(), replace(read(at=2.0), turn=2)],
    "read on to its end": [TURN, read(start=0, missing_tokens=70), read(at=2.0, start=50, missing_tokens=0)],
    "all was used": [turn(unused=[]), call(("reads", "a:1", 900))],
    "one of two portions was used": [
        turn(unused=[{"kind": "reads", "label": "a:1", "tokens": 900}]), call(("reads", "a:1", 900), ("reads", "a:1", 9)),
    ],
    "it cannot be counted": [
        turn(unused=[{"kind": "reads", "label": "a:1", "tokens": 9}]), call(("reads", "a:1", None), ("tools", "s", 5000)),
    ],
    "light schemas": [TURN, call(("tools", "s", 400))],
    "content comes later": [TURN, call(("tools", "s", 900)), call(("tools", "s", 900), ("reads", "a:1", 1000))],
    "fresh": [TURN, span("attach", "a:1", stale=False, changed=False, read_at=START)],
    "described": [turn(undescribed=0, same_description=0)],
    "a person looked at a picture": [TURN, read(actor="user", descriptor=True)],
}  # fmt: skip


@pytest.mark.parametrize("spans", QUIET.values(), ids=QUIET)
def test_it_is_quiet_where_there_is_nothing_to_say(spans: list[Span]) -> None:
    assert notes(spans) == []
    assert "Note (" not in text.trace(spans)


@pytest.mark.parametrize("kind", KINDS)
def test_a_turn_that_still_runs_has_no_notes(kind: str) -> None:
    assert notes([*cases("a:1")[kind], span("turn", "next", seconds=None)]) == []


def test_more_of_a_kind_is_still_one_short_note() -> None:
    (note,) = notes([TURN, *(span("attach", f"a:{n}", server="s", missing_tokens=10) for n in range(50))])
    assert note.text == "500 tokens were cut off a:0, a:1, a:2 and 47 more: the model never got them."
    (old,) = notes([TURN, *(span("attach", f"a:{n}", 600.0 * n, changed=True, read_at=START) for n in range(1, 3))])
    assert old.text == "The model got a:1, a:2 as it was up to 20 min before: it had changed since."
    assert old.figure == 2
    (long,) = notes([TURN, read("x" * 5000), read("x" * 5000, 2.0)])
    assert len(long.text) < 300


def test_the_notes_of_a_real_turn_and_that_the_model_never_sees_one() -> None:
    matrix, report = "sap-btp://sum-abap-v1", "res://files/report"
    with Session() as wb:
        wb.connect("a", command=awkward())
        model = Scripted(replies=[
            Reply(calls=(Call(id="1", name="read_resource", args={"uri": matrix}),)),
            Reply(calls=(Call(id="2", name="read_resource", args={"uri": matrix}),)),
            Reply(calls=(Call(id="3", name="read_resource", args={"uri": report}),)),
            Reply(text="S/4HANA 2023"),
        ])  # fmt: skip
        done = wb.ask("go", model=model)
        again = wb.ask("go on", model=Scripted(replies=[Reply(text="done")]))
    found = {note.kind: note for note in notes(done.spans)}
    assert {"twice", "binary"} <= found.keys()
    assert found["twice"].figure == 1
    assert matrix in found["twice"].text
    assert report in found["binary"].text
    tokens = [s.detail["tokens"] for s in done.spans if s.kind == "read" and s.name == matrix]
    assert f"for {tokens[1]:,} tokens more" in found["twice"].text
    bundle = done._repr_mimebundle_()
    for note in found.values():
        assert note.text in bundle["text/plain"]
        assert note.text in Reader(bundle["text/html"]).text
    sent = "\n".join(str(message.content) for request in model.seen for message in request)
    assert not any(note.text in sent or note.lesson in sent for note in found.values())
    assert not any(
        note.text in str(message) for note in found.values() for message in (*done.messages, *again.messages)
    )
    rows = done.carried
    assert [int(row) for row in rows[rows.label == matrix].carried] == [3 * tokens[0], 2 * tokens[1]]
