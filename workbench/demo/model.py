"""The offline model: a word search behind the interface of a chat model. Deterministic, free, and no language model.

It reads the catalog in the system message it was shown, whoever's servers they are, asks for the entry whose URI, name
and description match the question best, and quotes the passages of what it got. It exists so that every screen, lesson
and test runs without a key; what it cannot do is understand.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import run_in_executor
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from workbench.demo.context import FIND, READ, Document, Entry, Turn, turn
from workbench.demo.lexical import Passage, index, passages, share, words

__all__ = ["DemoModel"]

WHO = "the demo model, a word search and not a language model"
MATCH = 1 / 8
"""Share of the question's words that a catalog entry must hold to be read, or a context to be quoted.

Chosen on 20 entries and 40 questions: without it the same 24 of 34 are found, from 0.15 on right ones are lost, because
people wrap one telling word in many others.
"""
SEARCHED = 1 / 2
"""Share of the question's words that a context must hold, or the catalog is searched, where there is a tool for it."""
COMPANION = "-tool"
"""How the names of companion tools end ("Expose resource as tool for agent discoverability")."""
QUOTES = 3
WORTH_QUOTING = 0.25
"""A further passage must add this part of the score of the first."""


class DemoModel(BaseChatModel):
    """A chat model that needs no network and no key: it searches, reads and quotes.

    `DemoModel().invoke("What is 2 + 2?")` says that nothing matches. Bound to a tool named `read_resource`, and shown a
    catalog in the system message, it reads at most one resource a turn; it also calls the companion tool of a resource, and
    `find_resources` where the catalog does not list what it needs. It reports no token usage, being no provider.

    For teaching it takes time and makes mistakes, as stated: a call that ends in a tool call takes `first` seconds and one that
    answers takes `next`, and on a share `miss` of the questions it calls no tool where it would have. Which ones is drawn from
    `seed` and the question. Figures of such a model are a simulation: its name says so.

    Raises `ModelError` when `bm25s` is missing. `stop` and `tool_choice` are accepted and ignored.
    """

    model_name: str = "demo"
    first: float = 0.0
    next: float = 0.0
    miss: float = 0.0
    seed: int = 0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits so many seconds; a test brings its own clock."""

    @property
    def _llm_type(self) -> str:
        return "demo"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"model_name": self.model_name}

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model with these tools."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = self._reply(messages, kwargs.get("tools"))
        time.sleep(self._seconds(reply))
        return ChatResult(generations=[ChatGeneration(message=reply)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        reply = self._reply(messages, kwargs.get("tools"))
        time.sleep(self._seconds(reply))
        yield from _chunks(reply)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        # Ranking a large catalog takes a while; the event loop is not ours to hold up.
        reply = await run_in_executor(None, self._reply, messages, kwargs.get("tools"))
        if seconds := self._seconds(reply):
            await self.sleep(seconds)
        for chunk in _chunks(reply):
            yield chunk

    def _seconds(self, reply: AIMessage) -> float:
        return self.first if reply.tool_calls else self.next

    def _reply(self, messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]] | None) -> AIMessage:
        now = turn(messages)
        schemas = {tool["function"]["name"]: tool["function"] for tool in tools or () if "function" in tool}
        said, call = _decide(now, schemas)
        if call and not now.called and self._misses(now.question):
            said, call = _decide(now, {})
        calls = [{"name": call.name, "args": call.arguments, "id": _call_id(messages)}] if call else []
        return AIMessage(content=said, tool_calls=calls, response_metadata={"model_name": self.model_name})

    def _misses(self, question: str) -> bool:
        """Drawn anew for each question, the same each time it is asked."""
        if not self.miss:
            return False
        drawn = int.from_bytes(sha256(f"{self.seed}\0{question}".encode(errors="replace")).digest()[:8], "big")
        return drawn / 2**64 < self.miss


def _call_id(messages: Sequence[BaseMessage]) -> str:
    """The same for the same conversation, another at every step of it."""
    return "demo_" + sha256(repr([(m.type, m.content) for m in messages]).encode(errors="replace")).hexdigest()[:16]


def _chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    calls = [
        tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=place)
        for place, call in enumerate(message.tool_calls)
    ]
    first = AIMessageChunk(content="", tool_call_chunks=calls, response_metadata=message.response_metadata)
    yield ChatGenerationChunk(message=first)
    for word in re.findall(r"\s*\S+|\s+$", str(message.content)):
        yield ChatGenerationChunk(message=AIMessageChunk(content=word))


class Quote(NamedTuple):
    """A passage, and what the catalog says of the document that it is from."""

    document: Document
    entry: Entry | None
    passage: Passage

    @property
    def title(self) -> str:
        return f"{self.entry.uri} {self.entry.name}" if self.entry else self.document.uri

    @property
    def words(self) -> list[str]:
        """All that it may count as matching by: its own words, and those by which its document is offered."""
        return words(" ".join([self.entry.text if self.entry else self.document.uri, *self.passage]))


class Wanted(NamedTuple):
    """A call of a tool."""

    name: str
    arguments: dict[str, str]


class Target(NamedTuple):
    """The entry that matches best; the URI to read it by, `None` for a template without values; and how well it does."""

    entry: Entry
    uri: str | None
    match: float


def _decide(now: Turn, tools: Mapping[str, Any]) -> tuple[str, Wanted | None]:
    """The answer, or no text and a call."""
    if now.failures:
        failed = "\n\n".join(f"Reading {_code(uri)} failed:\n\n{_quoted(said)}" for uri, said in now.failures)
        return f"{failed}\n\nThis is said by {WHO}.", None
    asked = words(now.question)
    quotes = _quotes(now, asked)
    covered = share(asked, [word for quote in quotes for word in quote.words])
    target = None if now.read else _target(now, asked)
    if call := _call(now, tools, target, covered, asked):
        return "", call
    if quotes and (now.read or now.called or covered >= MATCH):
        return _answer(quotes), None
    return _nothing(now, target), None


def _call(
    now: Turn, tools: Mapping[str, Any], target: Target | None, covered: float, asked: Sequence[str]
) -> Wanted | None:
    """What would bring more than what is there: a link that was given, an entry, a companion tool, a search."""
    if READ in tools and not now.read:
        for uri, server in now.links:
            return Wanted(READ, {"uri": uri, "server": server})
        if target and target.uri and target.match > covered and not now.holds(target.uri):
            return Wanted(READ, _arguments(now, target.entry, target.uri))
    chosen = now.read or any(name.endswith(COMPANION) for name in now.called)
    if not chosen and (companion := _companion(now, tools, asked, covered)) is not None:
        return companion
    if FIND in tools and not now.called and asked and covered < SEARCHED:
        return Wanted(FIND, {"query": " ".join(dict.fromkeys(asked))})
    return None


def _companion(now: Turn, tools: Mapping[str, Any], asked: Sequence[str], covered: float) -> Wanted | None:
    """The companion tool whose name and description match best, where the question fills in what it needs."""
    own = [tool for name, tool in tools.items() if name.endswith(COMPANION)]
    texts = tuple(f"{tool['name'].removesuffix(COMPANION)} {tool.get('description', '')}" for tool in own)
    best = index(texts).cover(asked) if texts else []
    if not best or (match := share(asked, words(texts[best[0]]))) < MATCH or match <= covered:
        return None
    needed = own[best[0]].get("parameters", {}).get("required", [])
    numbers = re.findall(r"\b\d+\b", now.question)
    if len(numbers) != len(needed) and needed:
        return None
    return Wanted(own[best[0]]["name"], dict(zip(needed, numbers, strict=False)))


def _target(now: Turn, asked: Sequence[str]) -> Target | None:
    for uri in re.findall(r"\w[\w+.-]*:[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]]", now.question):
        for entry in now.entries:
            if entry.covers(uri):
                return Target(entry, uri, match=float("inf"))
    best = index(tuple(entry.text for entry in now.entries)).cover(asked)
    if not best:
        return None
    entry = now.entries[best[0]]
    match = share(asked, words(entry.text))
    return Target(entry, _uri(entry, now.question), match) if match >= MATCH else None


def _uri(entry: Entry, question: str) -> str | None:
    """A template is filled in when the question holds exactly as many numbers as it has simple fields."""
    if not entry.template:
        return entry.uri
    numbers = re.findall(r"\b\d+\b", question)
    fields = re.findall(r"\{\w+\}", entry.uri)
    if len(numbers) != len(fields) or len(fields) != entry.uri.count("{"):
        return None
    values = iter(numbers)
    return re.sub(r"\{\w+\}", lambda _: next(values), entry.uri)


def _arguments(now: Turn, entry: Entry, uri: str) -> dict[str, str]:
    """`server` only where the URI alone does not say which one is meant."""
    shared = sum(other.uri == entry.uri for other in now.entries) > 1
    return {"uri": uri, "server": entry.server} if shared else {"uri": uri}


def _quotes(now: Turn, asked: Sequence[str]) -> list[Quote]:
    """The passage that matches best, then those that match best what it left open: one for each part of a question."""
    found = []
    for document in now.documents:
        entry = next((entry for entry in now.entries if entry.covers(document.uri)), None)
        found += [Quote(document, entry, passage) for passage in passages(document.text)]
    # Descriptions stay out of this ranking: a word that they lend to every passage would tell none from another.
    ranking = index(tuple(" ".join([quote.title, *quote.passage]) for quote in found))
    places = ranking.cover(asked, QUOTES, WORTH_QUOTING)
    if places and not set(asked) & set(ranking.words[places[0]]) - set(words(found[places[0]].title)):
        # Nothing but the title matched, so that no passage is better than another: begin at the beginning.
        places = [next(n for n, quote in enumerate(found) if quote.document is found[places[0]].document)]
    return [found[place] for place in sorted(places)]


# --- how it is said ---------------------------------------------------------------------------------------------------


def _code(uri: str) -> str:
    """A URI as a Markdown code span, whatever is in it."""
    fence = "`" * (max(map(len, re.findall("`+", uri)), default=0) + 1)
    return f"{fence}{uri}{fence}" if len(fence) == 1 else f"{fence} {uri} {fence}"


def _quoted(text: str, mime: str | None = None) -> str:
    """A Markdown quotation; what is known to be no Markdown is fenced, or its lines would run together."""
    if mime and "markdown" not in mime and "\n" in text:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        text = f"{fence}\n{text}\n{fence}"
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _answer(quotes: Iterable[Quote]) -> str:
    by_uri: dict[str, list[str]] = {}
    for document, _, passage in quotes:
        by_uri.setdefault(document.uri, []).append(_quoted(passage.text, document.mime))
    parts = [f"From {_code(uri)}:\n\n" + "\n\n…\n\n".join(texts) for uri, texts in by_uri.items()]
    return "\n\n".join(parts) + f"\n\nQuoted by {WHO}."


def _nothing(now: Turn, target: Target | None) -> str:
    if now.read:
        found = f"I read {_code(now.read[-1])}, and nothing in it matches the question."
    elif target and target.uri:
        found = f"{_code(target.uri)} matches best, but I was given no tool to read it."
    elif target:
        needs = "but needs a value: put the number into the question, as in 'customer 12'."
        found = f"{_code(target.entry.uri)} matches best, {needs}"
    else:
        found = f"Nothing matches the question, in the {len(now.entries)} catalog entries that I was shown or attached."
    limits = "I quote what shares words with a question, call no tool of a server, and know nothing else."
    return f"{found} I am {WHO}: {limits}"
