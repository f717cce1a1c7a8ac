"""The agent: model <-> tools, in LangGraph. One `Send` a tool call, and one `_wrap` that every call passes.

    model --(tool calls)--> tool (one a call) --> join --> model

`join` appends the turns that prompts inject, after all tool results of the step: providers reject a human turn between a
tool call and its result.
"""

from __future__ import annotations

import asyncio
import json
import operator
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypedDict, cast

from . import ledger, lookup, media, messages, models, suggest, tokens, tools
from .content import Content, Link, Message, Offer, Part, PromptResult, ToolResult, clean, for_people, visible
from .errors import ModelError, NotOffered, ServerError, WorkbenchError
from .ledger import Piece
from .media import Rendered
from .pictures import Block
from .recorder import Open, Recorder, describe
from .span import Actor
from .window import Window

if TYPE_CHECKING:
    from langchain_core.messages import (
        AIMessage,
        AIMessageChunk,
        AnyMessage,
        BaseMessage,
        HumanMessage,
    )

    from .connection import Connection
    from .pattern import Brief
    from .turn import Attachment

__all__ = ["Attached", "Call", "Gate", "Verdict", "Work", "read_into"]

MOST_CALLS = 25
"""Provider calls a turn may make; then it ends with an error instead of going round for ever."""


@dataclass(frozen=True)
class Attached:
    """Content that stands in the turn's context from the first call on, and who put it there."""

    content: Content
    actor: Actor
    text: str
    """As the model gets it, with its `blocks` after it."""
    blocks: tuple[Block, ...] = ()


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


@dataclass
class Work:
    """Everything one turn needs. `messages` is the thread, and grows by what the turn adds; it is the caller's to keep."""

    model: Any
    brief: Brief
    offer: Offer
    connections: Mapping[str, Connection]
    using: Callable[[str, Callable[[Connection], Awaitable[Any]]], Awaitable[Any]]
    """A read or a prompt with the connection of that name, started again where its server has ended."""
    gate: Gate
    recorder: Recorder
    turn: Open
    """The turn's own span, for what concerns all of it."""
    question: str
    attachments: Sequence[tuple[Attachment, str | None]] = ()
    """What is attached, and what has to be said about it."""
    history: Sequence[BaseMessage] = ()
    links: dict[tuple[str, str], str] = field(default_factory=dict)
    """(server, URI) -> id of the call that brought the link; grows with tool results."""
    on_text: Callable[[str], None] = lambda text: None
    for_people: list[tuple[str, str, Part | Link]] = field(default_factory=list)
    """What servers sent for people only, with server and source ("tool NAME"): the model does not get it."""
    calls: Iterator[int] = field(default_factory=lambda: count(1))
    """Numbers for this turn's provider calls; a server that samples takes from them too."""
    messages: list[Any] = field(default_factory=list)
    """What this turn has added so far: the question, replies, results. Valid for a provider after `in_order`."""

    def __post_init__(self) -> None:
        self._by_name: dict[str, tools.ServerTool] = {}
        self._schemas: list[Any] = []
        self._bound: Any = None
        self._window = Window(models.abilities(self.model))
        self._takes = self._window.able.takes
        self._attached: list[Attached] = []
        # A provider may use an id again in the next step or turn; results are matched by it.
        self._ids = {call["id"] for message in self.history for call in messages.calls_of(message)}

    # -- the graph

    async def run(self) -> str:
        """Ask the model until it answers without calling a tool; the answer's text."""
        from langchain_core.messages import HumanMessage
        from langgraph.errors import GraphRecursionError

        made, left_out = await tools.server_tools(self.connections, self.offer)
        if left_out:
            self.turn.note(left_out=left_out)
        self._by_name = {tool.name: tool for tool in made}
        self._schemas = [*tools.synthetic(self.offer), *(tool.schema for tool in made)]
        self._bound = models.bind(self.model, self._schemas)
        await self._attach()
        self.messages.append(HumanMessage(clean(self.question), id="question"))
        try:
            async for update in self._graph().astream(
                {"messages": [], "injected": []}, {"recursion_limit": 3 * MOST_CALLS + 1}, stream_mode="updates"
            ):
                for change in update.values():
                    self.messages += (change or {}).get("messages", [])
        except GraphRecursionError:
            raise ModelError(f"the turn was ended after {MOST_CALLS} provider calls without an answer") from None
        return messages.text_of(self.messages[-1])

    def _graph(self) -> Any:
        from langgraph.graph import END, START, StateGraph
        from langgraph.types import Send

        async def model(state: _State) -> dict[str, Any]:
            return {"messages": [await self._ask_model(state["messages"])]}

        async def tool(call: dict[str, Any]) -> dict[str, Any]:
            result, injected = await self._wrap(call)
            return {"messages": [result], "injected": injected}

        def join(state: _State) -> dict[str, Any]:
            # `injected` only grows: what was put into messages before is counted off.
            before = sum(map(messages.is_injected, state["messages"]))
            return {"messages": state["injected"][before:]}

        def route(state: _State) -> Any:
            calls = messages.calls_of(state["messages"][-1])
            return [Send("tool", call) for call in calls] or END

        graph: Any = StateGraph(_State)
        graph.add_node("model", model)
        graph.add_node("tool", tool)
        graph.add_node("join", join)
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", route, ["tool", END])
        graph.add_edge("tool", "join")
        graph.add_edge("join", "model")
        return graph.compile()

    # -- the model

    def _opening(self) -> list[BaseMessage]:
        """System prompt, history and question, as they are sent."""
        from langchain_core.messages import SystemMessage

        system = "\n\n".join(x for x in (self.brief.system, self.brief.catalog) if x)
        history = [messages.without(message, self._takes) for message in self.history]
        blocks = [block for attached in self._attached for block in attached.blocks]
        question = messages.user_turn([*(a.text for a in self._attached), self.question], blocks)
        return [SystemMessage(clean(system)), *history, question]

    async def _attach(self) -> None:
        """Put what is attached into the context, each with a row, as far as the window goes."""
        self._window.taken(await asyncio.to_thread(ledger.counted, self._pieces(())))
        for attachment, said in self.attachments:
            content = attachment.content
            with self.recorder.span("attach", content.uri, attachment.actor, server=content.server) as span:
                made = await asyncio.to_thread(media.for_model, content.parts, content.server, self._takes)
                made = made._replace(text=f"Attached by the {attachment.actor}:\n{made.text}")
                made = await self._window.fit(span, made, content.uri, content.server, content.sha256)
                note = "; ".join(x for x in (said, made.note) if x) or None
                span.note(
                    uri=content.uri, bytes=content.size, sha256=content.sha256, read_at=attachment.read_at, note=note
                )
            self._attached.append(Attached(content, attachment.actor, made.text, made.blocks))

    async def _ask_model(self, added: Sequence[AnyMessage]) -> AIMessage:
        name = models.model_name(self.model)
        number = next(self.calls)
        # Counted before the span opens: our own work is not the provider's latency.
        pieces = self._pieces(added)
        made_of = await asyncio.to_thread(ledger.counted, pieces)
        counter = self._window.counter(any(piece.more != 0 for piece in pieces))
        with self.recorder.span("model", name, "host", call=number, composition=made_of, counter=counter) as span:
            try:
                reply = await self._stream([*self._opening(), *added], span)
            except (asyncio.CancelledError, WorkbenchError):
                raise
            except Exception as error:
                raise models.provider_error(name, error) from error
            said = messages.text_of(reply) + "".join(
                json.dumps(call["args"]) + call["name"] for call in messages.calls_of(reply)
            )
            got = tokens.count(said)
            span.note(output_tokens_estimated=got, tool_calls=len(messages.calls_of(reply)))
            if (usage := models.usage_of(reply)) is not None:
                span.set(usage=usage)
            self._window.taken(made_of, got)
            return reply

    async def _stream(self, request: list[BaseMessage], span: Open) -> AIMessage:
        from langchain_core.messages import message_chunk_to_message

        whole: AIMessageChunk | None = None
        started = time.perf_counter()
        async for chunk in self._bound.astream(request):
            if whole is None:
                span.note(first_chunk_seconds=time.perf_counter() - started)
            whole = chunk if whole is None else whole + chunk
            if text := messages.text_of(chunk):
                self.on_text(text)
        if whole is None:
            raise ModelError(f"{span.span.name} answered nothing at all; ask again")
        return messages.with_ids(messages.strict(cast("AIMessage", message_chunk_to_message(whole)), whole), self._ids)

    def _pieces(self, added: Sequence[AnyMessage]) -> list[Piece]:
        """The request in pieces whose tokens sum to its total: each stretch of it in exactly one."""
        pieces = [Piece("system", "instructions", self.brief.system), Piece("catalog", "catalog", self.brief.catalog)]
        for schema in self._schemas:
            own = self._by_name.get(schema["function"]["name"])
            pieces.append(
                Piece("tools", own.tool.server if own else "workbench", json.dumps(schema, ensure_ascii=False))
            )
        history = [messages.without(message, self._takes) for message in self.history]
        pieces += [
            Piece("history", m.type, messages.request_text(m), self._window.cost(messages.sizes_of(m))) for m in history
        ]
        pieces += [
            Piece("attachments", a.content.uri, a.text, self._window.cost(b.size for b in a.blocks))
            for a in self._attached
        ]
        pieces.append(Piece("question", "question", self.question))
        pieces += [
            Piece(*messages.whose(m), messages.request_text(m), self._window.cost(messages.sizes_of(m))) for m in added
        ]
        return [piece for piece in pieces if piece.text or piece.more != 0]

    # -- the calls

    async def _wrap(self, call: Mapping[str, Any]) -> tuple[Any, list[BaseMessage]]:
        """The only way to run a call: it always ends in exactly one result, and an error is one too."""
        from langchain_core.messages import ToolMessage

        name, injected = str(call["name"]), list[Any]()
        try:
            if call.get("error"):
                self._refuse(call, f"the arguments of {name} are not valid JSON: {call['error']}")
            if name == tools.READ_RESOURCE:
                result, injected = await self._read(call)
            elif name == tools.INVOKE_PROMPT:
                result, injected = await self._prompt(call)
            elif name in self._by_name:
                result, injected = await self._server_tool(call, self._by_name[name])
            else:
                self._refuse(call, f"there is no tool {visible(name)!r}; there are: {', '.join(self._names())}")
        except Exception as error:  # whatever went wrong, the model is told and the thread stays valid
            # The first line says what happened; what follows (a server's stderr, what to type) is for the person.
            said = self.recorder.mask(str(error) if isinstance(error, WorkbenchError) else describe(error)).split("\n")[
                0
            ]
            result = ToolMessage(said, tool_call_id="", status="error")
        # `clean`: providers' packages send UTF-8, which has no lone surrogates, and would fail the whole turn.
        return result.model_copy(
            update={"content": clean(result.content), "tool_call_id": call["id"], "name": name}
        ), injected

    def _refuse(self, call: Mapping[str, Any], why: str) -> NoReturn:
        """A call that cannot run has happened, too: it has a row in the trace."""
        with self.recorder.span("tool", str(call["name"]), "model", call_id=call["id"]) as span:
            span.set(status="refused")
            raise NotOffered(why)

    def _names(self) -> list[str]:
        return [tools.READ_RESOURCE, *([tools.INVOKE_PROMPT] if self.offer.prompts else []), *self._by_name]

    async def _read(self, call: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        from langchain_core.messages import ToolMessage

        args = call["args"]
        with self.recorder.span("read", str(args.get("uri")), "model", call_id=call["id"]) as span:
            try:
                uri, server = lookup.string_argument(args, "uri"), lookup.string_argument(args, "server", False)
                offset = lookup.offset_argument(args)
                allowed = lookup.find_readable(uri, server, self.offer, self.links)
                lookup.refuse_people_only(allowed, self.offer)
            except NotOffered as error:
                span.set(status="refused")
                raise NotOffered(await self._suggested(error, args.get("uri"), args.get("server"))) from None
            span.note(rule=allowed.rule, server=allowed.server, uri=allowed.uri)
            if allowed.source:
                span.note(linked_by=allowed.source)
            try:
                content, made = await self.using(allowed.server, lambda c: read_into(span, c, allowed.uri, self._takes))
            except ServerError as error:
                if not allowed.rule.startswith("template "):
                    raise
                raise ServerError(await self._suggested(error, allowed.uri, allowed.server), error.code) from None
            made = await self._window.fit(span, made, allowed.uri, allowed.server, content.sha256, offset)
        artifact = {"uri": allowed.uri, "server": allowed.server}
        return ToolMessage(made.text, tool_call_id="", artifact=artifact), self._followed(
            made, allowed.uri, call, "reads"
        )

    async def _suggested(self, error: WorkbenchError, uri: Any, server: Any) -> str:
        """A refused read in words, with the values that the server suggests where it was one of a template."""
        server = server if isinstance(server, str) and server else None
        found = await suggest.for_model(uri, server, self.offer, self.connections) if isinstance(uri, str) else ""
        return f"{error} {found}".strip()

    def _followed(self, made: Rendered, source: str, call: Mapping[str, Any], kind: str) -> list[Any]:
        """The turn that carries a result's images and sounds: not every provider takes those in the result itself."""
        if not made.blocks:
            return []
        turn = messages.user_turn([f"What {visible(source)} announced above:"], made.blocks)
        return messages.injected([turn], str(call["id"]), kind)

    async def _prompt(self, call: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        from langchain_core.messages import ToolMessage

        args = call["args"]
        with self.recorder.span("prompt", str(args.get("name")), "model", call_id=call["id"]) as span:
            try:
                name, server = lookup.string_argument(args, "name"), lookup.string_argument(args, "server", False)
                prompt = lookup.find_prompt(name, server, self.offer)
                values = lookup.prompt_arguments(prompt, args.get("arguments"))
            except NotOffered:
                span.set(status="refused")
                raise
            span.note(rule="listed", server=prompt.server, arguments=values)
            timed = await self.using(prompt.server, lambda c: c.prompt(prompt.name, values))
            result: PromptResult = timed.value
            span.note(wait_seconds=timed.waited, decode_seconds=timed.decoded)
            turns = [await self._turn(span, message, result, call["id"]) for message in result.messages]
        said = "The prompt's message follows." if len(turns) == 1 else f"The prompt's {len(turns)} messages follow."
        return ToolMessage(said, tool_call_id=""), messages.injected(turns, call["id"], "prompts")

    async def _turn(self, span: Open, message: Message, result: PromptResult, call: str) -> HumanMessage | AIMessage:
        from langchain_core.messages import AIMessage

        source, before = f"prompt {result.name}", span.span.detail
        self._remember(message.items, result.server, source, call, span)
        # A model's own turn holds text only: no provider takes images there.
        takes = self._takes if message.role == "user" else frozenset[str]()
        made = await asyncio.to_thread(tools.rendered, message.items, result.server, takes)
        made = await self._window.fit(span, made, source, result.server)
        span.note(
            tokens=ledger.plus(before.get("tokens", 0), span.span.detail["tokens"]),
            counter=max(before.get("counter", ""), span.span.detail["counter"], key=len),  # the longer names both
            note=_joined(before.get("note"), made.note),
        )  # fmt: skip
        return messages.user_turn([made.text], made.blocks) if message.role == "user" else AIMessage(clean(made.text))

    async def _server_tool(self, call: Mapping[str, Any], tool: tools.ServerTool) -> tuple[Any, list[Any]]:
        from langchain_core.messages import ToolMessage

        own, arguments = tool.tool, dict(call["args"])
        # Before the tool's span opens: the seconds that a person takes are not the tool's.
        verdict = await self.gate(Call(call["id"], own.server, own.name, tool.name, arguments, own.description or ""))
        with self.recorder.span(
            "tool", own.name, "model",
            server=own.server, called_as=tool.name, arguments=arguments, call_id=call["id"], rule=verdict.rule,
            decided_by=verdict.actor,
        ) as span:  # fmt: skip
            if not verdict.allow:
                span.set(status="refused")
                span.note(reason=verdict.reason)
                return ToolMessage(f"Refused: {verdict.reason}.", tool_call_id="", status="error"), []
            timed = await tools.run(tool, arguments)
            result: ToolResult = timed.value
            span.note(
                wait_seconds=timed.waited, decode_seconds=timed.decoded,
                bytes=sum(x.size for x in result.items if isinstance(x, Part)),
            )  # fmt: skip
            made = await asyncio.to_thread(tools.result_rendered, result, self._takes)
            made = await self._window.fit(span, made, f"tool {own.name}", own.server)
            span.note(note=made.note)
            self._remember(result.items, own.server, f"tool {own.name}", call["id"], span)
            if result.error:
                span.set(status="error")
        status: Any = "error" if result.error else "success"
        message = ToolMessage(made.text, tool_call_id="", status=status)
        return message, self._followed(made, f"the tool {own.name}", call, "results")

    def _remember(self, items: Sequence[Part | Link], server: str, source: str, call: str, span: Open) -> None:
        """Links may be read from now on; what is for people only is kept for them."""
        self.for_people += [(server, source, item) for item in items if for_people(item)]
        links = [item.uri for item in items if isinstance(item, Link) and not for_people(item)]
        for uri in links:
            self.links[server, uri] = call
        if links:
            span.note(links=links)


class _State(TypedDict):
    messages: Annotated[list[Any], operator.add]
    injected: Annotated[list[Any], operator.add]


async def read_into(
    span: Open, connection: Connection, uri: str, takes: frozenset[str] | None = None
) -> tuple[Content, Rendered]:
    """Read `uri`, note its figures in `span`, and give the content and what a model that `takes` these gets of it."""
    timed = await connection.read(uri)
    content: Content = timed.value
    started = time.perf_counter()
    # On a thread: a PDF of many pages takes seconds, and the loop serves every connection.
    made = await asyncio.to_thread(media.for_model, content.parts, connection.name, takes)
    rendered = time.perf_counter() - started
    repaired = "bytes on the wire that were not UTF-8 were replaced" if content.repaired else None
    found = dict.fromkeys(kind for part in content.parts if (kind := media.found_type(part)))
    span.note(
        bytes=content.size, parts=len(content.parts), sha256=content.sha256, wait_seconds=timed.waited,
        decode_seconds=timed.decoded, render_seconds=rendered, note=_joined(made.note, repaired),
        mime=", ".join(dict.fromkeys(part.mime or "unknown" for part in content.parts)) or None,
        mime_found=", ".join(found) or None,
    )  # fmt: skip
    return content, made


def _joined(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None
