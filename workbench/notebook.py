"""What the magics show: the clickable catalog, and a turn that is live while it runs and static HTML when it has ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from IPython.display import display

from . import catalog
from .calls import Call, Verdict
from .catalog import CatalogRow, Kind
from .content import Part, PromptResult, harmless, visible
from .errors import Stopped, UsageError
from .forms import Field, Request
from .media import human_size
from .saving import MOST, files
from .span import Span
from .tools import prompt_text
from .view import html, text
from .view.content import PREVIEW, plain
from .view.rows import label, progress

if TYPE_CHECKING:
    from .asking import Event
    from .compare import Comparison
    from .gate import Approve
    from .sessions import Session
    from .turn import Turn

__all__ = ["Board", "ProgressLine", "ask", "compare", "show_catalog"]

PATIENCE = 5.0
"""Seconds in which a page can take a displayed catalog over."""
_BAR = 24  # characters


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
        parts = [x for message in result.messages for x in message.items if isinstance(x, Part)]
        self.widget.preview(entry.key, entry.label, harmless(text[:PREVIEW]), f"as it expands{more}", files(parts))

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


class ProgressLine:
    """One line that says how far the request of a blocking magic is, and whose place its result takes.

    Called between two slices of the waiting.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._handle: Any = None
        self._shown: dict[str, str] | None = None

    def __call__(self) -> None:
        span = self._session.progressing
        bundle = {"text/plain": f"{visible(span.name)}: {_bar(span)}{progress(span)}"} if span else self._shown
        if bundle == self._shown:
            return
        self._shown = bundle
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def show(self, bundle: Mapping[str, Any]) -> None:
        """The result."""
        if self._handle is None:
            display(bundle, raw=True)
        else:
            self._handle.update(bundle, raw=True)
            self._handle = None

    def done(self) -> None:
        """Empty the line where nothing came: what is saved shows the result only."""
        if self._handle is not None:
            self._handle.update({}, raw=True)
            self._handle = None


def _bar(span: Span) -> str:
    """How much of it is done, in characters; nothing where nobody knows the whole."""
    done, total = span.detail["progress"], span.detail["progress_total"]
    if total is None:
        return ""
    full = round(_BAR * min(1.0, max(0.0, float(done / total))))
    return "█" * full + "░" * (_BAR - full) + " "


# -- %%agent


async def ask(session: Session, question: str, *, headless: bool, approve: Approve, **options: Any) -> Turn:
    """Run one turn in an awaiting cell: live while it runs, then the answer and the trace as static HTML.

    Raises what `Session.aask` raises, and `Stopped` when a person stopped it; the trace is shown first.
    """
    numbers: list[int | None] = []
    view = None if headless else _Live(session)

    def live(event: Event) -> None:
        if isinstance(event, Span) and event.kind == "turn":
            numbers.append(event.turn)
        if view is not None:
            view.event(event)

    handle = display(view.widget, display_id=True) if view else None
    gate = view.gate if view and approve == "ask" else approve
    task = asyncio.ensure_future(session.aask(question, approve=gate, live=live, **options))
    if view is not None:
        view.task = task
    try:
        return await task
    except asyncio.CancelledError:
        task.cancel()
        raise Stopped(
            "the turn was stopped; what had finished is in its trace, and the next question goes on from there"
        ) from None
    finally:
        _finish(next((turn for turn in session.turns if turn.number in numbers), None), handle)
        if view is not None:
            view.widget.close()


async def compare(session: Session, question: str, *, headless: bool, **options: Any) -> Comparison:
    """Ask under several patterns in an awaiting cell: a table that grows run by run, then the two pictures.

    Raises what `Session.acompare` raises, and `Stopped` when a person stopped it; what had finished is shown first.
    """
    before, shown = len(session.comparisons), list[Any]()

    def live(comparison: Comparison) -> None:
        bundle = comparison._repr_mimebundle_()
        if not headless and shown:
            shown[0].update(bundle, raw=True)
        elif not headless:
            shown.append(display(bundle, raw=True, display_id=True))

    task = asyncio.ensure_future(session.acompare(question, live=live, **options))
    try:
        return await task
    except asyncio.CancelledError:
        task.cancel()
        raise Stopped(
            "the comparison was stopped; what had finished is shown, and is in session().comparisons"
        ) from None
    finally:
        for comparison in session.comparisons[before:]:
            if shown:
                shown[0].update(comparison._repr_mimebundle_(), raw=True)
            else:
                display(comparison._repr_mimebundle_(), raw=True)
            for chart in comparison.charts():
                display(chart)


def _finish(turn: Turn | None, handle: Any) -> None:
    bundle = turn._repr_mimebundle_() if turn else {"text/plain": "Nothing was asked."}
    if handle is not None:
        handle.update(bundle, raw=True)
    elif turn is not None:
        display(bundle, raw=True)


class _Live:
    """The live widget of one turn, between its page, the cell's loop and the background loop."""

    def __init__(self, session: Session) -> None:
        from .widget.trace import Trace

        self.task: asyncio.Future[Any] | None = None
        self._session, self._main = session, asyncio.get_running_loop()
        self._depths: dict[str, int] = {}
        self._waiting: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Future[tuple[str, str]]]] = {}
        self._requests: dict[str, Request] = {}
        self.widget = Trace(self._answered, self._stop, self._filled_in)

    def event(self, event: Event) -> None:
        """On the cell's loop: one event of the turn to the page."""
        if isinstance(event, Request):
            self._request(event)
        elif not isinstance(event, Span):
            self.widget.event({"kind": "text", "text": event})
        elif event.kind != "turn":
            depth = self._depths.setdefault(event.id, self._depths.get(event.parent or "", -1) + 1)
            self.widget.event(_live_row(event, depth))

    async def gate(self, call: Call) -> Verdict:
        """On the background loop: ask the person, and wait for the click."""
        loop = asyncio.get_running_loop()
        self._waiting[call.id] = (loop, answer := loop.create_future())
        card = {
            "kind": "ask", "id": call.id, "title": f"May the model call {call.tool}?", "server": call.server, "tool": call.tool,
            "arguments": harmless(json.dumps(call.arguments, indent=1, ensure_ascii=False)),
            "why": f"{call.tool} is a tool of the server {call.server}; a server's tool never runs unasked.",
        }  # fmt: skip
        self._main.call_soon_threadsafe(self.widget.event, card)
        try:
            verdict, reason = await answer
        finally:
            del self._waiting[call.id]
            self._main.call_soon_threadsafe(
                self.widget.event, {"kind": "answered", "id": call.id, "verdict": "settled"}
            )
        said = f"the user denied it{f': {reason}' if reason else ''}"
        return Verdict(verdict == "approve", "user", "asked in the cell", "" if verdict == "approve" else said)

    def _request(self, request: Request) -> None:
        """A server's request: a form while it waits, then what became of it."""
        identity = f"request {request.id}"  # a model may call its call "r1", too
        if request.state == "waiting":
            self._requests[identity] = request
            self.widget.event({"kind": "form", "id": identity, **_card(request, self._session.mask)})
        else:
            self.widget.event({"kind": "answered", "id": identity, "verdict": request.state})

    def _filled_in(self, identity: str, action: Any, values: list[Any]) -> None:
        """On whichever thread the click arrives; raises `UsageError` where the form does not take the values."""
        request = self._requests[identity]
        filled = zip(request.fields, values, strict=action == "accept")
        # A default that holds a secret is not shown; it stands where nothing is entered.
        given = {f.name: _typed(f, value) for f, value in filled if value != "" or not _hidden(f, self._session.mask)}
        self._session.answer(request.id, given, action=action)

    def _answered(self, call: str, verdict: str, reason: str) -> None:
        """On whichever thread the click arrives."""
        if (waiting := self._waiting.get(call)) is not None:
            loop, answer = waiting
            loop.call_soon_threadsafe(_settle, answer, (verdict, reason))

    def _stop(self) -> None:
        self._main.call_soon_threadsafe(lambda: self.task and self.task.cancel())


def _settle(answer: asyncio.Future[tuple[str, str]], value: tuple[str, str]) -> None:
    if not answer.done():
        answer.set_result(value)


def _card(request: Request, mask: Callable[[str], str]) -> dict[str, Any]:
    """A server's request for the page; values of choices travel as numbers, and names not at all."""
    server, sampling = request.server, request.kind == "sampling"
    title, yes = {
        "form": (f"{server} asks: {request.message}", "Submit"),
        "url": (f"{server} asks you to open a page of {request.host}: {request.message}", "I have opened it"),
        "sampling": (f"{server} asks for an answer of your model", "Approve"),
    }[request.kind]
    why = {
        "form": f"{server} gets what you enter. Never give it a password or a key: no server may ask for them here.",
        "url": f"{server} asks this, not the workbench. Nothing has been opened. Open it only if you trust the host.",
        "sampling": f"The tokens are yours, and {server} gets the answer. At most {request.max_tokens} tokens.",
    }[request.kind]
    facts = [("server", server), ("why", why), *request.wishes.items()]
    return {
        "title": harmless(mask(title)), "server": server, "facts": [(name, harmless(mask(value))) for name, value in facts],
        "text": harmless(mask(request.message)) if sampling else "", "url": request.url, "host": request.host, "yes": yes,
        "shown": mask(request.url or ""), "fields": [_field(each, mask) for each in request.fields],
    }  # fmt: skip


def _hidden(field: Field, mask: Callable[[str], str]) -> bool:
    """Whether the default is text that holds a secret."""
    return not field.choices and mask(str(field.default)) != str(field.default)


def _field(field: Field, mask: Callable[[str], str]) -> dict[str, Any]:
    hidden = _hidden(field, mask)
    value: Any = "" if field.default is None or hidden else field.default
    keys = [key for key, _ in field.choices]
    if field.choices:
        value = [keys.index(x) for x in value or ()] if field.type == "array" else keys.index(value) if value else ""
    elif field.type == "array" and not hidden:
        value = ", ".join(value)
    elif isinstance(value, bool):
        value = "true" if value else "false"
    stays = "left empty it has its default, which holds a secret and is not shown" if hidden else None
    return {
        "label": mask(field.label), "required": field.required and not hidden, "type": field.type,
        "value": value if keys else str(value), "choices": [mask(title) for _, title in field.choices],
        "about": mask(" · ".join(x for x in (field.description, field.hint, stays) if x)),
    }  # fmt: skip


def _typed(field: Field, value: Any) -> Any:
    """What a field of the page holds; the empty string is nothing."""
    if field.choices and field.type == "array":
        return [field.choices[int(number)][0] for number in value]
    return field.choices[int(value)][0] if field.choices and value != "" else value


def _live_row(span: Span, depth: int) -> dict[str, Any]:
    size, tokens = span.detail.get("bytes"), span.detail.get("tokens")
    figures = [human_size(size)] if size is not None else []
    figures += [f"{tokens:,} tokens estimated"] if tokens is not None else []
    if span.usage and span.usage.input_tokens is not None:
        figures.append(f"{span.usage.input_tokens:,} tokens in")
    figures += [told] if span.status == "open" and (told := progress(span)) else []
    status = "waiting" if span.kind in ("gate", "request") and span.status == "open" else span.status
    return {
        "kind": "row", "id": span.id, "depth": depth, "label": label(span), "actor": span.actor, "status": status,
        "seconds": span.seconds, "figures": ", ".join(figures),
    }  # fmt: skip
