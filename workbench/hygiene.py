"""Notes on a finished turn's context: short findings, each with the figure that caused it. Pure functions over its spans.

They are for the person: none of it ever enters the conversation. Tokens are those of the spans, counted by the counter that
the trace names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from . import ledger
from .content import visible
from .span import Span

__all__ = ["KINDS", "OFF", "Note", "notes"]

_PATTERNS, _CALLS, _TOOLS = (
    f"notebooks/{name}.ipynb" for name in ("02-patterns-compared", "03-one-call-or-two", "04-what-must-stay-a-tool")
)
_NAMED = 3  # URIs that a note names
_HEAVY = 500  # tokens of schemas that are not worth a word, however little content there is
OFF: set[str] = set()
"""Kinds of notes that are switched off: `workbench.hygiene.OFF.add("twice")`, `%mcp notes --off twice`."""

Found = Iterator[tuple[float, str]]


class Note(NamedTuple):
    """A finding: its kind (of `KINDS`), what was found, the figure that caused it, and the lesson that explains it."""

    kind: str
    text: str
    figure: float
    """Tokens that were cut, unused or schemas; attachments that are old; reads made again or of what is no text; entries."""
    lesson: str


def notes(spans: Iterable[Span], *, off: Collection[str] = ()) -> list[Note]:
    """What a turn's spans show, at most one note of a kind; none where there is nothing to say or the turn still runs."""
    spans = tuple(spans)
    if any(span.kind == "turn" and span.seconds is None for span in spans):
        return []
    chosen = [kind for kind in KINDS if kind not in OFF and kind not in off]
    return [Note(kind, text, figure, KINDS[kind][1]) for kind in chosen for figure, text in KINDS[kind][0](spans)]


def _named(uris: Iterable[str]) -> str:
    uris = list(dict.fromkeys(uris))
    more = f" and {len(uris) - _NAMED:,} more" if len(uris) > _NAMED else ""
    return ", ".join(visible(uri, 80) for uri in uris[:_NAMED]) + more


def _uri(span: Span) -> str:
    return str(span.detail.get("uri") or span.name)


def _cut(spans: Sequence[Span]) -> Found:
    found = ledger.losses(spans)
    if found:
        lost = sum(found.values())
        yield lost, f"{lost:,} tokens were cut off {_named(uri for _, uri in found)}: the model never got them."


def _unused(spans: Sequence[Span]) -> Found:
    sent = [row for row in ledger.carried(spans) if row["kind"] in ("content", "attachments", "reads")]
    left = [each for span in spans if span.kind == "turn" for each in span.detail.get("unused") or ()]
    # What came in portions, or twice, has left no trace only if none of it has.
    times, without = Counter(row["label"] for row in sent), Counter(each["label"] for each in left)
    unused = [each for each in left if without[each["label"]] >= times[each["label"]]]
    whole = ledger.total(row["tokens"] for row in sent)
    if whole is not None and (tokens := sum(each["tokens"] for each in unused)):
        yield (
            tokens,
            (
                f"{tokens:,} of {whole:,} tokens of content left no trace in the answer: {_named(u['label'] for u in unused)}. "
                "All words that it shares with the answer stand in the question or in other content as well."
            ),
        )


def _twice(spans: Sequence[Span]) -> Found:
    before: dict[tuple[object, ...], object] = {}
    again = []
    for span in spans:
        detail = span.detail
        if span.kind == "read" and span.actor == "model" and span.status == "ok" and detail.get("sha256"):
            # One that goes on at an offset is another read.
            key = span.turn, detail.get("server"), _uri(span), detail.get("start") or 0
            again += [span] if before.get(key) == detail["sha256"] else []
            before[key] = detail["sha256"]
    if again:
        tokens = ledger.total(span.detail.get("tokens") for span in again)
        cost = f", for {tokens:,} tokens more" if tokens else ""
        times = "once" if len(again) == 1 else f"{len(again):,} times"
        yield len(again), f"The model read {_named(map(_uri, again))} again, unchanged, {times}{cost}."


def _stale(spans: Sequence[Span]) -> Found:
    old = [s for s in spans if s.kind == "attach" and (s.detail.get("stale") or s.detail.get("changed"))]
    ages = [span.started - at for span in old if (at := span.detail.get("read_at")) is not None]
    if old:
        age = f" as it was {'up to ' if len(old) > 1 else ''}{_ago(max(ages))} before" if ages else " as it was earlier"
        why = "could not be read again" if any(span.detail.get("stale") for span in old) else "had changed since"
        yield len(old), f"The model got {_named(map(_uri, old))}{age}: it {why}."


def _ago(seconds: float) -> str:
    return f"{max(0.0, seconds):,.1f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"


def _schemas(spans: Sequence[Span]) -> Found:
    """Judged by the call that carries the most content: what is true of it is true of the others."""
    sums = [(call, ledger.total(call[kind] for kind in ledger.CARRIED)) for call in ledger.composition(spans)]
    known = [(call, content) for call, content in sums if content is not None and call["tools"] is not None]
    if not known or len(known) < len(sums):
        return
    call, content = max(known, key=lambda pair: pair[1])
    if call["tools"] > max(content, _HEAVY):
        said = f"{call['tools']:,} tokens of call {call['call']}, more than all content in it ({content:,})"
        yield call["tools"], f"The tools' schemas take {said}."


def _undescribed(spans: Sequence[Span]) -> Found:
    for span in spans:
        without, same = span.detail.get("undescribed") or 0, span.detail.get("same_description") or 0
        said = [f"{without:,} without a description"] if without else []
        said += [f"{same:,} with one that another has, too"] if same else []
        if span.kind == "turn" and said:
            yield without + same, f"In the catalog stand {' and '.join(said)}: it is what the model chooses by."
            return


def _binary(spans: Sequence[Span]) -> Found:
    asked = [span for span in spans if span.kind == "read" and span.actor == "model" and span.detail.get("descriptor")]
    if asked:
        size = ledger.total(span.detail.get("bytes") for span in asked)
        of = "" if size is None else f"of {size:,} bytes "
        yield len(asked), f"The model read {_named(map(_uri, asked))}, which is no text: {of}it got a description."


KINDS: dict[str, tuple[Callable[[Sequence[Span]], Found], str]] = {
    "cut": (_cut, _PATTERNS), "unused": (_unused, _PATTERNS), "twice": (_twice, _CALLS), "stale": (_stale, _CALLS),
    "schemas": (_schemas, _TOOLS), "undescribed": (_undescribed, _PATTERNS), "binary": (_binary, _PATTERNS),
}  # fmt: skip
"""By kind: who finds it, and the lesson that explains it."""
