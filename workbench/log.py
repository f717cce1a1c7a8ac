"""The audit log: one line a span snapshot, in JSON Lines that only grow, and content by its SHA-256.

A folder holds it, and several kernels may write beside each other, each in files of its own. In a file each line carries the
hash of the line before it, and the first line says how far the folder's other files were: a line that was changed, moved or
taken out is found by `verify`, and so is a file that is gone or shorter. Whoever can write the whole folder can make all of
it anew; a head hash that is kept elsewhere shows that, too.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from .content import Part, packed, unpacked
from .errors import UsageError
from .span import Span, fold, sentence

__all__ = ["FOLDER", "Log", "Logged", "Verified", "content", "read", "spans", "verify"]

FOLDER = "mcp-audit"
FILE_BYTES = 16_000_000
"""From this size on a new file is begun."""
_FORMAT = 1
_START = "0" * 64
_HASH = re.compile(rb', "hash": "([0-9a-f]{64})"\}$')
_NAME = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{12}-\d{4,}\.jsonl")
_BINARY = getattr(os, "O_BINARY", 0)  # Windows would write two bytes for a line break
_FRESH = 3600.0  # seconds in which a content may still wait for the line that names it


class Log:
    """Writes what happens in one session. Never raises once it is open: what could not be written is counted and said. A log
    that was closed goes on in a file of its own.

    Example:
        >>> wb.audit("mcp-audit")
        >>> wb.ask("Which products does the SUM ABAP test matrix cover?")
        >>> print(workbench.log.verify("mcp-audit"))
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        content: bool = True,
        most_bytes: int | None = None,
        file_bytes: int = FILE_BYTES,
        mask: Callable[[str], str] = str,
    ) -> None:
        """Open a file of its own in `folder`, which is made. Without `content` only hashes are kept.

        Beyond `most_bytes` of the whole folder its oldest finished files are removed, which the log says; without it nothing
        ever is. Raises `UsageError` where nothing can be written there.
        """
        self.folder, self.session = Path(folder).expanduser().absolute(), uuid4().hex[:12]
        self.problem: str | None = None
        """Why lines are missing; stays when writing works again."""
        self.lost = 0
        """Lines that could not be written."""
        self._content, self._most, self._mask = content, most_bytes, mask
        self._file_bytes = file_bytes if most_bytes is None else min(file_bytes, most_bytes // 4)
        self._status: dict[str, str] = {}
        self._files, self._fd, self._size, self._head, self._number = 0, -1, 0, _START, 0
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._begin()
        except OSError as error:
            raise UsageError(
                f"no audit log can be written to {self.folder}: {error.strerror or error}. Name another folder"
            ) from None

    def __repr__(self) -> str:
        kept = "content too" if self._content else "no content, only its hashes"
        problem = f"; {self.lost:,} lines are missing: {self.problem}" if self.problem else ""
        return f"{self.path} ({self._number:,} lines, {self._size:,} bytes; {kept}){problem}"

    # -- writing

    def write(self, span: Span) -> None:
        """A line for the snapshot: when the span opens, when its status changes, when it ends."""
        if self._status.get(span.id) == span.status and span.seconds is None:
            return  # ten times a second while a server tells of progress
        self._status[span.id] = span.status
        if span.seconds is not None:
            del self._status[span.id]
        self._append(self._row(span))

    def _row(self, span: Span) -> dict[str, Any]:
        detail = span.detail
        uri = detail.get("uri") or (span.name if span.kind in ("read", "attach") else None)
        row = {
            "says": sentence(span), "actor": span.actor, "decided_by": detail.get("decided_by"), "kind": span.kind,
            "name": span.name, "uri": uri, "server": detail.get("server"), "turn": span.turn, "status": span.status,
            "rule": detail.get("rule"), "bytes": detail.get("bytes"), "tokens": detail.get("tokens"),
            "counter": detail.get("counter"), "sha256": detail.get("sha256"), "span": span.to_json(),
        }  # fmt: skip
        text = json.dumps(row, default=str)
        return row if self._mask(text) == text else _each(row, self._mask)

    def keep(self, identity: str, parts: Sequence[Part]) -> None:
        """Content, once, in the file that its hash names. What holds a secret of ours is not kept."""
        if not self._content:
            return
        path = _blob(self.folder, identity)
        try:
            if path.exists():
                return
            if any(self._mask(text) != text for part in parts for text in (_text(part), part.uri)):
                return
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            half = path.with_name(f".{identity}-{uuid4().hex}")
            half.touch(mode=0o600)
            half.write_bytes(b"".join(packed(parts)))
            half.replace(path)  # so that it is there whole, or not at all
        except OSError as error:
            self._failed(error)

    def close(self) -> None:
        """End the file, with a line that says so. What is open stays open in it."""
        if self._fd >= 0:
            self._append({"kind": "end", "open": list(self._status)})
            self._leave()

    def _append(self, row: Mapping[str, Any]) -> None:
        try:
            if self._fd < 0:  # it was ended, or could not go on
                self._begin()
            elif self._size >= self._file_bytes:
                self._turn_over()
        except OSError as error:
            self._failed(error)
            return
        try:
            if self.lost:
                self._line({"kind": "lost", "lines": self.lost, "why": self.problem})
                self.lost = 0
            self._line(row)
        except OSError as error:
            self._failed(error)

    def _line(self, row: Mapping[str, Any]) -> None:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        whole = {"n": self._number, "time": now, "session": self.session, **row, "prev": self._head}
        body = json.dumps(whole, ensure_ascii=True, default=str).encode()
        head = sha256(body).hexdigest()
        line = body[:-1] + f', "hash": "{head}"}}\n'.encode()
        try:
            # One call, at the end of the file, whatever happens to this process: a line is there, or torn and the last one.
            written = os.write(self._fd, line)
            if written < len(line):
                raise OSError(None, "the disk is full")
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise
        self._number, self._size, self._head = self._number + 1, self._size + len(line), head

    def _failed(self, error: OSError) -> None:
        self.lost += 1
        self.problem = f"{error.strerror or error}"

    # -- files

    def _begin(self) -> None:
        """A new file of this session, which goes on from the last one."""
        heads = {path.name: [path.stat().st_size, _hash_of(_last(path))] for path in _files(self.folder)}
        removed = self._make_room()
        if self._files == 0:
            self._started = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        self._files += 1
        self.path = self.folder / f"{self._started}-{self.session}-{self._files:04}.jsonl"
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | _BINARY, 0o600)
        self._size = 0
        self._line({"kind": "log", "format": _FORMAT, "content": self._content, "others": heads, "removed": removed})

    def _turn_over(self) -> None:
        self._line({"kind": "next", "open": list(self._status)})
        self._leave()
        self._begin()

    def _leave(self) -> None:
        with suppress(OSError):
            os.fsync(self._fd)
        with suppress(OSError):
            os.close(self._fd)
        self._fd = -1

    def _make_room(self) -> list[str]:
        """Remove the oldest finished files while the folder is too large; gives their names."""
        removed = list[str]()
        if self._most is None:
            return removed
        size = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
        for path in _files(self.folder):
            if size <= self._most:
                break
            if not any(b'"kind": "%s"' % kind in _last(path) for kind in (b"end", b"next")):  # it may be written to
                continue
            removed.append(path.name)
            size -= path.stat().st_size
            path.unlink(missing_ok=True)
        if removed:
            _forget(self.folder)
        return removed


def _each(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with each of its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): _each(each, change) for key, each in value.items()}
    return [_each(each, change) for each in value] if isinstance(value, list | tuple) else value


def _text(part: Part) -> str:
    return part.data if isinstance(part.data, str) else part.data.decode("latin-1")


def _blob(folder: Path, identity: str) -> Path:
    return folder / "content" / identity[:2] / identity


def _files(folder: Path) -> list[Path]:
    """The log's files, the oldest first."""
    try:
        return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    except OSError:
        return []


def _last(path: Path) -> bytes:
    """The last whole line of a file, which may be large."""
    back = 65_536
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        while True:
            file.seek(max(0, size - back))
            lines = file.read(back).split(b"\n")[:-1]  # what stands behind the last line break is torn
            if len(lines) > 1 or back >= size:
                return lines[-1] if lines else b""
            back *= 16


def _hash_of(line: bytes) -> str:
    found = _HASH.search(line)
    return found[1].decode() if found else ""


def _forget(folder: Path) -> None:
    """Remove the content that no line names any more."""
    named = set[bytes]()
    for path in _files(folder):
        named.update(re.findall(rb'"sha256": "([0-9a-f]{64})"', path.read_bytes()))
    for path in (folder / "content").rglob("*"):
        if path.is_file() and path.name.encode() not in named and time.time() - path.stat().st_mtime > _FRESH:
            path.unlink(missing_ok=True)


# -- reading it back


class Logged(NamedTuple):
    """One line as it was read."""

    file: str
    number: int
    """In its file, from 1."""
    row: Mapping[str, Any]

    @property
    def span(self) -> Span | None:
        """The snapshot; `None` where the line is about the log itself."""
        return Span.from_json(self.row["span"]) if "span" in self.row else None


def read(path: str | Path) -> tuple[list[Logged], list[str]]:
    """The lines of a folder, or of one file, in the order of time; and in words those that were set aside.

    Raises `UsageError` where there is no log.
    """
    found, aside = list[Logged](), list[str]()
    for file in _chosen(path):
        for number, line, torn in _lines(file):
            try:
                row = json.loads(line)
                if not isinstance(row, dict) or not isinstance(row.get("time"), str):
                    raise ValueError
                found.append(Logged(file.name, number, row))
            except ValueError:
                why = "is torn: whoever wrote it was stopped" if torn else "is no line of a log"
                aside.append(f"{file.name}, line {number} {why}")
    return sorted(found, key=lambda each: each.row["time"]), aside


def spans(path: str | Path) -> dict[str, tuple[Span, ...]]:
    """By session, all that has happened; what had not ended when its session did is open."""
    by_session: dict[str, list[Span]] = {}
    for logged in read(path)[0]:
        if (span := logged.span) is not None:
            by_session.setdefault(str(logged.row["session"]), []).append(span)
    return {session: fold(snapshots) for session, snapshots in by_session.items()}


def content(path: str | Path, identity: str) -> tuple[Part, ...] | None:
    """The content of that SHA-256; `None` where it was not kept. Raises `UsageError` where it is not what its hash says."""
    if not re.fullmatch(r"[0-9a-f]{64}", identity):
        raise UsageError(f"{identity!r} is no SHA-256: it has 64 digits, as the log's lines spell it")
    try:
        data = _blob(Path(path).expanduser(), identity).read_bytes()
    except FileNotFoundError:
        return None
    if sha256(data).hexdigest() != identity:
        raise UsageError(f"the content {identity} was changed: its hash is {sha256(data).hexdigest()}")
    return unpacked(data)


def _chosen(path: str | Path) -> list[Path]:
    path = Path(path).expanduser()
    files = [path] if path.is_file() else _files(path)
    if not files:
        raise UsageError(f"there is no audit log in {path}; %mcp audit on {path.name or FOLDER} begins one")
    return files


def _lines(file: Path) -> Iterator[tuple[int, bytes, bool]]:
    """Number, bytes, and whether it is the end of a file that was cut off."""
    *whole, rest = file.read_bytes().split(b"\n")
    for number, line in enumerate(whole, 1):
        yield number, line, False
    if rest:
        yield len(whole) + 1, rest, True


@dataclass
class Verified:
    """What `verify` found. True where nothing was tampered with."""

    files: dict[str, tuple[int, str, bool]] = field(default_factory=dict)
    """By name: lines, hash of the last one, and whether its session has ended it."""
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is no tampering: files that a limit removed, a line that a crash tore."""

    def __bool__(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        lines = sum(lines for lines, _, _ in self.files.values())
        count = f"{len(self.files)} file{'' if len(self.files) == 1 else 's'}, {lines:,} lines"
        said = [f"{count}: {'nothing was changed' if self else 'NOT as it was written'}", *self.problems, *self.notes]
        for name, (number, head, ended) in self.files.items():
            said.append(f"{name}: {number:,} lines, {'ended' if ended else 'open, or cut off'}; head {head}")
        return "\n".join(said)


def verify(path: str | Path) -> Verified:
    """Check every line against its hash, the chain, and what the files say of each other and of the content.

    Raises `UsageError` where there is no log.
    """
    folder, found = Path(path).expanduser(), Verified()
    seen: dict[str, list[tuple[int, str, str]]] = {}
    heads: dict[str, list[str]] = {}
    before: dict[str, Any] = {}
    removed: set[str] = set()
    named: set[str] = set()
    kept = folder.is_dir()
    for file in _chosen(folder):
        rows = _checked(file, found, heads)
        before[file.name] = rows[0].get("prev") if rows else None
        for row in rows:
            if row.get("kind") == "log":
                removed.update(row["removed"])
                for name, (size, head) in row["others"].items():
                    seen.setdefault(name, []).append((size, head, file.name))
            named.add(str(row.get("sha256")))
    if kept:
        _compare(seen, heads, removed, found)
        for blob in sorted((folder / "content").rglob("*")):
            if blob.is_file() and blob.name in named and sha256(blob.read_bytes()).hexdigest() != blob.name:
                found.problems.append(f"the content {blob.name} was changed")
    _continued(found, heads, before, removed)
    return found


def _checked(file: Path, found: Verified, heads: dict[str, list[str]]) -> list[dict[str, Any]]:
    """The rows of a file that are as they were written; what is wrong with a line, or with its place, goes to `found`."""
    rows: list[dict[str, Any]] = []
    hashes: list[str] = []
    for number, line, torn in _lines(file):
        where = f"{file.name}, line {number}"
        if torn:
            found.notes.append(f"{where} is torn and set aside: whoever wrote it was stopped")
            continue
        told = _hash_of(line)
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not told or not isinstance(row, dict):
            found.problems.append(f"{where} is no line of a log")
            continue
        if sha256(_HASH.sub(b"}", line)).hexdigest() == told:
            rows.append(row)
        else:
            found.problems.append(f"{where} was changed: its hash is another")
        if hashes and row.get("prev") != hashes[-1]:
            found.problems.append(f"{where} does not follow the line before it: one is missing, or was moved")
        if not hashes and row.get("kind") != "log":
            found.problems.append(f"{where} is not the first one: what stood before it is missing")
        hashes.append(told)
    heads[file.name] = hashes
    ended = bool(rows) and rows[-1].get("kind") in ("end", "next")
    found.files[file.name] = len(hashes), hashes[-1] if hashes else _START, ended
    return rows


def _compare(
    seen: Mapping[str, Sequence[tuple[int, str, str]]],
    heads: Mapping[str, Sequence[str]],
    removed: Collection[str],
    found: Verified,
) -> None:
    """What each file has seen of the others, against what they are now."""
    for name, sights in seen.items():
        size, _, teller = sights[-1]
        if name in removed and name not in heads:
            found.notes.append(f"{name} ({size:,} bytes) was removed by the size limit")
        elif name not in heads:
            found.problems.append(f"{name} is missing; {teller} has seen {size:,} bytes of it")
        else:
            found.problems += [
                f"{name} is not what {teller} has seen of it: the last line of then is not there"
                for _, head, teller in sights
                if head and head not in heads[name]
            ]


def _continued(
    found: Verified, heads: Mapping[str, Sequence[str]], before: Mapping[str, Any], removed: Collection[str]
) -> None:
    """A session's second file goes on from the head of its first."""
    for name in heads:
        stem, number = name.removesuffix(".jsonl").rsplit("-", 1)
        first = f"{stem}-{int(number) - 1:04}.jsonl"
        if int(number) == 1 or first in removed or first not in heads:
            continue
        if before[name] != (heads[first] or [_START])[-1]:
            found.problems.append(f"{name} does not follow {first}: lines are missing at its end")
