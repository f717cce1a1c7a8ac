"""Notes on a finished turn's context: short findings, each with the figure that caused it. Pure functions over its spans.

They are for the person: none of it ever enters the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from . import ledger
from .content import visible
from .span import Span

__all__ = ["KINDS", "OFF", "Note", "notes"]

_PATTERNS, _CALLS, _TOOLS = "02-patterns-compared", "03-one-call-or-two", "04-what-must-stay-a-tool"
_NAMED = 3  # URIs that a note names
OFF: set[str] = set()
"""Kinds of notes that are switched off: `workbench.hygiene.OFF.add("twice")`, `%mcp notes --off twice`."""


class Note(NamedTuple):
    """A finding: its kind, what was found with its figures, and the lesson of `notebooks/` that explains it."""

    kind: str
    text: str
    lesson: str


def notes(spans: Iterable[Span], off: Collection[str] = ()) -> list[Note]:
    """What a turn's spans show, at most one note of a kind; nothing where there is nothing to say."""
    spans = tuple(spans)
    chosen = [kind for kind in KINDS if kind not in OFF and kind not in off]
    return [Note(kind, text, KINDS[kind][1]) for kind in chosen for text in KINDS[kind][0](spans)]


def _named(uris: Sequence[str]) -> str:
    uris = list(dict.fromkeys(uris))
    more = f" and {len(uris) - _NAMED:,} more" if len(uris) > _NAMED else ""
    return ", ".join(visible(uri, 80) for uri in uris[:_NAMED]) + more


def _cut(spans: Sequence[Span]) -> Iterator[str]:
    cut = [span for span in spans if span.detail.get("missing_tokens")]
    if lost := ledger.lost(cut):
        yield f"{lost:,} tokens were cut off {_named([_uri(span) for span in cut])}: the model answered without them."


def _uri(span: Span) -> str:
    return str(span.detail.get("uri") or span.name)


def _unused(spans: Sequence[Span]) -> Iterator[str]:
    unused = [each for span in spans if span.kind == "turn" for each in span.detail.get("unused") or ()]
    sent = [row["tokens"] for row in ledger.carried(spans) if row["kind"] in ("content", "attachments", "reads")]
    tokens = sum(each["tokens"] for each in unused)
    if tokens and None not in sent:
        yield (
            f"{tokens:,} of the {sum(sent):,} tokens of content left no trace in the answer: all that it shares with "
            f"{_named([each['label'] for each in unused])} stands elsewhere in what was sent."
        )


def _twice(spans: Sequence[Span]) -> Iterator[str]:
    read: dict[tuple[str, str, str], list[Span]] = {}
    for span in spans:
        if span.kind == "read" and span.actor == "model" and span.status == "ok" and "start" not in span.detail:
            key = str(span.detail.get("server")), _uri(span), str(span.detail.get("sha256"))
            read.setdefault(key, []).append(span)
    again = [found for found in read.values() if len(found) > 1]
    if again:
        tokens = ledger.total(span.detail.get("tokens") for found in again for span in found[1:])
        cost = f": {tokens:,} tokens more" if tokens is not None else ""
        yield f"The model read {_named([_uri(found[0]) for found in again])} again, unchanged{cost}."


def _stale(spans: Sequence[Span]) -> Iterator[str]:
    old = [span for span in spans if span.kind == "attach" and span.detail.get("stale")]
    if old:
        yield f"{_named([_uri(span) for span in old])} was attached as it was earlier: it could not be read again."


def _schemas(spans: Sequence[Span]) -> Iterator[str]:
    calls = [call for call in ledger.composition(spans) if call["tools"]]
    heaviest = max(calls, key=lambda call: int(call["tools"]), default=None)
    content = ledger.total(heaviest[kind] for kind in ledger.CARRIED) if heaviest else None
    if heaviest and content is not None and heaviest["tools"] > max(content, _HEAVY):
        yield (
            f"The tools' schemas take {heaviest['tools']:,} tokens of call {heaviest['call']}, more than all of its content "
            f"({content:,})."
        )


_HEAVY = 1000  # tokens of schemas that nobody needs to hear about


def _undescribed(spans: Sequence[Span]) -> Iterator[str]:
    for span in spans:
        without, same = span.detail.get("undescribed") or 0, span.detail.get("same_description") or 0
        said = [f"{without:,} have no description"] if without else []
        said += [f"{same:,} share theirs with another"] if same else []
        if span.kind == "turn" and said:
            yield f"Of the resources and templates in the catalog {' and '.join(said)}: the model chooses by it."


def _binary(spans: Sequence[Span]) -> Iterator[str]:
    asked = [span for span in spans if span.kind == "read" and span.actor == "model" and span.detail.get("descriptor")]
    if asked:
        size = sum(int(span.detail.get("bytes") or 0) for span in asked)
        what = _named([_uri(span) for span in asked])
        yield f"The model read {what}, which is no text: of {size:,} bytes it got a description."


KINDS: dict[str, tuple[Callable[[Sequence[Span]], Iterator[str]], str]] = {
    "cut": (_cut, _PATTERNS), "unused": (_unused, _PATTERNS), "twice": (_twice, _CALLS), "stale": (_stale, _CALLS),
    "schemas": (_schemas, _TOOLS), "undescribed": (_undescribed, _PATTERNS), "binary": (_binary, _PATTERNS),
}  # fmt: skip
"""By kind: who finds it, and the lesson that explains it."""
