"""The model's context window while a turn runs: what it takes, what is left of it, and what of a content fits.

Full fidelity is the rule: what fits is sent whole. What does not is neither sent silently nor cut silently (`portion.py`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import ledger, pictures, portion, tokens, tools
from .content import clean
from .media import Rendered
from .models import Abilities
from .recorder import Open

__all__ = ["Window"]

_CONSIDERABLE = 20_000  # tokens; smaller contents fit into every window of today's models


class Window:
    """What is left of it in tokens, `None` where the model's profile does not say how large it is."""

    def __init__(self, able: Abilities) -> None:
        self.able, self._left = able, able.window
        self._fitting = asyncio.Lock()
        self._first: dict[tuple[str, str], str] = {}

    def taken(self, made_of: Sequence[Mapping[str, Any]], more: int = 0) -> None:
        """A request made of these pieces (`ledger.counted`) stands in it, and `more` tokens of its answer."""
        if self.able.window is not None:
            self._left = self.able.window - more - sum(piece["tokens"] or 0 for piece in made_of)

    async def fit(
        self, span: Open, made: Rendered, uri: str, server: str, sha256: str | None = None, offset: int = 0
    ) -> Rendered:
        """What is sent of it, with its tokens in the span; takes them from what is left.

        Without `sha256` it is no resource, and cannot be read on.
        """
        async with self._fitting:  # two reads of a step must not both be promised the same room
            more = self.cost(block.size for block in made.blocks)
            left = None if self._left is None else self._left - (more or 0)
            whole = await asyncio.to_thread(tokens.count, made.text)
            if offset or (left is not None and whole > left):
                made = await asyncio.to_thread(self._portion, span, made, uri, server, sha256, left, offset)
                whole = await asyncio.to_thread(tokens.count, made.text)
            if self._left is not None:
                self._left -= whole + (more or 0)
        span.note(tokens=ledger.plus(whole, more), counter=self.counter(bool(made.blocks)))
        if (doubt := self.doubt(whole)) is not None:
            span.note(note=_joined(span.span.detail.get("note"), doubt))
            made = made._replace(note=_joined(made.note, doubt))
        return made

    def doubt(self, size: int) -> str | None:
        """What is to be said of a content of so many tokens where nobody knows how much the model takes."""
        if self.able.window is not None or size <= _CONSIDERABLE:
            return None
        return (
            f"{size:,} tokens were sent, and how many this model takes is not known: nothing could check that they fit"
        )

    def _portion(
        self, span: Open, made: Rendered, uri: str, server: str, sha256: str | None, left: int | None, offset: int
    ) -> Rendered:
        body = made.body or made.text
        found = portion.cut(body, left, offset)
        address = f"uri={json.dumps(uri, ensure_ascii=False)}, server={json.dumps(server)}"
        more = f"Go on with {tools.READ_RESOURCE}({address}, offset={found.end})." if sha256 else "Ask for less of it."
        text = portion.announced(found, body, uri, made.kind, server, more)
        if sha256 and self._first.setdefault((server, uri), sha256) != sha256:
            text = f"[The content has changed since its first part was read: offsets may have moved.]\n{text}"
        span.note(start=found.start, end=found.end, whole=found.whole, missing_tokens=found.missing)
        return made._replace(text=clean(text))

    def cost(self, sizes: Iterable[pictures.Size]) -> int | None:
        """Tokens of images and sounds by the model's rule; `None` where nobody can say."""
        total: int | None = 0
        for size in sizes:
            total = ledger.plus(total, pictures.cost(size, self.able.rule))
        return total

    def counter(self, pictures_too: bool) -> str:
        """Who counted, by name."""
        return f"{tokens.counter().name}; {self.able.rule.name}" if pictures_too else tokens.counter().name


def _joined(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None
