"""LangChain messages: reading them, and keeping a thread that providers take."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from . import tools

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, InvalidToolCall, ToolCall

__all__ = ["calls_of", "in_order", "injected", "request_text", "strict", "text_of", "whose", "with_ids"]


def text_of(message: BaseMessage) -> str:
    """The text of a message, whatever its content is made of."""
    content = message.content
    if isinstance(content, str):
        return content
    return "".join(
        block if isinstance(block, str) else str(block.get("text", "")) if block.get("type") == "text" else ""
        for block in content
    )


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


def injected(turns: list[Any], call: str) -> list[Any]:
    """Injected turns get ids that say so: `join` and the composition tell them by it."""
    return [turn.model_copy(update={"id": f"prompt-{call}-{number}"}) for number, turn in enumerate(turns)]


def whose(message: BaseMessage) -> tuple[str, str]:
    """The kind and label of a message that this turn has added."""
    if (message.id or "").startswith("prompt-"):
        return "prompts", message.type
    if message.type != "tool":
        return "replies", message.type
    name, artifact = message.name or "", getattr(message, "artifact", None) or {}
    kind = {tools.READ_RESOURCE: "reads", tools.INVOKE_PROMPT: "prompts"}.get(name, "results")
    return kind, artifact.get("uri", name) if isinstance(artifact, dict) else name


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
