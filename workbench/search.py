"""Finding catalog entries by words, where there are too many to list: BM25 over names, titles, URIs and descriptions."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from .content import Offer, Prompt
from .errors import NotOffered
from .listing import Entry, entries, entry_text
from .ranking import Index, words

__all__ = ["Found", "find", "prepare"]

MOST = 10
"""Entries that one search gives."""


class Found(NamedTuple):
    """What was found, the best first."""

    entries: list[Entry]
    matching: int
    """How many entries share a word with the query."""

    @property
    def text(self) -> str:
        """As the model gets it: entries as the catalog writes them."""
        more = self.matching - len(self.entries)
        rest = [f"[{more:,} more entries match less well: search with other or more words.]"] if more else []
        return "\n\n".join([*map(entry_text, self.entries), *rest]) or "[No entry matches: search with other words.]"


class _Finder:
    """All entries of an offer, ready to be ranked."""

    def __init__(self, offer: Offer) -> None:
        self.entries = entries(offer)
        self._index = Index([_told(entry) for entry in self.entries])

    def find(self, query: str, server: str | None) -> Found:
        best, matching = self._index.best(words(query), MOST, self._mine(server))
        return Found([self.entries[place] for place in best], matching)

    def _mine(self, server: str | None) -> Sequence[bool] | None:
        return None if server is None else [entry.server == server for entry in self.entries]


def _told(entry: Entry) -> str:
    title, uri = (None, "") if isinstance(entry, Prompt) else (entry.title, entry.uri)
    return " ".join(filter(None, (entry.name, title, uri, entry.description)))


_last: list[tuple[Offer, _Finder]] = []
_one = threading.Lock()


def prepare(offer: Offer) -> _Finder:
    """Index the offer, once: 100,000 entries take some seconds, a search of them milliseconds."""
    with _one:
        for known, finder in _last:
            if known is offer:
                return finder
        _last[:] = [(offer, _Finder(offer)), *_last[:1]]
        return _last[0][1]


def find(offer: Offer, query: str, server: str | None = None) -> Found:
    """The entries that match best; those of one server where it is named. Raises `NotOffered` for a query without words."""
    if not words(query):
        raise NotOffered(f"the query {query!r} has no telling word: search with words of names, URIs or descriptions")
    return prepare(offer).find(query, server)
