"""Passages of a document: what the demo model quotes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Passage", "passages"]

SMALL, LARGE = 400, 1200
"""Characters: paragraphs are joined until they hold more than the first, and cut where they exceed the second."""


class Passage(NamedTuple):
    """A stretch of a document, verbatim, and the headings that it stands under."""

    headings: str
    text: str


@lru_cache(maxsize=256)  # a replay meets the same documents in every turn
def passages(text: str) -> tuple[Passage, ...]:
    """Cut a document at its Markdown headings and blank lines; small neighbours under one heading stay together."""
    trail: list[tuple[int, str]] = []
    found: list[Passage] = []
    for block in _sections(text.split("\n")):
        if heading := HEADING.match(block):
            level = len(heading[1])
            trail = [(above, title) for above, title in trail if above < level] + [(level, heading[2])]
        headings = " ".join(title for _, title in trail)
        found += [Passage(headings, piece) for piece in _pieces(block)]
    return tuple(found)


HEADING = re.compile(r"(#{1,6}) +(.*)")


def _sections(lines: Sequence[str]) -> Iterator[str]:
    """Runs of lines that are quoted together: a heading opens one, a blank line closes one that is no longer small."""
    kept: list[str] = []
    fenced = False
    for line in lines:
        fenced ^= line.lstrip().startswith("```")
        alone = len(kept) == 1 and HEADING.match(kept[0])
        full = not line.strip() and not alone and sum(map(len, kept)) > SMALL
        if kept and not fenced and (HEADING.match(line) or full):
            yield "\n".join(kept).rstrip()
            kept = []
        if kept or line.strip():
            kept.append(line)
    if kept:
        yield "\n".join(kept).rstrip()


def _pieces(text: str) -> Iterator[str]:
    """The text itself, or pieces of it no longer than `LARGE`, cut at a line's end, else at a space, else anywhere."""
    while len(text) > LARGE:
        cut = text.rfind("\n", 1, LARGE + 1)
        cut = cut if cut > 0 else text.rfind(" ", 1, LARGE + 1)
        cut = cut if cut > 0 else LARGE
        yield text[:cut]
        text = text[cut:].lstrip("\n ")
    if text:
        yield text
