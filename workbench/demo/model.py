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
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import run_in_executor
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

from workbench.demo.context import Call, earlier, turn
from workbench.demo.decide import decide
from workbench.demo.simulated import Simulated
from workbench.demo.tools import Tools, given

__all__ = ["DemoModel"]

Schemas = Sequence[Mapping[str, Any]] | None


class DemoModel(BaseChatModel):
    """A chat model that needs no network and no key: it searches, reads and quotes.

    `DemoModel().invoke("What is 2 + 2?")` says that nothing matches. Bound to a tool named `read_resource`, and shown a
    catalog in the system message, it reads at most one resource a turn. Bound to `find_resources`, it searches once where
    nothing that it was shown matches well; bound to tools whose names end in "-tool", it calls the one that matches best.
    It reports no token usage, being no provider. `stop` and `tool_choice` are accepted and ignored.

    For teaching, calls can be made to take time and to be left out: `DemoModel(simulated=Simulated(first=1.4, next=2.1,
    miss=0.29, seed=7))`. A call that ends in a tool call takes `first` seconds, one that answers takes `next`, beside the
    milliseconds of the word search; a turn that misses makes no tool call and answers from what it has, be it from earlier
    turns. `model_name` shows these settings, wherever a figure is shown.
    """

    simulated: Simulated = Simulated()
    sleep: Callable[[float], Awaitable[Any]] = Field(default=asyncio.sleep, exclude=True, repr=False)
    """How an asynchronous call waits; tests inject their own clock."""

    @property
    def model_name(self) -> str:
        """`demo`, with its settings where it has any: `demo?first=1.4&next=2.1`."""
        return f"demo{self.simulated}"

    def seeded(self, seed: int) -> DemoModel:
        """The same with other draws, where it misses at all."""
        return (
            self.model_copy(update={"simulated": replace(self.simulated, seed=seed)}) if self.simulated.miss else self
        )

    @property
    def _llm_type(self) -> str:
        return "demo"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"model_name": self.model_name}

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model with these tools; it ever calls `read_resource`, `find_resources` and those that end in "-tool"."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _result(self._waited(messages, kwargs.get("tools")))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _result(await self._awaited(messages, kwargs.get("tools")))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield from _chunks(self._waited(messages, kwargs.get("tools")))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks(await self._awaited(messages, kwargs.get("tools"))):
            yield chunk

    def _waited(self, messages: Sequence[BaseMessage], tools: Schemas) -> AIMessage:
        reply = self._reply(messages, tools)
        time.sleep(self._seconds(reply))
        return reply

    async def _awaited(self, messages: Sequence[BaseMessage], tools: Schemas) -> AIMessage:
        # Ranking a large catalog takes a while; the event loop is not ours to hold up.
        reply = await run_in_executor(None, self._reply, messages, tools)
        if seconds := self._seconds(reply):
            await self.sleep(seconds)
        return reply

    def _seconds(self, reply: AIMessage) -> float:
        return self.simulated.first if reply.tool_calls else self.simulated.next

    def _reply(self, messages: Sequence[BaseMessage], tools: Schemas) -> AIMessage:
        now = turn(messages)
        step = decide(now, given(tools))
        if isinstance(step, Call) and not now.calls and self.simulated.misses(now.questions):
            # What it has are the turns before, too, whatever has become of their content since.
            now = replace(now, documents=(*now.documents, *earlier(messages)))
            step = decide(now, Tools(miss=self.simulated.miss))
        about = {"model_name": self.model_name}
        if isinstance(step, str):
            return AIMessage(content=step, response_metadata=about)
        call = {"name": step.name, "args": dict(step.arguments), "id": _call_id(messages)}
        return AIMessage(content="", tool_calls=[call], response_metadata=about)


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


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
    for words in re.findall(
        r"(?:\s*\S+){1,8}|\s+$", str(message.content)
    ):  # each costs LangChain a tenth of a millisecond
        yield ChatGenerationChunk(message=AIMessageChunk(content=words))
