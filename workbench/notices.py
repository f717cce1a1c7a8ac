"""What a server tells beside its answers: progress of a request, its log, changed lists and resources.

It may tell any of it at any time, as often as it likes, and of things that do not exist. What makes no sense is dropped,
nothing here grows without bound, and nothing is printed.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from .content import visible
from .recorder import Open

__all__ = ["LEVELS", "Line", "Log", "Notices", "Progress", "follow"]

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""RFC 5424, as MCP names them, the least urgent first."""
_LINES, _WIDTH = 200, 2000
_SHOWN = 0.1  # seconds between two snapshots that show progress, however often a server tells of it


class Line(NamedTuple):
    """One log message: Unix seconds, level, logger and text."""

    at: float
    level: str
    logger: str
    text: str

    def __str__(self) -> str:
        at = time.strftime("%H:%M:%SZ", time.gmtime(self.at))
        return f"{at} {self.level}{f' {self.logger}' if self.logger else ''}: {self.text}"


class Log:
    """A server's last log messages (MCP specification, "Logging"), secrets masked."""

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        self._lines: deque[Line] = deque(maxlen=_LINES)
        self._mask = mask

    def add(self, level: Any, logger: Any, data: Any) -> None:
        """`data` is any JSON; what is long is shortened, and says by how much. A server may send anything for the others."""
        text = data if isinstance(data, str) else json.dumps(_masked(data, self._mask), ensure_ascii=False, default=str)
        self._lines.append(
            Line(time.time(), self._shown(level, 20) or "unknown", self._shown(logger, 100), self._shown(text, _WIDTH))
        )

    def _shown(self, text: Any, longest: int) -> str:
        return visible(self._mask(text), longest) if isinstance(text, str) else ""

    def tail(self, lines: int, level: str = "debug") -> list[Line]:
        """The last of them that are at least as urgent; one whose own level nobody knows may be."""
        calm = LEVELS[: LEVELS.index(level)]
        found = [line for line in list(self._lines) if line.level not in calm]
        return found[max(0, len(found) - max(0, lines)) :]


class Progress(NamedTuple):
    """How far a request has come, as its server tells. `total` is `None` where it does not know, or tells nonsense."""

    done: float
    total: float | None
    text: str | None


class Notices:
    """Of one connection. Its functions are called on the background loop."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self.log = Log(mask)
        self.relisted: Callable[[], None] = lambda: None
        """One of the server's lists has changed."""
        self.changed: Callable[[], None] = lambda: None
        """A resource of `subscribed` has changed that had not before."""
        self.subscribed: dict[str, bool] = {}
        """By URI, whether the server has told that it changed since it was read."""
        self._mask = mask
        self._listeners: dict[int, tuple[Callable[[Progress], None], Callable[[], None], float]] = {}

    def take(self, method: str, params: Mapping[str, Any]) -> None:
        """One notification, as it came."""
        if method == "notifications/progress":
            self._progress(params)
        elif method == "notifications/message":
            self.log.add(params.get("level"), params.get("logger"), params.get("data"))
        elif method == "notifications/resources/updated":
            self._updated(params.get("uri"))
        elif method.endswith("/list_changed"):
            self.relisted()

    @contextmanager
    def listening(self, token: int, told: Callable[[Progress], None], grew: Callable[[], None]) -> Iterator[None]:
        """While the request with this progress token runs, `told` gets what is told of it; `grew` is called before that when
        it has come further than ever."""
        self._listeners[token] = (told, grew, -math.inf)
        try:
            yield
        finally:
            del self._listeners[token]

    def _progress(self, params: Mapping[str, Any]) -> None:
        token, done = params.get("progressToken"), _number(params.get("progress"))
        if type(token) is not int or token not in self._listeners or done is None:  # `True` is no 1 here
            return
        told, grew, before = self._listeners[token]
        if done > before:
            grew()
        # It must increase (MCP specification, "Progress"): where it does not, only its text is news.
        self._listeners[token] = (told, grew, done := max(done, before))
        total, text = _number(params.get("total")), params.get("message")
        said = visible(self._mask(text)) if isinstance(text, str) else ""
        told(Progress(done, total if total is not None and total > 0 else None, said or None))

    @contextmanager
    def reading(self, uri: str) -> Iterator[None]:
        """Around a read of what may be subscribed to: only what changes from here on is a change, unless the read fails."""
        if before := self.subscribed.get(uri):
            self.subscribed[uri] = False
        try:
            yield
        except BaseException:
            if before and uri in self.subscribed:
                self.subscribed[uri] = True
            raise

    def _updated(self, uri: Any) -> None:
        """It may be a part of what was subscribed to (MCP specification, "Subscriptions")."""
        if not isinstance(uri, str):
            return
        for known, changed in list(self.subscribed.items()):
            if not changed and (uri == known or uri.startswith((known.rstrip("/") + "/", known + "#"))):
                self.subscribed[known] = True
                self.changed()


def follow(span: Open | None) -> Callable[[Progress], None]:
    """A function that writes a request's progress into its span: each word counts, at most ten a second are shown."""
    number, shown, waiting = 0, -math.inf, False

    def show() -> None:
        nonlocal shown, waiting
        shown, waiting = asyncio.get_running_loop().time(), False
        if span is not None and span.span.seconds is None:
            span.show()

    def told(progress: Progress) -> None:
        nonlocal number, waiting
        number += 1
        if span is None:
            return
        span.note(
            progress=progress.done, progress_total=progress.total, progress_text=progress.text, progress_told=number
        )
        if not waiting:
            waiting, loop = True, asyncio.get_running_loop()
            loop.call_at(max(loop.time(), shown + _SHOWN), show)

    return told


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return number if math.isfinite(number := float(value)) else None
    except OverflowError:
        return None


def _masked(data: Any, mask: Callable[[str], str]) -> Any:
    """Before it becomes JSON, which may spell a secret otherwise."""
    if isinstance(data, str):
        return mask(data)
    if isinstance(data, list):
        return [_masked(item, mask) for item in data]
    return {mask(key): _masked(item, mask) for key, item in data.items()} if isinstance(data, dict) else data
