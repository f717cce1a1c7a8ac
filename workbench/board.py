"""The displayed catalog: a table that can be clicked, and the static one that stands for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from IPython.display import display

from . import catalog
from .catalog import CatalogRow, Kind
from .content import PromptResult, harmless, visible
from .errors import UsageError
from .media import human_size
from .saving import MOST, files
from .tools import prompt_text
from .view import html, text
from .view.content import PREVIEW, plain

if TYPE_CHECKING:
    from .sessions import Session

__all__ = ["Board", "show_catalog", "static_catalog"]

PATIENCE = 5.0
"""Seconds in which a page can take a displayed catalog over."""


class Board:
    """One displayed catalog: rows from the session, clicks to the session, results back to the rows.

    Clicks only start work on the background loop; what comes of it is shown by the main thread's loop, which is the only
    one that may talk to the page.
    """

    def __init__(self, session: Session, kinds: Sequence[Kind]) -> None:
        from .widget.catalog import Catalog

        self._session, self._kinds = session, tuple(kinds)
        self._main = asyncio.get_running_loop()
        self._entries = self._now()
        self._told = False
        self._handle: Any = None
        home, entries = f"wb-{uuid4().hex}", list(self._entries.values())
        self._static = static_catalog(entries, session, home)
        self.widget = Catalog(entries, self._act, self._static, home)
        session.listeners.append(self._listed)

    def _now(self) -> dict[str, CatalogRow]:
        session = self._session
        return catalog.rows(session.offer, list(session.attachments), session.spans, self._kinds, session.stale)

    def _listed(self) -> None:
        """On the background loop. Told once, however often that happens before the main thread looks."""
        if not self._told:
            self._told = True
            with suppress(RuntimeError):  # its loop has ended, as in a notebook that is being closed
                self._main.call_soon_threadsafe(self.sync)

    def close(self, why: str = "") -> None:
        """Take the live table away; what stands in its place says why."""
        self._session.listeners.remove(self._listed)
        self.widget.close()
        if why and self._handle is not None:
            self._handle.update(static_catalog(list(self._entries.values()), self._session, note=why), raw=True)

    def show(self) -> None:
        """Display the static table, whose place the live one takes where a page lets it; elsewhere show it by itself."""
        self._handle = handle = display(self._static, raw=True, display_id=True)
        self._main.call_later(
            PATIENCE, lambda: self.widget.settled or self.widget.comm is None or handle.update(self.widget)
        )

    def sync(self) -> None:
        """Send the rows that have changed since."""
        self._told = False
        before, self._entries = self._entries, self._now()
        if before.keys() - self._entries.keys():  # a server was disconnected
            self.widget.replace(list(self._entries.values()))
            return
        for key, entry in self._entries.items():
            if before.get(key) != entry:
                self.widget.update(entry)

    def _act(self, message: dict[str, Any]) -> None:
        session, key = self._session, message["key"]
        entry = self._entries[key]
        if message["kind"] == "complete":
            self._complete(entry, message["name"], message["values"])
            return
        if entry.kind in ("prompt", "tool"):
            if message["kind"] != "preview":
                raise UsageError(f"a {entry.kind} cannot be attached; the model may use it")
            if not self._expand(entry, message["values"]):
                self.widget.preview(key, entry.label, self._describe(entry), "")
            return
        uri = catalog.fill(entry.uri, message["values"]) if entry.kind == "template" else entry.uri
        if message["kind"] == "detach":
            session.detach(uri, entry.server)
            self.sync()
        elif message["kind"] == "attach":
            self._start(
                session.start_attach(uri, entry.server), lambda done: self._attached(entry, uri), entry, "attaching"
            )
        else:
            self._start(
                session.start_read(uri, entry.server), lambda content: self._show(key, content), entry, "reading"
            )

    def _start(self, job: Any, then: Callable[[Any], None], entry: CatalogRow, doing: str) -> None:
        self.widget.working(entry.key, f"{doing} …")  # a click is answered at once, however slow the server is

        def finished() -> None:
            self.widget.working(entry.key, "")
            self.sync()
            if (error := job.future.exception()) is None:
                then(job.future.result())
            else:
                self._failed(entry, self._session.mask(str(error) or type(error).__name__))

        job.future.add_done_callback(lambda _: self._main.call_soon_threadsafe(finished))

    def _failed(self, entry: CatalogRow, reason: str) -> None:
        """A read that failed has said so in its row by now. What was refused before it (a resource for people only, say) says
        it there, too; where there is no row for it, or one that is attached, on the line above the table."""
        row = self._entries.get(entry.key)
        if entry.kind != "resource" or row is None or row.state in ("attached", "changed"):
            self.widget.notice(reason)
        elif row.state != "failed":
            self.widget.update(replace(row, state="failed", reason=reason))

    def _complete(self, entry: CatalogRow, name: str, values: dict[str, str]) -> None:
        """What the server suggests for the field that somebody types into."""
        offer, typed = self._session.offer, values.pop(name, "")
        every: list[Any] = [*offer.templates] if entry.kind == "template" else [*offer.prompts]
        found = next(x for x in every if x.server == entry.server and getattr(x, "uri", x.name) == entry.uri)
        job = self._session.start_complete(found, name, typed, values)

        def finished() -> None:
            if job.future.exception() is None:
                self.widget.suggest(entry.key, name, typed, job.future.result())

        job.future.add_done_callback(lambda _: self._main.call_soon_threadsafe(finished))

    def _expand(self, entry: CatalogRow, values: dict[str, str]) -> bool:
        """Show what a prompt expands to, once its required arguments are filled in."""
        found = next((p for p in self._session.offer.prompts if (p.server, p.name) == (entry.server, entry.uri)), None)
        if entry.kind != "prompt" or found is None or any(x.required and x.name not in values for x in found.arguments):
            return False
        job = self._session.start_prompt(found.name, values, entry.server)
        self._start(job, lambda result: self._show_prompt(entry, result), entry, "expanding")
        return True

    def _show_prompt(self, entry: CatalogRow, result: PromptResult) -> None:
        text = prompt_text(result)
        more = f"; {len(text) - PREVIEW:,} more characters are not shown here" if len(text) > PREVIEW else ""
        self.widget.preview(
            entry.key, entry.label, harmless(text[:PREVIEW]), f"as it expands{more}", files(result.parts)
        )

    def _attached(self, entry: CatalogRow, uri: str) -> None:
        if entry.kind == "template":  # what was attached has another row, perhaps out of sight
            self.widget.notice(f"attached {visible(uri)}")

    def _show(self, key: str, content: Any) -> None:
        shown_text, note = plain(content)
        if len(content.parts) > MOST:
            note = "; ".join(
                x for x in (note, f"the first {MOST} of {len(content.parts):,} parts can be saved here") if x
            )
        title = f"{content.uri} ({human_size(content.size)})"
        self.widget.preview(key, title, shown_text, note, files(content.parts))

    def _describe(self, entry: CatalogRow) -> str:
        offer = self._session.offer
        described: list[Any] = [*offer.prompts] if entry.kind == "prompt" else [*offer.tools]
        found = next(x for x in described if x.server == entry.server and x.name == entry.uri)
        return harmless(json.dumps(asdict(found), indent=1, ensure_ascii=False, default=str))


def show_catalog(session: Session, kinds: Sequence[Kind], *, headless: bool) -> Board | None:
    """Display the catalog: clickable where somebody can click, else only its static form."""
    session.servers.need_server()
    if headless:
        entries = catalog.rows(session.offer, list(session.attachments), session.spans, kinds, session.stale)
        display(static_catalog(list(entries.values()), session), raw=True)
        return None
    board = Board(session, kinds)
    board.show()
    return board


def static_catalog(entries: Sequence[CatalogRow], session: Session, home: str = "", note: str = "") -> dict[str, str]:
    """What stands for the catalog in a saved notebook: 50 rows and the count, as HTML and as text, below a note."""
    cells = [catalog.cells(entry) for entry in entries[: html.CATALOG_ROWS]]
    shown_cells = [[visible(cell) for cell in row.values()] for row in cells]
    plain = text.table(
        ("state", "server", "name", "URI", "type", "size", "description", "arguments", "tokens"), shown_cells
    )
    more = f"{len(cells)} of {len(entries):,} entries"
    page = html.catalog(cells, len(entries), session.offer, home, note)
    return {"text/html": page, "text/plain": "\n".join(filter(None, (note, plain, more)))}
