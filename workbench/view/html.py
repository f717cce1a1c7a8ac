"""Static HTML that reads well with no kernel, no JavaScript and no stylesheet. Only through autoescaping templates.

Styles are inline, because an untrusted notebook loses its `<style>`; colours come from JupyterLab's variables, so that
the dark theme is one too.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from .. import hygiene
from ..content import Offer, visible
from ..span import Span
from . import rows
from .markdown import render

if TYPE_CHECKING:
    import jinja2

    from ..compare import Comparison
    from ..replayed import Differing, Replayed
    from ..turn import Turn

__all__ = ["answer", "catalog", "comparison", "content", "differing", "page", "picture", "replay", "trace", "turn"]

CATALOG_ROWS = 50
# Column heads of the static catalog, and the keys of `catalog.cells`.
_COLUMNS = {
    "state": "state", "server": "server", "name": "label", "URI": "uri", "type": "kind", "size": "size",
    "description": "description", "arguments": "arguments", "tokens": "tokens",
}  # fmt: skip


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    loader = jinja2.PackageLoader("workbench.view")
    made = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    made.filters["visible"] = visible
    return made


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


def trace(spans: Iterable[Span]) -> str:
    """The trace of one turn as HTML: the same rows and figures as `text.trace`."""
    spans = tuple(spans)
    return _render(
        "trace.html.j2",
        rows=rows.rows(spans),
        estimate_head=rows.estimate_head(spans),
        totals=rows.summed(spans),
        calls=rows.composed(spans),
        findings=hygiene.notes(spans),
    )


def answer(text: str) -> str:
    """A model's Markdown as HTML: no raw HTML, no images, links only to http, https and mailto."""
    return render(text)


def turn(done: Turn) -> str:
    """Answer, what servers sent for people only, and trace."""
    body = answer(done.answer) if done.answer else _render("none.html.j2", status=done.status)
    return body + _render("people.html.j2", items=rows.for_people(done.for_people)) + trace(done.spans)


def comparison(compared: Comparison) -> str:
    """A line a run, what was lost, and when all is done each pattern's answer and trace, once; the pictures are outputs of
    their own."""
    from . import compared as view

    runs, running = compared.runs, view.running(compared)
    head, lines = view.shown(runs, answers=False)
    first = [] if running else [run for run in runs if run.repeat == 1]
    return _render(
        "comparison.html.j2", head=view.head(compared), columns=head, lines=lines, foot=view.foot(runs), lost=view.lost(runs),
        running=running, traces=[(view.named(run), view.said(run), turn(run.turn)) for run in first],
        untraced=len(runs) - len(first),
    )  # fmt: skip


def replay(done: Replayed) -> str:
    """A line a design, what did not run, the designs against each other, and some turns where the first two differ."""
    from . import replayed as view

    heads, lines = view.lines(done)
    found = next((each for each in view.pairs(done) if each.pairs), None)
    return _render(
        "replay.html.j2", head=view.head(done), columns=heads, lines=lines, foot=view.foot(done), notes=view.notes(done),
        against=view.against(done), **(_differing(found, view.MOST_OPEN) if found else {}),
    )  # fmt: skip


def differing(found: Differing) -> str:
    """The turns where two designs differ, each with both of its traces."""
    from . import replayed as view

    return _render("differing.html.j2", **_differing(found, view.MOST_SHOWN))


def _differing(found: Differing, most: int) -> dict[str, Any]:
    from . import replayed as view

    names = [view.named(each, found.replayed) for each in (found.a, found.b)]
    return {"differing": view.differs(found, most), "names": names, "opened": view.opened(found, most)}


def page(title: str, body: str) -> str:
    """A page of its own that loads nothing; `body` is made by these templates."""
    return _render("page.html.j2", title=title, body=body)


def picture(png: str | None, width: int | None, alt: str, table: str) -> str:
    """A PNG in base64 as an image that holds itself, so many pixels wide; without one its figures as text."""
    return _render("picture.html.j2", png=png, width=width, alt=alt, table=table)


def content(parts: list[dict[str, Any]]) -> str:
    """What a person sees of a content; `parts` as `content.py` makes them."""
    for part in parts:
        if "markdown" in part:
            part["safe"] = render(part["markdown"])
    return _render("content.html.j2", parts=parts)


def catalog(cells: list[dict[str, Any]], total: int, offer: Offer, home: str = "", note: str = "") -> str:
    """The static catalog: at most `CATALOG_ROWS` rows, and how many there are in all; `home` is the class of all of it, and
    `note` stands above."""
    shown = cells[:CATALOG_ROWS]
    columns = [(head, key) for head, key in _COLUMNS.items() if not shown or any(row[key] for row in shown)]
    return _render(
        "catalog.html.j2", rows=shown, columns=columns, total=total, problems=offer.problems, home=home, note=note
    )
