"""OpenAI's `POST /v1/chat/completions`: what it refuses and how it answers.

The wording of the refusals is that of the real service, as users quote it in public issues.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.servers.script import Call, Failure, Refused, Reply, Tokens, pieces

PATH = "/v1/chat/completions"
JSON = dict[str, Any]


# ------------------------------------------------------------------ requests
def check(body: JSON) -> None:
    """Raise `Refused` where the real service answers 400."""
    if not body.get("messages"):
        raise Refused(
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            param="messages",
            code="empty_array",
        )
    for index, tool in enumerate(body.get("tools", [])):
        _check_tool(f"tools[{index}].function", tool["function"])
    _check_order(body["messages"])
    for index, message in enumerate(body["messages"]):
        for place, call in enumerate(message.get("tool_calls") or []):
            _check_name(f"messages[{index}].tool_calls[{place}].function.name", call["function"]["name"])
        if isinstance(message.get("content"), list):
            for place, part in enumerate(message["content"]):
                _check_part(index, place, message["role"], part)


def _check_tool(param: str, function: JSON) -> None:
    _check_name(f"{param}.name", function["name"])
    kind = function.get("parameters", {"type": "object"}).get("type")
    if kind != "object":
        raise Refused(
            f"Invalid schema for function '{function['name']}': schema must be a JSON Schema of 'type: \"object\"', "
            f"got 'type: \"{kind}\"'.",
            param=f"{param}.parameters",
            code="invalid_function_parameters",
        )


def _check_name(param: str, name: str) -> None:
    if not re.fullmatch(r"[a-zA-Z0-9_-]+", name):
        raise Refused(
            f"Invalid '{param}': string does not match pattern. Expected a string that matches the pattern "
            "'^[a-zA-Z0-9_-]+$'.",
            param=param,
            code="invalid_value",
        )
    if len(name) > 64:
        raise Refused(
            f"Invalid '{param}': string too long. Expected a string with maximum length 64, but got a string with "
            f"length {len(name)} instead.",
            param=param,
            code="string_above_max_length",
        )


def _check_order(messages: list[JSON]) -> None:
    """Every call is answered by a tool message before anything else is said; no tool message answers nothing."""
    open_ids: list[str] = []
    for index, message in enumerate([*messages, {"role": "end"}]):
        param = f"messages.[{index}].role"
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_ids:
                raise Refused(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'.",
                    param=param,
                )
            open_ids.remove(message["tool_call_id"])
        elif open_ids:
            raise Refused(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(open_ids)}",
                param=param,
            )
        else:
            open_ids = [call["id"] for call in message.get("tool_calls") or []]


def _check_part(index: int, place: int, role: str, part: JSON) -> None:
    where, kind = f"messages[{index}].content[{place}]", part.get("type")
    if kind not in ("text", "image_url", "input_audio", "refusal", "audio", "file"):
        raise Refused(
            f"Invalid value: '{kind}'. Supported values are: 'text', 'image_url', 'input_audio', 'refusal', 'audio', "
            "and 'file'.",
            param=f"{where}.type",
            code="invalid_value",
        )
    if kind == "image_url" and role != "user":
        raise Refused(
            f"Invalid 'messages[{index}]'. Image URLs are only allowed for messages with role 'user', but this message "
            f"with role '{role}' contains an image URL.",
            param=f"messages[{index}]",
            code="invalid_value",
        )
    if kind == "image_url" and not part["image_url"]["url"].startswith(("https://", "http://", "data:image/")):
        raise Refused(
            f"Invalid '{where}.image_url.url'. Expected a valid URL, but got a value with an invalid format.",
            param=f"{where}.image_url.url",
            code="invalid_value",
        )
    if kind == "file" and not part["file"].keys() & {"file_data", "file_id"}:
        raise Refused(
            f"Missing required parameter: '{where}.file.file_id'.",
            param=f"{where}.file.file_id",
            code="missing_required_parameter",
        )


# ------------------------------------------------------------------- answers
def whole(reply: Reply, body: JSON) -> JSON:
    """The body of an answer that is not streamed."""
    message: JSON = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.calls:
        message["tool_calls"] = [_call(call, json.dumps(call.args)) for call in reply.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(reply)}
    usage = {} if reply.usage is None else {"usage": _usage(reply.usage)}
    return {**_head("chat.completion", body), "choices": [choice], **usage}


def stream(reply: Reply, body: JSON) -> Iterator[bytes]:
    """Server-sent events. Usage is sent only when asked for, in a last chunk without choices."""

    def event(delta: JSON, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return _event({**_head("chat.completion.chunk", body), "choices": [choice]})

    yield event({"role": "assistant", "content": "" if reply.text else None})
    for piece in pieces(reply.text):
        yield event({"content": piece})
    for index, call in enumerate(reply.calls):
        yield event({"tool_calls": [{"index": index, **_call(call, "")}]})
        for piece in pieces(json.dumps(call.args)):
            yield event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield event({}, _reason(reply))
    if reply.usage is not None and (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**_head("chat.completion.chunk", body), "choices": [], "usage": _usage(reply.usage)})
    yield b"data: [DONE]\n\n"


def error(failure: Failure | Refused) -> JSON:
    """The body of an error."""
    if isinstance(failure, Refused):
        found = {"message": str(failure), "type": "invalid_request_error", "param": failure.param, "code": failure.code}
        return {"error": found}
    kind, code, usual = {
        400: ("invalid_request_error", None, "We could not parse the JSON body of your request."),
        401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
        429: ("tokens", "rate_limit_exceeded", "Rate limit reached. Please try again in 1.5s."),
    }.get(failure.status, ("server_error", None, "The server is currently overloaded with other requests."))
    return {"error": {"message": failure.message or usual, "type": kind, "param": None, "code": code}}


def _head(kind: str, body: JSON) -> JSON:
    return {"id": "chatcmpl-stand-in", "object": kind, "created": 1700000000, "model": body["model"]}


def _event(data: JSON) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def _call(call: Call, arguments: str) -> JSON:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _reason(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _usage(tokens: Tokens) -> JSON:
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
    }
