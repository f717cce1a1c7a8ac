"""Two pictures of a comparison: what the input was made of, and when what happened.

Names of patterns and steps are what servers, models and persons call them; see `drawing.py` for what keeps them harmless.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import ledger
from ..content import visible
from . import text
from .drawing import LANE, STEP, WIDTH, Chart, Drawing, lanes, seconds, short, words

__all__ = ["Chart", "composition", "timeline"]

_DIFFERENCE = "difference"
_MOST, _WIDEST = 10, 60  # steps of a pattern in the table, and letters of a name


# -- what the input was made of


@dataclass(frozen=True)
class _Stack:
    """The bar of one pattern."""

    name: str
    tokens: Mapping[str, int | None]
    """By kind, without the difference."""
    counter: str
    difference: int | None

    @property
    def known(self) -> int:
        return sum(tokens or 0 for tokens in self.tokens.values())

    @property
    def unknown(self) -> list[str]:
        return [kind for kind, tokens in self.tokens.items() if tokens is None]

    @property
    def reported(self) -> int | None:
        return None if self.unknown or self.difference is None else self.known + self.difference

    @property
    def said(self) -> str:
        """What stands at its end."""
        if self.unknown:
            more = f"unknown: {', '.join(self.unknown)}"
            return f"≈ {self.known:,} + {more}" if self.known else more
        if self.reported is None or self.difference is None:
            return f"≈ {self.known:,}"
        off = f" ({abs(self.difference):,} {'above' if self.difference > 0 else 'below'} the estimate)"
        return f"{self.reported:,}{off if self.difference else ''}"


def composition(rows: Sequence[Mapping[str, Any]], kinds: Sequence[str] = ledger.KINDS) -> Chart:
    """What the input of a pattern's provider calls is made of: a bar a pattern, stacked by kind in the order of `kinds`.

    A row has `pattern`, `kind`, `tokens` of all calls together (`None` is unknown, and drawn as such) and `counter`, who
    estimated them. Of the kind `difference` is what the provider reported less the estimate, above or below 0: only where it
    is known do we know what was reported.
    """
    rows = [{**row, "pattern": str(row["pattern"]), "kind": visible(str(row["kind"]), 40)} for row in rows]
    found = dict.fromkeys(row["kind"] for row in rows if row["kind"] != _DIFFERENCE)
    order = [kind for kind in kinds if kind in found] + [kind for kind in found if kind not in kinds]
    names = dict.fromkeys(row["pattern"] for row in rows)
    stacks = [_stack(name, [row for row in rows if row["pattern"] == name], order) for name in names]
    by = ", ".join(dict.fromkeys(stack.counter for stack in stacks if stack.counter)) or "nobody"
    title = f"Input tokens of all provider calls of the turn; ≈ is estimated, by {by}"
    return Chart(_figures(stacks, order, title), _in_words(stacks, title), _bars(stacks, title) if stacks else None)


def _stack(name: str, rows: Sequence[Mapping[str, Any]], order: Iterable[str]) -> _Stack:
    def total(kind: str) -> int | None:
        found = [row["tokens"] for row in rows if row["kind"] == kind]
        return None if None in found else sum(found)

    counted = [row for row in rows if row["kind"] != _DIFFERENCE]
    counter = ", ".join(dict.fromkeys(visible(str(row["counter"])) for row in counted if row.get("counter")))
    known = len(counted) < len(rows)
    return _Stack(visible(name), {kind: total(kind) for kind in order}, counter, total(_DIFFERENCE) if known else None)


def _bars(stacks: Sequence[_Stack], title: str) -> Drawing:
    widest = max(max(stack.known, stack.reported or 0) for stack in stacks) or 1
    stub = widest * 0.06 if any(stack.unknown for stack in stacks) else 0
    drawing = Drawing(title, STEP * len(stacks), widest + stub, {"what": "counted by", "said": "tokens"})
    for number, stack in enumerate(stacks):
        top = number * STEP
        place = {"pattern": stack.name, "y": top + 4, "y2": top + STEP - 4}
        bars, frames = _pieces(stack, stub)
        drawing.bars.extend({**place, **bar} for bar in bars)
        drawing.frames.extend({**place, **frame} for frame in frames)
        drawing.names.append({"pattern": stack.name, "label": short(stack.name), "y": top + STEP / 2})
        end = max(piece["x2"] for piece in (*bars, *frames, {"x2": 0}))
        drawing.ends.append({"pattern": stack.name, "said": stack.said, "x": end, "y": top + STEP / 2})
    drawing.words.extend(words(drawing.bars, drawing.across))
    return drawing


def _pieces(stack: _Stack, stub: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The full segments of a bar, and those that are only outlined: unknown, or estimated and not reported."""
    bars: list[dict[str, Any]] = []
    frames: list[dict[str, Any]] = []
    at = 0
    for kind, tokens in stack.tokens.items():
        if tokens:
            bars.append({"kind": kind, "x": at, "x2": at + tokens, "tokens": tokens, "said": f"{tokens:,}"})
            at += tokens
    if stack.unknown:
        frames.append(
            {"kind": ", ".join(stack.unknown), "x": at, "x2": at + stub, "tokens": None, "said": "unknown", "wash": 0}
        )
    bars, frames = ([{**piece, "what": stack.counter} for piece in each] for each in (bars, frames))
    if stack.reported is not None and (more := stack.difference):
        piece = {
            "kind": _DIFFERENCE,
            "tokens": more,
            "said": f"{more:+,}",
            "what": "the provider, less our estimate",
            "wash": 0.4,
        }
        low, high = sorted((at, max(0, stack.reported)))
        (bars if more > 0 else frames).append({**piece, "x": low, "x2": high})
    return bars, frames


def _figures(stacks: Sequence[_Stack], order: Sequence[str], title: str) -> str:
    def cell(tokens: int | None, form: str = ",") -> str:
        return "unknown" if tokens is None else f"{tokens:{form}}"

    measured = any(stack.difference is not None for stack in stacks)
    heads = ["pattern", *order, "estimated", *([_DIFFERENCE, "reported"] if measured else [])]
    lines = [
        [
            visible(stack.name, _WIDEST), *(cell(stack.tokens[kind]) for kind in order),
            cell(None if stack.unknown else stack.known),
            *([cell(stack.difference, "+,"), cell(stack.reported)] if measured else []),
        ]
        for stack in stacks
    ]  # fmt: skip
    return f"{title}:\n{text.aligned(heads, lines, 1)}" if stacks else "There was no provider call."


def _in_words(stacks: Sequence[_Stack], title: str) -> str:
    def parts(stack: _Stack) -> str:
        known = [f"{kind} {tokens:,}" for kind, tokens in stack.tokens.items() if tokens]
        return f" ({', '.join(known)})" if known else ""

    return " ".join([f"{title}.", *(f"{short(stack.name)}: {stack.said}{parts(stack)}." for stack in stacks)])


# -- when what happened


@dataclass(frozen=True)
class _Group:
    """The lanes of one pattern."""

    name: str
    steps: Sequence[Mapping[str, Any]]
    whole: float | None
    """Seconds of the turn."""
    end: float
    """Seconds until the last that is known of it."""


def timeline(rows: Sequence[Mapping[str, Any]]) -> Chart:
    """When what happened: lanes for each pattern, as many as it needs to show what ran side by side.

    A row has `pattern`, `kind`, `name`, `start` (seconds since the turn began) and `seconds`, `None` for what has not ended.
    The row of the kind `turn`, where there is one, is the whole: its seconds stand at the end.
    """
    rows = [
        {
            **row, "pattern": str(row["pattern"]), "kind": visible(str(row["kind"]), 40), "name": visible(str(row["name"])),
        }
        for row in rows
    ]  # fmt: skip
    names = dict.fromkeys(row["pattern"] for row in rows)
    groups = [_group(name, [row for row in rows if row["pattern"] == name]) for name in names]
    title = "Seconds since the turn began"
    return Chart(_steps(groups, title), _sums(groups, title), _lanes(groups, title) if groups else None)


def _group(name: str, rows: Sequence[Mapping[str, Any]]) -> _Group:
    steps = [row for row in rows if row["kind"] != "turn"]
    turns = [row["seconds"] for row in rows if row["kind"] == "turn"]
    last = max((row["start"] + (row["seconds"] or 0) for row in steps), default=0.0)
    ended = all(row["seconds"] is not None for row in steps)
    whole = turns[0] if turns else last if ended else None
    return _Group(visible(name), steps, whole, max(last, whole or 0.0))


def _lanes(groups: Sequence[_Group], title: str) -> Drawing:
    longest = max(group.end for group in groups) or 1.0
    least = longest * 2 / WIDTH  # what took no time at all is still two pixels wide
    drawing = Drawing(title, 0, longest + least, {"what": "name", "since": "began after", "said": "took"})
    top = 0.0
    for group in groups:
        lane, placed = lanes(group.steps, least, group.end)
        high = max(LANE, lane * (1 + max((number for _, number in placed), default=0)))
        for row, number in placed:
            _step(drawing, group, row, least, top + number * lane, lane)
        place = {"pattern": group.name, "y": top + high / 2}
        drawing.bands.append({"x": 0, "x2": group.end, "y": top, "y2": top + high})
        drawing.names.append({**place, "label": short(group.name)})
        drawing.ends.append({**place, "x": group.end, "said": seconds(group.whole)})
        top += high + LANE
    drawing.words.extend(words(drawing.bars, drawing.across))
    return replace(drawing, height=top - LANE)


def _step(drawing: Drawing, group: _Group, row: Mapping[str, Any], least: float, top: float, lane: float) -> None:
    start, took = row["start"], row["seconds"]
    end = max(group.end if took is None else start + took, start + least)
    bar = {
        "pattern": group.name, "kind": row["kind"], "what": row["name"], "x": start, "x2": end, "y": top, "y2": top + lane,
        "start": start, "seconds": took, "since": seconds(start), "said": seconds(took), "wash": 0,
    }  # fmt: skip
    (drawing.frames if took is None else drawing.bars).append(bar)


def _steps(groups: Sequence[_Group], title: str) -> str:
    if not groups:
        return "There was no turn."
    lines = []
    for group in groups:
        turn = {"kind": "turn", "name": "", "start": 0.0, "seconds": group.whole}
        for row in (turn, *_longest(group.steps)):
            name, kind = visible(row["name"], _WIDEST), row["kind"]
            lines.append([visible(group.name, _WIDEST), kind, name, seconds(row["start"]), seconds(row["seconds"])])
        if (more := len(group.steps) - _MOST) > 0:
            lines.append([visible(group.name, _WIDEST), f"+ {more:,} shorter", "", "", ""])
    return f"{title}:\n{text.aligned(['pattern', 'kind', 'name', 'start', 'seconds'], lines, 3)}"


def _longest(steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The longest, what has not ended among them, in the order in which they began."""
    kept = sorted(steps, key=lambda row: math.inf if row["seconds"] is None else row["seconds"], reverse=True)[:_MOST]
    return sorted(kept, key=lambda row: row["start"])


def _sums(groups: Sequence[_Group], title: str) -> str:
    said = [f"{title}; what ran side by side counts twice."]
    for group in groups:
        by: dict[str, float] = {}
        for row in group.steps:
            by[row["kind"]] = by.get(row["kind"], 0.0) + (row["seconds"] or 0.0)
        parts = ", ".join(f"{kind} {seconds(total)}" for kind, total in by.items())
        said.append(f"{short(group.name)}: {seconds(group.whole)}{f' ({parts})' if parts else ''}.")
    return " ".join(said)
