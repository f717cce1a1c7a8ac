"""Figures, as pure functions over spans: what a provider call's input was made of, and the totals of a turn.

Measured figures (`Usage`, from the provider) and estimates (counted here, by a named counter) stay apart to the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

from . import tokens
from .span import Span

__all__ = ["KINDS", "Piece", "Totals", "composition", "counted", "plus", "totals"]

KINDS = (
    "system", "catalog", "content", "tools", "attachments", "reads", "prompts", "results", "replies", "history", "question",
    "sampling",
)  # fmt: skip
"""What a provider call's input is made of. `content` stands in the system prompt, `results` are answers of the servers' own
tools, `replies` the model's own earlier messages of this turn, `history` all of the turns before, `sampling` what a server
asked a model by itself."""


class Piece(NamedTuple):
    """A stretch of a request as it was sent: its kind (one of `KINDS`), whose it is, and its text."""

    kind: str
    label: str
    text: str
    more: int | None = 0
    """Tokens of the images and sounds beside the text, by the model's rule; `None` where nobody can say."""


def counted(pieces: Iterable[Piece]) -> list[dict[str, Any]]:
    """The pieces with their tokens and characters instead of their text: what a `model` span keeps."""
    return [
        {
            "kind": piece.kind, "label": piece.label, "tokens": plus(tokens.count(piece.text), piece.more),
            "chars": len(piece.text),
        }
        for piece in pieces
    ]  # fmt: skip


def plus(one: int | None, other: int | None) -> int | None:
    """The sum; unknown as soon as one of them is."""
    return None if one is None or other is None else one + other


def _row(number: int, span: Span) -> dict[str, Any]:
    row: dict[str, Any] = {"call": number, "model": span.name, **dict.fromkeys(KINDS, 0)}
    for segment in span.detail.get("composition", ()):
        row[segment["kind"]] = plus(row[segment["kind"]], segment["tokens"])
    estimated = reduce(plus, (row[kind] for kind in KINDS))
    measured = span.usage.input_tokens if span.usage else None
    return row | {
        "counter": span.detail.get("counter"),
        "estimated": estimated,
        "measured": measured,
        "difference": None if measured is None or estimated is None else measured - estimated,
        "input_tokens": estimated if measured is None else measured,
    }


def composition(spans: Iterable[Span]) -> list[dict[str, Any]]:
    """One row a provider call: `call`, `model`, one estimate a kind, `counter`, `estimated` (their sum), `measured` (the
    provider's input tokens, or `None`), `difference` (measured - estimated) and `input_tokens`, what the call shows.

    The kinds and the difference sum to `input_tokens` in every row.
    """
    calls = [span for span in spans if span.kind == "model" and "composition" in span.detail]
    return [_row(number, span) for number, span in enumerate(calls, 1)]


@dataclass(frozen=True, kw_only=True)
class Totals:
    """The sums of a turn. `None` is unknown: some call of it did not report, or nothing of the kind was counted."""

    provider_calls: int
    reads: int
    """`resources/read` requests that belong to the turn, whoever decided them."""
    reads_failed: int
    """Of these, the ones that brought nothing: they ended in an error or were cancelled."""
    tool_calls: int
    prompts: int
    input_tokens: int | None
    """As the providers reported them."""
    output_tokens: int | None
    cached_tokens: int | None
    input_tokens_estimated: int | None
    output_tokens_estimated: int | None
    counter: str | None
    bytes: int | None
    """What the successful reads brought; 0 where nothing was read, `None` where none of the reads has succeeded."""
    seconds: float | None
    """The whole turn."""
    seconds_by_kind: Mapping[str, float]
    """Sum of the spans of each kind; spans that ran side by side count each, so this may exceed `seconds`."""


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if not known or any(x is None for x in known) else sum(x for x in known if x is not None)


def totals(spans: Iterable[Span]) -> Totals:
    """The sums over the spans of one turn (or of any selection of spans)."""
    spans = tuple(spans)
    calls = [span for span in spans if span.kind == "model" and "composition" in span.detail]
    reads = [span for span in spans if span.kind == "read" and span.status != "refused"]
    rows = composition(spans)
    by_kind: dict[str, float] = {}
    for span in spans:
        if span.seconds is not None and span.kind != "turn":
            by_kind[span.kind] = by_kind.get(span.kind, 0.0) + span.seconds
    return Totals(
        provider_calls=len(calls),
        reads=len(reads),
        reads_failed=sum(span.status in ("error", "cancelled") for span in reads),
        tool_calls=sum(span.kind == "tool" for span in spans),
        prompts=sum(span.kind == "prompt" for span in spans),
        input_tokens=_sum(span.usage.input_tokens if span.usage else None for span in calls),
        output_tokens=_sum(span.usage.output_tokens if span.usage else None for span in calls),
        cached_tokens=_sum(span.usage.cached_tokens if span.usage else None for span in calls),
        input_tokens_estimated=_sum(row["estimated"] for row in rows),
        output_tokens_estimated=_sum(span.detail.get("output_tokens_estimated") for span in calls),
        counter=next((row["counter"] for row in rows), None),
        bytes=_sum(span.detail.get("bytes") for span in reads if span.status == "ok") if reads else 0,
        seconds=next((span.seconds for span in spans if span.kind == "turn"), None),
        seconds_by_kind=by_kind,
    )
