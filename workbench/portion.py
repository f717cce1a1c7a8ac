"""What does not fit into a model's context window: never sent silently, never cut silently.

The model gets the beginning, an outline with offsets where there is one, the number of tokens that are missing, and the call
that goes on. Offsets are in characters of the text that the model gets of the resource.
"""

from __future__ import annotations

import csv
import json
import re
from itertools import islice
from typing import NamedTuple

from . import tokens
from .content import one_line
from .media import wrap

__all__ = ["Portion", "announced", "cut", "outline"]

_ENTRIES = 60  # of an outline; a longer one is thinned
_LABEL = 100  # characters of an entry
_SHARE = 2  # a portion takes at most this part of the room, so that there is some left to read on and to answer
_HEADING = re.compile(r"^(?:#{1,6}[ \t]+\S.*|\[Page \d+ of \d+\])$", re.MULTILINE)


class Portion(NamedTuple):
    """A stretch of a text: characters `start` to `end` of `whole`, and the tokens that follow it."""

    text: str
    start: int
    end: int
    whole: int
    tokens: int
    missing: int
    """Tokens after `end`, by `tokens.counter()`."""


def cut(body: str, room: int | None, offset: int = 0) -> Portion:
    """The stretch of `body` from `offset` on that may be sent, where `room` tokens are left (`None`: no limit is known).

    All of it where it fits, else at most half of the room, ending with a line where one ends near.
    """
    rest = body[offset:]
    all_tokens = tokens.count(rest)
    if room is None or all_tokens <= room:
        return Portion(rest, offset, len(body), len(body), all_tokens, 0)
    allowed, length = max(0, room // _SHARE), len(rest)
    while length and (size := tokens.count(rest[:length])) > allowed:
        length = min(length - 1, int(length * allowed / size * 0.98))
    line = rest.rfind("\n", int(length * 0.9), length) + 1
    text = rest[: line or length]
    sent = tokens.count(text)
    return Portion(text, offset, offset + len(text), len(body), sent, max(0, all_tokens - sent))


def announced(found: Portion, body: str, uri: str, kind: str | None, server: str, more: str) -> str:
    """A portion as the model gets it: what it is, what is missing, the outline with the first one, then the text itself.

    `more` says how to go on.
    """
    if found.start >= found.whole:
        return f"[Nothing stands at offset {found.start:,}: the text has {found.whole:,} characters.]"
    said = [f"Characters {found.start:,} to {found.end:,} of {found.whole:,}."]
    if found.missing:
        said.append(
            f"{found.missing:,} tokens that follow are not here: all of it does not fit into what is left of this model's "
            f"context window. {more}"
        )
    entries = outline(body) if found.start == 0 else []
    said += ["Outline:", *(f"- {entry}" for entry in entries)] if entries else []
    return "\n".join(["[" + "\n".join(said) + "]", wrap(uri, kind, server, found.text)])


def outline(text: str) -> list[str]:
    """Headings, pages, keys or columns, each with its offset: what a reader can jump to. Empty where there are none."""
    entries = _json(text) or [
        f"{one_line(found[0])[:_LABEL]} (offset {found.start()})" for found in _HEADING.finditer(text)
    ]
    if not entries:
        return _columns(text)
    step = -(-len(entries) // _ENTRIES)
    thinned = [f"every {step}th of {len(entries):,} entries:"] if step > 1 else []
    return thinned + entries[::step]


def _json(text: str) -> list[str]:
    """The keys of a JSON object at the top, or how many items an array has."""
    start = len(text) - len(text.lstrip())
    try:
        if text.startswith("[", start):
            return [f"a JSON array of {len(json.loads(text)):,} items"]
        return _keys(text, start + 1) if text.startswith("{", start) else []
    except (ValueError, RecursionError, IndexError):
        return []


def _keys(text: str, at: int) -> list[str]:
    decode, space = json.JSONDecoder().raw_decode, re.compile(r"[\s,:]*")
    found = []
    while (at := _skip(space, text, at)) < len(text) and text[at] == '"':
        begin = at
        key, at = decode(text, at)
        _, at = decode(text, _skip(space, text, at))
        found.append(f"{one_line(str(key))[:_LABEL]} (offset {begin})")
    return found


def _skip(space: re.Pattern[str], text: str, at: int) -> int:
    found = space.match(text, at)
    return found.end() if found else at


def _columns(text: str) -> list[str]:
    """The columns of a table of comma-separated values, where its first lines agree on them."""
    try:
        first = list(islice(csv.reader(text[:100_000].splitlines()[:-1]), 5))
    except csv.Error:
        return []
    width = len(first[0]) if first else 0
    if width < 2 or len(first) < 3 or any(len(row) != width for row in first):
        return []
    return [f"a table of {text.count(chr(10)):,} lines with the columns {one_line(', '.join(first[0]))[: 5 * _LABEL]}"]
