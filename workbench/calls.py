"""What a model's calls bring: reads, prompts, searches, companions and the servers' own tools, each with one result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from . import ledger, lookup, media, messages, search, suggest, tools
from .content import Content, Link, Message, Offer, Part, PromptResult, ToolResult, for_people, visible
from .errors import NotOffered, ServerError, UsageError, WorkbenchError
from .media import Rendered
from .recorder import Open, Recorder, describe, timer
from .span import Actor
from .window import Window

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage, ToolMessage

    from .connection import Connection
    from .pattern import Brief

__all__ = ["Call", "Calls", "Gate", "Using", "Verdict", "read_into"]


@dataclass(frozen=True)
class Call:
    """A server's tool that wants to run: what a person needs to see to decide."""

    id: str
    server: str
    tool: str
    name: str
    """As the model calls it."""
    arguments: Mapping[str, Any]
    description: str


@dataclass(frozen=True)
class Verdict:
    """The answer of a gate: whether the call may run, who decided by what rule, and why not."""

    allow: bool
    actor: Actor
    rule: str
    reason: str = ""


Gate = Callable[[Call], Awaitable[Verdict]]


Using = Callable[[str, Callable[["Connection"], Awaitable[Any]]], Awaitable[Any]]
"""A read or a prompt with the connection of that name, started again where its server has ended."""


class Result(NamedTuple):
    """What a call brought."""

    text: str
    injected: list[Any] = []  # noqa: RUF012 - never changed
    """Messages that follow all results of the step."""
    error: bool = False
    source: Mapping[str, str] | None = None
    """URI and server of a content."""


class Calls:
    """The calls of one turn."""

    def __init__(
        self,
        brief: Brief,
        offer: Offer,
        connections: Mapping[str, Connection],
        using: Using,
        gate: Gate,
        recorder: Recorder,
        window: Window,
        links: dict[tuple[str, str], str],
    ) -> None:
        self.links = links
        """(server, URI) -> id of the call that brought the link; grows with tool results."""
        self.for_people: list[tuple[str, str, Part | Link]] = []
        """What servers sent for people only, with server and source ("tool NAME"): the model does not get it."""
        self._offer, self._connections, self._using = offer, connections, using
        self._gate, self._recorder, self._window, self._takes = gate, recorder, window, window.able.takes
        known = {tools.READ_RESOURCE: self._read, tools.INVOKE_PROMPT: self._prompt, tools.FIND_RESOURCES: self._find}
        self._own = tools.synthetic(offer, brief.synthetic)
        self._synthetic = {name: known[name] for name in (each["function"]["name"] for each in self._own)}
        self._companions = {companion.name: companion for companion in brief.companions}
        self._by_name: dict[str, tools.ServerTool] = {}

    async def load(self) -> list[str]:
        """Bind the servers' own tools to their sessions; says in words which were left out."""
        made, left_out = await tools.server_tools(self._connections, self._offer)
        self._by_name = {tool.name: tool for tool in made}
        return left_out

    @property
    def schemas(self) -> list[tuple[str, Any]]:
        """What the model may call, as a provider is sent it, each with whose it is."""
        own = [("workbench", schema) for schema in self._own]
        own += [(f"companions of {each.server}", each.schema) for each in self._companions.values()]
        return [*own, *((tool.tool.server, tool.schema) for tool in self._by_name.values())]

    async def run(self, call: Mapping[str, Any]) -> tuple[ToolMessage, list[Any]]:
        """The only way to run a call: it always ends in exactly one result, and an error is one too; with the turns that
        follow all results of the step."""
        name = str(call["name"])
        try:
            if call.get("error"):
                self._refuse(call, f"the arguments of {name} are not valid JSON: {call['error']}")
            if name in self._synthetic:
                result = await self._synthetic[name](call)
            elif name in self._companions:
                result = await self._companion(call, self._companions[name])
            elif name in self._by_name:
                result = await self._server_tool(call, self._by_name[name])
            else:
                self._refuse(call, f"there is no tool {visible(name)!r}; there are: {', '.join(self._names())}")
        except Exception as error:  # whatever went wrong, the model is told and the thread stays valid
            # The first line says what happened; what follows (a server's stderr, what to type) is for the person.
            said = str(error) if isinstance(error, WorkbenchError) else describe(error)
            result = Result(self._recorder.mask(said).split("\n")[0], error=True)
        return messages.result(call, result.text, result.error, result.source), result.injected

    def _refuse(self, call: Mapping[str, Any], why: str) -> NoReturn:
        """A call that cannot run has happened, too: it has a row in the trace."""
        with self._recorder.span("tool", str(call["name"]), "model", call_id=call["id"]) as span:
            span.set(status="refused")
            raise NotOffered(why)

    def _names(self) -> list[str]:
        return [*self._synthetic, *self._companions, *self._by_name]

    async def _read(self, call: Mapping[str, Any]) -> Result:
        args = call["args"]
        with self._recorder.span("read", str(args.get("uri")), "model", call_id=call["id"]) as span:
            try:
                uri, server = lookup.string_argument(args, "uri"), lookup.string_argument(args, "server", False)
                offset = lookup.offset_argument(args)
                allowed = lookup.find_readable(uri, server, self._offer, self.links)
                lookup.refuse_people_only(allowed, self._offer)
            except NotOffered as error:
                span.set(status="refused")
                raise NotOffered(await self._suggested(error, args.get("uri"), args.get("server"))) from None
            span.note(rule=allowed.rule, server=allowed.server, uri=allowed.uri)
            if allowed.source:
                span.note(linked_by=allowed.source)
            try:
                content, made = await self._using(
                    allowed.server, lambda c: read_into(span, c, allowed.uri, self._takes)
                )
            except ServerError as error:
                if not allowed.rule.startswith("template "):
                    raise
                raise ServerError(await self._suggested(error, allowed.uri, allowed.server), error.code) from None
            made = await self._window.fit(span, made, allowed.uri, allowed.server, content.sha256, offset)
        followed = self._followed(made, allowed.uri, call, "reads")
        return Result(made.text, followed, source={"uri": allowed.uri, "server": allowed.server})

    async def _suggested(self, error: WorkbenchError, uri: Any, server: Any) -> str:
        """A refused read in words, with the values that the server suggests where it was one of a template."""
        server = server if isinstance(server, str) and server else None
        found = await suggest.for_model(uri, server, self._offer, self._connections) if isinstance(uri, str) else ""
        return f"{error} {found}".strip()

    def _followed(self, made: Rendered, source: str, call: Mapping[str, Any], kind: str) -> list[Any]:
        """The turn that carries a result's images and sounds: not every provider takes those in the result itself."""
        if not made.blocks:
            return []
        turn = messages.user_turn([f"What {visible(source)} announced above:"], made.blocks)
        return messages.injected([turn], str(call["id"]), kind)

    async def _prompt(self, call: Mapping[str, Any]) -> Result:
        args = call["args"]
        with self._recorder.span("prompt", str(args.get("name")), "model", call_id=call["id"]) as span:
            try:
                name, server = lookup.string_argument(args, "name"), lookup.string_argument(args, "server", False)
                prompt = lookup.find_prompt(name, server, self._offer)
                values = lookup.prompt_arguments(prompt, args.get("arguments"))
            except NotOffered:
                span.set(status="refused")
                raise
            span.note(rule="listed", server=prompt.server, arguments=values)
            timed = await self._using(prompt.server, lambda c: c.prompt(prompt.name, values))
            result: PromptResult = timed.value
            span.note(wait_seconds=timed.waited, decode_seconds=timed.decoded)
            await asyncio.to_thread(span.brought, result.parts)
            turns = [await self._turn(span, message, result, call["id"]) for message in result.messages]
        said = "The prompt's message follows." if len(turns) == 1 else f"The prompt's {len(turns)} messages follow."
        return Result(said, messages.injected(turns, call["id"], "prompts"))

    async def _turn(self, span: Open, message: Message, result: PromptResult, call: str) -> BaseMessage:
        source, before = f"prompt {result.name}", span.span.detail
        self._remember(message.items, result.server, source, call, span)
        # A model's own turn holds text only: no provider takes images there.
        takes = self._takes if message.role == "user" else frozenset[str]()
        made = await asyncio.to_thread(tools.rendered, message.items, result.server, takes)
        whole, made = made.text, await self._window.fit(span, made, source, result.server)
        if made.text != whole:  # several messages may be cut: their characters and tokens add up
            span.note(
                **{name: before.get(name, 0) + span.span.detail[name] for name in ("end", "whole", "missing_tokens")}
            )
        span.note(
            tokens=ledger.plus(before.get("tokens", 0), span.span.detail["tokens"]),
            counter=max(before.get("counter", ""), span.span.detail["counter"], key=len),  # the longer names both
            note=_joined(before.get("note"), made.note),
        )  # fmt: skip
        return messages.said(message.role, made.text, made.blocks)

    async def _find(self, call: Mapping[str, Any]) -> Result:
        args = call["args"]
        with self._recorder.span("tool", tools.FIND_RESOURCES, "model", call_id=call["id"], arguments=args) as span:
            query, server = lookup.string_argument(args, "query"), lookup.string_argument(args, "server", False)
            lookup.check_server(server, self._offer, self.links)
            started = timer()
            found = await asyncio.to_thread(search.find, self._offer, query, server)
            text = found.text
            span.note(
                rule="synthetic", decided_by="host", found=len(found.entries), of=found.matching,
                search_seconds=timer() - started,
            )  # fmt: skip
            made = await self._window.fit(span, Rendered(text), tools.FIND_RESOURCES, "")
        return Result(made.text)

    async def _companion(self, call: Mapping[str, Any], companion: tools.Companion) -> Result:
        arguments = dict(call["args"])
        with self._recorder.span(
            "tool", companion.name, "model", server=companion.server, call_id=call["id"], arguments=arguments,
            rule="companion", decided_by="host",
        ) as span:  # fmt: skip
            try:
                link = companion.link(arguments)
            except UsageError:
                span.set(status="refused")
                raise
            if companion.embedded:
                return await self._read({**call, "args": {"uri": link.uri, "server": companion.server}})
            self._remember([link], companion.server, "", str(call["id"]), span)
            made = await self._window.fit(
                span, Rendered(media.link_text(link, companion.server)), link.uri, companion.server
            )
        return Result(made.text)

    async def _server_tool(self, call: Mapping[str, Any], tool: tools.ServerTool) -> Result:
        own, arguments = tool.tool, dict(call["args"])
        # Before the tool's span opens: the seconds that a person takes are not the tool's.
        verdict = await self._gate(Call(call["id"], own.server, own.name, tool.name, arguments, own.description or ""))
        with self._recorder.span(
            "tool", own.name, "model",
            server=own.server, called_as=tool.name, arguments=arguments, call_id=call["id"], rule=verdict.rule,
            decided_by=verdict.actor,
        ) as span:  # fmt: skip
            if not verdict.allow:
                span.set(status="refused")
                span.note(reason=verdict.reason)
                return Result(f"Refused: {verdict.reason}.", error=True)
            timed = await tools.run(tool, arguments)
            result: ToolResult = timed.value
            span.note(wait_seconds=timed.waited, decode_seconds=timed.decoded)
            await asyncio.to_thread(span.brought, result.parts)
            made = await asyncio.to_thread(tools.result_rendered, result, self._takes)
            made = await self._window.fit(span, made, f"tool {own.name}", own.server)
            span.note(note=made.note)
            self._remember(result.items, own.server, f"tool {own.name}", call["id"], span)
            if result.error:
                span.set(status="error")
        return Result(made.text, self._followed(made, f"the tool {own.name}", call, "results"), result.error)

    def _remember(self, items: Sequence[Part | Link], server: str, source: str, call: str, span: Open) -> None:
        """Links may be read from now on; what is for people only is kept for them."""
        self.for_people += [(server, source, item) for item in items if for_people(item)]
        links = [item.uri for item in items if isinstance(item, Link) and not for_people(item)]
        for uri in links:
            self.links[server, uri] = call
        if links:
            span.note(links=[*span.span.detail.get("links", ()), *links])  # a prompt's messages each bring theirs


async def read_into(
    span: Open, connection: Connection, uri: str, takes: frozenset[str] | None = None
) -> tuple[Content, Rendered]:
    """Read `uri`, note its figures in `span`, and give the content and what a model that `takes` these gets of it."""
    timed = await connection.read(uri)
    content: Content = timed.value
    started = timer()
    # On a thread: a PDF of many pages takes seconds, and the loop serves every connection.
    made = await asyncio.to_thread(media.for_model, content.parts, connection.name, takes)
    rendered = timer() - started
    repaired = "bytes on the wire that were not UTF-8 were replaced" if content.repaired else None
    found = dict.fromkeys(kind for part in content.parts if (kind := media.found_type(part)))
    await asyncio.to_thread(span.brought, content.parts)
    span.note(
        parts=len(content.parts), wait_seconds=timed.waited,
        decode_seconds=timed.decoded, render_seconds=rendered, note=_joined(made.note, repaired),
        mime=", ".join(dict.fromkeys(part.mime or "unknown" for part in content.parts)) or None,
        descriptor=bool(content.parts) and not made.blocks and not any(map(media.is_text_part, content.parts)),
        mime_found=", ".join(found) or None,
    )  # fmt: skip
    return content, made


def _joined(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None
