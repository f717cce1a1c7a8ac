"""Where the requests of servers wait for whoever may answer them: a person, a script's function, or nobody.

A server asks in the middle of one of our calls (or, over stdio, at any time). Each request is a span of kind `request`:
who decided, how long that took, and what became of it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from . import forms, sampling
from .content import visible
from .errors import UsageError
from .forms import Answer, Refusal, Request
from .loop import apart
from .recorder import Open, Recorder, under
from .span import Span, Status

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from .connection import Connection

__all__ = ["Desk", "OnRequest"]

OnRequest = Callable[[Request], Any]
"""Answers a `Request`, at once or awaited: an `Answer`; a mapping of values (accept); `True` (accept) or `False` (decline);
or "wait", with which the request stays in `Session.pending` for `Session.answer`."""

MOST_WAITING = 3
"""Requests of one server that may wait at a time."""
MOST_A_MINUTE = 60
_REJECTED, _BUSY = -1, -32000  # -1: as in the specification's example of a rejected sampling request
_NOUNS = {"form": "a form", "url": "a page to open", "sampling": "a model's answer"}
_STATUS: dict[str, Status] = {"accept": "ok", "decline": "refused", "cancel": "cancelled"}
_NOBODY = Answer(
    action="decline", actor="host", rule="nobody asked",
    reason="nobody is there to answer it; in a script give the session an on_request function",
)  # fmt: skip


@dataclass
class _Waiting:
    request: Request
    answer: asyncio.Future[Answer]
    loop: asyncio.AbstractEventLoop
    callers: set[str]
    """Ids of the spans that were waiting for this server when it asked, and still are."""


@dataclass
class Desk:
    """The requests of all servers of one session. `tell` gets each when it begins to wait and when it has ended."""

    recorder: Recorder
    tell: Callable[[Request], None]
    span: Callable[[str], Span | None]
    """A span by its id."""
    model: Callable[[int | None], tuple[BaseChatModel, int | None]]
    """The model of a turn, or outside one, and the number of its next provider call in that turn."""
    on_request: OnRequest | None = None
    _waiting: dict[str, _Waiting] = field(default_factory=dict)
    _samples: dict[asyncio.Task[dict[str, Any]], set[str]] = field(default_factory=dict)
    _recent: dict[str, deque[float]] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=lambda: count(1))

    @property
    def pending(self) -> list[Request]:
        return [waiting.request for waiting in list(self._waiting.values())]

    def answer(self, identity: str, answer: Answer) -> None:
        """From any thread. Raises `UsageError`, and the request waits on, when it cannot be answered like this."""
        waiting = self._waiting.get(identity)
        if waiting is None:
            found = ", ".join(self._waiting) or "none"
            raise UsageError(f"there is no request {identity!r} that waits for an answer; waiting: {found}")
        try:
            answer = _valid(waiting.request, answer)
        except UsageError as error:  # it names fields and choices
            raise UsageError(self.recorder.mask(str(error))) from None
        try:
            waiting.loop.call_soon_threadsafe(_settle, waiting.answer, answer)
        except RuntimeError:
            raise UsageError(f"request {identity} does not wait any more: the session was closed") from None

    def ended(self, span: str) -> None:
        """A call was stopped: what a server asked because of it alone needs no answer any more."""
        for task, callers in self._samples.items():
            if span in callers:
                callers.discard(span)
                if not callers:
                    task.get_loop().call_soon_threadsafe(task.cancel)
        for waiting in list(self._waiting.values()):
            if span in waiting.callers:
                waiting.callers.discard(span)
                if not waiting.callers:
                    stopped = Answer(action="cancel", rule="stopped", reason="the call that made it ask was stopped")
                    with suppress(RuntimeError):  # the loop has ended, and the request with it
                        waiting.loop.call_soon_threadsafe(_settle, waiting.answer, stopped)

    # -- one request

    async def handle(self, connection: Connection, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result for a server's request, as plain data. Raises `Refusal`, in words for the server."""
        kind = "sampling" if method.startswith("sampling/") else "url" if params.get("mode") == "url" else "form"
        flood, callers = self._flood(connection.name), connection.callers
        replayed = callers and all(self.span(caller.id) is None for caller in callers)  # in spans of another recorder
        with (
            under(None if replayed else self._parent(callers)),
            self.recorder.span("request", _NOUNS[kind], "host", server=connection.name) as span,
        ):
            try:
                if flood is not None:
                    raise flood
                if replayed:
                    raise Refusal("nobody is there to answer it: the turn is replayed", _REJECTED)
                return await self._handled(connection, kind, params, span)
            except Refusal as refusal:
                told = refusal
                if span.span.status == "open":
                    span.set(status="refused")
                    span.note(reason=str(refusal))
        raise told  # out here: to the trace it is a decision and no error

    def _flood(self, server: str) -> Refusal | None:
        """The refusal of a server that asks without end. Raised where one of the same has left its row already."""
        now, recent = self.recorder.clock.now(), self._recent.setdefault(server, deque())
        while recent and now - recent[0] >= 60:
            recent.popleft()
        refusal = Refusal(f"more than {MOST_A_MINUTE} requests in a minute; try again later", _BUSY)
        if len(recent) > MOST_A_MINUTE:
            raise refusal
        recent.append(now)
        return refusal if len(recent) > MOST_A_MINUTE else None

    def _parent(self, callers: tuple[Span, ...]) -> Span | None:
        """The call that made it ask; with several at a time nobody can tell which, so what they all belong to."""
        if len(callers) == 1:
            return callers[0]
        above = {caller.parent for caller in callers}
        parent = above.pop() if len(above) == 1 else None
        return self.span(parent) if parent else None

    async def _handled(
        self, connection: Connection, kind: str, params: Mapping[str, Any], span: Open
    ) -> dict[str, Any]:
        mask = self.recorder.mask
        if kind == "sampling":
            made = await sampling.understood(connection.name, params, mask)
        else:
            made = forms.elicitation(params)
        made["message"] = mask(made["message"])
        request = Request(
            id=f"r{next(self._numbers)}", server=connection.name, turn=span.span.turn,
            created=self.recorder.clock.now(), **made,
        )  # fmt: skip
        if kind != "sampling":
            span.note(asked=visible(request.message), fields=len(request.fields), url_host=request.host or None)
        answer = await self._answered(connection, request, span)
        accepted = answer.action == "accept"
        span.set(actor=answer.actor, status=_STATUS[answer.action])
        span.note(
            rule=answer.rule, reason=None if accepted else answer.reason or f"the {answer.actor} said {answer.action}"
        )
        span.show()
        if kind != "sampling":
            return {
                "action": answer.action,
                **({"content": dict(answer.values)} if accepted and kind == "form" else {}),
            }
        if not accepted:
            raise Refusal(f"the request was rejected: {answer.reason or 'the user said no'}", _REJECTED)
        return await self._sampled(connection, request)

    async def _sampled(self, connection: Connection, request: Request) -> dict[str, Any]:
        task = asyncio.ensure_future(sampling.run(request, *self.model(request.turn), self.recorder))
        self._samples[task] = callers = _ids(connection)
        asked_by_calls = bool(callers)
        try:
            with connection.paused():
                return await task
        except asyncio.CancelledError:
            if asked_by_calls and not callers:  # `ended` has cancelled it, not the server nor the end of the connection
                raise Refusal("the call that made it ask was stopped", _REJECTED) from None
            raise
        finally:
            del self._samples[task]

    async def _answered(self, connection: Connection, request: Request, span: Open) -> Answer:
        """What was decided, after however long that takes."""
        if self.on_request is None:
            return _NOBODY
        if sum(waiting.request.server == request.server for waiting in self._waiting.values()) >= MOST_WAITING:
            raise Refusal(f"{MOST_WAITING} requests of this server wait for an answer already", _BUSY)
        loop = asyncio.get_running_loop()
        waiting = self._waiting[request.id] = _Waiting(request, loop.create_future(), loop, _ids(connection))
        started, answer = self.recorder.clock.timer(), None
        asking = loop.create_task(self._ask(self.on_request, waiting))
        try:
            with connection.paused():
                answer = await waiting.answer
        finally:
            asking.cancel()
            del self._waiting[request.id]
            span.note(person_seconds=self.recorder.clock.timer() - started)
            self.tell(replace(request, state=answer.action if answer else "cancel"))
        return answer

    async def _ask(self, on_request: OnRequest, waiting: _Waiting) -> None:
        try:
            # On a thread of its own: it may ask with `input()`, or read through the session.
            said = await apart(on_request, waiting.request)
            said = await said if inspect.isawaitable(said) else said
            if said == "wait":
                self.tell(waiting.request)
            else:
                _settle(waiting.answer, _valid(waiting.request, _as_answer(said)))
        except Exception as error:  # it is told where the answer is awaited
            if not waiting.answer.done():
                waiting.answer.set_exception(error)


def _ids(connection: Connection) -> set[str]:
    """The calls of which one made the server ask."""
    return {caller.id for caller in connection.callers}


def _settle(future: asyncio.Future[Answer], answer: Answer) -> None:
    if not future.done():
        future.set_result(answer)


def _as_answer(said: Any) -> Answer:
    if isinstance(said, Answer):
        return said
    if isinstance(said, Mapping):
        return Answer(action="accept", values=said, rule="on_request")
    if said is None or isinstance(said, bool):
        return Answer(action="accept" if said else "decline", rule="on_request")
    raise UsageError(f"on_request must give an Answer, values, True, False or 'wait'; it gave {said!r}")


def _valid(request: Request, answer: Answer) -> Answer:
    """The answer as the server gets it; raises `UsageError` when the form does not take it."""
    if answer.action not in ("accept", "decline", "cancel"):
        raise UsageError(f"action={answer.action!r} is not known; it is accept, decline or cancel")
    if answer.action == "accept" and request.kind == "form":
        return replace(answer, values=forms.checked(request.fields, answer.values))
    if answer.values:
        raise UsageError(f"request {request.id} takes no values here: it is {_NOUNS[request.kind]}, or it is declined")
    return answer
