"""Text: what a terminal shows, and the `text/plain` of every output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ..content import visible
from ..span import Span
from . import rows

if TYPE_CHECKING:
    from ..turn import Turn

__all__ = ["table", "trace", "turn"]


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Columns padded to their widest cell; a column that is empty in every row is left out."""
    lines = [list(line) for line in body]
    kept = [i for i in range(len(head)) if any(line[i] for line in lines)] if lines else list(range(len(head)))
    every = [[line[i] for i in kept] for line in ([*head], *lines)]
    widths = [max(len(line[i]) for line in every) for i in range(len(kept))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in every
    )


def _composition(line: dict[str, Any]) -> str:
    parts = " + ".join(f"{kind} {tokens}" for kind, tokens in line["parts"])
    text = f"call {line['call']}: {parts} = {line['estimated']} tokens estimated by {line['counter']}"
    if line["measured"] is not None:
        text += f"; {line['difference']} unexplained = {line['measured']} reported by the provider"
    return text


def trace(spans: Iterable[Span]) -> str:
    """The trace of one turn: a row a span, the totals, and what each provider call's input was made of."""
    spans = tuple(spans)
    columns: dict[str, Callable[[rows.Row], str]] = {
        "step": lambda r: "  " * r.depth + r.label,
        "who": attrgetter("actor"),
        **{name: attrgetter(name) for name in ("server", "status", "seconds", "bytes")},
        "tokens reported": attrgetter("measured"),
        rows.estimate_head(spans): attrgetter("estimated"),
        "waterfall": attrgetter("bar"),
        "note": attrgetter("note"),
    }
    body = [[cell(row) for cell in columns.values()] for row in rows.rows(spans)]
    lines = [table(list(columns), body), "", "Total: " + ", ".join(rows.summed(spans)) + "."]
    return "\n".join(lines + [f"Input of {_composition(line)}" for line in rows.composed(spans)])


def turn(done: Turn) -> str:
    """Question, answer and trace."""
    answer = done.answer or f"[no answer: {done.status}]"
    people = [f"{head}\n{text}" for head, text in rows.for_people(done.for_people)]
    return "\n\n".join([f"Turn {done.number}: {visible(done.question, 2000)}", answer, *people, trace(done.spans)])
