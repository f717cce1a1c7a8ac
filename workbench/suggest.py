"""Values that servers suggest for the placeholders of their templates, where a model or a person has to fill them in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from . import catalog
from .connection import Connection
from .content import LONGEST, Completion, Offer, Template, for_people, visible
from .errors import UsageError, WorkbenchError

__all__ = ["Gap", "expansions", "for_model", "gap", "template_of"]

_SECONDS = 2.0  # a refusal waits no longer for suggestions
_VALUES, _VARIABLES, _WIDTH = 8, 4, 60
# RFC 6570, section 3.2: what the expansion of one value begins with.
_SIGNS = {"": "", "+": "", "#": "#", ".": ".", "/": "/", ";": ";{}=", "?": "?{}=", "&": "&{}="}


class Gap(NamedTuple):
    """The first placeholder that somebody who types a template's URI has not left behind."""

    name: str
    value: str
    """As much of its value as is typed, decoded."""
    given: Mapping[str, str]
    """The values of those before it, decoded."""
    start: str
    """What its expansion goes behind, as it is typed."""
    expression: str
    """RFC 6570 for this one variable, with the braces."""
    after: str
    """What stands between it and the next placeholder."""
    typed: str
    """What is typed of its expansion, as it is typed."""


def gap(template: Template, typed: str) -> Gap | None:
    """Where in `template` the end of `typed` is; `None` where that is no beginning of it, or all is filled in."""
    start, placeholders = template.pieces
    typed = start if start.startswith(typed) else typed
    if not typed.startswith(start) or max(len(typed), len(template.uri)) > LONGEST:
        return None
    given, number, at = _left_behind(template, typed)
    if number == len(placeholders):
        return None
    operator, names, after = placeholders[number]
    expression, name = _first(operator, names)
    sign, rest = _SIGNS[operator].format(name), typed[at:]
    if not name or not (rest.startswith(sign) or sign.startswith(rest)):
        return None
    return Gap(name, unquote(rest[len(sign) :]), given, typed[:at], expression, after, rest)


def _left_behind(template: Template, uri: str) -> tuple[dict[str, str], int, int]:
    """The values, decoded, of the placeholders in `uri` behind which the template goes on; how many those are, and where the
    next one begins."""
    start, placeholders = template.pieces
    values, at = dict[str, str](), len(start)
    for number, (operator, names, after) in enumerate(placeholders):
        value, found, _ = uri[at:].partition(after or "\0")
        if operator not in ("", "+") or "," in names or not value or not found:
            return values, number, at
        if "{" not in value:  # a model's own placeholder is no value
            values[_first(operator, names)[1]] = unquote(value)
        at += len(value) + len(after)
    return values, len(placeholders), at


def _first(operator: str, names: str) -> tuple[str, str]:
    """The first variable of a placeholder: as an expression of its own, and its name."""
    expression = f"{{{operator}{names.split(',')[0].strip()}}}"
    return expression, next(iter(Template(server="", name="", uri=expression).variables), "")


def expansions(found: Gap, suggested: Completion) -> list[str]:
    """How what is typed can go on: the suggested values that begin with it, filled in up to the next gap."""
    values = [value for value in suggested.values if value and value.startswith(found.value)]
    try:
        return [f"{found.start}{_filled(found, value)}{found.after}" for value in values]
    except UsageError:  # a variable that RFC 6570 does not know
        return []


def _filled(found: Gap, value: str) -> str:
    """The expansion with this value; what is typed of it stays as it is, though the rule may be to write it in another way."""
    whole = catalog.fill(found.expression, {found.name: value})
    if whole.startswith(found.typed):
        return whole
    rest, keeps = value[len(found.value) :], found.expression[1] in "+#"
    return found.typed + (catalog.fill("{+rest}" if keeps else "{rest}", {"rest": rest}) if rest else "")


def template_of(uri: str, server: str | None, offer: Offer) -> Template | None:
    """The template that `uri` is, or was filled in from; `None` where there is none."""
    mine = [t for t in offer.templates if server in (None, t.server) and t.variables]
    same = [t for t in mine if t.uri == uri or any(f"{{{name}}}" in uri for name in t.variables)]
    return next(iter([*same, *(t for t in mine if t.matches(uri))]), None)


async def for_model(uri: str, server: str | None, offer: Offer, connections: Mapping[str, Connection]) -> str:
    """One line for a model whose read was refused: "Values for id: 4471, 4480 and 12 more."; empty where nobody knows any."""
    template = template_of(uri, server, offer)
    connection = connections.get(template.server) if template else None
    if template is None or for_people(template) or connection is None or not connection.alive:
        return ""
    given = _left_behind(template, uri)[0] if len(uri) <= LONGEST else {}
    names = list(dict.fromkeys(template.variables))[:_VARIABLES]
    said = await asyncio.gather(*(_values(connection, template, name, given) for name in names))
    return " ".join(filter(None, said))


async def _values(connection: Connection, template: Template, name: str, given: Mapping[str, str]) -> str:
    """A sentence with some of what the server suggests for a variable; empty where it is slow or suggests nothing."""
    others = {other: value for other, value in given.items() if other != name}
    try:
        async with asyncio.timeout(_SECONDS):
            found = await connection.complete("resource", template.uri, name, "", others)
    except (TimeoutError, WorkbenchError):
        return ""
    shown = [visible(value, _WIDTH) for value in found.values[:_VALUES]]
    if not shown:
        return ""
    rest = max(found.total or 0, len(found.values)) - len(shown)
    more = f" and {rest:,} more" if rest > 0 else " and more" if found.more else ""
    return f"Values for {visible(name)}: {', '.join(shown)}{more}."
