"""Text: what a terminal shows, and the `text/plain` of every output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from .. import hygiene
from ..content import harmless, visible
from ..forms import Field, Request
from ..span import Span
from . import rows

if TYPE_CHECKING:
    from ..compare import Comparison
    from ..replayed import Differing, Replayed
    from ..turn import Preview, Turn

__all__ = ["comparison", "context", "request", "table", "trace", "turn"]


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Columns padded to their widest cell; a column that is empty in every row is left out."""
    lines = [list(line) for line in body]
    kept = [i for i in range(len(head)) if any(line[i] for line in lines)] if lines else list(range(len(head)))
    every = [[line[i] for i in kept] for line in ([*head], *lines)]
    widths = [max(len(line[i]) for line in every) for i in range(len(kept))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in every
    )


def aligned(heads: Sequence[str], lines: Sequence[Sequence[str]], first: int) -> str:
    """A table whose columns from `first` on are figures, so flush right."""
    columns = list(zip(heads, *lines, strict=True))
    widths = [max(map(len, column)) if number >= first else 0 for number, column in enumerate(columns)]
    every = [[cell.rjust(width) for cell, width in zip(line, widths, strict=True)] for line in (heads, *lines)]
    return table(every[0], every[1:])


def _composition(line: dict[str, Any]) -> str:
    parts = " + ".join(f"{kind} {tokens}" for kind, tokens in line["parts"])
    text = f"call {line['call']}: {parts} = {line['estimated']} tokens estimated by {line['counter']}"
    if line["measured"] is not None:
        text += f"; {line['difference']} unexplained = {line['measured']} reported by the provider"
        text += f", {line['cached']} of them cached" if line["cached"] is not None else ""
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
    lines += [f"Input of {_composition(line)}" for line in rows.composed(spans)]
    return "\n".join(lines + [f"Note ({note.kind}): {note.text} See {note.lesson}" for note in hygiene.notes(spans)])


def request(asked: Request, mask: Callable[[str], str] = str, longest: int = 20_000) -> str:
    """What a server asks of a person, as the person reads it who answers by typing. `mask` goes over the server's text."""
    wish = {
        "form": "asks you to fill in a form. What you type goes to it: no password, no key",
        "url": f"asks you to open a page of {asked.host}. Nothing has been opened",
        "sampling": f"asks for your model's answer, at your expense, in at most {asked.max_tokens} tokens",
    }[asked.kind]
    message = mask(asked.message)
    more = len(message) - longest
    shown = harmless(message[:longest]) + (f"\n[{more:,} more characters are not shown]" if more > 0 else "")
    lines = [f"Request {asked.id}: the server {asked.server} {wish}.", *(f"  {line}" for line in shown.splitlines())]
    lines += [f"  {mask(asked.url)}"] if asked.url else []
    lines += [f"  it would like {name}: {mask(value)}" for name, value in asked.wishes.items()]
    return "\n".join([*lines, *(f"  {number}. {field(each, mask)}" for number, each in enumerate(asked.fields, 1))])


def field(each: Field, mask: Callable[[str], str] = str) -> str:
    """One field of a form on one line: its name, what it wants, and what it is when nothing is typed."""
    said = ["required"] if each.required else []
    said += [each.hint] if each.hint else []
    said += [f"one of {', '.join(title for _, title in each.choices)}"] if each.choices else []
    said += [f"else {each.default}"] if each.default is not None else []
    label = "" if each.label == each.name else f" = {visible(mask(each.label))}"
    about = f": {visible(mask(each.description), 1000)}" if each.description else ""
    return f"{visible(mask(each.name))}{label}{about}" + (f" ({visible(mask('; '.join(said)), 1000)})" if said else "")


def context(preview: Preview) -> str:
    """What the next provider call would be made of, and how full the window would be."""
    whole = preview.tokens
    share = "" if not whole else "share"
    lines = [
        [piece["kind"], visible(piece["label"], 80), rows.number(piece["tokens"]), rows.share(piece["tokens"], whole)]
        for piece in preview.pieces
    ]
    said = f"In all {rows.number(whole)} tokens, estimated by {preview.counter}"
    if preview.window is None:
        fill = f"how many {preview.model} takes is not known"
    elif whole is None:
        fill = f"{preview.model} takes {preview.window:,}"
    else:
        fill = f"{whole / preview.window:.1%} of the {preview.window:,} that {preview.model} takes"
    return f"{table(['kind', 'what', 'tokens', share], lines)}\n{said}; {fill}."


def comparison(compared: Comparison) -> str:
    """A line a run, what was lost, and the figures of the pictures."""
    from . import compared as view

    if not compared.runs:
        return f"Compared: {view.head(compared)}\n{view.running(compared) or 'No run has finished.'}"
    head, lines = view.shown(compared.runs)
    parts = [
        f"Compared: {view.head(compared)}",
        table(head, lines),
        view.foot(compared.runs),
        *view.lost(compared.runs),
        *filter(None, [view.running(compared)]),
    ]
    return "\n".join(parts)


def replay(done: Replayed) -> str:
    """A line a design, what did not run, and the designs against each other."""
    from . import replayed as view

    heads, lines = view.lines(done)
    body = [table(heads, lines), view.foot(done)] if lines else ["No turn has finished."]
    told = [f"On the same turns: {each}" for each in view.against(done)]
    return "\n".join([f"Replayed: {view.head(done)}", *body, *view.notes(done), *told])


def differing(found: Differing) -> str:
    """The questions of the turns where two designs differ, and what became of each."""
    from . import replayed as view

    return "\n".join([view.differs(found), table(*view.differences(found))])


def turn(done: Turn) -> str:
    """Question, answer and trace."""
    answer = done.answer or f"[no answer: {done.status}]"
    people = [f"{head}\n{text}" for head, text in rows.for_people(done.for_people)]
    return "\n\n".join([f"Turn {done.number}: {visible(done.question, 2000)}", answer, *people, trace(done.spans)])
