"""A chat model that says what it was told to say, for tests of what happens around a model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from itertools import takewhile
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import Field

from tests.servers.script import Reply, pieces
from workbench.messages import calls_of


def assert_valid(messages: Sequence[BaseMessage]) -> None:
    """Every call has one result, right after its message, in call order (what OpenAI and Anthropic both demand; P27, P29)."""
    for number, message in enumerate(messages):
        if isinstance(message, AIMessage) and calls_of(message):
            after = takewhile(lambda m: isinstance(m, ToolMessage), messages[number + 1 :])
            assert [m.tool_call_id for m in after] == [call["id"] for call in calls_of(message)]  # type: ignore[attr-defined]
    made = [call["id"] for m in messages if isinstance(m, AIMessage) for call in calls_of(m)]
    answered = [m.tool_call_id for m in messages if isinstance(m, ToolMessage)]
    assert made == answered


class Scripted(BaseChatModel):
    """Streams the replies in turn, and keeps each request in `seen`; refuses one that providers would refuse.

    `None` stands for a reply that begins and never ends.
    """

    replies: list[Reply | None]
    seen: list[list[BaseMessage]] = Field(default_factory=list)
    tools: list[Any] = Field(default_factory=list)
    reports: bool = False
    """Whether it reports the replies' usage, as a provider does."""
    model: str = "scripted"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        self.tools[:] = tools
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError("the workbench streams")

    async def _astream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        self.seen.append(list(messages))
        assert_valid(messages)
        reply = self.replies.pop(0)
        for text in pieces(reply.text if reply else "Let me think about"):
            yield _chunk(content=text)
        if reply is None:
            await asyncio.Event().wait()
            return
        calls = [
            tool_call_chunk(name=call.name, args=json.dumps(call.args), id=call.id, index=place)
            for place, call in enumerate(reply.calls)
        ]
        if calls:
            yield _chunk(content="", tool_call_chunks=calls)
        if self.reports and reply.usage:
            given, got = reply.usage.input, reply.usage.output
            total = {"input_tokens": given, "output_tokens": got, "total_tokens": given + got}
            yield _chunk(
                content="", usage_metadata={**total, "input_token_details": {"cache_read": reply.usage.cached}}
            )


def _chunk(**fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(**fields))
