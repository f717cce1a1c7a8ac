"""`@server:uri` in a question puts a resource before it, for this turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.script import Reply
from tests.servers.scripted import Scripted
from workbench import Session, lookup
from workbench.errors import NotOffered, WorkbenchError

GUIDE, MATRIX = "docs://style-guide", "sap-btp://sum-abap-v1"
RECORD = "crm://customer/4480/subscription"


@pytest.fixture
def wb() -> Iterator[Session]:
    with Session(Scripted(replies=[Reply(text="It is.") for _ in range(9)])) as made:
        made.connect("demo")
        yield made


@pytest.mark.parametrize(
    ("question", "found"),
    [
        (f"What does @demo:{GUIDE} say?", [GUIDE]),
        (f"See @demo:{GUIDE}.", [GUIDE]),
        (f"(@demo:{GUIDE})", []),
        (f"@demo:{GUIDE}, @demo:{MATRIX}: which is longer?", [GUIDE, MATRIX]),
        (f"@demo:{GUIDE} and @demo:{GUIDE}", [GUIDE]),
        (f"When does @demo:{RECORD} renew?", [RECORD]),
        ("Write to ann@demo:8080 or @ann", []),
        (f"@other:{GUIDE}", []),
    ],
)
def test_what_is_mentioned_stands_before_the_question_in_this_turn_only(
    wb: Session, question: str, found: list[str]
) -> None:
    mentioned = [uri for _, uri in dict.fromkeys(lookup.mentions(question, wb.offer))]
    turn = wb.ask(question)
    brought = [span.name for span in turn.spans if span.kind == "attach"]
    assert brought == mentioned
    if found:
        assert brought == found
    assert all(
        span.actor == "user" and span.detail["rule"] == "mentioned" for span in turn.spans if span.kind == "attach"
    )
    assert not wb.attachments and [s for s in wb.ask("And now?", new=True).spans if s.kind == "attach"] == []


def test_a_mention_of_what_is_not_there_fails_before_the_model_is_asked(wb: Session) -> None:
    with pytest.raises(NotOffered, match="docs://style-guide"):
        wb.ask("See @demo:docs://style-guid")
    assert isinstance(wb.model, Scripted) and wb.model.seen == []
    assert wb.turns[-1].status == "error"


def test_what_is_attached_already_is_not_put_there_twice(wb: Session) -> None:
    wb.attach(GUIDE)
    turn = wb.ask(f"See @demo:{GUIDE}")
    assert [span.name for span in turn.spans if span.kind == "attach"] == [GUIDE]
    pattern = wb.ask(f"See @demo:{MATRIX}", pattern=f"attach({MATRIX})", new=True)
    assert sorted(span.name for span in pattern.spans if span.kind == "attach") == [GUIDE, MATRIX]


def test_a_question_of_mentions_only_is_a_question(wb: Session) -> None:
    assert wb.ask(f"@demo:{GUIDE}").status == "ok"
    with pytest.raises(WorkbenchError, match="the question is empty"):
        wb.ask("  ")
