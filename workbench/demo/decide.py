"""What the demo model does next: call one tool, or answer. At most one search, one companion and one read a turn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from workbench.demo import say
from workbench.demo.context import FIND, READ, Call, Entry, Turn
from workbench.demo.passages import passages
from workbench.demo.say import Quote
from workbench.demo.tools import Companion, Tools, filled
from workbench.ranking import index, share, telling, words

__all__ = ["decide"]

MATCH = 1 / 8
"""Share of the question's words that a catalog entry must hold to be read, or a context to be quoted.

Chosen on 20 entries and 40 questions: without it the same 24 of 34 are found, from 0.15 on right ones are lost, because
people wrap one telling word in many others.
"""
WELL = 1 / 2
"""From this share on there is no need to search for what may match better.

On the same questions: where the right entry is not listed, the best of the others stays below it for 33 of 34; where it
is, 13 of 24 reach it, and the rest costs a search that finds the same entry.
"""
QUOTES = 3
WORTH_QUOTING = 0.25
"""A further passage must add this part of the score of the first."""


class Target(NamedTuple):
    """An entry or a companion that matches best, how well it does, and the call that brings its content; `None` where it
    needs a value that the question does not hold."""

    subject: str
    match: float
    call: Call | None


def decide(now: Turn, tools: Tools) -> Call | str:
    """A call, or the answer."""
    if now.failures:
        return say.failed(now)
    asked = words(now.question)
    quotes = _quotes(now, asked)
    covered = share(asked, [word for quote in quotes for word in quote.words])
    fetched = bool(now.called(READ) or now.companion)
    entry = None if fetched else _entry(now, asked)
    companion = None if fetched else _companion(now, tools.companions, asked)
    if call := _call(now, tools, covered, entry, companion):
        return call
    if quotes and (fetched or covered >= MATCH):
        return say.answer(quotes, tools)
    best = companion if companion and companion.match > (entry.match if entry else 0) else entry
    return say.nothing(now, tools, best.subject if best else None, best is None or best.call is not None)


def _call(now: Turn, tools: Tools, covered: float, entry: Target | None, companion: Target | None) -> Call | None:
    """What is worth a call: the link just got, a search where nothing matches well, or what matches better than what is
    there already. An entry goes before a companion that is no better: it takes a call less."""
    if now.called(READ):
        return None
    if now.link:
        return now.link if tools.read else None
    found = max(covered, entry.match if entry else 0)
    best = max(found, companion.match if companion else 0)
    # Where nothing can be read, there is nothing to search for.
    may_find = tools.find and tools.read and not now.called(FIND) and not now.companion
    if may_find and best < WELL and (query := dict.fromkeys(telling(now.question))):
        return Call(FIND, {"query": " ".join(query)})
    if companion and companion.call and companion.match > found:
        return companion.call
    if tools.read and entry and entry.call and entry.match > covered and not now.holds(entry.call.subject):
        return entry.call
    return None


def _entry(now: Turn, asked: Sequence[str]) -> Target | None:
    for uri in re.findall(r"\w[\w+.-]*:[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]]", now.question):
        for entry in now.entries:
            if entry.covers(uri):
                return Target(uri, float("inf"), Call(READ, _arguments(now, entry, uri)))
    best = index(tuple(entry.text for entry in now.entries)).cover(asked)
    if not best:
        return None
    entry = now.entries[best[0]]
    match, read = share(asked, words(entry.text)), _uri(entry, now.question)
    call = Call(READ, _arguments(now, entry, read)) if read else None
    return Target(read or entry.uri, match, call) if match >= MATCH else None


def _companion(now: Turn, companions: Sequence[Companion], asked: Sequence[str]) -> Target | None:
    best = index(tuple(companion.text for companion in companions)).cover(asked)
    if not best:
        return None
    companion = companions[best[0]]
    match, values = share(asked, words(companion.text)), filled(companion.required, now.question)
    call = Call(companion.name, values) if values is not None else None
    return Target(companion.name, match, call) if match >= MATCH else None


def _uri(entry: Entry, question: str) -> str | None:
    """A template is filled in when the question holds exactly as many numbers as it has simple fields."""
    if not entry.template:
        return entry.uri
    fields = re.findall(r"\{\w+\}", entry.uri)
    numbers = re.findall(r"\b\d+\b", question)
    if len(numbers) != len(fields) or len(fields) != entry.uri.count("{"):
        return None
    values = iter(numbers)
    return re.sub(r"\{\w+\}", lambda _: next(values), entry.uri)


def _arguments(now: Turn, entry: Entry, uri: str) -> Mapping[str, Any]:
    """`server` only where the URI alone does not say which one is meant."""
    shared = sum(other.uri == entry.uri for other in now.entries) > 1
    return {"uri": uri, "server": entry.server} if shared else {"uri": uri}


def _quotes(now: Turn, asked: Sequence[str]) -> list[Quote]:
    """The passage that matches best, then those that match best what it left open: one for each part of a question."""
    found = []
    for document in now.documents:
        entry = next((entry for entry in now.entries if entry.covers(document.uri)), None)
        found += [Quote(document, entry, passage) for passage in passages(document.text)]
    # Descriptions stay out of this ranking: a word that they lend to every passage would tell none from another.
    ranking = index(tuple(" ".join([quote.title, *quote.passage]) for quote in found))
    places = ranking.cover(asked, QUOTES, WORTH_QUOTING)
    if places and not set(asked) & set(ranking.words[places[0]]) - set(words(found[places[0]].title)):
        # Nothing but the title matched, so that no passage is better than another: begin at the beginning.
        places = [next(n for n, quote in enumerate(found) if quote.document is found[places[0]].document)]
    return [found[place] for place in sorted(places)]
