"""Figures, as pure functions over spans: what a provider call's input was made of, and the totals of a turn.

Measured figures (`Usage`, from the provider) and estimates (counted here, by a named counter) stay apart to the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, cast

from . import tokens
from .span import Span

__all__ = [
    "CARRIED", "KINDS", "Piece", "Totals", "carried", "composition", "counted", "losses", "lost", "plus", "seconds", "total",
    "totals",
]  # fmt: skip

KINDS = (
    "system", "catalog", "content", "tools", "attachments", "reads", "prompts", "results", "replies", "history", "question",
    "sampling",
)  # fmt: skip
"""What a provider call's input is made of. `content` stands in the system prompt, `results` are answers of the servers' own
tools, `replies` the model's own earlier messages of this turn, `history` all of the turns before, `sampling` what a server
asked a model by itself."""


CARRIED = ("content", "attachments", "reads", "prompts", "results")
"""The kinds that bring content: each is sent again with every later call of its turn."""


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


def total(values: Iterable[int | None]) -> int | None:
    """The sum; unknown as soon as one of them is."""
    return reduce(plus, values, cast("int | None", 0))


def _row(number: int, span: Span) -> dict[str, Any]:
    row: dict[str, Any] = {"call": number, "model": span.name, **dict.fromkeys(KINDS, 0)}
    for segment in span.detail.get("composition", ()):
        row[segment["kind"]] = plus(row[segment["kind"]], segment["tokens"])
    estimated = total(row[kind] for kind in KINDS)
    measured = span.usage.input_tokens if span.usage else None
    return row | {
        "counter": span.detail.get("counter"),
        "estimated": estimated,
        "measured": measured,
        "difference": None if measured is None or estimated is None else measured - estimated,
        "input_tokens": estimated if measured is None else measured,
        "cached": span.usage.cached_tokens if span.usage else None,
    }


def composition(spans: Iterable[Span]) -> list[dict[str, Any]]:
    """One row a provider call: `call`, `model`, one estimate a kind, `counter`, `estimated` (their sum), `measured` (the
    provider's input tokens, or `None`), `difference` (measured - estimated), `input_tokens`, what the call shows, and
    `cached`, what of it the provider served from its cache, by its own figures.

    The kinds and the difference sum to `input_tokens` in every row.
    """
    calls = [span for span in spans if span.kind == "model" and "composition" in span.detail]
    return [_row(number, span) for number, span in enumerate(calls, 1)]


def carried(spans: Iterable[Span]) -> list[dict[str, Any]]:
    """What content really cost: one row for each that the turn's requests held, with `kind`, `label`, `tokens` (of it once),
    `calls` (how many sent it), `carried` (the tokens of all of these) and `counter`.

    What was brought twice under one name has a row for each: a resource that was read again, its portions, the messages of a
    prompt, one URI of two servers. They are told apart by their order in the request, which only grows while a turn runs.
    """
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    for span in (span for span in spans if span.kind == "model" and "composition" in span.detail):
        times: dict[tuple[str, str], int] = {}
        for piece in span.detail["composition"]:
            if piece["kind"] not in CARRIED:
                continue
            name = piece["kind"], piece["label"]
            times[name] = times.get(name, 0) + 1
            row = found.setdefault((*name, times[name]), {
                "kind": name[0], "label": name[1], "tokens": piece["tokens"], "calls": 0, "carried": 0,
                "counter": span.detail.get("counter"),
            })  # fmt: skip
            row["calls"], row["carried"] = row["calls"] + 1, plus(row["carried"], piece["tokens"])
    return list(found.values())


def seconds(spans: Iterable[Span]) -> dict[str, float | None]:
    """Where the time of a turn went: `total`, in the `model`, waiting for a `server`, and the rest, `own`.

    In seconds; all `None` where the turn has not ended. What ran side by side counts once; the model goes before a server. The
    rest is what the seeds' traces do not itemise, "host work, transport, whatever sits between the arrows"
    ("Application-controlled resources and model-controlled tools"); what a person took to approve a call is in it, too.
    """
    spans = tuple(spans)
    total = next((span.seconds for span in spans if span.kind == "turn"), None)
    if total is None:
        return dict.fromkeys(("total", "model", "server", "own"))
    ended = [span for span in spans if span.seconds is not None]
    model = [(s.started, s.started + (s.seconds or 0)) for s in ended if s.kind == "model"]
    waited = [(s.started, s.started + w) for s in ended if (w := s.detail.get("wait_seconds")) is not None]
    in_model, busy = _length(model), _length([*model, *waited])
    return {"total": total, "model": in_model, "server": busy - in_model, "own": max(0.0, total - busy)}


def _length(stretches: Iterable[tuple[float, float]]) -> float:
    """Of their union."""
    length, end = 0.0, float("-inf")
    for start, stop in sorted(stretches):
        length += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return length


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
    carried_tokens_estimated: int | None
    """All content that the calls sent, each as often as it was sent; see `carried`."""
    lost_tokens_estimated: int
    """What was cut off content and not sent; see `losses`."""
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


def losses(spans: Iterable[Span]) -> dict[tuple[Any, str], int]:
    """By (server, URI), the tokens that were cut off and not sent, where there are any. Of a text that was read on, only what
    its last portion left out; of one that the model then read whole, nothing."""
    found: dict[tuple[Any, str], int] = {}
    for span in spans:
        missing = span.detail.get("missing_tokens")
        if missing is None and span.kind == "read" and span.actor == "model" and span.status == "ok":
            missing = 0
        if missing is not None:
            key = span.detail.get("server"), str(span.detail.get("uri") or span.name)
            found[key] = min(missing, found.get(key, missing))
    return {key: missing for key, missing in found.items() if missing}


def lost(spans: Iterable[Span]) -> int:
    """The sum of `losses`: counted, so never unknown, and 0 where all was sent."""
    return sum(losses(spans).values())


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
        carried_tokens_estimated=total(row["carried"] for row in carried(spans)) if calls else None,
        lost_tokens_estimated=lost(spans),
        counter=next((row["counter"] for row in rows), None),
        bytes=_sum(span.detail.get("bytes") for span in reads if span.status == "ok") if reads else 0,
        seconds=next((span.seconds for span in spans if span.kind == "turn"), None),
        seconds_by_kind=by_kind,
    )
