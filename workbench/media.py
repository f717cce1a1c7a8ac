"""From a part to what the model gets and what a person sees. Text arrives whole, a binary as an honest descriptor."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable
from itertools import chain, count
from typing import NamedTuple

from .content import Link, Part, clean, one_line

__all__ = ["Shown", "for_model", "human_size", "is_text", "link_text", "shown", "wrap"]


class Shown(NamedTuple):
    """A part as text, and what has to be said about it (`None` when there is nothing)."""

    text: str
    note: str | None = None


def is_text(mime: str | None) -> bool:
    """Whether a media type is text (the rule of "On-demand resources", step 4)."""
    essence = (mime or "").lower().split(";")[0].strip()
    return (
        essence.startswith("text/")
        or essence.endswith(("+json", "+xml", "+yaml"))
        or essence in ("application/json", "application/xml", "application/yaml")
    )


def is_text_part(part: Part) -> bool:
    """Whether a model gets the part's text, and not a note in its place."""
    return isinstance(part.data, str) or is_text(part.mime)


def human_size(size: int) -> str:
    """1536 -> "1.5 KB"."""
    amount = float(size)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1024 or unit == "GB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def _charset(mime: str | None) -> str | None:
    found = re.search(r"charset\s*=\s*\"?([\w.:+-]+)", mime or "", re.IGNORECASE)
    try:
        return codecs.lookup(found[1]).name if found else None
    except LookupError:
        return None


def shown(part: Part) -> Shown:
    """The text of a part, or its descriptor. Never raises: bytes that do not fit become U+FFFD, and the note says so."""
    if isinstance(part.data, str):
        return Shown(part.data)
    if not is_text_part(part):
        return Shown(
            f"[Binary: {part.mime or 'application/octet-stream'}, {human_size(part.size)}. Not text, so it is not shown here; "
            "a person can save it to a file and open it there.]"
        )
    charset = _charset(part.mime) or "utf-8"
    try:
        return Shown(part.data.decode(charset))
    except UnicodeDecodeError:
        text = part.data.decode(charset, errors="replace")
        return Shown(text, f"not valid {charset}: {text.count(chr(0xFFFD)):,} places could not be decoded")


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


def for_model(parts: Iterable[Part], server: str) -> Shown:
    """All parts in order, each in a block of its own with its own URI and type, and the notes that belong to them."""
    blocks, notes = [], []
    for part in parts:
        text, note = shown(part)
        blocks.append(wrap(part.uri, part.mime, server, f"[{note}]\n{text}" if note else text))
        notes += [note] if note else []
    return Shown("\n\n".join(blocks) or "[The server answered with no content.]", "; ".join(notes) or None)
