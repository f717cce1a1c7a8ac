"""What the cell magics show: a turn or a comparison, live while it runs, static when it has ended; and a magic's progress."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from IPython.display import display

from .calls import Call, Verdict
from .cards import card, entered
from .content import harmless, visible
from .errors import Stopped
from .forms import Request
from .media import human_size
from .span import Span
from .view.rows import label, progress

if TYPE_CHECKING:
    from .asking import Event
    from .compare import Comparison
    from .gate import Approve
    from .sessions import Session
    from .turn import Turn

__all__ = ["ProgressLine", "ask", "compare", "told"]

_BAR = 24  # characters


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
        asked = {
            "kind": "ask", "id": call.id, "title": f"May the model call {call.tool}?", "server": call.server, "tool": call.tool,
            "arguments": harmless(json.dumps(call.arguments, indent=1, ensure_ascii=False)),
            "why": f"{call.tool} is a tool of the server {call.server}; a server's tool never runs unasked.",
        }  # fmt: skip
        self._main.call_soon_threadsafe(self.widget.event, asked)
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
            self.widget.event({"kind": "form", "id": identity, **card(request, self._session.mask)})
        else:
            self.widget.event({"kind": "answered", "id": identity, "verdict": request.state})

    def _filled_in(self, identity: str, action: Any, values: list[Any]) -> None:
        """On whichever thread the click arrives; raises `UsageError` where the form does not take the values."""
        request = self._requests[identity]
        given = entered(request, values, self._session.mask, whole=action == "accept")
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


def _live_row(span: Span, depth: int) -> dict[str, Any]:
    size, tokens = span.detail.get("bytes"), span.detail.get("tokens")
    figures = [human_size(size)] if size is not None else []
    figures += [f"{tokens:,} tokens estimated"] if tokens is not None else []
    if span.usage and span.usage.input_tokens is not None:
        figures.append(f"{span.usage.input_tokens:,} tokens in")
    figures += [far] if span.status == "open" and (far := progress(span)) else []
    status = "waiting" if span.kind in ("gate", "request") and span.status == "open" else span.status
    return {
        "kind": "row", "id": span.id, "depth": depth, "label": label(span), "actor": span.actor, "status": status,
        "seconds": span.seconds, "figures": ", ".join(figures),
    }  # fmt: skip


class ProgressLine:
    """One line that says how far what a blocking magic waits for is, and whose place its result takes.

    Called between two slices of the waiting.
    """

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown: dict[str, str] | None = None

    def __call__(self, text: str) -> None:
        bundle = {"text/plain": text}
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


def told(session: Session) -> str | None:
    """How far the request is that a magic waits for; `None` where its server has not told."""
    span = session.progressing
    return f"{visible(span.name)}: {_bar(span)}{progress(span)}" if span else None


def _bar(span: Span) -> str:
    """How much of it is done, in characters; nothing where nobody knows the whole."""
    done, total = span.detail["progress"], span.detail["progress_total"]
    if total is None:
        return ""
    full = round(_BAR * min(1.0, max(0.0, float(done / total))))
    return "█" * full + "░" * (_BAR - full) + " "
