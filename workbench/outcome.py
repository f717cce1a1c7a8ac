"""Whether a turn had what it needed: the content of the relevant URIs in its context before the answer, and how it got there.

The seed "Application-controlled resources and model-controlled tools" counts how often a tool "fired on the turns where the
record was relevant". What did not fire is of several kinds, and each has its own cure, so they are told apart here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Literal, NamedTuple

from .span import Span

__all__ = ["OUTCOMES", "Outcome", "outcome"]

Kind = Literal["given", "fired", "late", "wrong", "never"]
OUTCOMES: dict[Kind, str] = {
    "given": "host or user had put it there before the first provider call",
    "fired": "the model asked for it, and for nothing else before it",
    "late": "the model asked for it after it had read something else",
    "wrong": "it was not there; the model read something else",
    "never": "it was not there; the model read nothing",
}
"""From best to worst; the first three are hits."""


class Outcome(NamedTuple):
    """Of all relevant URIs together: that of the worst of them."""

    kind: Kind
    cut: bool
    """Whether one of them was there in part only: truncated, or not all of it read."""

    @property
    def hit(self) -> bool:
        """Whether all of them were in the context before the answer."""
        return self.kind in ("given", "fired", "late")


def outcome(spans: Iterable[Span], relevant: Collection[tuple[str, str]]) -> Outcome | None:
    """From a turn's spans and the (server, URI) that it needed; `None` where it is not known what it needed.

    Content counts that reached the context: attached or put into the system prompt, or read by the model without an error.
    """
    if not relevant:
        return None
    spans = tuple(spans)
    given = {key for span in spans if span.kind == "attach" and span.status == "ok" and (key := _key(span))}
    asked = list(_asked(spans))
    read = {
        key
        for span in spans
        if span.actor == "model" and span.kind == "read" and span.status == "ok" and (key := _key(span))
    }
    kinds = [_kind(key, given, read, asked, relevant) for key in relevant]
    cut = any(span.detail.get("missing_tokens") for span in spans if _key(span) in relevant)
    return Outcome(max(kinds, key=list(OUTCOMES).index), cut)


def _kind(
    key: tuple[str, str],
    given: Collection[tuple[str, str]],
    read: Collection[tuple[str, str]],
    asked: list[tuple[int, tuple[str, str]]],
    relevant: Collection[tuple[str, str]],
) -> Kind:
    if key in given:
        return "given"
    if key not in read:
        return "wrong" if any(other != key for _, other in asked) else "never"
    first = min(step for step, other in asked if other == key)
    return "late" if any(step < first and other not in relevant for step, other in asked) else "fired"


def _asked(spans: Iterable[Span]) -> Iterator[tuple[int, tuple[str, str]]]:
    """What the model asked for, each with the number of the provider call that did. A companion that answers with a link is
    asked for what it links to; a search asks for nothing yet."""
    step = 0
    for span in spans:
        step += span.kind == "model"
        if span.actor == "model" and span.kind == "read" and span.status in ("ok", "error") and (key := _key(span)):
            yield step, key
        elif span.kind == "tool" and span.detail.get("rule") == "companion":
            for uri in span.detail.get("links") or ():
                yield step, (str(span.detail.get("server")), str(uri))


def _key(span: Span) -> tuple[str, str] | None:
    uri, server = span.detail.get("uri"), span.detail.get("server")
    return (str(server), str(uri)) if uri and server else None
