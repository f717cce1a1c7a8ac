"""What a trace shows, once for all views: one row a span, one line a provider call's composition, one line of totals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from .. import ledger
from ..content import Link, Part, harmless, visible
from ..media import human_size, link_text, shown
from ..span import Span, tree

__all__ = ["Row", "composed", "estimate_head", "for_people", "label", "number", "progress", "rows", "share", "summed"]

_WIDTH = 24
_LONGEST = 20_000  # characters of an item for people
UNKNOWN = "–"


@dataclass(frozen=True)
class Row:
    """One row of the trace; every field is ready to be shown, unknown figures as a dash."""

    id: str
    depth: int
    kind: str
    label: str
    actor: str
    server: str
    status: str
    seconds: str
    bytes: str
    measured: str
    """Tokens as the provider reported them."""
    estimated: str
    """Tokens as counted here, by `counter`."""
    counter: str
    note: str
    bar: str


def label(span: Span) -> str:
    """What happened, in few words."""
    verb = {
        "model": "provider call",
        "read": "read",
        "attach": "attached",
        "prompt": "prompt",
        "tool": "tool",
        "gate": "approval of",
        "request": "server asks for",
    }
    number = f" {span.detail['call']}" if span.kind == "model" and "call" in span.detail else ""
    whose = f" for server {visible(span.detail['requested_by'])}" if span.detail.get("requested_by") else ""
    return f"{verb.get(span.kind, span.kind)}{number} {visible(span.name)}{whose}"


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def number(value: int | None) -> str:
    """Unknown as a dash."""
    return UNKNOWN if value is None else f"{value:,}"


def share(part: int | None, whole: int | None) -> str:
    """ "12 %" of the whole; empty where one is not known."""
    return f"{part / whole:.0%}" if part is not None and whole else ""


def _in_out(given: int | None, got: int | None) -> str:
    return UNKNOWN if given is None and got is None else f"{number(given)} in, {number(got)} out"


def _measured(span: Span) -> str:
    if span.usage is None:
        return UNKNOWN
    cached = f" ({span.usage.cached_tokens:,} cached)" if span.usage.cached_tokens else ""
    return _in_out(span.usage.input_tokens, span.usage.output_tokens) + cached


def _estimated(span: Span) -> str:
    if span.kind != "model":
        return number(span.detail.get("tokens"))
    segments = span.detail.get("composition")
    given = reduce(ledger.plus, (segment["tokens"] for segment in segments)) if segments else None
    return _in_out(given, span.detail.get("output_tokens_estimated"))


def _split(span: Span) -> str:
    """Where the time of a read went: "server 1.2 ms, decoding 0.1 ms, rendering 0.2 ms"."""
    parts = (("server", "wait_seconds"), ("decoding", "decode_seconds"), ("rendering", "render_seconds"))
    known = [f"{name} {span.detail[key] * 1000:.1f} ms" for name, key in parts if span.detail.get(key) is not None]
    return ", ".join(known)


def progress(span: Span) -> str | None:
    """How far a server says that it is: "progress 3 of 5 (60%): copying"."""
    done, total = span.detail.get("progress"), span.detail.get("progress_total")
    if done is None:
        return None
    whole = f" of {total:,.10g}" if total is not None else ""
    share = f" ({done / total:.0%})" if total is not None and 0 <= done <= total else ""
    text = f": {span.detail['progress_text']}" if span.detail.get("progress_text") else ""
    return f"progress {done:,.10g}{whole}{share}{text}"


def _note(span: Span) -> str:
    detail = span.detail
    linked = f"linked by {detail['linked_by']}" if detail.get("linked_by") else None
    links = f"links to {', '.join(visible(x) for x in detail['links'])}" if detail.get("links") else None
    rule = f"rule: {detail['rule']}" if detail.get("rule") else None
    known_as = f"the model calls it {detail['called_as']}" if detail.get("called_as") else None
    first = detail.get("first_chunk_seconds")
    why = "were cut off" if str(detail.get("rule")).startswith("truncate") else "did not fit into the window"
    sent = (
        f"characters {detail['start']:,} to {detail['end']:,} of {detail['whole']:,} were sent"
        + (f": {detail['missing_tokens']:,} tokens {why}" if detail.get("missing_tokens") else "")
        if "whole" in detail
        else None
    )
    began = f"first words after {first:.2f} s" if first is not None else None
    asked = f"the server says: {detail['asked']}" if detail.get("asked") else None
    failed = (asked, detail.get("error"), detail.get("reason"), detail.get("note"))
    waited = detail.get("person_seconds")
    person = f"a person took {waited:.1f} s" if waited is not None else None
    said = (*failed, sent, progress(span), rule, person, known_as, linked, links, _split(span) or None, began)
    return "; ".join(visible(str(x), 1000) for x in said if x)


def _bar(start: float, seconds: float | None, whole: float) -> str:
    """A waterfall of characters: it needs no stylesheet and survives every sanitiser."""
    if whole <= 0:
        return ""
    first = min(_WIDTH - 1, max(0, int(start / whole * _WIDTH)))
    last = _WIDTH if seconds is None else max(first + 1, min(_WIDTH, round((start + seconds) / whole * _WIDTH)))
    return "·" * first + "█" * (last - first) + "·" * (_WIDTH - last)


def row(span: Span, depth: int = 0, start: float = 0.0, whole: float = 0.0) -> Row:
    """One span as a row; `start` and `whole` in seconds place its bar."""
    return Row(
        id=span.id, depth=depth, kind=span.kind, label=label(span), actor=span.actor,
        server=visible(str(span.detail.get("server") or "")), status=span.status, seconds=_seconds(span.seconds),
        bytes=human_size(size) if (size := span.detail.get("bytes")) is not None else UNKNOWN,
        measured=_measured(span), estimated=_estimated(span), counter=str(span.detail.get("counter") or ""),
        note=_note(span), bar=_bar(start, span.seconds, whole),
    )  # fmt: skip


def rows(spans: Iterable[Span]) -> list[Row]:
    """All spans but the turn itself, parents before children, with their place in the whole time."""
    spans = tuple(spans)
    if not spans:
        return []
    begin = min(span.started for span in spans)
    whole = max((span.started - begin + (span.seconds or 0.0) for span in spans), default=0.0)
    first = 1 if any(span.kind == "turn" for span in spans) else 0
    return [
        row(span, max(0, depth - first), span.started - begin, whole)
        for depth, span in tree(spans)
        if span.kind != "turn"
    ]


def composed(spans: Iterable[Span]) -> list[dict[str, Any]]:
    """`ledger.composition` as text, with only the kinds that occur: `call`, `parts` as (kind, tokens) and the totals."""
    return [
        {
            "call": line["call"],
            "parts": [(kind, number(line[kind])) for kind in ledger.KINDS if line[kind] != 0],
            "estimated": number(line["estimated"]),
            "measured": None if line["measured"] is None else number(line["measured"]),
            "difference": UNKNOWN if line["difference"] is None else f"{line['difference']:+,}",
            "cached": None if line["cached"] is None else number(line["cached"]),
            "counter": line["counter"],
        }
        for line in ledger.composition(spans)
    ]


def estimate_head(spans: Iterable[Span]) -> str:
    """The head of the column of estimates, with the name of whoever counted."""
    names = dict.fromkeys(str(span.detail["counter"]) for span in spans if span.detail.get("counter"))
    return f"tokens estimated ({', '.join(names)})" if names else "tokens estimated"


def for_people(items: Iterable[tuple[str, str, Part | Link]]) -> list[tuple[str, str]]:
    """What servers sent for people only: whose it is, and its text as far as it is shown."""
    said = []
    for server, source, item in items:
        text = link_text(item, server) if isinstance(item, Link) else shown(item).text
        more = f"\n… (+{len(text) - _LONGEST:,} characters)" if len(text) > _LONGEST else ""
        said.append((f"For you, from {visible(source)} of {visible(server)}:", harmless(text[:_LONGEST]) + more))
    return said


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _reads(sums: ledger.Totals) -> str:
    """ "3 reads (1.2 KB, 1 failed)": a read that failed has brought no bytes, which is not the same as 0 bytes."""
    size = None if sums.bytes is None else human_size(sums.bytes)
    failed = "failed" if sums.reads == 1 else f"{sums.reads_failed:,} failed"
    said = [x for x in (size, failed if sums.reads_failed else None) if x]
    return f"{_many(sums.reads, 'read')} ({', '.join(said) or UNKNOWN})"


def summed(spans: Iterable[Span]) -> list[str]:
    """The totals in a few phrases, the measured ones and the estimates each with their name."""
    spans = tuple(spans)
    sums = ledger.totals(spans)
    said = [_many(sums.provider_calls, "provider call"), _reads(sums)]
    said += [
        _many(number, noun) for number, noun in ((sums.prompts, "prompt"), (sums.tool_calls, "tool call")) if number
    ]
    said.append(f"{_seconds(sums.seconds)} s")
    said += [str(why) for span in spans for why in span.detail.get("left_out", ())]
    if sums.input_tokens is not None or sums.output_tokens is not None:
        said.append(f"{_in_out(sums.input_tokens, sums.output_tokens)} tokens as reported by the provider")
    elif sums.provider_calls:
        said.append("the provider reported no tokens")
    if sums.input_tokens_estimated is not None:
        given = _in_out(sums.input_tokens_estimated, sums.output_tokens_estimated)
        said.append(f"{given} tokens estimated by {sums.counter}")
    if sums.carried_tokens_estimated:
        said.append(f"of that input {sums.carried_tokens_estimated:,} of content")
    return said
