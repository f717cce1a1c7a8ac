"""JSON with comments and trailing commas, as VS Code reads it, and where each key of it stands.

Not JSON5: that accepts what no host does, and would silently make "C:Users" of an unescaped "C:\\Users".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Document", "read"]

_STRING = (
    r'"(?:\\.|[^"\\])*(?:"|\Z)'  # one without its end reaches to the end of the text, so that all of this stays linear
)
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)
_STRUCTURE = re.compile(rf"{_STRING}|[{{}}\[\]:]", re.DOTALL)
_DEEPEST = 4  # keys of a path whose places are kept: section, server, field, name


@dataclass(frozen=True)
class Document:
    """A text that was read."""

    value: Any = field(repr=False)
    text: str = field(repr=False)
    places: Mapping[tuple[str | None, ...], list[int]] = field(repr=False)
    """Offsets of each path of keys, several where it is repeated; `None` stands for a list."""
    lenient: str | None
    """Where strict JSON would have ended, as "line:column"; `None` where it is strict JSON."""

    def at(self, *path: str) -> str:
        """ "line:column" of the last key with this path (the one that counts), or of the nearest above it that there is."""
        while path and path not in self.places:
            path = path[:-1]
        return position(self.text, self.places[path][-1]) if path else "1:1"


def position(text: str, offset: int) -> str:
    """ "line:column", counted from 1."""
    return f"{text.count(chr(10), 0, offset) + 1}:{offset - text.rfind(chr(10), 0, offset)}"


def read(text: str) -> Document:
    """Raises `json.JSONDecodeError`, whose line and column are those of `text`."""
    lenient = None
    try:
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            # Blanks in their place, so that the decoder's line and column still fit.
            text = _COMMA.sub(_blank, _COMMENT.sub(_blank, text))
            value, lenient = json.loads(text), f"{error.lineno}:{error.colno}"
    except RecursionError:
        raise json.JSONDecodeError("Nested too deep", text, 0) from None
    return Document(value, text, _places(text), lenient)


def _blank(found: re.Match[str]) -> str:
    return found[1] or re.sub(r"[^\n]", " ", found[0])


def _places(text: str) -> dict[tuple[str | None, ...], list[int]]:
    found: dict[tuple[str | None, ...], list[int]] = {}
    path: list[str | None] = []
    last: re.Match[str] | None = None
    for token in _STRUCTURE.finditer(text):
        if token[0] in "{[":
            path.append(None)
        elif token[0] in "}]":
            path.pop()
        elif token[0] == ":" and last is not None:
            path[-1] = json.loads(last[0], strict=False)
            if len(path) <= _DEEPEST:
                found.setdefault(tuple(path), []).append(last.start())
        last = token
    return found
