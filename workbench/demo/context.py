"""What the messages of one provider call hold, as far as the demo model can tell: a question, a catalog, content.

The formats are those in which the workbench writes its system prompt, its links and its tools, and wraps content: plain
text, so that any host can write them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from workbench.content import Template

__all__ = ["FIND", "READ", "Call", "Document", "Entry", "Turn", "earlier", "is_companion", "turn"]

READ, FIND = "read_resource", "find_resources"
BLOCK = re.compile(
    r'<(resource(?:-\d+)?) uri=("(?:[^"\\]|\\.)*")(?: type=("(?:[^"\\]|\\.)*"))?[^\n]*>\n(.*?)\n</\1>', re.DOTALL
)
ENTRY = re.compile(r"^### Resource( template)?:(.*)\n((?:[A-Z][\w ]*: .*(?:\n|\Z))+)", re.M)
LINK = re.compile(rf'To read it call {READ} with uri=("(?:[^"\\]|\\.)*")(?:, server=("(?:[^"\\]|\\.)*"))?')


def is_companion(name: str) -> bool:
    """Whether a tool stands for a resource: by the second seed's convention its name ends in "-tool", and a host that has
    two of one name may add a mark of eight digits ("Expose resource as tool for agent discoverability")."""
    return re.search(r"-tool(_[0-9a-f]{8})?\Z", name) is not None


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


class Call(NamedTuple):
    """A tool call of the model's."""

    name: str = ""
    arguments: Mapping[str, Any] = {}

    @property
    def subject(self) -> str:
        """What it was about: a URI, words, or the companion itself."""
        return (
            self.name
            if is_companion(self.name)
            else str(self.arguments.get("query" if self.name == FIND else "uri", ""))
        )


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What the messages hold, seen from the last question."""

    questions: tuple[str, ...]
    """Of the whole conversation, the last one's turn being this."""
    entries: tuple[Entry, ...]
    """Of the system message, then what a search found besides."""
    documents: tuple[Document, ...]
    calls: tuple[Call, ...]
    """Those of `READ`, `FIND` and companions that were made after the question, whatever came of them."""
    link: Call | None
    """The read by which a companion's answer is followed, where that was a link."""
    failures: tuple[tuple[Call, str], ...]
    """Each call that ended in an error, and its message."""

    @property
    def question(self) -> str:
        return self.questions[-1] if self.questions else ""

    def called(self, *names: str) -> list[Call]:
        """The calls of these tools."""
        return [call for call in self.calls if call.name in names]

    @property
    def companion(self) -> Call | None:
        """The call of a companion."""
        return next((call for call in self.calls if is_companion(call.name)), None)

    def holds(self, uri: str) -> bool:
        """Whether the content is in the context already."""
        return any(document.uri == uri for document in self.documents)


def turn(messages: Sequence[BaseMessage]) -> Turn:
    """Read the messages of one provider call; text that is no catalog and no content is passed over."""
    asked = _asked(messages)
    system = "\n".join(text for message in messages if isinstance(message, SystemMessage) for text in _texts(message))
    human = _texts(messages[asked]) if asked >= 0 else []
    documents = [document for text in (system, *human) for document in _documents(text)]
    calls: dict[str, Call] = {}
    failures, found, link = [], "", None
    for message in messages[asked + 1 :]:
        if isinstance(message, AIMessage):
            made = {str(each["id"]): Call(each["name"], each["args"]) for each in message.tool_calls}
            calls |= {key: call for key, call in made.items() if call.name in (READ, FIND) or is_companion(call.name)}
        elif isinstance(message, ToolMessage):
            call, text = calls.get(message.tool_call_id, Call()), "\n".join(_texts(message))
            if message.status == "error":
                failures.append((call, text))
            elif call.name == FIND:
                found += f"{text}\n\n"
            elif is_companion(call.name) and not BLOCK.search(text) and (linked := _link(text)):
                link = linked
            else:
                documents += _documents(text) or [Document(uri=call.subject, text=text)]
    listed = _catalog(BLOCK.sub("", system))
    return Turn(
        questions=_questions(messages),
        entries=(*listed, *(entry for entry in _catalog(found) if entry not in listed)),
        documents=tuple(documents),
        calls=tuple(calls.values()),
        link=link,
        failures=tuple(failures),
    )


def earlier(messages: Sequence[BaseMessage]) -> tuple[Document, ...]:
    """Content that came into the conversation before the last question, the latest first."""
    before = [m for m in messages[: max(0, _asked(messages))] if isinstance(m, HumanMessage | ToolMessage)]
    return tuple(document for m in reversed(before) for text in _texts(m) for document in _documents(text))


def _asked(messages: Sequence[BaseMessage]) -> int:
    return max((place for place, message in enumerate(messages) if isinstance(message, HumanMessage)), default=-1)


def _questions(messages: Sequence[BaseMessage]) -> tuple[str, ...]:
    """Without what is attached to them: a host puts it before the question."""
    last = [_texts(message)[-1:] for message in messages if isinstance(message, HumanMessage)]
    return tuple(BLOCK.sub("", "".join(text)).strip() for text in last)


def _texts(message: BaseMessage) -> list[str]:
    blocks = [message.content] if isinstance(message.content, str) else message.content
    texts = [block if isinstance(block, str) else block.get("text") for block in blocks]
    return [text for text in texts if isinstance(text, str)]


def _documents(text: str) -> list[Document]:
    return [
        Document(uri=_unquoted(uri), mime=_unquoted(mime) if mime else None, text=content)
        for _, uri, mime, content in BLOCK.findall(text)
    ]


def _link(text: str) -> Call | None:
    """The last one, for a name or a description may hold words that look like one."""
    links = LINK.findall(text)
    if not links:
        return None
    uri, server = links[-1]
    return Call(READ, {"uri": _unquoted(uri)} | ({"server": _unquoted(server)} if server else {}))


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
