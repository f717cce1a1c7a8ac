"""Recording: `span()` opens, times and closes a span; the parent is the span around it (a `ContextVar`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from .content import Part, digest
from .errors import WorkbenchError
from .span import JSON, Actor, Kind, Span, Status, Usage

__all__ = ["Clock", "Open", "Recorder", "current", "opened", "timer", "under"]

Keep = Callable[[str, Sequence[Part]], None]

_current: ContextVar[Span | None] = ContextVar("workbench_span", default=None)


_open: ContextVar[Open | None] = ContextVar("workbench_open", default=None)


def opened() -> Open | None:
    """The span around whoever calls this, to be added to."""
    return _open.get()


def current() -> Span | None:
    """The span around whoever calls this."""
    return _current.get()


def timer() -> float:
    """Seconds from anywhere, by the clock of the span around whoever calls this."""
    around = _open.get()
    return time.perf_counter() if around is None else around.timer()


@contextmanager
def under(span: Span | None) -> Iterator[None]:
    """Spans opened in the block hang below `span`: for work that a server starts, in a task that no caller of ours began."""
    token = _current.set(span)
    try:
        yield
    finally:
        _current.reset(token)


@dataclass(frozen=True)
class Clock:
    """`now` in Unix seconds, `timer` in seconds from anywhere; tests inject their own."""

    now: Callable[[], float] = time.time
    timer: Callable[[], float] = time.perf_counter


class Open:
    """A span while it is open: what is found out about it is added here."""

    def __init__(
        self,
        span: Span,
        emit: Callable[[Span], None],
        timer: Callable[[], float] = time.perf_counter,
        keep: Keep = lambda identity, parts: None,
    ) -> None:
        self.span, self.timer, self._emit, self._keep = span, timer, emit, keep

    def note(self, **detail: JSON) -> None:
        """Add to `detail`; seen with the next snapshot."""
        self.span = replace(self.span, detail={**self.span.detail, **detail})

    def brought(self, parts: Sequence[Part]) -> None:
        """Add the size and the SHA-256 of content to `detail`, and hand it to whoever keeps content. For a thread: it may be
        large."""
        identity = digest(parts)
        self.note(bytes=sum(part.size for part in parts), sha256=identity)
        if parts:
            self._keep(identity, parts)

    def set(self, *, status: Status | None = None, usage: Usage | None = None, actor: Actor | None = None) -> None:
        """Set what is not a detail."""
        changes: dict[str, Any] = {"status": status, "usage": usage, "actor": actor}
        self.span = replace(self.span, **{k: v for k, v in changes.items() if v is not None})

    def show(self) -> None:
        """Emit a snapshot now, while it is still open."""
        self._emit(self.span)


class Recorder:
    """Makes spans and hands each snapshot to `emit`. `mask` goes over every error text.

    The spans of a recorder that is not the session's own have ids that begin with its `name`. `keep` gets the content that
    spans brought, by its SHA-256.
    """

    def __init__(
        self,
        emit: Callable[[Span], None],
        clock: Clock | None = None,
        mask: Callable[[str], str] = str,
        name: str = "",
        keep: Keep = lambda identity, parts: None,
    ) -> None:
        self._emit, self.mask, self._name, self._keep = emit, mask, name, keep
        self.clock = clock or Clock()
        self._ids = count(1)

    @contextmanager
    def span(self, kind: Kind, name: str, actor: Actor, *, turn: int | None = None, **detail: JSON) -> Iterator[Open]:
        """A span around the block. An exception closes it as `error` (cancelling as `cancelled`) and goes on."""
        parent = _current.get()
        started = self.clock.timer()
        open_ = Open(
            Span(
                id=f"{self._name}{kind}-{next(self._ids)}",
                parent=parent.id if parent else None,
                turn=turn if turn is not None or parent is None else parent.turn,
                kind=kind, name=name, actor=actor, started=self.clock.now(), detail=detail,
            ),
            self._emit,
            self.clock.timer,
            self._keep,
        )  # fmt: skip
        open_.show()
        token, also = _current.set(open_.span), _open.set(open_)
        try:
            yield open_
        except BaseException as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            if open_.span.status == "open":  # who knows better has set it: `refused`
                open_.set(status="cancelled" if cancelled else "error")
            open_.note(error="stopped" if cancelled else self.mask(describe(error)))
            raise
        finally:
            _current.reset(token)
            _open.reset(also)
            status: Status = "ok" if open_.span.status == "open" else open_.span.status
            open_.span = replace(open_.span, status=status, seconds=self.clock.timer() - started)
            open_.show()


def describe(error: BaseException) -> str:
    """The error in one line: our own say all in their message, others need their type to be understood."""
    text = " ".join(str(error).split())
    return (
        text
        if isinstance(error, WorkbenchError)
        else f"{type(error).__name__}: {text}"
        if text
        else type(error).__name__
    )
