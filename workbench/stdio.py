"""A server process and its three pipes. Knows lines of bytes, nothing of MCP.

The SDK's own client joins its whole buffer again at every chunk (20 MB cost 3.5 s of CPU), lets one bad byte end the
session and writes stray lines into the running cell; hence this one. Lines are split in linear time; what the server
writes to stderr, and lines on stdout that are no messages, stay in rings with the connection.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["PASSED", "Ring", "Server", "search_path"]

PASSED = (
    ("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE")
    if sys.platform == "win32"
    else ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
)  # fmt: skip
"""Environment variables that every server sees (the SDK's own list); all others are passed by name."""
_CHUNK = 1 << 18
_LONGEST = 256 << 20  # bytes of one line; a server that goes on without an end of line would fill the memory


class Ring:
    """The last lines of a stream, at most `lines` of them and `width` characters each; says what it dropped.

    Masked before they are cut: of half a secret nobody knows any more that it is one.
    """

    def __init__(self, mask: Callable[[str], str], lines: int = 200, width: int = 2000) -> None:
        self._lines: deque[str] = deque(maxlen=lines)
        self._mask, self._width, self.total = mask, width, 0

    def add(self, line: bytes, dropped: int = 0) -> None:
        """A line, of which so many more bytes were there."""
        text = self._mask(line.decode(errors="replace")).rstrip("\r\n")
        if text:
            more = len(text) - self._width + dropped
            self._lines.append(text if more <= 0 else f"{text[: self._width]} [{more:,} more characters]")
            self.total += 1

    def tail(self, lines: int = 8) -> list[str]:
        return list(self._lines)[-lines:]


def search_path() -> str:
    """Where commands are looked for: `python` is this notebook's, and so are those that were installed beside it."""
    return os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])


class Server:
    """One running server process, in a process group of its own."""

    def __init__(self, process: asyncio.subprocess.Process, mask: Callable[[str], str]) -> None:
        self._process = process
        self.stderr, self.stray = Ring(mask), Ring(mask)
        self._stderr_task = asyncio.create_task(self._collect())

    @classmethod
    async def start(
        cls, command: Sequence[str], env: Mapping[str, str], cwd: str | None, mask: Callable[[str], str] = str
    ) -> Server:
        """Start it; raises `OSError` when the command cannot be run. `env` comes on top of `PASSED`."""
        passed = {name: os.environ[name] for name in PASSED if name in os.environ}
        passed["PATH"] = search_path()
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**passed, **env}, cwd=cwd, limit=_CHUNK,
            start_new_session=True,  # Jupyter sends its interrupts to the kernel's whole group
        )  # fmt: skip
        _reaper("+", process.pid)
        return cls(process, mask)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit status; `None` while it runs."""
        return self._process.returncode

    async def lines(self) -> AsyncIterator[bytes]:
        """Lines of stdout without their newline, until the server closes it. A last line without newline counts.

        Raises `ConnectionError` at a line that does not end within 256 MB.
        """
        assert self._process.stdout is not None
        pieces: list[bytes] = []
        held = 0
        while chunk := await self._process.stdout.read(_CHUNK):
            if b"\n" not in chunk:  # most chunks of a large reply; `split` is ten times slower to say so
                pieces.append(chunk)
                if (held := held + len(chunk)) > _LONGEST:
                    raise ConnectionError(f"it sent more than {_LONGEST >> 20} MB without an end of line")
                continue
            held = 0
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                yield b"".join((*pieces, line))
                pieces.clear()
            if rest:
                pieces.append(rest)
        if pieces:
            yield b"".join(pieces)

    async def send(self, line: bytes) -> None:
        """Write one line. Raises `OSError` when the server no longer reads."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()

    async def ended(self, seconds: float) -> bool:
        """Whether the process has ended, waiting for it that long."""
        try:
            await asyncio.wait_for(self._process.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        """Close stdin as the specification asks (MCP, "Shutdown"), then SIGTERM, then SIGKILL, to the whole group."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            if not await self.ended(0.5):
                self._kill(signal.SIGTERM)
                await self.ended(0.5)
        finally:  # also when this is cancelled: no await stands before the last kill
            # The group may outlive its leader: npx ends and leaves the real server behind.
            self._kill(signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
            self._stderr_task.cancel()
            _reaper("-", self.pid)
            # A grandchild in a session of its own may still hold the other ends of the pipes. asyncio has no public way.
            self._process._transport.close()  # type: ignore[attr-defined]
        await self.ended(1)

    def _kill(self, number: signal.Signals) -> None:
        try:
            if sys.platform == "win32":
                self._process.terminate()
            else:
                os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # nobody left in the group

    async def _collect(self) -> None:
        assert self._process.stderr is not None
        rest, dropped = b"", 0
        while chunk := await self._process.stderr.read(_CHUNK):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                self.stderr.add(line, dropped)
                dropped = 0
            if len(rest) > _CHUNK:  # a flood without newlines must not grow for ever
                dropped, rest = dropped + len(rest) - _CHUNK, rest[:_CHUNK]
        self.stderr.add(rest, dropped)


_groups: set[int] = set()
_reaper_process: subprocess.Popen[bytes] | None = None
_reaper_lock = threading.Lock()


@atexit.register
def _end_reaper() -> None:
    # Registered before the sessions' own end, so it runs after it: then nothing is left on the list.
    if _reaper_process is not None and _reaper_process.stdin is not None:
        _reaper_process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            _reaper_process.wait(2)


def _reaper(sign: str, group: int) -> None:
    """Tell the reaper, started with the first server, which process groups are ours; a new one is told all of them."""
    global _reaper_process
    if sys.platform == "win32":
        return
    with _reaper_lock:
        (_groups.add if sign == "+" else _groups.discard)(group)
        lines = [f"{sign}{group}"]
        if _reaper_process is None or _reaper_process.poll() is not None:
            script = str(Path(__file__).with_name("reaper.py"))
            _reaper_process = subprocess.Popen(
                [sys.executable, "-I", "-S", script], stdin=subprocess.PIPE, start_new_session=True
            )
            lines = [f"+{each}" for each in _groups]
        assert _reaper_process.stdin is not None
        _reaper_process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        _reaper_process.stdin.flush()
