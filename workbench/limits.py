"""How long a server may take to answer: a timeout, begun anew by progress, and not running while the server waits for us."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from .recorder import current
from .span import Span

__all__ = ["MOST_TIMES", "Limit", "Limits"]

MOST_TIMES = 10
"""So many times its timeout a request may take whose server tells of progress (MCP specification, "Timeouts": a maximum
should be enforced regardless of progress)."""


@dataclass
class Limit:
    """The time of one request."""

    timer: asyncio.Timeout
    seconds: float
    """Its timeout."""
    given: float
    """What it was given in all: the timeout, and more with progress. What the server waits for us is not counted."""

    def extend(self) -> None:
        """The timeout begins anew, as far as `MOST_TIMES` allows. While the server waits for us there is nothing to extend."""
        if (when := self.timer.when()) is None or self.timer.expired():
            return
        wanted = asyncio.get_running_loop().time() + self.seconds - when
        more = min(wanted, MOST_TIMES * self.seconds - self.given)
        if more > 0:
            self.timer.reschedule(when + more)
            self.given += more


class Limits:
    """The requests of one connection that wait for their answers."""

    def __init__(self) -> None:
        self._calls: dict[asyncio.Timeout, Span | None] = {}
        self._pauses = 0
        self._left: dict[asyncio.Timeout, float] = {}

    @property
    def callers(self) -> tuple[Span, ...]:
        """The spans around the requests; what has none, as our listing again, makes no server ask."""
        return tuple(span for span in self._calls.values() if span is not None)

    @asynccontextmanager
    async def limited(self, seconds: float) -> AsyncIterator[Limit]:
        """Around one request. Raises `TimeoutError`."""
        async with asyncio.timeout(None if self._pauses else seconds) as timer:
            self._calls[timer] = current()
            if self._pauses:
                self._left[timer] = seconds
            try:
                yield Limit(timer, seconds, seconds)
            finally:
                del self._calls[timer]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While the server waits for us, its own time to answer does not run."""
        now = asyncio.get_running_loop().time
        self._pauses += 1
        for timer in self._calls if self._pauses == 1 else ():
            if (when := timer.when()) is not None and not timer.expired():
                self._left[timer] = when - now()
                timer.reschedule(None)
        try:
            yield
        finally:
            self._pauses -= 1
            for timer in self._calls if not self._pauses else ():
                if timer.when() is None and not timer.expired():
                    timer.reschedule(now() + self._left[timer])
            self._left = self._left if self._pauses else {}

    def end(self) -> None:
        """No answer can come any more: all time out now."""
        for timer in self._calls:
            if not timer.expired():
                timer.reschedule(asyncio.get_running_loop().time())
