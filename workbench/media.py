"""From a part to what the model gets and what a person sees. Text arrives whole, a binary as an honest descriptor.

A handler is a function from a part and its media type to `Shown`, or to `None` where it cannot say more than the descriptor.
Append your own with `add`; what was added last is asked first. Chosen by exact type, then suffix (`+json`), then `type/*`.
Images and sounds go as they are to models that take them (`pictures.py`); all others get the descriptor.
"""

from __future__ import annotations

import codecs
import io
import json
import logging
import re
from collections.abc import Callable, Iterable
from itertools import chain, count
from typing import Literal, NamedTuple

from . import pictures
from .content import Link, Part, clean, one_line
from .pictures import Block

__all__ = [
    "BY_A_PERSON", "HANDLERS", "Rendered", "Shown", "add", "essence", "for_model", "found_type", "human_size", "is_text",
    "is_text_part", "link_text", "shown", "wrap",
]  # fmt: skip

Best = Literal["text", "json", "csv", "markdown"]


class Shown(NamedTuple):
    """A part as text, and what has to be said about it (`None` when there is nothing)."""

    text: str
    note: str | None = None
    best: Best = "text"
    """As what a person sees the text best."""
    block: Callable[[], Block] | None = None
    """Makes what a model gets in its place that takes images or sounds; raises `ValueError` where it cannot be sent."""
    takes: str | None = None
    """What such a model must take: `image` or `audio`."""


class Rendered(NamedTuple):
    """What a model gets of a read, a prompt's message or a tool result."""

    text: str
    note: str | None = None
    blocks: tuple[Block, ...] = ()
    """Images and sounds; each has its place in the text, where it is announced."""
    body: str = ""
    """`text` without the block around a single part: what is cut when it does not fit."""
    kind: str | None = None
    """Media type of a single part."""


Handler = Callable[[Part, str], Shown | None]
HANDLERS: list[tuple[str, Handler]] = []
"""Media type patterns (`application/pdf`, `+json`, `image/*`) and who renders them."""
GENERIC = ("", "application/octet-stream", "binary/octet-stream")


def add(pattern: str, handler: Handler) -> Callable[[], None]:
    """Let `handler` render parts of that type; gives the function that takes it away again.

    Example:
        >>> undo = add("text/csv", lambda part, mime: Shown("a table"))
    """
    entry = (pattern, handler)
    HANDLERS.append(entry)
    return lambda: HANDLERS.remove(entry)


def essence(mime: str | None) -> str:
    """A media type without parameters, in lower case; "" where there is none."""
    return (mime or "").lower().split(";")[0].strip()


def is_text(mime: str | None) -> bool:
    """Whether a media type is text (the rule of "On-demand resources", step 4)."""
    kind = essence(mime)
    return (
        kind.startswith("text/")
        or kind.endswith(("+json", "+xml", "+yaml"))
        or kind in ("application/json", "application/xml", "application/yaml")
    )


def found_type(part: Part) -> str | None:
    """The media type that the bytes themselves show (by `filetype`, of the `media` extra), where it counts more than the
    declared one: that is missing or generic, or says text, image, audio or video and the bytes are something else.
    """
    if isinstance(part.data, str):
        return None
    try:
        import filetype
    except ImportError:
        return None
    declared, found = essence(part.mime), filetype.guess_mime(part.data)
    # A document in a zip is not a lying zip: other application types are believed.
    doubtful = declared in GENERIC or is_text(declared) or declared.split("/")[0] in ("image", "audio", "video")
    return found if found and doubtful and _same(found) != _same(declared) else None


_ALIASES = {"wave": "wav", "mp3": "mpeg", "jpg": "jpeg", "pjpeg": "jpeg", "icon": "microsoft.icon"}


def _same(kind: str) -> str:
    """One spelling for what has several: audio/x-wav and audio/vnd.wave, image/jpg."""
    top, _, name = kind.partition("/")
    name = name.removeprefix("x-").removeprefix("vnd.")
    return f"{top}/{_ALIASES.get(name, name)}"


def is_text_part(part: Part) -> bool:
    """Whether a model gets the part's text, and not a note in its place."""
    return not shown(part).text.startswith(_DESCRIPTOR)


def human_size(size: int) -> str:
    """1536 -> "1.5 KB"."""
    amount = float(size)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1024 or unit == "GB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def shown(part: Part) -> Shown:
    """What a model gets of a part, as text: its own, a document's, or a descriptor. Never raises."""
    if isinstance(part.data, str):
        return Shown(part.data, best=_best(essence(part.mime)))
    kind = found_type(part) or essence(part.mime)
    said = next(filter(None, (handler(part, kind) for handler in _chosen(kind))), None) or _descriptor(part, kind)
    if kind == essence(part.mime) or not kind:
        return said
    lie = (
        f"declared as {one_line(part.mime)}, found to be {kind}"
        if part.mime
        else f"no type declared, found to be {kind}"
    )
    return said._replace(note=_joined(lie, said.note))


def _joined(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None


def _chosen(kind: str) -> Iterable[Handler]:
    top, suffix = f"{kind.split('/')[0]}/*", f"+{kind.rsplit('+', 1)[1]}" if "+" in kind else None
    for wanted in (kind, suffix, top):
        yield from (handler for pattern, handler in reversed(HANDLERS) if pattern == wanted)


# -- the handlers that are there from the start

_DESCRIPTOR = "[Binary: "
BY_A_PERSON = "a person can save it to a file and open it there"
"""What ends a descriptor for a model; a person gets the line that does it in its place."""


def _descriptor(part: Part, kind: str, *facts: str) -> Shown:
    about = ", ".join([kind or "application/octet-stream", *facts, human_size(part.size)])
    return Shown(f"{_DESCRIPTOR}{about}. Not text, so it is not shown here; {BY_A_PERSON}.]")


def _charset(mime: str | None) -> str | None:
    found = re.search(r"charset\s*=\s*\"?([\w.:+-]+)", mime or "", re.IGNORECASE)
    try:
        return codecs.lookup(found[1]).name if found else None
    except LookupError:
        return None


_BEST: dict[str, Best] = {
    "application/json": "json", "text/csv": "csv", "text/tab-separated-values": "csv", "text/markdown": "markdown",
}  # fmt: skip


def _best(kind: str) -> Best:
    return "json" if kind.endswith("+json") else _BEST.get(kind, "text")


def _text(part: Part, kind: str) -> Shown:
    """Bytes by their charset, else UTF-8; what does not fit becomes U+FFFD, and the note says so."""
    assert isinstance(part.data, bytes)
    charset = _charset(part.mime) or "utf-8"
    try:
        return Shown(part.data.decode(charset), best=_best(kind))
    except UnicodeDecodeError:
        text = part.data.decode(charset, errors="replace")
        return Shown(text, f"not valid {charset}: {text.count(chr(0xFFFD)):,} places could not be decoded")


def _pdf(part: Part, kind: str) -> Shown:
    """The text of each page under its number; a descriptor that says why where there is none."""
    assert isinstance(part.data, bytes)
    try:
        import pypdf
    except ImportError:
        return _descriptor(part, kind, 'its text needs pip install "mcp-agent-workbench[media]"')
    # Else Python's logging would print its warnings of a broken file into the running cell.
    logging.getLogger("pypdf").addHandler(logging.NullHandler())
    try:
        reader = pypdf.PdfReader(io.BytesIO(part.data))
        if reader.is_encrypted and not reader.decrypt(""):
            return _descriptor(part, kind, "encrypted")
        pages = [page.extract_text().strip() for page in reader.pages]
    except Exception as error:  # pypdf raises whatever a broken file makes of its parser
        return _descriptor(part, kind, f"could not be read as a PDF ({type(error).__name__})")
    if not any(pages):
        return _descriptor(part, kind, f"{len(pages)} pages without text (scanned?)")
    text = "\n\n".join(f"[Page {number} of {len(pages)}]\n{page}" for number, page in enumerate(pages, 1))
    return Shown(text, f"text of a PDF of {human_size(part.size)}, without its pictures and layout")


def _image(part: Part, kind: str) -> Shown:
    """The descriptor with its size in pixels, and the image itself for a model that takes it."""
    data = part.data
    assert isinstance(data, bytes)
    try:
        width, height = pictures.pixels(data)
    except ImportError:
        return _descriptor(part, kind, 'to be sent or measured it needs pip install "mcp-agent-workbench[media]"')
    except ValueError as error:
        return _descriptor(part, kind, str(error))
    said = _descriptor(part, kind, f"{width} x {height} pixels")
    return said._replace(takes="image", block=lambda: pictures.image(data))


def _audio(part: Part, kind: str) -> Shown:
    data = part.data
    assert isinstance(data, bytes)
    return _descriptor(part, kind)._replace(takes="audio", block=lambda: pictures.audio(data, kind))


for _pattern, _handler in (
    ("text/*", _text), ("+json", _text), ("+xml", _text), ("+yaml", _text), ("application/json", _text),
    ("application/xml", _text), ("application/yaml", _text), ("application/pdf", _pdf), ("image/*", _image),
    ("audio/*", _audio),
):  # fmt: skip
    add(_pattern, _handler)


def wrap(uri: str, mime: str | None, server: str, text: str) -> str:
    """A block that names its origin, whose end cannot be written by the content: the tag takes a free number."""
    taken = set(re.findall(r"</resource((?:-\d+)?)>", text))
    suffixes = chain([""], (f"-{number}" for number in count(2)))
    tag = "resource" + next(suffix for suffix in suffixes if suffix not in taken)
    kind = f" type={json.dumps(mime)}" if mime else ""
    origin = f"uri={json.dumps(uri, ensure_ascii=False)}{kind} server={json.dumps(server)}"
    return clean(f"<{tag} {origin}>\n{text}\n</{tag}>")


def link_text(link: Link, server: str) -> str:
    """A link as text that the model can act on; providers refuse it as a file URL."""
    about = "".join(f" ({x})" for x in (link.mime,) if x) + (f": {link.description}" if link.description else "")
    address = f"uri={json.dumps(link.uri, ensure_ascii=False)}, server={json.dumps(server)}"
    return clean(f"[Link to resource {one_line(link.name)}{about}. To read it call read_resource with {address}.]")


def for_model(parts: Iterable[Part], server: str, takes: frozenset[str] | None = None) -> Rendered:
    """All parts in order, each in a block of its own with its own URI and type, and the notes that belong to them.

    `takes` says what the model takes beside text: `image`, `audio`; `None` where it goes to no model.
    """
    made = [_rendered(part, server, takes) for part in parts]
    if len(made) == 1:
        return made[0]
    text = "\n\n".join(each.text for each in made) or "[The server answered with no content.]"
    return Rendered(text, _joined(*(each.note for each in made)), tuple(b for each in made for b in each.blocks), text)


def _rendered(part: Part, server: str, takes: frozenset[str] | None) -> Rendered:
    text, note, block = _one(part, takes)
    body, kind = f"[{note}]\n{text}" if note else text, found_type(part) or part.mime
    return Rendered(wrap(part.uri, kind, server, body), note, (block,) if block else (), body, kind)


def _one(part: Part, takes: frozenset[str] | None) -> tuple[str, str | None, Block | None]:
    said = shown(part)
    if said.block is None or said.takes is None or takes is None:
        return said.text, said.note, None
    if said.takes not in takes:
        return said.text, _joined(said.note, f"not sent as {said.takes}: this model is not known to take any"), None
    try:
        block = said.block()
    except (ImportError, ValueError) as error:
        return said.text, _joined(said.note, f"not sent as {said.takes}: {error}"), None
    note = _joined(said.note, block.note)
    return f"[{said.takes} of {block.mime}, {block.size}: it follows below, as it is.]", note, block
