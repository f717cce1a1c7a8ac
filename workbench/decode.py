"""From what servers answer to our words (`content.py`): plain dicts in, frozen data out.

A missing or wrong optional value is `None`. A missing identity raises `ValueError` and costs one entry of a listing. What
cannot be decoded stands as a sentence in its place, so that the parts beside it are not lost.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import wire
from .content import (
    Argument,
    Completion,
    Content,
    Link,
    Message,
    Part,
    Prompt,
    PromptResult,
    Resource,
    Template,
    Tool,
    ToolResult,
)  # fmt: skip

__all__ = ["LISTS", "completion", "content", "mapping", "prompt_result", "tool_result"]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _identity(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("no identity")
    return value


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(x for x in value if isinstance(x, str)) if isinstance(value, list) else ()


def _common(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {"title": _text(raw.get("title")), "description": _text(raw.get("description"))}


def _audience(raw: Mapping[str, Any]) -> tuple[str, ...]:
    return _strings(mapping(raw.get("annotations")).get("audience"))


def _readable(raw: Mapping[str, Any]) -> dict[str, Any]:
    """What resources and templates have in common (MCP specification, "Annotations" and "Icons")."""
    notes, icons = mapping(raw.get("annotations")), raw.get("icons")
    priority = notes.get("priority")
    sources = [_text(mapping(icon).get("src")) for icon in (icons if isinstance(icons, list) else ())]
    if isinstance(priority, bool) or not isinstance(priority, int | float) or not 0 <= priority <= 1:
        priority = None
    return {
        "mime": _text(raw.get("mimeType")), "audience": _audience(raw), "modified": _text(notes.get("lastModified")),
        "priority": None if priority is None else float(priority), "icons": tuple(source for source in sources if source),
        **_common(raw),
    }  # fmt: skip


def _resource(server: str, raw: Mapping[str, Any]) -> Resource:
    uri, size = _identity(raw.get("uri")), raw.get("size")
    known = isinstance(size, int) and not isinstance(size, bool) and size >= 0
    return Resource(
        server=server, uri=uri, name=_text(raw.get("name")) or uri, size=size if known else None, **_readable(raw)
    )


def _template(server: str, raw: Mapping[str, Any]) -> Template:
    uri = _identity(raw.get("uriTemplate"))
    name = _text(raw.get("name")) or uri
    return Template(server=server, uri=uri, name=name, **_readable(raw))


def _prompt(server: str, raw: Mapping[str, Any]) -> Prompt:
    given = raw.get("arguments")
    arguments = tuple(
        Argument(name=x["name"], description=_text(x.get("description")), required=x.get("required") is True)
        for x in (given if isinstance(given, list) else ())
        if isinstance(x, dict) and _text(x.get("name"))
    )
    return Prompt(server=server, name=_identity(raw.get("name")), arguments=arguments, **_common(raw))


def _tool(server: str, raw: Mapping[str, Any]) -> Tool:
    return Tool(
        server=server, name=_identity(raw.get("name")), schema=mapping(raw.get("inputSchema")),
        annotations=mapping(raw.get("annotations")), **_common(raw),
    )  # fmt: skip


_MOST_VALUES, _LONGEST_VALUE = 100, 1000  # of a completion; the specification allows a hundred

LISTS: Sequence[tuple[str, str, str, Callable[[str, Mapping[str, Any]], Any]]] = (
    ("resources/list", "resources", "resources", _resource),
    ("resources/templates/list", "resourceTemplates", "resources", _template),
    ("prompts/list", "prompts", "prompts", _prompt),
    ("tools/list", "tools", "tools", _tool),
)


def completion(raw: Mapping[str, Any]) -> Completion:
    found = mapping(raw.get("completion"))
    every = tuple(value for value in _strings(found.get("values")) if len(value) <= _LONGEST_VALUE)
    total = found.get("total")
    known = total if isinstance(total, int) and not isinstance(total, bool) and total >= 0 else None
    more = found.get("hasMore") is True or len(every) > _MOST_VALUES or (known or 0) > len(every)
    return Completion(values=every[:_MOST_VALUES], total=known, more=more)


def _part(raw: Mapping[str, Any], uri: str, audience: tuple[str, ...] = ()) -> Part:
    """A text or blob content, as in `resources/read`; also the `resource` of an embedded one."""
    uri, mime = _text(raw.get("uri")) or uri, _text(raw.get("mimeType"))
    data = raw["text"] if isinstance(raw.get("text"), str) else _decoded(raw.get("blob"))
    return Part(uri=uri, mime=mime, data=data, audience=audience)


def _decoded(blob: Any) -> bytes | str:
    """The bytes of a base64 string; a sentence in their place when it is none, so that the parts beside it are not lost."""
    if not isinstance(blob, str):
        return "[This part holds neither text nor data.]"
    try:
        return base64.b64decode("".join(blob.split()), validate=True)
    except (binascii.Error, ValueError):
        return f"[This part could not be decoded: its {len(blob):,} characters are not valid base64.]"


def content(server: str, uri: str, raw: Mapping[str, Any]) -> Content:
    contents = raw.get("contents")
    parts = tuple(_part(x, uri) for x in (contents if isinstance(contents, list) else ()) if isinstance(x, dict))
    return Content(server=server, uri=uri, parts=parts, repaired=wire.REPAIRED in mapping(raw.get("_meta")))


def _items(blocks: Any, source: str) -> Iterator[Part | Link]:
    """Content blocks of a prompt message or tool result. What this revision does not know stays visible as text."""
    for raw in blocks if isinstance(blocks, list) else [blocks]:
        block = mapping(raw)
        kind, mime, audience = block.get("type"), _text(block.get("mimeType")), _audience(block)
        if kind == "text":
            yield Part(uri=source, mime="text/plain", data=str(block.get("text", "")), audience=audience)
        elif kind in ("image", "audio"):
            yield Part(uri=source, mime=mime or f"{kind}/*", data=_decoded(block.get("data")), audience=audience)
        elif kind == "resource":
            yield _part(mapping(block.get("resource")), source, audience)
        elif kind == "resource_link" and _text(block.get("uri")):
            name, about = _text(block.get("name")) or block["uri"], _text(block.get("description"))
            yield Link(uri=block["uri"], name=name, mime=mime, description=about, audience=audience)
        else:
            yield Part(uri=source, mime="text/plain", data=f"[content of a kind not known here: {kind!r}]")


def prompt_result(server: str, name: str, raw: Mapping[str, Any]) -> PromptResult:
    given = raw.get("messages")
    messages = tuple(
        Message(
            role="assistant" if x.get("role") == "assistant" else "user",
            items=tuple(_items(x.get("content"), f"prompt {name}")),
        )
        for x in (given if isinstance(given, list) else ())
        if isinstance(x, dict)
    )
    return PromptResult(server=server, name=name, messages=messages)


def tool_result(server: str, tool: str, raw: Mapping[str, Any]) -> ToolResult:
    items = tuple(_items(raw.get("content") or [], f"tool {tool}"))
    return ToolResult(
        server=server, tool=tool, items=items, structured=raw.get("structuredContent"), error=raw.get("isError") is True
    )
