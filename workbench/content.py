"""What servers offer and what they answer, as plain frozen data. No MCP type gets past `connection.py`; these do.

URIs are opaque strings, kept as the server spelled them from the listing to the trace. Every string here was written by
a server: hostile until escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal

__all__ = [
    "Argument", "Content", "Link", "Message", "Offer", "Part", "Prompt", "PromptResult", "Resource", "Template", "Tool",
    "ToolResult", "harmless", "visible",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One entry of `resources/list`. Never its content."""

    server: str
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime: str | None = None
    size: int | None = None
    """Bytes, as the server claims; `None` where it does not say."""
    audience: tuple[str, ...] = ()
    priority: float | None = None

    @property
    def label(self) -> str:
        return self.title or self.name or self.uri


@dataclass(frozen=True, kw_only=True)
class Template:
    """One entry of `resources/templates/list`; `uri` is the RFC 6570 template."""

    server: str
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime: str | None = None

    @property
    def label(self) -> str:
        return self.title or self.name or self.uri

    @property
    def variables(self) -> tuple[str, ...]:
        """Names between the braces, in order: `crm://tickets{?query,since}` has `query` and `since`."""
        return tuple(name for _, name in self._placeholders())

    @property
    def required(self) -> tuple[str, ...]:
        """Those of `variables` that an expansion cannot do without; `{?query,since}` and its like may stay empty."""
        return tuple(name for operator, name in self._placeholders() if operator in ("", "+"))

    def _placeholders(self) -> Iterator[tuple[str, str]]:
        for operator, names in _EXPRESSION.findall(self.uri):
            for name in names.split(","):
                yield operator, re.sub(r"(\*|:\d+)$", "", name.strip())

    def matches(self, uri: str) -> bool:
        """Whether `uri` could be an expansion of this template, with every placeholder filled in."""
        return not _EXPRESSION.search(uri) and _pattern(self.uri).fullmatch(uri) is not None


_EXPRESSION = re.compile(r"\{([+#./;?&]?)([^{}]+)\}")
# What each RFC 6570 operator can expand to (section 3.2); the query-like ones may be left out whole.
_OPERATOR = {
    "": r"[^/?#]+", "+": r".+", "#": r"(?:\#.*)?", ".": r"(?:\.[^/?#]*)?", "/": r"(?:/[^?#]*)?",
    ";": r"(?:;[^/?#]*)?", "?": r"(?:\?[^#]*)?", "&": r"(?:&[^#]*)?",
}  # fmt: skip


@lru_cache(maxsize=1024)
def _pattern(template: str) -> re.Pattern[str]:
    out, end = "", 0
    for found in _EXPRESSION.finditer(template):
        out += re.escape(template[end : found.start()]) + _OPERATOR[found[1]]
        end = found.end()
    return re.compile(out + re.escape(template[end:]), re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One argument of a prompt. Prompt arguments are strings (MCP specification, "Prompts")."""

    name: str
    description: str | None = None
    required: bool = False


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One entry of `prompts/list`."""

    server: str
    name: str
    title: str | None = None
    description: str | None = None
    arguments: tuple[Argument, ...] = ()

    @property
    def label(self) -> str:
        return self.title or self.name


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One entry of `tools/list`. `annotations` are the server's claims: shown, never trusted."""

    server: str
    name: str
    title: str | None = None
    description: str | None = None
    schema: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return self.title or self.name


@dataclass(frozen=True, kw_only=True)
class Offer:
    """All that one server, or several, offer. Offers add; `problems` says in words what a listing got wrong."""

    resources: tuple[Resource, ...] = ()
    templates: tuple[Template, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    tools: tuple[Tool, ...] = ()
    problems: tuple[str, ...] = ()

    def __add__(self, other: Offer) -> Offer:
        return Offer(
            resources=self.resources + other.resources,
            templates=self.templates + other.templates,
            prompts=self.prompts + other.prompts,
            tools=self.tools + other.tools,
            problems=self.problems + other.problems,
        )

    def only(self, server: str) -> Offer:
        """The part of one server."""
        return replace(
            self,
            resources=tuple(x for x in self.resources if x.server == server),
            templates=tuple(x for x in self.templates if x.server == server),
            prompts=tuple(x for x in self.prompts if x.server == server),
            tools=tuple(x for x in self.tools if x.server == server),
        )

    def __repr__(self) -> str:
        counts = [f"{len(getattr(self, k))} {k}" for k in ("resources", "templates", "prompts", "tools")]
        return f"Offer({', '.join(counts)})"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One content of a read, a prompt message or a tool result: text as `str`, everything else as `bytes`."""

    uri: str
    mime: str | None
    data: str | bytes

    @property
    def size(self) -> int:
        """Bytes; text counts as UTF-8."""
        return len(self.data) if isinstance(self.data, bytes) else len(self.data.encode(errors="replace"))


@dataclass(frozen=True, kw_only=True)
class Content:
    """What one `resources/read` answered: its parts in the server's order, each with its own URI and type."""

    server: str
    uri: str
    parts: tuple[Part, ...]
    repaired: bool = False
    """The reply held bytes that are not UTF-8; they stand as U+FFFD."""

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(part.size for part in self.parts)

    @property
    def sha256(self) -> str:
        """Identity of the bytes, for the trace; the bytes themselves never go there."""
        return digest(self.parts)


@dataclass(frozen=True, kw_only=True)
class Link:
    """A `resource_link` in a tool result or prompt: something that can be read, not something that was."""

    uri: str
    name: str
    mime: str | None = None
    description: str | None = None


@dataclass(frozen=True, kw_only=True)
class Message:
    """One turn of a prompt."""

    role: Literal["user", "assistant"]
    items: tuple[Part | Link, ...]


@dataclass(frozen=True, kw_only=True)
class PromptResult:
    """What `prompts/get` answered."""

    server: str
    name: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """What `tools/call` answered; `structured` is `structuredContent` as it came."""

    server: str
    tool: str
    items: tuple[Part | Link, ...] = ()
    structured: Any = None
    error: bool = False


def digest(parts: Iterable[Part]) -> str:
    """SHA-256 over all parts, each with its URI, so that the same bytes under another name differ."""
    sha = sha256()
    for part in parts:
        data = part.data if isinstance(part.data, bytes) else part.data.encode(errors="replace")
        sha.update(f"{part.uri}\0{len(data)}\0".encode(errors="replace"))
        sha.update(data)
    return sha.hexdigest()


def harmless(text: str) -> str:
    """A server's text fit to be shown: control and bidi characters as escapes (a terminal and an output area act on some
    of them), lines and tabs kept."""
    return "".join(c if c.isprintable() or c in "\n\t" else "" if c == "\r" else f"\\u{ord(c):04x}" for c in text)


def visible(text: str, longest: int = 200) -> str:
    """A server's name fit to be shown: `harmless`, on one line, with a stated end when it is long."""
    more = len(text) - longest
    shown = " ".join(harmless(text[:longest]).split())
    return shown if more <= 0 else f"{shown}… (+{more:,} characters)"
