"""What one turn's requests are made of: the brief, what is attached, the thread so far and the question."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import ledger, media, messages, tokens
from .content import Content
from .errors import UsageError
from .ledger import Piece
from .pictures import Block
from .recorder import Open, Recorder
from .window import Window

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage, BaseMessage

    from .pattern import Brief, Included
    from .turn import Attachment

__all__ = ["Context", "Sent"]


@dataclass(frozen=True)
class Sent:
    """Content that stands in every request of the turn."""

    content: Content
    text: str
    """As the model gets it, with its `blocks` after it."""
    blocks: tuple[Block, ...] = ()


class Context:
    """Gathers the content, with a row each, and writes the requests. Without `recorder` spans nothing is kept."""

    def __init__(
        self,
        brief: Brief,
        question: str,
        history: Sequence[BaseMessage],
        attachments: Sequence[tuple[Attachment, str | None]],
        window: Window,
        recorder: Recorder,
        schemas: Sequence[tuple[str, Any]],
    ) -> None:
        self.brief, self.question, self.schemas = brief, question, schemas
        self.included: list[Sent] = []
        self.attached: list[Sent] = []
        self._attachments, self._window, self._recorder = attachments, window, recorder
        self._history = [messages.without(message, window.able.takes) for message in history]

    async def gather(self) -> None:
        """Put content into the system prompt, then what is attached before the question, as far as the window goes.

        Raises `UsageError` where the system prompt alone does not fit: nothing is sent then.
        """
        self.included = [await self._include(each) for each in self.brief.included]
        made_of = await asyncio.to_thread(ledger.counted, self.pieces(()))
        self._window.taken(made_of)
        needed, window = sum(piece["tokens"] or 0 for piece in made_of), self._window.able.window
        if self.included and window is not None and needed > window:
            raise UsageError(
                f"not sent: with the content of {len(self.included):,} resources the request has {needed:,} tokens (by "
                f"{self._window.counter(False)}), and this model takes {window:,}. Use the pattern catalog"
            )
        self.attached = [await self._attach(*each) for each in self._attachments]

    async def _include(self, included: Included) -> Sent:
        content, limit = included.content, included.limit
        rule = "dump" if limit is None else f"truncate({limit})"
        with self._recorder.span("attach", content.uri, "host", server=content.server, rule=rule) as span:
            made = await asyncio.to_thread(media.for_model, content.parts, content.server, frozenset())
            text, body = made.text, made.body or made.text
            if limit is not None and len(body) > limit:
                text = media.wrap(content.uri, made.kind, content.server, body[:limit])
                lost = await asyncio.to_thread(lambda: tokens.count(body) - tokens.count(body[:limit]))
                span.note(start=0, end=limit, whole=len(body), missing_tokens=max(0, lost))
            await self._noted(span, content, text, made.note)
        return Sent(content, text)

    async def _noted(self, span: Open, content: Content, text: str, note: str | None) -> None:
        size = await asyncio.to_thread(tokens.count, text)
        said = "; ".join(x for x in (note, self._window.doubt(size)) if x) or None
        await asyncio.to_thread(span.brought, content.parts)
        span.note(uri=content.uri, note=said, counter=tokens.counter().name, tokens=size)

    async def _attach(self, attachment: Attachment, said: str | None) -> Sent:
        content = attachment.content
        with self._recorder.span("attach", content.uri, attachment.actor, server=content.server) as span:
            made = await asyncio.to_thread(media.for_model, content.parts, content.server, self._window.able.takes)
            made = made._replace(text=f"Attached by the {attachment.actor}:\n{made.text}")
            made = await self._window.fit(span, made, content.uri, content.server, content.sha256)
            note = "; ".join(x for x in (said, made.note) if x) or None
            await asyncio.to_thread(span.brought, content.parts)
            span.note(
                uri=content.uri, read_at=attachment.read_at, note=note, rule=attachment.rule, stale=said is not None
            )
        return Sent(content, made.text, made.blocks)

    def opening(self) -> list[BaseMessage]:
        """System prompt, history and question, as they are sent."""
        texts = [self.brief.system, self.brief.catalog, *(sent.text for sent in self.included)]
        blocks = [block for sent in self.attached for block in sent.blocks]
        question = messages.user_turn([*(sent.text for sent in self.attached), self.question], blocks)
        return [messages.system("\n\n".join(filter(None, texts))), *self._history, question]

    def pieces(self, added: Sequence[AnyMessage]) -> list[Piece]:
        """The request in pieces whose tokens sum to its total: each stretch of it in exactly one."""
        cost = self._window.cost
        pieces = [Piece("system", "instructions", self.brief.system), Piece("catalog", "catalog", self.brief.catalog)]
        pieces += [Piece("content", sent.content.uri, sent.text) for sent in self.included]
        pieces += [Piece("tools", whose, json.dumps(schema, ensure_ascii=False)) for whose, schema in self.schemas]
        pieces += [
            Piece("history", m.type, messages.request_text(m), cost(messages.sizes_of(m))) for m in self._history
        ]
        pieces += [
            Piece("attachments", sent.content.uri, sent.text, cost(block.size for block in sent.blocks))
            for sent in self.attached
        ]
        pieces.append(Piece("question", "question", self.question))
        pieces += [Piece(*messages.whose(m), messages.request_text(m), cost(messages.sizes_of(m))) for m in added]
        return [piece for piece in pieces if piece.text or piece.more != 0]

    def unused(self, answer: str, added: Sequence[AnyMessage]) -> list[dict[str, Any]]:
        """Content that the answer does not show to have needed: each word that they share stands in the question too, or in
        content that shares more with it. A word is a number, or has four letters or more."""
        wanted = _words(answer) - _words(self.question)
        sent = [piece for piece in self.pieces(added) if piece.kind in ("content", "attachments", "reads")]
        shared = sorted(((wanted & _words(piece.text), piece) for piece in sent), key=lambda pair: -len(pair[0]))
        found = []
        for words, piece in shared:
            if not words & wanted:
                found.append({"kind": piece.kind, "label": piece.label, "tokens": tokens.count(piece.text)})
            wanted -= words
        return found


def _words(text: str) -> set[str]:
    return set(re.findall(r"\d+|[^\W\d_]{4,}", text.casefold()))
