"""The agent: model <-> tools, in LangGraph. One `Send` a tool call, and one `Calls.run` that every call passes.

    model --(tool calls)--> tool (one a call) --> join --> model

`join` appends the turns that prompts inject, after all tool results of the step: providers reject a human turn between a
tool call and its result.
"""

from __future__ import annotations

import asyncio
import json
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast

from . import ledger, messages, models, tokens
from .calls import Calls
from .content import clean
from .context import Context
from .errors import ModelError, WorkbenchError
from .recorder import Open, Recorder, timer
from .window import Window

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage
    from langchain_core.runnables import RunnableConfig

__all__ = ["Agent"]

MOST_CALLS = 25
"""Provider calls a turn may make; then it ends with an error instead of going round for ever."""


class Agent:
    """One turn's loop. `messages` grows by what it adds, and is valid for a provider after `in_order`."""

    def __init__(
        self,
        model: Any,
        context: Context,
        calls: Calls,
        window: Window,
        recorder: Recorder,
        numbers: Iterator[int],
        seen: set[str],
        on_text: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.messages: list[Any] = []
        """The question, replies, results."""
        self._model, self.context, self.calls = model, context, calls
        self.window, self._recorder, self._numbers, self._on_text = window, recorder, numbers, on_text
        self._ids = seen
        self._bound: Any = None

    @property
    def counter(self) -> str:
        """Who counts the requests."""
        return self.window.counter(any(piece.more != 0 for piece in self.context.pieces(())))

    # -- the graph

    async def run(self) -> str:
        """Ask the model until it answers without calling a tool; the answer's text."""
        from langchain_core.messages import HumanMessage
        from langgraph.errors import GraphRecursionError

        self._bound = models.bind(self._model, [schema for _, schema in self.context.schemas])
        self.messages.append(HumanMessage(clean(self.context.question), id="question"))
        try:
            async for update in _graph().astream(
                {"messages": [], "injected": []},
                {"recursion_limit": 3 * MOST_CALLS + 1, "configurable": {"agent": self}},
                stream_mode="updates",
            ):
                for change in update.values():
                    self.messages += (change or {}).get("messages", [])
        except GraphRecursionError:
            raise ModelError(f"the turn was ended after {MOST_CALLS} provider calls without an answer") from None
        return messages.text_of(self.messages[-1])

    # -- the model

    async def _ask_model(self, added: Sequence[AnyMessage]) -> AIMessage:
        name = models.model_name(self._model)
        number = next(self._numbers)
        # Counted before the span opens: our own work is not the provider's latency.
        pieces = self.context.pieces(added)
        made_of = await asyncio.to_thread(ledger.counted, pieces)
        counter = self.window.counter(any(piece.more != 0 for piece in pieces))
        with self._recorder.span(
            "model",
            name,
            "host",
            call=number,
            composition=made_of,
            counter=counter,
            provider=models.provider(self._model),
        ) as span:
            try:
                reply = await self._stream([*self.context.opening(), *added], span)
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
            self.window.taken(made_of, got)
            return reply

    async def _stream(self, request: list[BaseMessage], span: Open) -> AIMessage:
        from langchain_core.messages import message_chunk_to_message

        chunks: list[AIMessageChunk] = []
        started = timer()
        async for chunk in self._bound.astream(request):
            if not chunks:
                span.note(first_chunk_seconds=timer() - started)
            chunks.append(chunk)
            if text := messages.text_of(chunk):
                self._on_text(text)
        if not chunks:
            raise ModelError(f"{span.span.name} answered nothing at all; ask again")
        # All at once: to add one after the other takes time that grows with the square of their number.
        whole = chunks[0] + chunks[1:] if len(chunks) > 1 else chunks[0]
        return messages.with_ids(messages.strict(cast("AIMessage", message_chunk_to_message(whole)), whole), self._ids)


class _State(TypedDict):
    messages: Annotated[list[Any], operator.add]
    injected: Annotated[list[Any], operator.add]


@cache
def _graph() -> Any:
    """Made once, as that takes longer than a turn's own work; the turn's agent comes with the configuration."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Send

    async def model(state: _State, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": [await _agent(config)._ask_model(state["messages"])]}

    async def tool(call: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        result, injected = await _agent(config).calls.run(call)
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


def _agent(config: RunnableConfig) -> Agent:
    agent: Agent = config["configurable"]["agent"]
    return agent
