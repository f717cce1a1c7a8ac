"""A server's request as a form of the page: what is shown of it, and what was entered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .content import harmless
from .forms import Field, Request

__all__ = ["card", "entered"]


def card(request: Request, mask: Callable[[str], str]) -> dict[str, Any]:
    """A server's request for the page; values of choices travel as numbers, and names not at all."""
    server, sampling = request.server, request.kind == "sampling"
    title, yes = {
        "form": (f"{server} asks: {request.message}", "Submit"),
        "url": (f"{server} asks you to open a page of {request.host}: {request.message}", "I have opened it"),
        "sampling": (f"{server} asks for an answer of your model", "Approve"),
    }[request.kind]
    why = {
        "form": f"{server} gets what you enter. Never give it a password or a key: no server may ask for them here.",
        "url": f"{server} asks this, not the workbench. Nothing has been opened. Open it only if you trust the host.",
        "sampling": f"The tokens are yours, and {server} gets the answer. At most {request.max_tokens} tokens.",
    }[request.kind]
    facts = [("server", server), ("why", why), *request.wishes.items()]
    return {
        "title": harmless(mask(title)), "server": server, "facts": [(name, harmless(mask(value))) for name, value in facts],
        "text": harmless(mask(request.message)) if sampling else "", "url": request.url, "host": request.host, "yes": yes,
        "shown": mask(request.url or ""), "fields": [_field(each, mask) for each in request.fields],
    }  # fmt: skip


def entered(request: Request, values: list[Any], mask: Callable[[str], str], *, whole: bool) -> dict[str, Any]:
    """The values of the page by the names of the fields; raises `ValueError` where a `whole` form lacks some.

    A default that holds a secret is not shown; it stands where nothing is entered.
    """
    filled = zip(request.fields, values, strict=whole)
    return {f.name: _typed(f, value) for f, value in filled if value != "" or not _hidden(f, mask)}


def _hidden(field: Field, mask: Callable[[str], str]) -> bool:
    """Whether the default is text that holds a secret."""
    return not field.choices and mask(str(field.default)) != str(field.default)


def _field(field: Field, mask: Callable[[str], str]) -> dict[str, Any]:
    hidden = _hidden(field, mask)
    value: Any = "" if field.default is None or hidden else field.default
    keys = [key for key, _ in field.choices]
    if field.choices:
        value = [keys.index(x) for x in value or ()] if field.type == "array" else keys.index(value) if value else ""
    elif field.type == "array" and not hidden:
        value = ", ".join(value)
    elif isinstance(value, bool):
        value = "true" if value else "false"
    stays = "left empty it has its default, which holds a secret and is not shown" if hidden else None
    return {
        "label": mask(field.label), "required": field.required and not hidden, "type": field.type,
        "value": value if keys else str(value), "choices": [mask(title) for _, title in field.choices],
        "about": mask(" · ".join(x for x in (field.description, field.hint, stays) if x)),
    }  # fmt: skip


def _typed(field: Field, value: Any) -> Any:
    """What a field of the page holds; the empty string is nothing."""
    if field.choices and field.type == "array":
        return [field.choices[int(number)][0] for number in value]
    return field.choices[int(value)][0] if field.choices and value != "" else value
