"""LangChain messages: reading them, and keeping a thread that providers take."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from . import tools
from .content import clean
from .pictures import Block, Size

if TYPE_CHECKING:
    from langchain_core.messages import (
        AIMessage,
        AIMessageChunk,
        BaseMessage,
        HumanMessage,
        InvalidToolCall,
        ToolCall,
        ToolMessage,
    )

__all__ = [
    "calls_of", "conversation", "from_chat", "in_order", "injected", "is_injected", "request_text", "result", "said",
    "sizes_of", "strict", "system", "text_of", "to_chat", "user_turn", "whose", "with_ids", "without",
]  # fmt: skip

_SIZES = "workbench_sizes"  # in `additional_kwargs`, which providers' packages do not send


def text_of(message: BaseMessage) -> str:
    """The text of a message, whatever its content is made of."""
    content = message.content
    if isinstance(content, str):
        return content
    return "".join(
        block if isinstance(block, str) else str(block.get("text", "")) if block.get("type") == "text" else ""
        for block in content
    )


def conversation(system: str, turns: Sequence[tuple[str, str]]) -> list[BaseMessage]:
    """A whole request from (role, text); providers refuse a message without text."""
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

    texts = [(role, clean(text) or "[empty]") for role, text in turns]
    said = [AIMessage(text) if role == "assistant" else HumanMessage(text) for role, text in texts]
    return [*([SystemMessage(system)] if system else []), *said]


def from_chat(said: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
    """A thread from messages in OpenAI's chat format. A call without a result gets one that says so."""
    from langchain_core.messages import convert_to_messages

    return (
        in_order(convert_to_messages([dict(message) for message in said]), "it is not in the stored turn")
        if said
        else []
    )


def to_chat(thread: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """A thread as messages in OpenAI's chat format."""
    from langchain_core.messages import convert_to_openai_messages

    return convert_to_openai_messages(list(thread)) if thread else []


def calls_of(message: BaseMessage) -> list[dict[str, Any]]:
    """Tool calls in the order in which they are sent back: valid ones, then those whose arguments could not be parsed."""
    valid = [dict(call) for call in getattr(message, "tool_calls", [])]
    invalid = [
        {**call, "args": {}, "error": call.get("error") or call.get("args") or "empty"}
        for call in getattr(message, "invalid_tool_calls", [])
    ]
    return valid + invalid


def strict(message: AIMessage, whole: AIMessageChunk) -> AIMessage:
    """The message with calls whose arguments are no whole JSON object made invalid ones.

    LangChain closes the brackets of what a reply that was cut left open; such a call must not run with half its arguments.
    """
    if not getattr(whole, "tool_call_chunks", None):  # a model that does not stream, or not its calls
        return message
    calls: list[ToolCall] = []
    broken: list[InvalidToolCall] = []
    for chunk in whole.tool_call_chunks:
        name, identity, text = chunk["name"] or "", chunk["id"], chunk["args"] or "{}"
        if (args := _json_object(text)) is not None:
            calls.append({"name": name, "args": args, "id": identity, "type": "tool_call"})
        else:
            broken.append({"name": name, "args": text, "id": identity, "error": text, "type": "invalid_tool_call"})
    return message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": broken})


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def with_ids(message: AIMessage, seen: set[str]) -> AIMessage:
    """The reply with an id for every call that no call of the thread had before; adds them to `seen`."""
    for call in [*message.tool_calls, *message.invalid_tool_calls]:
        given = call.get("id")
        if not given or given in seen:
            call["id"] = f"call_{uuid4().hex}"
            for block in message.content if isinstance(message.content, list) else ():
                if isinstance(block, dict) and given and block.get("id") == given:
                    block["id"] = call["id"]
        seen.add(str(call["id"]))
    return message


def injected(turns: Sequence[Any], call: str, kind: str) -> list[Any]:
    """Turns that follow all results of a step get ids that say so, and what kind of piece they are (`ledger.KINDS`)."""
    return [turn.model_copy(update={"id": f"injected-{kind}-{call}-{number}"}) for number, turn in enumerate(turns)]


def is_injected(message: BaseMessage) -> bool:
    return (message.id or "").startswith("injected-")


def result(call: Mapping[str, Any], text: str, error: bool, source: Mapping[str, str] | None) -> ToolMessage:
    """The one result of a call; `source` is the URI and server of a content."""
    from langchain_core.messages import ToolMessage

    # `clean`: providers' packages send UTF-8, which has no lone surrogates, and would fail the whole turn.
    return ToolMessage(
        clean(text), tool_call_id=call["id"], name=str(call["name"]), status="error" if error else "success",
        artifact=dict(source) if source else None,
    )  # fmt: skip


def said(role: str, text: str, blocks: Sequence[Block]) -> BaseMessage:
    """A prompt's message as a turn."""
    from langchain_core.messages import AIMessage

    return AIMessage(clean(text)) if role == "assistant" else user_turn([text], blocks)


def system(text: str) -> BaseMessage:
    """The system prompt."""
    from langchain_core.messages import SystemMessage

    return SystemMessage(clean(text))


def user_turn(texts: Sequence[str], blocks: Sequence[Block]) -> HumanMessage:
    """A user's message of texts, then images and sounds: in a tool's result not every provider takes those."""
    from langchain_core.messages import HumanMessage

    if not blocks and len(texts) == 1:
        return HumanMessage(clean(texts[0]))
    content: list[str | dict[str, Any]] = [{"type": "text", "text": clean(text)} for text in texts if text]
    for block in blocks:
        data = b64encode(block.data).decode("ascii")
        content.append({"type": block.size.kind, "base64": data, "mime_type": block.mime})
    return HumanMessage(content, additional_kwargs={_SIZES: [list(block.size) for block in blocks]} if blocks else {})


def sizes_of(message: BaseMessage) -> list[Size]:
    """The images and sounds of a message."""
    return [Size(*size) for size in message.additional_kwargs.get(_SIZES, ())]


def without(message: BaseMessage, takes: frozenset[str]) -> BaseMessage:
    """The message for a model that takes only these: of an earlier turn, which another model may have answered."""
    if all(size.kind in takes for size in sizes_of(message)):
        return message
    content = [
        block
        if isinstance(block, str) or block.get("type") in ("text", *takes)
        else {"type": "text", "text": f"[{block.get('type')}, not sent: this model is not known to take any]"}
        for block in message.content
    ]
    left = [list(size) for size in sizes_of(message) if size.kind in takes]
    return message.model_copy(update={"content": content, "additional_kwargs": {_SIZES: left}})


def whose(message: BaseMessage) -> tuple[str, str]:
    """The kind and label of a message that this turn has added."""
    if is_injected(message):
        return str(message.id).split("-")[1], message.type
    if message.type != "tool":
        return "replies", message.type
    name, source = message.name or "", getattr(message, "artifact", None)
    if isinstance(source, dict) and "uri" in source:  # a companion's content too
        return "reads", str(source["uri"])
    return {tools.INVOKE_PROMPT: "prompts", tools.READ_RESOURCE: "reads"}.get(name, "results"), name


def request_text(message: BaseMessage) -> str:
    calls = "".join(f"\n{call['name']} {json.dumps(call['args'], ensure_ascii=False)}" for call in calls_of(message))
    return text_of(message) + calls


def in_order(messages: Sequence[BaseMessage], reason: str) -> list[BaseMessage]:
    """The messages of a turn as a provider takes them: each call's result right after its message, in call order.

    They arrive in the order in which the calls ended. A call that was stopped gets a result that gives the `reason`:
    providers refuse a thread for good when a call has none.
    """
    from langchain_core.messages import ToolMessage

    results = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
    whole: list[BaseMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            continue
        whole.append(message)
        for call in calls_of(message):
            missing = ToolMessage(f"No result: {reason}.", tool_call_id=call["id"], name=call["name"], status="error")
            whole.append(results.get(call["id"], missing))
    return whole
