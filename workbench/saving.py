"""Parts that a person saves from a page: a file name that can do no harm, and how much may travel there.

A server wrote the URI that the name is made of: nothing in it may lead out of the folder, hide, or turn its direction.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count, islice
from urllib.parse import unquote

from .content import Part
from .media import essence, found_type, human_size

__all__ = ["LARGEST", "MOST", "File", "file_name", "files"]

LARGEST = 20 * 2**20
"""Bytes of a part that go to a page; what is larger is written by the kernel: `%mcp read URI --save FILE`."""
MOST = 50
"""Parts of one content that a page offers to save."""
_LENGTH = 100  # bytes of a name in UTF-8, which all file systems take, so also the most characters
_FORBIDDEN = frozenset('\\/:*?"<>|')  # in file names of Windows; the slash everywhere
_EXTENSION = re.compile(r"\.(?=[A-Za-z0-9]{1,10}$)[0-9]*[A-Za-z][A-Za-z0-9]*$")  # "v1.2" has none

_TYPES = mimetypes.MimeTypes()  # Python's own table: not what this machine happens to know
for _mime, _extension in [("text/markdown", ".md"), ("application/yaml", ".yaml"), ("image/webp", ".webp")]:
    _TYPES.add_type(_mime, _extension)


@dataclass(frozen=True, kw_only=True)
class File:
    """A part under the name that a page saves it by."""

    name: str
    part: Part

    @property
    def refused(self) -> str | None:
        """Why it does not go to a page; `None` where it may."""
        return f"is larger than the {human_size(LARGEST)} that go to a page" if self.part.size > LARGEST else None


def files(parts: Iterable[Part]) -> Sequence[File]:
    """The first `MOST` parts as files, no two of one name."""
    found = dict[str, File]()
    for part in islice(parts, MOST):
        mime = found_type(part) or essence(part.mime)
        names = (file_name(part.uri, mime, number) for number in count(1))
        name = next(name for name in names if name.lower() not in found)  # "a-2.txt" may be another part's own name
        found[name.lower()] = File(name=name, part=part)
    return list(found.values())


def file_name(uri: str, mime: str = "", number: int = 1) -> str:
    """The last segment of a URI as a file name of at most 100 bytes; one without an extension gets that of its type.

    `number`, from 2 on, goes before the extension.
    """
    path = re.split("[?#]", uri, maxsplit=1)[0].rstrip("/")
    last = unquote(path.rpartition("/")[2])
    # Not printable are controls, the marks that hide text or turn its direction, lone surrogates, and odd blanks.
    safe = "".join("_" if c in _FORBIDDEN or not c.isprintable() else c for c in last).strip(" .") or "content"
    own = _EXTENSION.search(safe)
    end = own.group() if own else _TYPES.guess_extension(mime) or ""
    stem = safe.removesuffix(own.group()) if own else safe
    end = f"-{number}{end}" if number > 1 else end
    return (stem.encode()[: _LENGTH - len(end)].decode(errors="ignore").rstrip(" .") or "content") + end
