"""What the messages of one provider call hold, as far as the demo model can tell: a question, a catalog, content.

The formats are those in which the workbench writes its system prompt and wraps content: plain text, so that any host
can write them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from workbench.content import Template

__all__ = ["FIND", "READ", "Document", "Entry", "Turn", "turn"]

READ, FIND = "read_resource", "find_resources"
BLOCK = re.compile(
    r'<(resource(?:-\d+)?) uri=("(?:[^"\\]|\\.)*")(?: type=("(?:[^"\\]|\\.)*"))?[^\n]*>\n(.*?)\n</\1>', re.DOTALL
)
LINK = re.compile(
    r'^\[Link to resource .* To read it call read_resource with uri=("(?:[^"\\]|\\.)*"), server=("[^"]*")\.\]$', re.M
)
ENTRY = re.compile(r"^### Resource( template)?:(.*)\n((?:[A-Z][\w ]*: .*(?:\n|\Z))+)", re.M)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A resource, or a resource template, as the system message lists it."""

    server: str
    uri: str
    name: str
    description: str
    template: bool

    @property
    def text(self) -> str:
        """What a question is held against."""
        return f"{self.uri} {self.name} {self.description}"

    def covers(self, uri: str) -> bool:
        """Whether reading `uri` reads this entry."""
        return uri == self.uri or (self.template and Template(server="", name="", uri=self.uri).matches(uri))


@dataclass(frozen=True, kw_only=True)
class Document:
    """Content that is in the context of the turn."""

    uri: str
    text: str
    mime: str | None = None
    """As the host wrote it; `None` where it did not."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What the messages hold, seen from the last question."""

    question: str
    entries: tuple[Entry, ...]
    documents: tuple[Document, ...]
    read: tuple[str, ...]
    """URIs that were asked for after the question, whatever came of it."""
    failures: tuple[tuple[str, str], ...]
    """URI and message of each read that ended in an error."""
    links: tuple[tuple[str, str], ...] = ()
    """URI and server of each link that came after the question."""
    called: frozenset[str] = frozenset()
    """The tools that were called after the question."""

    def holds(self, uri: str) -> bool:
        """Whether the content is in the context already."""
        return any(document.uri == uri for document in self.documents)


def turn(messages: Sequence[BaseMessage]) -> Turn:
    """Read the messages of one provider call; text that is no catalog and no content is passed over."""
    asked = max((place for place, message in enumerate(messages) if isinstance(message, HumanMessage)), default=-1)
    system = "\n".join(text for message in messages if isinstance(message, SystemMessage) for text in _texts(message))
    human = _texts(messages[asked]) if asked >= 0 else []
    documents = [document for text in (system, *human) for document in _documents(text)]
    uris: dict[str, str] = {}
    names: dict[str, str] = {}
    failures, links, found = [], list[tuple[str, str]](), list[Entry]()
    for message in messages[asked + 1 :]:
        if isinstance(message, AIMessage):
            uris |= {str(c["id"]): str(c["args"].get("uri", "")) for c in message.tool_calls if c["name"] == READ}
            names |= {str(c["id"]): c["name"] for c in message.tool_calls}
        elif isinstance(message, ToolMessage):
            uri, text = uris.get(message.tool_call_id, ""), "\n".join(_texts(message))
            name = names.get(message.tool_call_id, READ)
            if message.status == "error":
                failures.append((uri or name, text))
            elif name == FIND:
                found += _catalog(text)
            elif name == READ:
                documents += _documents(text) or [Document(uri=uri, text=text)]
            else:
                documents += _documents(text)
                links += [(_unquoted(uri), _unquoted(server)) for uri, server in LINK.findall(text)]
    return Turn(
        question=BLOCK.sub("", human[-1]).strip() if human else "",
        entries=tuple(dict.fromkeys((*_catalog(BLOCK.sub("", system)), *found))),
        documents=tuple(documents),
        read=tuple(uris.values()),
        failures=tuple(failures),
        links=tuple(links),
        called=frozenset(names.values()),
    )


def _texts(message: BaseMessage) -> list[str]:
    blocks = [message.content] if isinstance(message.content, str) else message.content
    texts = [block if isinstance(block, str) else block.get("text") for block in blocks]
    return [text for text in texts if isinstance(text, str)]


def _documents(text: str) -> list[Document]:
    return [
        Document(uri=_unquoted(uri), mime=_unquoted(mime) if mime else None, text=content)
        for _, uri, mime, content in BLOCK.findall(text)
    ]


def _unquoted(literal: str) -> str:
    try:
        return str(json.loads(literal))
    except ValueError:  # a server's text that only looks like the host's wrapping
        return literal[1:-1]


@lru_cache(maxsize=8)
def _catalog(system: str) -> tuple[Entry, ...]:
    entries = []
    for template, name, lines in ENTRY.findall(system):
        fields = dict(line.split(": ", 1) for line in reversed(lines.rstrip("\n").split("\n")))
        uri = fields.get("URI template" if template else "URI", "")
        if uri:
            server, description = fields.get("Server", ""), fields.get("Description", "")
            entries.append(
                Entry(server=server, uri=uri, name=name.strip(), description=description, template=bool(template))
            )
    return tuple(entries)
