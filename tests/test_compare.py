"""The same question under several patterns: on the bundled server, with what each costs and loses."""

from __future__ import annotations

import _thread
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from workbench import Session
from workbench.content import Offer
from workbench.errors import UsageError
from workbench.pattern import Brief

QUESTION = "Which products does the SUM ABAP test matrix cover, and in what output format?"
MATRIX = "sap-btp://sum-abap-v1"


@pytest.fixture
def wb() -> Iterator[Session]:
    with Session("demo") as made:
        made.connect("demo")
        yield made


def test_truncate_answers_wrong_the_others_right_and_catalog_at_a_quarter_of_dump(wb: Session) -> None:
    """Asked for by issue 4, "Shown by"."""
    wb.attach(MATRIX)
    before = dict(wb.attachments)
    found = wb.compare(QUESTION, expect="S/4HANA 2023")
    rows = {run.pattern: run.row() for run in found.runs}
    assert list(rows) == ["dump", "truncate(2000)", "catalog", "attach", "companion"]
    assert [row["correct"] for row in rows.values()] == [True, False, True, True, True]
    assert [row["calls"] for row in rows.values()] == [1, 1, 2, 1, 3]
    tokens = {name: row["input_tokens_estimated"] for name, row in rows.items()}
    assert 0.2 < tokens["catalog"] / tokens["dump"] < 0.3
    lost = {name: row["lost_tokens_estimated"] for name, row in rows.items()}
    assert lost.pop("truncate(2000)") > 10_000 and set(lost.values()) == {0}
    assert all(row["input_tokens"] is None and row["price_usd"] is None for row in rows.values()), (
        "nothing was reported"
    )
    assert dict(wb.attachments) == before and not wb.turns and not wb._thread.messages
    assert wb.comparisons == [found]
    frame = found.frame()
    assert frame["pattern"].tolist() == list(rows) and {"correct", "carried_tokens_estimated", "own_seconds"} <= set(
        frame
    )


def test_each_is_asked_in_a_thread_of_its_own(wb: Session) -> None:
    wb.ask("How are headings written?")
    reading = Call(name="read_resource", args={"uri": "docs://style-guide"}, id="r1")
    model = Scripted(replies=[Reply(calls=(reading,)), Reply(text="A"), Reply(text="B")])
    wb.compare("And numbers?", "catalog,search", model=model)
    first, _, second = model.seen
    assert [m.type for m in first] == [m.type for m in second] == ["system", "human"], (
        "neither history nor the other's read"
    )
    assert wb.ask("And dates?").number == 4 and len(wb._thread.messages) > 4


def test_repeats_are_rows(wb: Session) -> None:
    found = wb.compare(QUESTION, "catalog,search", repeat=2)
    assert [(run.pattern, run.repeat) for run in found.runs] == [
        ("catalog", 1),
        ("search", 1),
        ("catalog", 2),
        ("search", 2),
    ]


def test_one_patterns_failure_is_a_row_and_not_the_end(wb: Session) -> None:
    async def broken(offer: Offer, read: Any) -> Brief:
        raise ZeroDivisionError("mine")

    found = wb.compare(QUESTION, ["dump", broken, "attach(docs://gone)", "catalog"], expect="S/4HANA 2023")
    assert [run.error is None for run in found.runs] == [True, False, False, True]
    assert found.runs[1].error == "ZeroDivisionError: mine" and "docs://gone" in str(found.runs[2].error)
    assert [run.correct for run in found.runs] == [True, None, None, True]
    assert "failed" in repr(found)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"expect": "/(/"}, r"/\(/ is no regular expression"),
        ({"expect": " "}, "the expectation is empty"),
        ({"patterns": "dump,dump"}, "dump is named twice"),
        ({"patterns": ""}, "there is no pattern ''"),
        ({"patterns": []}, "name the patterns to compare"),
        ({"patterns": "attach,dump"}, "nothing is attached"),
        ({"repeat": 0}, "repeat is 0"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_asked(wb: Session, options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        wb.compare(QUESTION, **options)
    assert not wb.comparisons and not [span for span in wb.spans if span.kind == "model"]


def test_stopped_it_keeps_what_is_finished(wb: Session) -> None:
    async def stopping(offer: Offer, read: Any) -> Brief:
        _thread.interrupt_main()
        await __import__("asyncio").sleep(30)
        raise AssertionError

    with pytest.raises(KeyboardInterrupt):
        wb.compare(QUESTION, ["catalog", stopping, "dump"])
    (stopped,) = wb.comparisons
    assert [run.pattern for run in stopped.runs] == ["catalog"] and stopped.running is None
    assert wb.ask("How are headings written?").status == "ok"


def test_a_policy_takes_part_in_attach_alone(wb: Session) -> None:
    wb.policy(MATRIX)
    found = wb.compare(QUESTION, "catalog,attach", expect="S/4HANA 2023")
    carried = {run.pattern: [s.name for s in run.turn.spans if s.kind == "attach"] for run in found.runs}
    assert carried == {"catalog": [], "attach": [MATRIX]}
