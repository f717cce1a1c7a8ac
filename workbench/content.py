"""What servers offer and what they answer, as plain frozen data. No MCP type gets past `connection.py`; these do.

URIs are opaque strings, kept as the server spelled them from the listing to the trace. Every string here was written by
a server: hostile until escaped.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

__all__ = [
    "Argument", "Completion", "Content", "Link", "Message", "Offer", "Part", "Prompt", "PromptResult", "Resource", "Template",
    "Tool", "ToolResult", "by_priority", "clean", "for_people", "harmless", "in_folder", "one_line", "packed", "unpacked",
    "visible",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """What every entry of a listing has: whose it is, and what it is called."""

    server: str
    name: str
    title: str | None = None
    description: str | None = None

    @property
    def label(self) -> str:
        return self.title or self.name


@dataclass(frozen=True, kw_only=True)
class _Readable(_Entry):
    uri: str
    mime: str | None = None
    audience: tuple[str, ...] = ()
    """Whom the server means it for: `user`, `assistant`; empty where it does not say. See `for_people`."""
    priority: float | None = None
    """0 (optional) to 1 (effectively required), as the server sees it; `None` where it does not say."""
    modified: str | None = None
    """`lastModified` as the server wrote it."""
    icons: tuple[str, ...] = ()
    """Addresses of its icons, `data:` ones among them; never fetched."""

    @property
    def label(self) -> str:
        return super().label or self.uri


@dataclass(frozen=True, kw_only=True)
class Resource(_Readable):
    """One entry of `resources/list`. Never its content."""

    size: int | None = None
    """Bytes, as the server claims; `None` where it does not say."""


R = TypeVar("R", bound=_Readable)


@dataclass(frozen=True, kw_only=True)
class Template(_Readable):
    """One entry of `resources/templates/list`; `uri` is the RFC 6570 template."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Names between the braces, in order: `crm://tickets{?query,since}` has `query` and `since`."""
        return tuple(name for _, name in self._placeholders())

    @property
    def required(self) -> tuple[str, ...]:
        """Those of `variables` that an expansion cannot do without; `{?query,since}` and its like may stay empty."""
        return tuple(name for operator, name in self._placeholders() if operator in ("", "+"))

    @property
    def pieces(self) -> tuple[str, list[tuple[str, str, str]]]:
        """What stands before the first placeholder; then each one's operator, what is between its braces without that, and
        what stands after it: `x://{+a}/{b,c}` is `"x://"` and `("+", "a", "/"), ("", "b,c", "")`."""
        start, *rest = _EXPRESSION.split(self.uri)
        return start, list(zip(rest[::3], rest[1::3], rest[2::3], strict=True))

    def _placeholders(self) -> Iterator[tuple[str, str]]:
        for operator, names in _EXPRESSION.findall(self.uri):
            for name in names.split(","):
                yield operator, re.sub(r"(\*|:\d+)$", "", name.strip())

    def matches(self, uri: str) -> bool:
        """Whether `uri` could be an expansion of this template, with every placeholder filled in.

        False for a template or URI of more than `LONGEST` characters. Never backtracks: the template is a server's, and
        as a regular expression it could take for ever.
        """
        literal, placeholders = self.pieces
        if max(len(uri), len(self.uri)) > LONGEST or not uri.startswith(literal) or _EXPRESSION.search(uri):
            return False
        ends = 1 << len(literal)  # bit i: what was looked at of the template can end before character i of the URI
        for operator, _, literal in placeholders:
            ends = _after_literal(_after_gap(ends, operator, uri), literal, uri)
        return bool(ends >> len(uri) & 1)


_LONGEST_REPR = 200  # characters
LONGEST = 8_000
"""Characters of a template, and of a URI, up to which the two are matched."""
_EXPRESSION = re.compile(r"\{([+#./;?&]?)([^{}]+)\}")
# What no expansion of an RFC 6570 operator contains (section 3.2). All but the first two begin with the operator itself,
# and may be left out whole.
_NEVER = {"": "/?#", "+": "", "#": "", ".": "/?#", "/": "?#", ";": "/?#", "?": "#", "&": "#"}


def _after_gap(ends: int, operator: str, uri: str) -> int:
    """Where an expansion can end that begins where `ends` has a bit."""
    allowed = (1 << len(uri)) - 1
    for character in _NEVER[operator]:
        allowed &= ~_places(uri, character)
    optional = operator not in ("", "+")
    first = ends & allowed & (_places(uri, operator) if optional else -1)
    # Adding carries each first bit to the end of its run of allowed characters; what changed on the way is the run.
    run = ((first + allowed) ^ allowed) | first
    return (run & allowed) << 1 | (ends if optional else 0)


def _after_literal(ends: int, literal: str, uri: str) -> int:
    for character in literal:
        if not ends:
            break
        ends = (ends & _places(uri, character)) << 1
    return ends


@lru_cache(maxsize=256)
def _places(uri: str, character: str) -> int:
    """A bit for each place where the character stands."""
    return int("0" + "".join("01"[c == character] for c in reversed(uri)), 2)


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One argument of a prompt. Prompt arguments are strings (MCP specification, "Prompts")."""

    name: str
    description: str | None = None
    required: bool = False


@dataclass(frozen=True, kw_only=True)
class Prompt(_Entry):
    """One entry of `prompts/list`."""

    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Tool(_Entry):
    """One entry of `tools/list`. `annotations` are the server's claims: shown, never trusted."""

    schema: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, Any] = field(default_factory=dict)


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
class Completion:
    """Values that a server suggests for an argument (MCP specification, "Completion")."""

    values: tuple[str, ...] = ()
    """At most 100."""
    total: int | None = None
    """How many there are; `None` where the server does not say."""
    more: bool = False
    """Whether there are more than these."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One content of a read, a prompt message or a tool result: text as `str`, everything else as `bytes`."""

    uri: str
    mime: str | None
    data: str | bytes
    audience: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes; text counts as UTF-8."""
        return len(self.raw)

    @property
    def raw(self) -> bytes:
        """What a file of it holds: the bytes as they are, text as UTF-8."""
        return self.data if isinstance(self.data, bytes) else self.data.encode(errors="surrogatepass")

    def __repr__(self) -> str:
        # A cell may end with it, and is saved: what is long is shortened, and bytes are nothing to read.
        more = len(self.data) - _LONGEST_REPR
        shown = repr(self.data[:_LONGEST_REPR]) + (f"… (+{more:,} characters)" if more > 0 else "")
        data = f"<{self.size:,} bytes>" if isinstance(self.data, bytes) else shown
        return f"Part(uri={self.uri!r}, mime={self.mime!r}, data={data}, audience={self.audience!r})"


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

    def save(self, path: str | Path) -> tuple[Path, ...]:
        """Write the parts to files, byte for byte (text as UTF-8): one to `path`, several to `name-1.ext`, `name-2.ext` ...

        Gives the files. Raises `FileExistsError` before anything is written when one of them is there, and another `OSError`
        where no file can be.
        """
        path = in_folder(path)
        many = len(self.parts) > 1
        paths = [path.with_stem(f"{path.stem}-{n}") if many else path for n in range(1, len(self.parts) + 1)]
        for each in paths:
            if each.exists():
                raise FileExistsError(f"{each} is there already; nothing was written. Give another name")
        for each, part in zip(paths, self.parts, strict=True):
            each.write_bytes(part.raw)
        return tuple(paths)


def in_folder(path: str | Path) -> Path:
    """The path of a file that can be written to its folder; raises `OSError` in words where it cannot be."""
    try:
        path = Path(path).expanduser()
    except RuntimeError as error:  # "~nobody/x"
        raise FileNotFoundError(f"{str(path)!r} is no path: {error}. Give the name of a file") from None
    if not path.name or path.is_dir():
        raise FileExistsError(f"{str(path)!r} is a folder; nothing was written. Give the name of a file")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {str(path.parent)!r}; nothing was written. Make it, or give another"
        )
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"nothing can be written to the folder {str(path.parent)!r}. Give another")
    return path


@dataclass(frozen=True, kw_only=True)
class Link:
    """A `resource_link` in a tool result or prompt: something that can be read, not something that was."""

    uri: str
    name: str
    mime: str | None = None
    description: str | None = None
    audience: tuple[str, ...] = ()


def for_people(item: Resource | Template | Part | Link) -> bool:
    """Whether a server marks it for people only: it is never sent to a model (MCP specification, "Annotations").

    The one annotation that is obeyed: it can only keep something from a model.
    """
    return set(item.audience) == {"user"}


def by_priority(entries: Iterable[R]) -> list[R]:
    """The most important first, in the server's own order where it sees no difference; what has no priority stands
    between those that are above and below one half."""
    return sorted(entries, key=lambda entry: -(0.5 if entry.priority is None else entry.priority))


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

    @property
    def parts(self) -> tuple[Part, ...]:
        """The contents of all messages."""
        return tuple(item for message in self.messages for item in message.items if isinstance(item, Part))


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """What `tools/call` answered; `structured` is `structuredContent` as it came."""

    server: str
    tool: str
    items: tuple[Part | Link, ...] = ()
    structured: Any = None
    error: bool = False

    @property
    def parts(self) -> tuple[Part, ...]:
        """Its contents, without the links."""
        return tuple(item for item in self.items if isinstance(item, Part))


def digest(parts: Iterable[Part]) -> str:
    """SHA-256 over all parts, each with its URI and type, so that the same bytes under another name differ."""
    sha = sha256()
    for piece in packed(parts):
        sha.update(piece)
    return sha.hexdigest()


def packed(parts: Iterable[Part]) -> Iterator[bytes]:
    """Parts as one run of bytes, whose SHA-256 is their identity: of each a line of JSON that says what it is, and its data."""
    for part in parts:
        raw, kind = part.raw, "bytes" if isinstance(part.data, bytes) else "text"
        yield json.dumps([part.uri, part.mime, kind, list(part.audience), len(raw)]).encode() + b"\n"
        yield raw


def unpacked(data: bytes) -> tuple[Part, ...]:
    """The inverse of `packed`; raises `ValueError` for what is none of it."""
    parts, at = [], 0
    while at < len(data):
        end = data.index(b"\n", at)
        uri, mime, kind, audience, size = json.loads(data[at:end])
        raw, at = data[end + 1 : end + 1 + size], end + 1 + size
        held = raw if kind == "bytes" else raw.decode(errors="surrogatepass")
        parts.append(Part(uri=uri, mime=mime, data=held, audience=tuple(audience)))
    return tuple(parts)


@overload
def clean(value: str) -> str: ...
@overload
def clean(value: Any) -> Any: ...
def clean(value: Any) -> Any:
    """The same JSON with surrogates paired up, and those without a partner as U+FFFD: UTF-8, so the wire, has none."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    return {clean(name): clean(item) for name, item in value.items()} if isinstance(value, dict) else value


def one_line(text: str) -> str:
    """A server's name as a model sees it: `clean`, all whitespace as single blanks, so that it cannot pose as a line."""
    return " ".join(clean(text).split())


def harmless(text: str) -> str:
    """A server's text fit to be shown: control and bidi characters as escapes (a terminal and an output area act on some
    of them), lines and tabs kept."""
    return "".join(c if c.isprintable() or c in "\n\t" else "" if c == "\r" else f"\\u{ord(c):04x}" for c in text)


def visible(text: str, longest: int = 200) -> str:
    """A server's name fit to be shown: `harmless`, on one line, with a stated end when it is long."""
    more = len(text) - longest
    shown = " ".join(harmless(text[:longest]).split())
    return shown if more <= 0 else f"{shown}… (+{more:,} characters)"
