"""From what is asked for to what a server offers: whether a URI may be read, which prompt is meant, what they are given.

A URI from a model is untrusted; what cannot be found is answered with what comes near.
"""

from __future__ import annotations

import difflib
import heapq
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload
from urllib.parse import unquote

from .content import Offer, Prompt, Resource, Template, for_people, one_line, visible
from .errors import NotOffered

__all__ = [
    "Allowed", "find_prompt", "find_readable", "offset_argument", "prompt_arguments", "refuse_people_only", "string_argument",
]  # fmt: skip

_NEAR = 5  # names in a refusal,
_LIKELY = 2_000  # of so many that are compared closely,
_COMPARED = 400  # by so many of their characters
_WORD = re.compile(r"[^\W\d_]+|\d+")


@dataclass(frozen=True)
class Allowed:
    """A read that may go ahead: which server, the URI as the server spells it, and the rule that allowed it."""

    server: str
    uri: str
    rule: str
    source: str | None = None
    """For what a tool result linked to: that tool call's id."""


def find_readable(uri: str, server: str | None, offer: Offer, links: Mapping[tuple[str, str], str]) -> Allowed:
    """Where `uri` can be read. `links` maps (server, URI) to the call that brought the link.

    Raises `NotOffered` with near matches: a URI from a model is untrusted, and only what is listed, matches a template or
    was linked in this conversation may be read. The exact spelling goes before every other.
    """
    check_server(server, offer, links)
    found: list[Allowed] = next(filter(None, _ways(uri, server, offer, links)), [])
    servers = sorted({allowed.server for allowed in found})
    if len(servers) > 1:
        raise NotOffered(f"{visible(uri)!r} is {_by_several(servers)}")
    if not found:
        raise NotOffered(_near_misses(uri, offer))
    return found[0]


def _by_several(servers: Sequence[str]) -> str:
    """Right for a model and a script, whose argument is `server`, as for a magic, whose option is `--server`."""
    first = servers[0]
    return (
        f"offered by {' and '.join(servers)}: say which one is meant, as in server={json.dumps(first, ensure_ascii=False)} "
        f"(in a magic --server {shlex.quote(first)})."
    )


def refuse_people_only(allowed: Allowed, offer: Offer) -> None:
    """Raise `NotOffered` where the server marks what was found for people only: it is not sent to a model."""
    listed = [r for r in offer.resources if (r.server, r.uri) == (allowed.server, allowed.uri)]
    matching = [t for t in offer.templates if t.server == allowed.server and t.matches(allowed.uri)]
    if any(map(for_people, listed or matching)):
        raise NotOffered(
            f"{visible(allowed.uri)!r} is for people only, says its server {allowed.server} (audience: user): it is not "
            "sent to a model. A person can read it: %mcp read."
        )


def _ways(uri: str, server: str | None, offer: Offer, links: Mapping[tuple[str, str], str]) -> Iterator[list[Allowed]]:
    """What `uri` may stand for, the surest first; an empty list where a way leads nowhere."""
    spellings = dict.fromkeys((uri, uri.strip()))
    for spelling in spellings:
        yield _listed(spelling, server, offer)
    for spelling in spellings:
        yield _by_template(spelling, server, offer)
        yield _linked(spelling, server, links)
    every = [Allowed(r.server, r.uri, "listed") for r in offer.resources if _mine(server, r)]
    every += [
        Allowed(owner, address, "linked", call) for (owner, address), call in links.items() if server in (None, owner)
    ]
    # The catalog shows a URI on one line; and a model, or a URL library on its way, may have percent-encoded it.
    for same in (one_line, _decoded):
        alike = [allowed for allowed in every if same(allowed.uri) == same(uri)]
        yield alike if len({allowed.uri for allowed in alike}) == 1 else []  # of two it would be a guess


def _decoded(uri: str) -> str:
    return unquote(one_line(uri), errors="surrogateescape")  # bytes that are not UTF-8 still differ


def _mine(server: str | None, entry: Resource | Template) -> bool:
    return server is None or entry.server == server


def _listed(uri: str, server: str | None, offer: Offer) -> list[Allowed]:
    return [Allowed(r.server, r.uri, "listed") for r in offer.resources if r.uri == uri and _mine(server, r)]


def _by_template(uri: str, server: str | None, offer: Offer) -> list[Allowed]:
    unfilled = set(re.findall(r"\{([^{}]+)\}", uri))
    for template in offer.templates:
        if _mine(server, template) and (
            (template.uri == uri and template.variables) or not unfilled.isdisjoint(template.variables)
        ):
            names = visible(", ".join(template.variables))
            raise NotOffered(
                f"{visible(uri)!r} still has placeholders: fill in {names} of the template {visible(template.uri)!r} first."
            )
    return [Allowed(t.server, uri, f"template {t.uri}") for t in offer.templates if _mine(server, t) and t.matches(uri)]


def _linked(uri: str, server: str | None, links: Mapping[tuple[str, str], str]) -> list[Allowed]:
    return [
        Allowed(owner, linked, "linked", call)
        for (owner, linked), call in links.items()
        if linked == uri and server in (None, owner)
    ]


def check_server(server: str | None, offer: Offer, links: Mapping[tuple[str, str], str]) -> None:
    """Raise `NotOffered` where there is no server of that name."""
    if server is None:
        return
    entries: list[Any] = [*offer.resources, *offer.templates, *offer.prompts, *offer.tools]
    known = sorted({entry.server for entry in entries} | {owner for owner, _ in links})
    if server not in known:
        raise NotOffered(f"there is no server {visible(server)!r}; connected are: {', '.join(known) or 'none'}.")


def mentions(question: str, offer: Offer) -> list[tuple[str, str]]:
    """Server and URI of each `@server:uri` in a question, of servers that there are: an attachment by a person.

    Punctuation that ends a sentence is no part of a URI, unless it is listed so.
    """
    listed = {(r.server, r.uri) for r in offer.resources}
    servers = {server for server, _ in listed} | {t.server for t in offer.templates}
    found: dict[tuple[str, str], None] = {}
    for server, uri in _MENTION.findall(question):
        if server in servers:
            found[server, uri if (server, uri) in listed else uri.rstrip(".,;:!?)]}\"'")] = None
    return list(found)


_MENTION = re.compile(r"(?<![\w@])@([\w.-]+):([^\s<>]+)")


def _nearest(asked: str, known: Sequence[str]) -> str:
    """The names most like the one asked for, the most alike first, and how many more there are."""
    starts = {name[:_COMPARED]: name for name in known}
    start = asked[:_COMPARED]
    words = set(_WORD.findall(start))

    def likeness(other: str) -> tuple[int, int]:
        return len(words.intersection(_WORD.findall(other))), -abs(len(other) - len(start))

    likely = heapq.nlargest(_LIKELY, starts, key=likeness)  # difflib would take seconds for a catalog of 100,000
    near = [starts[x] for x in difflib.get_close_matches(start, likely, n=_NEAR, cutoff=0.4)] or known[:_NEAR]
    more = len(known) - len(near)
    return "; ".join(visible(x, _COMPARED) for x in near) + (f"; and {more:,} more in the catalog" if more > 0 else "")


def _near_misses(uri: str, offer: Offer) -> str:
    for kind, named in (("tool", offer.tools), ("prompt", offer.prompts)):
        if any(entry.name == uri for entry in named):
            return f"{visible(uri)!r} is a {kind}, not a resource: it has no URI and cannot be read or attached."
    near = _nearest(uri, [r.uri for r in offer.resources] + [t.uri for t in offer.templates])
    return f"nobody offers {visible(uri)!r}" + (
        f". Nearest in the catalog: {near}." if near else ": the catalog is empty."
    )


def find_prompt(name: str, server: str | None, offer: Offer) -> Prompt:
    """The prompt of that name, exact or, where only one is meant, as the catalog spells it on one line.

    Raises `NotOffered` naming what there is.
    """
    check_server(server, offer, {})
    mine = [p for p in offer.prompts if server in (None, p.server)]
    found = [p for p in mine if p.name == name]
    if not found:
        found = [p for p in mine if one_line(p.name) == one_line(name)]
        found = found if len({p.name for p in found}) == 1 else []  # of two it would be a guess
    if len(found) > 1:
        raise NotOffered(f"prompt {visible(name)!r} is {_by_several([p.server for p in found])}")
    if not found:
        known = _nearest(name, [p.name for p in offer.prompts]) or "none"
        raise NotOffered(f"nobody offers a prompt {visible(name)!r}. There are: {known}.")
    return found[0]


# -- what a model wrote as arguments


def _json_type(value: Any) -> str:
    names = {str: "a string", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


@overload
def string_argument(args: Mapping[str, Any], name: str, required: Literal[True] = True) -> str: ...
@overload
def string_argument(args: Mapping[str, Any], name: str, required: Literal[False]) -> str | None: ...
def string_argument(args: Mapping[str, Any], name: str, required: bool = True) -> str | None:
    """One argument that a model gave to a synthetic tool; `None` where an optional one is missing, null or empty.

    Raises `NotOffered` where it is no string, or a required one is missing.
    """
    value = args.get(name)
    if not required and value in (None, ""):
        return None
    if not isinstance(value, str):
        raise NotOffered(f"{name} must be a string; it was {_json_type(value) if name in args else 'missing'}.")
    return value


def offset_argument(args: Mapping[str, Any]) -> int:
    """Where a model wants to go on reading, in characters; 0 where it does not say.

    Raises `NotOffered` where it is no whole number from 0 on.
    """
    value = args.get("offset")
    if value in (None, ""):
        return 0
    if isinstance(value, str | float) and re.fullmatch(r"\d{1,15}(\.0)?", str(value).strip()):
        value = int(float(value))
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise NotOffered(f"offset must be a whole number from 0 on; it was {visible(repr(value))}.")
    return value


def prompt_arguments(prompt: Prompt, given: Any) -> dict[str, str]:
    """The arguments as strings, as the protocol wants them; none were given where it is `None`.

    Raises `NotOffered` where they are no object, or listing those that the prompt does not have, or needs.
    """
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise NotOffered(f"arguments must be an object; it was {_json_type(given)}.")
    values = {
        k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for k, v in given.items() if v is not None
    }
    known = [x.name for x in prompt.arguments]
    if unknown := [name for name in values if name not in known]:
        takes = visible(", ".join(known)) or "no arguments"
        raise NotOffered(f"prompt {visible(prompt.name)!r} has no {visible(', '.join(unknown))}; it takes {takes}.")
    missing = [x.name for x in prompt.arguments if x.required and x.name not in values]
    if missing:
        lacking, got = visible(", ".join(missing)), visible(", ".join(values)) or "nothing"
        raise NotOffered(f"prompt {visible(prompt.name)!r} needs {lacking}; it was given {got}.")
    return values
