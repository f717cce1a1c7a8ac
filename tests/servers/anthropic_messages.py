"""Anthropic's `POST /v1/messages`: what it refuses and how it answers.

The wording of the refusals is that of the real service, as users quote it in public issues.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.servers.script import Failure, Refused, Reply, pieces

PATH = "/v1/messages"
JSON = dict[str, Any]
BLOCKS = ("text", "image", "document", "search_result", "thinking", "redacted_thinking", "tool_use", "tool_result")


# ------------------------------------------------------------------ requests
def check(body: JSON) -> None:
    """Raise `Refused` where the real service answers 400."""
    for name in ("max_tokens", "messages"):
        if name not in body:
            raise Refused(f"{name}: Field required")
    _check_tools(body.get("tools", []))
    messages = [{**message, "content": _blocks(message["content"])} for message in body["messages"]]
    _check_roles(messages)
    _check_order(messages)
    for index, message in enumerate(messages):
        for place, block in enumerate(message["content"]):
            _check_block(f"messages.{index}.content.{place}", block)


def _blocks(content: str | list[JSON]) -> list[JSON]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _check_tools(tools: list[JSON]) -> None:
    for index, tool in enumerate(tools):
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["name"]):
            raise Refused(f"tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
        if "type" not in tool["input_schema"]:
            raise Refused(f"tools.{index}.custom.input_schema.type: Field required")
    if len({tool["name"] for tool in tools}) < len(tools):
        raise Refused("tools: Tool names must be unique.")


def _check_roles(messages: list[JSON]) -> None:
    if not messages:
        raise Refused("messages: at least one message is required")
    for message in messages:
        if message["role"] not in ("user", "assistant"):
            raise Refused(
                f'messages: Unexpected role "{message["role"]}". The Messages API accepts a top-level `system` '
                'parameter, not "system" as an input message role.'
            )
    if messages[0]["role"] != "user":
        raise Refused('messages: first message must use the "user" role')


def _check_order(messages: list[JSON]) -> None:
    """All results of a message's tool uses open the next message, once each; no result answers nothing."""
    asked: list[str] = []
    for index, message in enumerate([*messages, {"content": []}]):
        results = _results_at_the_front(message["content"])
        if missing := [each for each in asked if each not in results]:
            raise Refused(
                f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        for place, block in enumerate(message["content"]):
            if block["type"] == "tool_result" and block["tool_use_id"] not in asked:
                raise Refused(
                    f"messages.{index}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{block['tool_use_id']}. Each `tool_result` block must have a corresponding `tool_use` block in "
                    "the previous message."
                )
        if twice := [each for each in asked if results.count(each) > 1]:
            raise Refused(
                f"messages.{index}.content: each tool_use must have a single result. Found multiple `tool_result` "
                f"blocks with id: {twice[0]}"
            )
        asked = [block["id"] for block in message["content"] if block["type"] == "tool_use"]


def _results_at_the_front(content: list[JSON]) -> list[str]:
    found = []
    for block in content:
        if block["type"] != "tool_result":
            break
        found.append(block["tool_use_id"])
    return found


def _check_block(where: str, block: JSON) -> None:
    kind = block["type"]
    if kind not in BLOCKS:
        raise Refused(
            f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags: "
            + ", ".join(f"'{name}'" for name in BLOCKS)
        )
    if kind == "text" and not block["text"]:
        raise Refused("messages: text content blocks must be non-empty")
    if kind == "tool_use" and not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]):
        raise Refused(f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if kind == "tool_use" and not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["name"]):
        raise Refused(f"{where}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
    if kind == "tool_result":
        for place, part in enumerate(_blocks(block.get("content", []))):
            _check_block(f"{where}.tool_result.content.{place}", part)
    source = block.get("source", {})
    if source.get("type") == "url" and not source["url"].startswith("https://"):
        raise Refused(f"{where}.{kind}.source.url: Only HTTPS URLs are supported.")


# ------------------------------------------------------------------- answers
def whole(reply: Reply, body: JSON) -> JSON:
    """The body of an answer that is not streamed."""
    content: list[JSON] = [{"type": "text", "text": reply.text}] if reply.text else []
    content += [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.args} for call in reply.calls]
    return {**_head(body), "content": content, "stop_reason": _reason(reply), "usage": _usage(reply)}


def stream(reply: Reply, body: JSON) -> Iterator[bytes]:
    """Server-sent events. The last but one holds the usage so far, input too: LangChain takes it from there alone."""
    started = {**_usage(reply), "output_tokens": 1}
    yield _event("message_start", message={**_head(body), "content": [], "stop_reason": None, "usage": started})
    yield _event("ping")
    blocks: list[tuple[JSON, str, str]] = []
    if reply.text:
        blocks.append(({"type": "text", "text": ""}, "text", reply.text))
    for call in reply.calls:
        start = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        blocks.append((start, "input_json", json.dumps(call.args)))
    for index, (start, kind, text) in enumerate(blocks):
        yield _event("content_block_start", index=index, content_block=start)
        for piece in pieces(text):
            delta = {"type": f"{kind}_delta", "text" if kind == "text" else "partial_json": piece}
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ended = {"stop_reason": _reason(reply), "stop_sequence": None}
    yield _event("message_delta", delta=ended, usage=_usage(reply))
    yield _event("message_stop")


def error(failure: Failure | Refused) -> JSON:
    """The body of an error."""
    status = 400 if isinstance(failure, Refused) else failure.status
    kind, usual = {
        400: ("invalid_request_error", "Error"),
        401: ("authentication_error", "invalid x-api-key"),
        429: (
            "rate_limit_error",
            "This request would exceed your organization's rate limit of tokens per minute.",
        ),
        529: ("overloaded_error", "Overloaded"),
    }.get(status, ("api_error", "Internal server error"))
    message = str(failure) if isinstance(failure, Refused) else failure.message or usual
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_stand_in"}


def _head(body: JSON) -> JSON:
    return {"id": "msg_stand_in", "type": "message", "role": "assistant", "model": body["model"], "stop_sequence": None}


def _event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


def _reason(reply: Reply) -> str:
    return "tool_use" if reply.calls else "end_turn"


def _usage(reply: Reply) -> JSON:
    """Anthropic counts the cached tokens beside `input_tokens`, not among them, and always reports."""
    tokens = reply.usage
    assert tokens is not None, "script a Reply with usage: Anthropic never answers without"
    return {
        "input_tokens": tokens.input - tokens.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": tokens.output,
    }
