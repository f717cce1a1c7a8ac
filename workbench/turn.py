"""What a session keeps: finished turns, and what is attached to those to come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from . import ledger
from .content import Content, Link, Part
from .span import Actor, Span

if TYPE_CHECKING:
    import pandas

__all__ = ["Attachment", "Preview", "Refresh", "Status", "Thread", "Turn"]

Refresh = Literal["once", "turn", "notify"]
Status = Literal["ok", "cancelled", "error"]


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """Content that every following turn carries, until it is detached."""

    content: Content
    actor: Actor
    refresh: Refresh
    read_at: float
    """Unix seconds, UTC: how old the content is."""
    rule: str | None = None
    """Why the host put it there; `None` where somebody attached it."""

    @property
    def uri(self) -> str:
        return self.content.uri

    @property
    def server(self) -> str:
        return self.content.server


@dataclass
class Thread:
    """A conversation: its messages so far, and which call brought which link."""

    messages: list[Any] = field(default_factory=list)
    links: dict[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True)
class Preview:
    """What a provider call would be made of, before it is made. Displays as a table."""

    model: str
    pieces: tuple[Mapping[str, Any], ...]
    """`kind`, `label`, `tokens` and `chars` of each, in the order in which they stand in the request."""
    window: int | None
    """Tokens that the model takes; `None` is unknown."""
    counter: str

    @property
    def tokens(self) -> int | None:
        """Of the whole request; `None` where a part cannot be counted."""
        return ledger.total(piece["tokens"] for piece in self.pieces)

    def __repr__(self) -> str:
        from .view import text

        return text.context(self)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One question, all the provider calls and reads it caused, and its answer. Displays as its trace."""

    number: int
    question: str
    answer: str
    status: Status
    spans: tuple[Span, ...]
    messages: tuple[Any, ...] = field(default=(), repr=False)
    """The LangChain messages that the turn added to the thread; empty when it failed."""
    history: tuple[Any, ...] = field(default=(), repr=False)
    """Those of the thread before it."""
    for_people: tuple[tuple[str, str, Part | Link], ...] = field(default=(), repr=False)
    """What servers sent for people only (audience: user), with server and source; no model got it."""

    @property
    def totals(self) -> ledger.Totals:
        """Provider calls, reads, tokens (measured and estimated apart), bytes and seconds."""
        return ledger.totals(self.spans)

    @property
    def composition(self) -> pandas.DataFrame:
        """One row a provider call: what its input was made of; see `ledger.composition`."""
        from .view import frame

        return frame.composition(self.spans)

    @property
    def carried(self) -> pandas.DataFrame:
        """One row for each content that the requests held: its tokens once, and times the calls; see `ledger.carried`."""
        from .view import frame

        return frame.carried(self.spans)

    def frame(self) -> pandas.DataFrame:
        """One row a span, in the order in which they opened."""
        from .view import frame

        return frame.spans(self.spans)

    def reads(self) -> pandas.DataFrame:
        """The rows of `frame()` that brought content into the turn: reads and attachments."""
        from .view import frame

        return frame.spans(span for span in self.spans if span.kind in ("read", "attach"))

    def __repr__(self) -> str:
        from .view import text

        return text.turn(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        from .view import html, text

        return {"text/html": html.turn(self), "text/plain": text.turn(self)}
