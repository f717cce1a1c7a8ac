"""Where a replay keeps its results as they finish: one SQLite file, in WAL mode, that several processes may write."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .errors import Stopped, UsageError
from .span import Span

__all__ = ["Result", "Store"]

_VERSION = 1
_PRAGMA = 0x4D435057  # "MCPW": whose file it is
_TABLE = """
CREATE TABLE IF NOT EXISTS results (
    key TEXT PRIMARY KEY,
    row TEXT NOT NULL,
    trace BLOB NOT NULL
) WITHOUT ROWID
"""


class Result(NamedTuple):
    """What came of one task: its figures, and all that happened."""

    key: str
    row: Mapping[str, Any]
    spans: tuple[Span, ...]


class Store:
    """Results by key. A result is there whole or not at all, and what is there outlives the process."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path).expanduser() if path is not None else None
        try:
            # Each statement is a transaction of its own, and only ever one thread at a time uses it.
            self._db = sqlite3.connect(
                self.path or ":memory:", isolation_level=None, check_same_thread=False, timeout=30
            )
            self._prepare()
        except sqlite3.Error as error:
            raise UsageError(f"{self.path} cannot hold results: {error}. Name another file with store=") from None

    def _prepare(self) -> None:
        whose = self._db.execute("PRAGMA application_id").fetchone()[0]
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        empty = not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not empty and whose != _PRAGMA:
            raise UsageError(f"{self.path} is a database of something else; name another file with store=")
        if not empty and version != _VERSION:
            raise UsageError(
                f"{self.path} was written by another version of the workbench (its format is {version}, ours {_VERSION}); "
                "name another file with store=, or read it with that version"
            )
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")  # of a killed process nothing is lost
        self._db.execute(f"PRAGMA application_id = {_PRAGMA}")
        self._db.execute(f"PRAGMA user_version = {_VERSION}")
        self._db.execute(_TABLE)

    def put(self, result: Result) -> None:
        """Keep it in place of one with the same key. Raises `Stopped` where it cannot be written, as on a full disk."""
        trace = zlib.compress(json.dumps([span.to_json() for span in result.spans], default=str).encode(), 1)
        row = json.dumps(result.row, ensure_ascii=False)
        try:
            self._db.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", (result.key, row, trace))
        except sqlite3.Error as error:
            raise Stopped(
                f"a result could not be kept in {self.path}: {error}. What had finished is there; make room, and run it again"
            ) from None

    def rows(self, keys: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Those of the keys that are there, with their rows."""
        for key in keys:
            if found := self._db.execute("SELECT row FROM results WHERE key = ?", (key,)).fetchone():
                yield key, json.loads(found[0])

    def spans(self, key: str) -> tuple[Span, ...]:
        """All that happened in a task; empty where it is not there."""
        found = self._db.execute("SELECT trace FROM results WHERE key = ?", (key,)).fetchone()
        return tuple(map(Span.from_json, json.loads(zlib.decompress(found[0])))) if found else ()

    def close(self) -> None:
        self._db.close()
