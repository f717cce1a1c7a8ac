"""What a comparison shows, once for all views: a line a run, what was lost, and the rows of its two pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .. import ledger, price
from ..content import visible
from .rows import UNKNOWN

if TYPE_CHECKING:
    from ..compare import Comparison, Run

__all__ = ["COLUMNS", "charts", "foot", "head", "lines", "lost", "running", "said", "shown"]

COLUMNS = {
    "pattern": "pattern",
    "right": "correct",
    "provider calls": "calls",
    "reads": "reads",
    "input tokens reported": "input_tokens",
    "of these cached": "cached_tokens",
    "input tokens estimated": "input_tokens_estimated",
    "content carried (estimated)": "carried_tokens_estimated",
    "content lost (estimated)": "lost_tokens_estimated",
    "seconds": "seconds",
    "model": "model_seconds",
    "server": "server_seconds",
    "own": "own_seconds",
    "US$": "price_usd",
}
"""Heads of the table, and the keys of `compare.Run.row`."""
_SECONDS = ("seconds", "model_seconds", "server_seconds", "own_seconds")


def head(comparison: Comparison) -> str:
    """What was asked, and what is held to be right."""
    expected = f" A right answer holds {visible(comparison.expect)}." if comparison.expect else ""
    return f"{visible(comparison.question, 500)}{expected}"


def named(run: Run) -> str:
    """The pattern, and which time it was where it ran more than once."""
    return visible(run.pattern, 80) + (f" #{run.repeat}" if run.repeat > 1 else "")


def lines(runs: Sequence[Run]) -> list[list[str]]:
    """A cell for each of `COLUMNS`; the last one is the error or the beginning of the answer."""
    return [_line(run) for run in runs]


def _line(run: Run) -> list[str]:
    row = run.row()
    cells = [named(run)] + [_cell(key, row[key], run) for key in list(COLUMNS.values())[1:]]
    return [*cells, said(run)]


def said(run: Run) -> str:
    """The error, or the beginning of the answer."""
    return visible(run.error or " ".join(run.turn.answer.split()), 160)


def _cell(key: str, value: Any, run: Run) -> str:
    if key == "correct":
        return {True: "right", False: "wrong", None: "failed" if run.error else ""}[value]
    if value is None:
        return UNKNOWN
    return f"{value:.3f}" if key in _SECONDS else f"{value:.5f}" if key == "price_usd" else f"{value:,}"


def counters(runs: Iterable[Run]) -> str:
    """Who estimated."""
    return ", ".join(dict.fromkeys(counter for run in runs if (counter := run.turn.totals.counter)))


def foot(runs: Sequence[Run]) -> str:
    """What the figures are."""
    return (
        f"Estimated by {counters(runs) or 'nobody'}. Carried is all content that the calls sent, as often as they sent it; "
        "lost is what was cut off it. Own is the time that neither the model nor a server took. "
        f"{UNKNOWN} is unknown: the provider did not report it, or its price is not known.{_priced(runs)}"
    )


def _priced(runs: Sequence[Run]) -> str:
    """Whose prices they are; where there is no table and one could be used, what brings it."""
    if all(run.turn.totals.input_tokens is None for run in runs):
        return ""
    return f" US$ at the list prices of {price.source()}." if not price.missing() else f" For prices: {price.INSTALL}"


def running(comparison: Comparison) -> str:
    """What is being asked just now; empty when all is done."""
    return f"Asking under {visible(comparison.running, 200)} ..." if comparison.running else ""


def shown(runs: Sequence[Run], answers: bool = True) -> tuple[list[str], list[list[str]]]:
    """Heads and lines without the columns of which nothing is known in any run; `answers` is whether they are one."""
    every = lines(runs)
    heads = [*COLUMNS, *(["answer"] if answers else [])]
    kept = [n for n in range(len(heads)) if any(line[n] not in ("", UNKNOWN) for line in every)]
    return [heads[n] for n in kept], [[line[n] for n in kept] for line in every]


def lost(runs: Iterable[Run]) -> list[str]:
    """What was cut off, and how much of it."""
    return [
        f"{named(run)} sent {span.detail['end'] - span.detail['start']:,} of {span.detail['whole']:,} characters of "
        f"{visible(span.name)}: {span.detail['missing_tokens']:,} tokens lost"
        for run in runs
        for span in run.turn.spans
        if span.detail.get("missing_tokens")
    ]


def charts(runs: Sequence[Run]) -> list[Any]:
    """The two pictures of it."""
    from . import chart

    return [chart.composition(_composition(runs)), chart.timeline(_timeline(runs))] if runs else []


def _composition(runs: Sequence[Run]) -> list[dict[str, Any]]:
    rows = []
    for run in runs:
        calls, counter = ledger.composition(run.turn.spans), run.turn.totals.counter
        for kind in ledger.KINDS:
            counts = [call[kind] for call in calls]
            if any(count != 0 for count in counts):
                tokens = None if None in counts else sum(counts)
                rows.append({"pattern": named(run), "kind": kind, "tokens": tokens, "counter": counter})
        if calls and all(call["difference"] is not None for call in calls):
            difference = sum(call["difference"] for call in calls)
            rows.append({"pattern": named(run), "kind": "difference", "tokens": difference, "counter": "the provider"})
    return rows


def _timeline(runs: Sequence[Run]) -> list[dict[str, Any]]:
    rows = []
    for run in runs:
        begin = min((span.started for span in run.turn.spans), default=0.0)
        rows += [
            {
                "pattern": named(run), "kind": span.kind, "name": visible(span.name, 80), "start": span.started - begin,
                "seconds": span.seconds,
            }
            for span in run.turn.spans
            if span.seconds is not None
        ]  # fmt: skip
    return rows
