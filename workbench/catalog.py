"""The catalog as rows: what is offered, what is attached, what was read and what it cost. A fold over offer and spans."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import quote

from .content import Offer, Resource, Template, by_priority, clean, for_people
from .errors import UsageError
from .media import human_size
from .span import Span

__all__ = ["CatalogRow", "Kind", "cells", "fill", "rows"]

Kind = Literal["resource", "template", "prompt", "tool"]
State = Literal["", "attached", "changed", "read", "failed"]
"""`changed`: it is attached, its server says that it has changed since, and the next turn reads it again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CatalogRow:
    """One line of the catalog. All strings may be a server's.

    The order of the fields is the order on the wire to the page; `catalog.js` names them in the same order.
    """

    key: str
    """Unique among the rows; comes back with each click."""
    server: str
    kind: Kind
    label: str
    uri: str
    """For prompts and tools their name."""
    mime: str | None = None
    size: int | None = None
    """Bytes; `None` is unknown."""
    description: str | None = None
    tokens: int | None = None
    """Known once it was read."""
    counter: str | None = None
    """Who counted the tokens."""
    state: State = ""
    reason: str | None = None
    """Why it failed."""
    variables: tuple[str, ...] = ()
    """Template placeholders or prompt arguments, one field to fill in for each."""
    facts: str | None = None
    """What else its server says of it: when it was modified, how important it is, whom it is for."""
    icon: str | None = None
    """A picture that is safe to show: see `_icon`."""
    required: tuple[str, ...] = ()
    """Those of `variables` that cannot be left empty."""


def _key(kind: Kind, server: str, uri: str) -> str:
    """What no other entry has: no blank is left in the server's name, so it ends where the URI begins. And a URI that no page
    can be sent as it is (`clean`) is spelled out."""
    owner = quote(server, safe="", errors="surrogatepass")
    return f"{kind} {owner} {uri}" if clean(uri) == uri else f"{kind} {owner}! {quote(uri, errors='surrogatepass')}"


def _new(kind: Kind, server: str, uri: str, label: str = "", **more: Any) -> CatalogRow:
    return CatalogRow(key=_key(kind, server, uri), server=server, kind=kind, label=label or uri, uri=uri, **more)


_ICON = re.compile(r"data:image/(?:png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+={0,2}")
_LARGEST_ICON = 20_000  # characters; they travel with the rows


def _icon(entry: Resource | Template) -> str | None:
    """The first icon that the page can show without fetching it, and that is no markup (MCP specification, "Icons")."""
    found = (icon for icon in entry.icons if len(icon) <= _LARGEST_ICON and _ICON.fullmatch(icon))
    return next(found, None)


def _facts(entry: Resource | Template) -> str | None:
    remote = [icon for icon in entry.icons if not icon.startswith("data:")]
    said = {
        "modified": entry.modified, "priority": None if entry.priority is None else f"{entry.priority:g}",
        "icon, not fetched:": remote[0] if remote else None,
    }  # fmt: skip
    facts = [f"{name} {value}" for name, value in said.items() if value]
    return " · ".join([*facts, *(["for people only"] if for_people(entry) else [])]) or None


def _offered(offer: Offer) -> Iterable[CatalogRow]:
    for r in by_priority(offer.resources):
        yield _new(
            "resource",
            r.server,
            r.uri,
            r.label,
            mime=r.mime,
            size=r.size,
            description=r.description,
            facts=_facts(r),
            icon=_icon(r),
        )
    for t in by_priority(offer.templates):
        yield _new(
            "template",
            t.server,
            t.uri,
            t.label,
            mime=t.mime,
            description=t.description,
            variables=t.variables,
            required=t.required,
            facts=_facts(t),
            icon=_icon(t),
        )
    for p in offer.prompts:
        names = tuple(argument.name for argument in p.arguments)
        needed = tuple(argument.name for argument in p.arguments if argument.required)
        yield _new("prompt", p.server, p.name, p.label, description=p.description, variables=names, required=needed)
    for tool in offer.tools:
        yield _new("tool", tool.server, tool.name, tool.label, description=tool.description)


def rows(
    offer: Offer,
    attached: Iterable[tuple[str, str]],
    spans: Iterable[Span],
    kinds: Iterable[Kind],
    changed: Collection[tuple[str, str]] = (),
) -> dict[str, CatalogRow]:
    """All entries of these kinds by key, with their state. What was read through a template or a link has a row too.

    Of servers that are not connected any more, only what is still attached has a row.
    """
    kinds = tuple(kinds)
    found = {entry.key: entry for entry in _offered(offer) if entry.kind in kinds}
    if "resource" not in kinds:
        return found
    connected = {entry.server for entry in _offered(offer)}
    for span in spans:
        if span.kind == "read" and span.status in ("ok", "error") and span.detail.get("server") in connected:
            _note(found, span)
    for server, uri in attached:
        before = found.get(_key("resource", server, uri)) or _new("resource", server, uri)
        state: State = "changed" if (server, uri) in changed else "attached"
        found[before.key] = replace(before, state=state, reason=None)
    return found


def _note(found: dict[str, CatalogRow], span: Span) -> None:
    server, uri = span.detail["server"], span.detail.get("uri") or span.name
    before = found.get(_key("resource", server, uri)) or _new("resource", server, uri)
    if span.status == "ok":
        found[before.key] = replace(
            before, state="read", reason=None, size=span.detail.get("bytes", before.size),
            mime=before.mime or span.detail.get("mime"), tokens=span.detail.get("tokens"),
            counter=span.detail.get("counter"),
        )  # fmt: skip
    else:
        found[before.key] = replace(before, state="failed", reason=str(span.detail.get("error", "")))


def _arguments(entry: CatalogRow) -> list[str]:
    """A prompt's; a template's variables stand in its URI."""
    names = entry.variables if entry.kind == "prompt" else ()
    return [f"{name} (required)" if name in entry.required else name for name in names]


def cells(entry: CatalogRow) -> dict[str, str]:
    """An entry for a static table: every cell as text."""
    return {
        "state": f"failed: {entry.reason}" if entry.state == "failed" else entry.state,
        "server": entry.server,
        "label": entry.label,
        "uri": entry.uri,
        "kind": entry.kind if entry.kind != "resource" else entry.mime or "",
        "size": human_size(entry.size) if entry.size is not None else "",
        "description": entry.description or "",
        "arguments": ", ".join(_arguments(entry)),
        "tokens": f"{entry.tokens:,}" if entry.tokens is not None else "",
    }


def fill(template: str, values: Mapping[str, str]) -> str:
    """A template's URI with its placeholders filled in (RFC 6570); raises `UsageError` naming those that lack a value."""
    import uri_template

    parsed = Template(server="", uri=template, name="")
    if missing := [name for name in parsed.required if not values.get(name)]:
        raise UsageError(f"{template} needs values for: {', '.join(missing)}")
    given = {name: values[name] for name in parsed.variables if values.get(name)}
    start, placeholders = parsed.pieces
    try:
        # One by one: the library would encode what stands between them, which is as the server spells it.
        # And by a mapping: as keywords, a variable called `self` could not be given.
        made = [(uri_template.URITemplate(f"{{{op}{names}}}").expansions, end) for op, names, end in placeholders]
        return start + "".join("".join(x.expand(given) or "" for x in every) + end for every, end in made)
    except Exception as error:  # the library's errors have no base of their own
        raise UsageError(f"{template} is no valid URI template (RFC 6570): {error}") from None
