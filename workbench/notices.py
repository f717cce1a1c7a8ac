"""What a server tells beside its answers: progress of a request, and its log. Bounded, whatever it sends."""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from .content import visible
from .recorder import Open

__all__ = ["LEVELS", "Line", "Log", "follow"]

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
    """A server's last log messages (MCP specification, "Logging")."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque(maxlen=_LINES)

    def add(self, level: str, logger: str | None, data: Any) -> None:
        """`data` is any JSON; what is long is shortened, and says by how much."""
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
        self._lines.append(Line(time.time(), level, visible(logger or "", 100), visible(text, _WIDTH)))

    def tail(self, lines: int, level: str = "debug") -> list[Line]:
        """The last of them that are at least as urgent."""
        urgent = LEVELS[LEVELS.index(level) :]
        return [line for line in self._lines if line.level in urgent][-lines:]


def follow(span: Open | None, mask: Callable[[str], str] = str) -> Any:
    """A coroutine function that writes a request's progress into its span (MCP specification, "Progress"); `None` without one.

    The value must increase; one that does not, or is no number, is counted but not shown. Progress gives a request no more
    time: its timeout is the connection's.
    """
    if span is None:
        return None
    number, last, shown = 0, -math.inf, 0.0

    async def told(progress: float, total: float | None, message: str | None) -> None:
        nonlocal number, last, shown
        number += 1
        span.note(progress_told=number)
        if not math.isfinite(progress) or progress <= last:
            return
        last = progress
        whole = total if total is not None and math.isfinite(total) and total > 0 else None
        span.note(progress=progress, progress_total=whole, progress_text=mask(visible(message or "")) or None)
        if (now := time.monotonic()) - shown >= _SHOWN:
            shown = now
            span.show()

    return told
