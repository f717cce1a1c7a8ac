"""`wb.context`: what the next provider call would be made of, before it is made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.script import Reply
from tests.servers.scripted import Scripted
from workbench import Session, ledger
from workbench.errors import UsageError

QUESTION = "How are headings written?"
BOARD = "board://sprint/current"
"""Changes with each read."""


@pytest.fixture
def wb() -> Iterator[Session]:
    with Session("demo") as made:
        made.connect("demo")
        yield made


@pytest.mark.parametrize(
    "pattern",
    ["dump", "truncate(500)", "catalog", "search", "attach(docs://style-guide)", "companion", "attach(sap-btp://api-docs)+catalog"],
)  # fmt: skip
def test_it_is_the_first_call_of_the_turn_to_the_token(wb: Session, pattern: str) -> None:
    wb.ask("Which products does the SUM ABAP test matrix cover?")
    wb.attach("file:///repo/site-notes.txt")
    found = wb.context(QUESTION, pattern=pattern)
    turn = wb.ask(QUESTION, pattern=pattern)
    first = next(span for span in turn.spans if span.kind == "model")
    sent = first.detail["composition"]
    assert [piece for piece in found.pieces if piece["label"] != BOARD] == [
        piece for piece in sent if piece["label"] != BOARD
    ]
    assert [piece["label"] for piece in found.pieces] == [piece["label"] for piece in sent]
    assert found.tokens == pytest.approx(
        ledger.composition(turn.spans)[0]["estimated"], abs=0 if pattern != "dump" else 9
    )
    assert found.counter == first.detail["counter"]
    assert {"history", "attachments", "question"} <= {piece["kind"] for piece in found.pieces}


@pytest.mark.parametrize(("pattern", "reads"), [("catalog", 0), ("dump", 8)])
def test_nothing_is_sent_and_of_a_turn_nothing_is_traced(wb: Session, pattern: str, reads: int) -> None:
    model = Scripted(replies=[])
    before = wb.spans, list(wb.turns), list(wb._thread.messages)
    wb.context(QUESTION, pattern=pattern, model=model)
    assert model.seen == [] and (list(wb.turns), list(wb._thread.messages)) == before[1:]
    new = wb.spans[len(before[0]) :]
    assert [(span.kind, span.actor, span.turn, span.parent) for span in new] == [("read", "host", None, None)] * reads
    assert wb.ask(QUESTION).number == 1


def test_it_says_how_full_the_window_is(wb: Session) -> None:
    model = Scripted(replies=[Reply(text="x")], profile={"max_input_tokens": 10_000})
    found = wb.context(QUESTION, model=model)
    assert found.window == 10_000 and found.tokens is not None
    assert f"{found.tokens / 10_000:.0%}".rstrip("%") in repr(found) and "10,000" in repr(found)
    assert wb.context(QUESTION).window is None
    with pytest.raises(UsageError, match="not sent: with the content of 8 resources"):
        wb.context(QUESTION, pattern="dump", model=model)


def test_without_a_question_it_is_what_stands_before_one(wb: Session) -> None:
    assert "question" not in {piece["kind"] for piece in wb.context().pieces}
