"""Values that servers suggest for the placeholders of their templates, where a model or a person has to fill them in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from .connection import Connection
from .content import Offer, Template, visible
from .errors import WorkbenchError

__all__ = ["for_model", "template_of"]

_SECONDS = 2.0  # a refusal waits no longer for suggestions
_VALUES, _VARIABLES, _WIDTH = 8, 4, 60


def template_of(uri: str, server: str | None, offer: Offer) -> Template | None:
    """The template that `uri` is, or was filled in from; `None` where there is none."""
    mine = [t for t in offer.templates if server in (None, t.server) and t.variables]
    same = [t for t in mine if t.uri == uri or any(f"{{{name}}}" in uri for name in t.variables)]
    return next(iter([*same, *(t for t in mine if t.matches(uri))]), None)


async def for_model(uri: str, server: str | None, offer: Offer, connections: Mapping[str, Connection]) -> str:
    """One line for a model whose read was refused: "Values for id: 4471, 4480 and 12 more."; empty where nobody knows any."""
    template = template_of(uri, server, offer)
    connection = connections.get(template.server) if template else None
    if template is None or connection is None or not connection.alive:
        return ""
    try:
        async with asyncio.timeout(_SECONDS):
            said = [await _values(connection, template, name) for name in template.variables[:_VARIABLES]]
    except (TimeoutError, WorkbenchError):
        return ""
    return " ".join(each for each in said if each)


async def _values(connection: Connection, template: Template, name: str) -> str:
    found = await connection.complete("resource", template.uri, name, "", {})
    shown = [visible(value, _WIDTH) for value in found.values[:_VALUES]]
    if not shown:
        return ""
    rest = max(found.total or 0, len(found.values)) - len(shown)
    more = f" and {rest:,} more" if rest > 0 else " and more" if found.more else ""
    return f"Values for {visible(name)}: {', '.join(shown)}{more}."
