"""Figures over spans: what content was carried, what was lost, where the time went, and that compositions sum up."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench import ledger
from workbench.span import Kind, Span, Status, Usage

START = 1_780_000_000.0


def span(kind: Kind, name: str = "x", at: float = 0.0, seconds: float | None = 1.0, **more: Any) -> Span:
    status: Status = more.pop("status", "ok" if seconds is not None else "open")
    return Span(
        id=f"{kind}-{name}-{at}", parent=None, turn=1, kind=kind, name=name, actor=more.pop("actor", "model"),
        started=START + at, seconds=seconds, status=status, usage=more.pop("usage", None), detail=more,
    )  # fmt: skip


def call(
    *pieces: tuple[str, str, int | None], at: float = 0.0, usage: Usage | None = None, seconds: float = 1.0
) -> Span:
    made_of = [{"kind": kind, "label": label, "tokens": tokens, "chars": 1} for kind, label, tokens in pieces]
    return span("model", "m", at, seconds, composition=made_of, counter="test", usage=usage)


def test_content_is_carried_by_each_call_that_sent_it() -> None:
    read, attached = ("reads", "a:1", 100), ("attachments", "a:2", 30)
    spans = [
        call(("system", "instructions", 5), attached),
        call(("system", "instructions", 5), attached, read),
        call(("system", "instructions", 5), attached, read, ("results", "tool t", 7), ("question", "question", 3)),
    ]
    rows = {(row["kind"], row["label"]): row for row in ledger.carried(spans)}
    assert {key: (row["tokens"], row["calls"], row["carried"]) for key, row in rows.items()} == {
        ("attachments", "a:2"): (30, 3, 90),
        ("reads", "a:1"): (100, 2, 200),
        ("results", "tool t"): (7, 1, 7),
    }
    assert {row["counter"] for row in rows.values()} == {"test"}
    assert ledger.totals(spans).carried_tokens_estimated == 297


def test_a_resource_that_was_read_twice_is_two_things() -> None:
    spans = [call(("reads", "a:1", 100)), call(("reads", "a:1", 100), ("reads", "a:1", 60))]
    rows = ledger.carried(spans)
    assert [(row["tokens"], row["calls"], row["carried"]) for row in rows] == [(100, 2, 200), (60, 1, 60)]


def test_what_nobody_can_count_makes_its_own_figures_unknown_and_no_others() -> None:
    spans = [
        call(("reads", "picture", None), ("reads", "a:1", 4)),
        call(("reads", "picture", None), ("reads", "a:1", 4)),
    ]
    assert [(row["label"], row["carried"]) for row in ledger.carried(spans)] == [("picture", None), ("a:1", 8)]
    assert ledger.totals(spans).carried_tokens_estimated is None
    assert ledger.totals([span("read")]).carried_tokens_estimated is None, "there was no call to carry anything"
    assert ledger.totals([call(("question", "question", 3))]).carried_tokens_estimated == 0


SEGMENT = st.tuples(st.sampled_from(ledger.KINDS), st.sampled_from("abc"), st.none() | st.integers(0, 10**6))
USAGE = st.builds(
    Usage,
    input_tokens=st.none() | st.integers(1, 10**7),
    output_tokens=st.just(1),
    cached_tokens=st.none() | st.just(5),
)


@given(st.lists(st.tuples(st.lists(SEGMENT, max_size=8), st.none() | USAGE), max_size=5))
def test_a_composition_sums_to_the_input_tokens_whatever_it_is_made_of(
    calls: list[tuple[list[tuple[str, str, int | None]], Usage | None]],
) -> None:
    spans = [call(*pieces, usage=usage) for pieces, usage in calls]
    for row, (pieces, usage) in zip(ledger.composition(spans), calls, strict=True):
        counts = [tokens for _, _, tokens in pieces]
        measured = usage.input_tokens if usage else None
        assert row["cached"] == (usage.cached_tokens if usage else None)
        if None in counts:
            assert row["estimated"] is row["difference"] is None
            assert row["input_tokens"] == measured
            continue
        assert row["estimated"] == sum(count for count in counts if count is not None)
        assert sum(row[kind] for kind in ledger.KINDS) + (row["difference"] or 0) == row["input_tokens"]
        assert row["input_tokens"] == (row["estimated"] if measured is None else measured)


@given(st.lists(st.lists(SEGMENT, max_size=8), max_size=5))
def test_what_is_carried_is_all_content_of_all_calls(calls: list[list[tuple[str, str, int | None]]]) -> None:
    content = [tokens for pieces in calls for kind, _, tokens in pieces if kind in ledger.CARRIED]
    rows = ledger.carried([call(*pieces) for pieces in calls])
    assert sum(row["calls"] for row in rows) == len(content)
    assert ledger.total(row["carried"] for row in rows) == ledger.total(content)


def test_the_lost_are_those_that_never_came() -> None:
    cut: dict[str, Any] = {"server": "s", "uri": "a:1", "start": 0, "whole": 90}
    first = span("read", "a:1", **cut, missing_tokens=80)
    assert ledger.lost([first]) == 80
    assert ledger.lost([first, span("read", "a:1", 1, **{**cut, "start": 40}, missing_tokens=30)]) == 30, (
        "it was read on"
    )
    assert ledger.lost([first, span("read", "a:1", 1, server="s", uri="a:1")]) == 0, "it was read whole after that"
    assert ledger.lost([first, span("read", "a:1", 1, server="other", uri="a:1")]) == 80
    assert ledger.lost([first, span("read", "a:1", 1, server="s", uri="a:1", status="error")]) == 80
    included = span("attach", "a:1", actor="host", **cut, missing_tokens=80)
    before = span("read", "a:1", actor="host", server="s", uri="a:1")
    assert ledger.lost([before, included]) == 80, "the host had all of it, the model did not"
    assert ledger.losses([first, span("attach", "a:2", server="s", missing_tokens=5)]) == {
        ("s", "a:1"): 80,
        ("s", "a:2"): 5,
    }
    assert ledger.totals([span("read")]).lost_tokens_estimated == 0


def test_the_time_of_a_turn_is_split_without_counting_anything_twice() -> None:
    """The seeds' own figures: 1.4 s + 38 ms + 2.1 s, and a rest that they leave unitemised."""
    spans = [
        span("turn", seconds=4.0),
        call(at=0.1, seconds=1.4),
        span("read", "r", 1.6, 0.05, wait_seconds=0.038),
        call(at=1.8, seconds=2.1),
    ]
    found = ledger.seconds(spans)
    assert found["model"] == pytest.approx(3.5, abs=1e-6), "as exact as Unix seconds are"
    assert found["server"] == pytest.approx(0.038, abs=1e-6)
    assert found["own"] == pytest.approx(4.0 - 3.538, abs=1e-6)
    assert sum(found[key] or 0 for key in ("model", "server", "own")) == pytest.approx(4.0)


def test_what_runs_side_by_side_counts_once_and_the_model_goes_first() -> None:
    two = [span("read", "a", 0.0, 1.0, wait_seconds=1.0), span("tool", "b", 0.5, 1.0, wait_seconds=1.0)]
    found = ledger.seconds([span("turn", seconds=3.0), *two, call(at=1.0, seconds=1.0)])
    assert found == {"total": 3.0, "model": pytest.approx(1.0), "server": pytest.approx(1.0), "own": pytest.approx(1.0)}


def test_the_time_of_a_turn_that_has_not_ended_is_unknown() -> None:
    unknown = dict.fromkeys(("total", "model", "server", "own"))
    assert ledger.seconds([span("turn", seconds=None), call()]) == unknown
    assert ledger.seconds([]) == unknown


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 100), st.floats(0, 100)), max_size=8),
    st.floats(0, 300),
)
def test_no_part_of_the_time_is_negative_or_more_than_there_was(
    parts: list[tuple[bool, float, float]], whole: float
) -> None:
    spans = [
        call(at=at, seconds=long) if model else span("read", str(n), at, long, wait_seconds=long)
        for n, (model, at, long) in enumerate(parts)
    ]
    found = ledger.seconds([span("turn", seconds=whole), *spans])
    assert all(value is not None and value >= 0 for value in found.values())
    model, server = found["model"] or 0, found["server"] or 0
    assert model + server <= 200 + 1e-3
    assert math.isclose(found["own"] or 0, max(0.0, whole - model - server), abs_tol=1e-3)
