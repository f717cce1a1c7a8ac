"""The catalog as a model gets it: names, URIs and descriptions, never content; and what of it fits into a budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from . import tokens
from .content import Offer, Prompt, Resource, Template, by_priority, for_people, one_line
from .errors import UsageError
from .media import human_size
from .tools import FIND_RESOURCES

__all__ = ["BUDGET", "Entry", "Listing", "counted", "entries", "entry_text", "listing", "undescribed", "whole"]

BUDGET = 2000
"""Tokens that the catalog may take of every provider call; what is over it is searched for."""
Entry = Resource | Template | Prompt
_GROUPS = 40  # that are counted one by one
_SECTIONS = {
    Resource: "Available resources",
    Template: "Available resource templates",
    Prompt: "Available prompts",
}


class Listing(NamedTuple):
    """The catalog's text, and what had to be left out of it."""

    text: str
    tokens: int
    """By `tokens.counter()`."""
    listed: int
    total: int
    """Entries that there are."""

    @property
    def is_whole(self) -> bool:
        return self.listed == self.total


def entries(offer: Offer) -> list[Entry]:
    """What a model may know of, the most important first: what a server says is for people only is not advertised."""
    resources = [r for r in by_priority(offer.resources) if not for_people(r)]
    templates = [t for t in by_priority(offer.templates) if not for_people(t)]
    return [*resources, *templates, *offer.prompts]


def entry_text(entry: Entry) -> str:
    """One short block. Values are written by servers: without their line breaks they cannot pose as further entries."""
    size = human_size(entry.size) if isinstance(entry, Resource) and entry.size is not None else None
    modified = entry.modified if isinstance(entry, Resource) else None
    if isinstance(entry, Prompt):
        kind, label, lines = "Prompt", entry.name, [("Arguments", _arguments(entry))]
    elif isinstance(entry, Template):
        kind, label, lines = "Resource template", entry.label, [("URI template", entry.uri), ("Type", entry.mime or "")]
    else:
        kind, label, lines = "Resource", entry.label, [("URI", entry.uri), ("Type", entry.mime or "")]
    told = [
        ("Server", entry.server),
        *lines,
        ("Size", size),
        ("Last modified", modified),
        ("Description", entry.description),
    ]
    return "\n".join(
        [f"### {kind}: {one_line(label)}", *(f"{name}: {one_line(value)}" for name, value in told if value)]
    )


def _arguments(prompt: Prompt) -> str:
    return ", ".join(f"{x.name} (required)" if x.required else x.name for x in prompt.arguments)


def whole(offer: Offer) -> str:
    """All of the catalog, whatever it takes."""
    return _sections(entries(offer))


def _sections(chosen: Sequence[Entry]) -> str:
    sections = []
    for kind, title in _SECTIONS.items():
        own = [entry_text(entry) for entry in chosen if isinstance(entry, kind)]
        sections += ["\n\n".join([f"## {title}", *own])] if own else []
    return "\n\n".join(sections)


def listing(offer: Offer, budget: int = BUDGET) -> Listing:
    """The whole catalog where it fits into so many tokens; else counts by server and group, and as many entries as fit.

    Entries with a declared priority of at least one half go first, then templates, which stand for many, then the rest.
    Raises `UsageError` where the budget is smaller than the counts alone.
    """
    every = entries(offer)
    if (fits := _fitting(every, budget)) == len(every):
        text = _sections(every)
        if (size := tokens.count(text)) <= budget:
            return Listing(text, size, len(every), len(every))
    counts = _counts(every)
    room = budget - tokens.count(counts)
    if room < 0:
        raise UsageError(
            f"a catalog budget of {budget:,} tokens is too small: the counts of what is offered take "
            f"{budget - room:,}. Give at least that, or use the pattern search"
        )
    ordered = sorted(every, key=_importance)
    chosen = ordered[: _fitting(ordered, room)] if fits else []
    text = _with(counts, chosen)
    while chosen and tokens.count(text) > budget:  # where two texts meet may be one token more
        chosen.pop()
        text = _with(counts, chosen)
    return Listing(text, tokens.count(text), len(chosen), len(every))


def _with(counts: str, chosen: Sequence[Entry]) -> str:
    return "\n\n".join(filter(None, (counts, _sections(chosen))))


def counted(offer: Offer) -> Listing:
    """Counts alone."""
    every = entries(offer)
    text = _counts(every)
    return Listing(text, tokens.count(text), 0, len(every))


def _importance(entry: Entry) -> tuple[bool, bool]:
    priority = None if isinstance(entry, Prompt) else entry.priority
    return (priority is None or priority < 0.5, not isinstance(entry, Template))


def _fitting(ordered: Sequence[Entry], room: int) -> int:
    """How many of the first ones fit; stops counting where the room ends, as there may be 100,000 of them."""
    for number, entry in enumerate(ordered):
        room -= tokens.count(entry_text(entry)) + 1
        if room < 0:
            return number
    return len(ordered)


def _counts(every: Sequence[Entry]) -> str:
    """How many entries there are, by server and group: the scheme and first part of their URIs."""
    groups = Counter((entry.server, _group(entry)) for entry in every)
    lines = [f"- {one_line(server)}: {number:,} {group}" for (server, group), number in groups.most_common(_GROUPS)]
    left = len(groups) - len(lines)
    lines += [f"- and {left:,} more groups"] if left else []
    head = (
        f"{len(every):,} entries are offered, too many to list here. Search them with {FIND_RESOURCES}; what it finds can be "
        "read by its URI."
    )
    return "\n".join(["## What is offered", "", head, *lines])


def _group(entry: Entry) -> str:
    if isinstance(entry, Prompt):
        return "prompts"
    scheme, slashes, rest = entry.uri.partition("://")
    kind = "templates" if isinstance(entry, Template) else "resources"
    first = rest.split("/")[0].split("{")[0] if slashes else ""
    return f"{kind} at {one_line(f'{scheme}{slashes}{first}')[:80]}"


def undescribed(offer: Offer) -> tuple[int, int]:
    """How many resources and templates have no description, and how many share theirs with another: the description is what
    a model chooses by ("On-demand resources")."""
    readable: Iterable[Resource | Template] = (*offer.resources, *offer.templates)
    said = Counter((entry.description or "").strip() for entry in readable if not for_people(entry))
    return said.pop("", 0), sum(number for number in said.values() if number > 1)
