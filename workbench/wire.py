"""Between bytes and the SDK's `ClientSession`: lines become messages, without its stdio client and its URI types.

Belongs to `connection.py` (the two know `mcp`): this half is the transport.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from . import stdio
from .content import clean, visible
from .forms import Refusal

if TYPE_CHECKING:
    import httpx
    from mcp import ClientSession
    from mcp.types import JSONRPCMessage

__all__ = [
    "REPAIRED",
    "answer_type",
    "asks",
    "cancelling",
    "in_process",
    "malformed",
    "mended",
    "message",
    "request",
    "roots",
    "session_type",
    "streams",
]

REPAIRED = "workbench/repaired"
"""Key in a result's `_meta`: the reply held bytes that are not UTF-8, which were replaced by U+FFFD."""
_TELL_SECONDS = 1.0
_telling: set[asyncio.Future[None]] = set()  # asyncio holds its tasks weakly
_EVENT_ID = re.compile(rb"[\r\n]id *:")
_ID = re.compile(r'"id"\s*:\s*(\d+|"[^"\\]{1,100}")')


@cache
def _request_type() -> type[Any]:
    from pydantic import BaseModel

    class Request(BaseModel):
        method: str
        params: dict[str, Any] | None = None

    return Request


@cache
def answer_type() -> type[Any]:
    """A result model that keeps whatever comes: `uri` stays the server's own string."""
    from pydantic import BaseModel, ConfigDict

    class Answer(BaseModel):
        model_config = ConfigDict(extra="allow")

    return Answer


def request(method: str, params: Mapping[str, Any] | None, token: int | None = None) -> Any:
    """A request for `ClientSession.send_request`, of no SDK type; with a token its server may tell of its progress."""
    if token is not None:
        params = {**(params or {}), "_meta": {"progressToken": token}}
    return _request_type()(method=method, params=None if params is None else dict(params))


class _Refused(NamedTuple):
    """A server's request that the SDK cannot read, and the error it is answered with."""

    code: int
    message: str
    params: None = None


def _readable(data: Mapping[str, Any]) -> Any:
    """A server's request, of whatever method: the SDK warns of those it does not know, and calls their arguments wrong."""
    from mcp import types
    from pydantic import ValidationError

    try:
        return types.ServerRequest.model_validate(data)
    except ValidationError:
        pass
    if data["method"] in ("ping", "roots/list", "elicitation/create", "sampling/createMessage"):
        return SimpleNamespace(root=_Refused(types.INVALID_PARAMS, f"the parameters of {data['method']} are not valid"))
    return SimpleNamespace(root=_Refused(types.METHOD_NOT_FOUND, "Method not found"))


def _plain(data: Mapping[str, Any]) -> Any:
    """A server's notification as it came, but for the one that the SDK acts on: its types would rewrite URIs, and drop what
    they do not know with a warning."""
    from mcp import types

    if data["method"] == "notifications/cancelled":
        return types.ServerNotification.model_validate(data)
    return SimpleNamespace(root=SimpleNamespace(method=data["method"], params=data.get("params") or {}))


@cache
def session_type() -> type[ClientSession]:
    """The SDK's session, answering a server's requests beside its reading of the stream.

    The SDK awaits each answer before it reads on: while a person fills in a form, no reply, no ping and not even the
    server's word that it no longer waits would get through.
    """
    import anyio
    from mcp import ClientSession, types

    class Session(ClientSession):
        def __init__(self, *streams: Any, **more: Any) -> None:
            super().__init__(*streams, **more)
            self._receive_request_type = SimpleNamespace(model_validate=_readable)
            self._receive_notification_type = SimpleNamespace(model_validate=_plain)

        async def send_request(self, request: Any, *arguments: Any, **more: Any) -> Any:
            asked = getattr(request, "root", None)
            if isinstance(asked, types.InitializeRequest) and (own := asked.params.capabilities.roots) is not None:
                own.listChanged = False  # the SDK would promise to tell of changes; ours never change
            return await super().send_request(request, *arguments, **more)

        async def _received_request(self, responder: Any) -> None:
            self._task_group.start_soon(self._beside, responder)

        async def _beside(self, responder: Any) -> None:
            try:
                if isinstance(refused := responder.request.root, _Refused):
                    with responder:
                        error = types.ErrorData(code=refused.code, message=refused.message)
                        await responder.respond(error)
                    return
                await super()._received_request(responder)
            except asyncio.CancelledError:
                if not responder.cancelled:  # else the server itself has withdrawn it, which ends this task alone
                    raise
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                pass  # the connection has ended; there is nobody to tell
            except Exception:
                error = types.ErrorData(code=types.INTERNAL_ERROR, message="the client could not answer this")
                await self._send_response(responder.request_id, error)

    return Session


def asks(answer: Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """`ClientSession`'s arguments by which a server may ask for forms and samples, declared as capabilities by them.

    `answer(method, params)` gives the result as plain data, or raises `Refusal`; whatever else it raises is not told.
    """
    from mcp import types

    async def asked(method: str, params: Any, result: type[Any]) -> Any:
        try:
            plain = params.model_dump(by_alias=True, exclude_none=True, mode="json")
            return result.model_validate(await answer(method, plain))
        except Refusal as error:
            return types.ErrorData(code=error.code, message=str(error))
        except Exception:
            return types.ErrorData(code=types.INTERNAL_ERROR, message="the client could not answer this")

    async def elicit(_: Any, params: Any) -> Any:
        return await asked("elicitation/create", params, types.ElicitResult)

    async def sample(_: Any, params: Any) -> Any:
        return await asked("sampling/createMessage", params, types.CreateMessageResult)

    return {"elicitation_callback": elicit, "sampling_callback": sample}


def roots(folders: Sequence[Path]) -> dict[str, Any]:
    """`ClientSession`'s argument that declares folders as roots and lists them; nothing where there are none."""
    from mcp import types
    from pydantic import FileUrl

    async def listed(_: Any) -> types.ListRootsResult:
        found = [types.Root(uri=FileUrl(folder.as_uri()), name=folder.name or str(folder)) for folder in folders]
        return types.ListRootsResult(roots=found)

    return {"list_roots_callback": listed} if folders else {}


@asynccontextmanager
async def cancelling(session: ClientSession) -> AsyncIterator[int]:
    """Around the sending of one request, whose number this gives: tells the server when nobody waits for its answer any more.

    MCP specification, "Cancellation". The SDK has the number of the next request, but no public way to it.
    """
    number = session._request_id
    try:
        yield number
    except asyncio.CancelledError:  # a person's interrupt, or the timeout around this
        from mcp import types

        params = types.CancelledNotificationParams(requestId=number, reason="the client no longer waits for it")
        told = session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
        task = asyncio.ensure_future(asyncio.wait_for(told, _TELL_SECONDS))  # not awaited: we are being cancelled
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        _telling.add(task)
        task.add_done_callback(_telling.discard)
        raise


def malformed(error: BaseException) -> str | None:
    """What was sent, as JSON, where the SDK's types do not take it: all of it, or the part that is wrong under its name."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return None
    every = error.errors(include_url=False, include_context=False)
    worst = max(every, key=lambda each: len(str(each["input"])))
    sent = worst["input"].decode(errors="replace") if isinstance(worst["input"], bytes) else worst["input"]
    text = sent if isinstance(sent, str) and not worst["loc"] else json.dumps(sent, ensure_ascii=False, default=str)
    part = error.title != "JSONRPCMessage" and worst["type"] != "missing" and worst["loc"]
    return f"{worst['loc'][0]} {text}" if part else text


def message(line: bytes, pending: Collection[object] = ()) -> JSONRPCMessage | None:
    """The message in one line of stdout; `None` for chatter.

    A reply that cannot be parsed, but that names an id of `pending`, becomes an error for it, so that its caller does not
    wait for the timeout.
    """
    from mcp import types

    try:
        data, repaired = _parsed(line)
        if not isinstance(data, dict) or data.get("jsonrpc") != "2.0":
            return None
        if "method" not in data and not isinstance(data.get("id"), int | str):
            return None  # a reply to nobody; an id that is no key would end the SDK's session
        if "method" not in data and isinstance(result := data.get("result"), dict):
            if repaired:
                meta = result.get("_meta")
                result["_meta"] = {**(meta if isinstance(meta, dict) else {}), REPAIRED: True}
            # Not validated here: that would copy a large result once for each of the four kinds of message.
            return types.JSONRPCMessage.model_construct(
                root=types.JSONRPCResponse.model_construct(jsonrpc="2.0", id=data["id"], result=result)
            )
        return types.JSONRPCMessage.model_validate(data)
    except (ValueError, RecursionError) as error:
        return _broken(line.decode(errors="replace"), error, pending)


def _parsed(line: bytes) -> tuple[Any, bool]:
    """The JSON value, and whether bad UTF-8 was replaced in it. Raises `ValueError` or `RecursionError`."""
    from pydantic_core import from_json

    try:  # straight from the bytes: half the CPU of decoding them and `json.loads`
        return from_json(line, cache_strings="keys"), False
    except ValueError:  # stricter than `json`: lone surrogates, and nesting beyond 200
        pass
    try:
        return json.loads(line.decode()), False
    except UnicodeDecodeError:
        return json.loads(line.decode(errors="replace")), True


def _broken(text: str, error: Exception, pending: Collection[object]) -> JSONRPCMessage | None:
    from mcp import types

    ends = text.lstrip()[:1000] + text[-1000:]
    # Content may hold an "id" of its own: only one that somebody waits for counts.
    ids = [found for found in map(json.loads, _ID.findall(ends)) if found in pending]
    if not ends.startswith("{") or '"jsonrpc"' not in ends or '"method"' in ends or not ids:
        return None
    reason = type(error).__name__ if isinstance(error, RecursionError) else str(error).split("\n")[0]
    said = "is no valid message of MCP" if malformed(error) else f"cannot be parsed: {reason}"
    data = types.ErrorData(code=types.PARSE_ERROR, message=f"its reply of {len(text):,} characters {said}")
    return types.JSONRPCMessage(types.JSONRPCError(jsonrpc="2.0", id=ids[0], error=data))


def _is_ours(found: JSONRPCMessage) -> bool:
    """Whether an error stands for a reply that could not be parsed, which then is worth to be seen."""
    from mcp import types

    return isinstance(found.root, types.JSONRPCError) and found.root.error.code == types.PARSE_ERROR


@asynccontextmanager
async def streams(server: stdio.Server, ended: Callable[[], None]) -> AsyncIterator[tuple[Any, Any]]:
    """The two memory streams that `ClientSession` reads and writes, for a server process; stops it at the end.

    `ended` is called when the server closes its stdout.
    """
    import anyio
    from mcp.shared.message import SessionMessage

    inward, read = anyio.create_memory_object_stream[Any](0)
    write, outward = anyio.create_memory_object_stream[Any](0)

    pending: set[object] = set()

    async def reader() -> None:
        async with inward:
            async for line in server.lines():
                if (found := message(line, pending)) is None or _is_ours(found):
                    server.stray.add(line)
                if found is None:
                    continue
                pending.discard(getattr(found.root, "id", None))
                try:
                    await inward.send(SessionMessage(found))
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    return
            ended()

    async def writer() -> None:
        async with outward:
            async for item in outward:
                data = item.message.model_dump(by_alias=True, exclude_none=True)
                pending.add(data.get("id"))
                try:
                    # In ASCII: a lone surrogate that a server put into a URI goes back as it came, and ends nothing.
                    await server.send(json.dumps(data, default=str).encode())
                except OSError:  # the server no longer reads; the reader will see its end
                    return

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader)
            tasks.start_soon(writer)
            try:
                yield read, write
            finally:
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await server.stop()


async def mended(response: httpx.Response) -> None:
    """A hook for an HTTP client: an answer that is none becomes the error of the one request that it belongs to.

    Of a status such as 500 the SDK ends the whole session; for a web page, or a stream that breaks off, nobody is told, and
    the request waits for its timeout. Status 404 and 401 are left to it: the session, or the permission, is gone.
    """
    import httpx

    failed = response.status_code >= 400
    if response.request.method != "POST" or response.status_code in (202, 401, 404) or response.has_redirect_location:
        return
    if (number := _asked(response.request)) is None:  # a notification or an answer of ours: nobody waits for anything
        response.status_code = 202 if failed else response.status_code
        return
    kind = response.headers.get("content-type", "").lower()
    plain = "content-encoding" not in response.headers
    if failed:
        body = _error(number, f"HTTP status {response.status_code} {response.reason_phrase}".strip())
    elif kind.startswith("text/event-stream"):
        response.stream = _ending(response.stream, number) if plain else response.stream
        return
    elif kind.startswith("application/json"):
        if plain:
            response.stream = httpx.ByteStream(await _whole(response.stream, number))
        return
    else:
        body = _error(number, f"it is no message of MCP but {visible(kind, 60) or 'of no type'}")
    await response.stream.aclose()  # type: ignore[union-attr]
    response.status_code, response.stream = 200, httpx.ByteStream(body)
    response.headers = httpx.Headers({"content-type": "application/json"})


def _asked(request: httpx.Request) -> object:
    """The number of the JSON-RPC request in an HTTP request; `None` where it holds none."""
    try:
        data = json.loads(request.content)
    except ValueError:
        return None
    return data.get("id") if isinstance(data, dict) and "method" in data else None


def _error(number: object, text: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": -32603, "message": text}}).encode()


async def _whole(stream: Any, number: object) -> bytes:
    """The body, fit for the SDK: which takes no bytes that are not UTF-8, no lone surrogates, and no error without a number."""
    import httpx
    from pydantic_core import from_json

    try:
        body = b"".join([piece async for piece in stream])
    except httpx.TransportError:
        return _error(number, "the connection broke off before all of it had come")
    finally:
        await stream.aclose()
    try:
        value, fit = from_json(body), True
    except ValueError:
        try:
            value, fit = clean(_parsed(body)[0]), False
        except (ValueError, RecursionError) as error:
            return _error(number, f"its {len(body):,} bytes cannot be parsed: {str(error).splitlines()[0]}")
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        return _error(number, f"its {len(body):,} bytes are no message of MCP")
    if "method" not in value and value.get("id") != number:
        return json.dumps({**value, "id": number}).encode()  # null, as where a server could not read what it was asked
    return body if fit else json.dumps(value).encode()


def _ending(stream: Any, number: object) -> Any:
    """The stream; where it ends and the SDK still reads on, the answer has not come, so an error comes last.

    Not where its events have ids: then the SDK asks for the rest of them.
    """
    import httpx

    class Ending(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            last, resumable = b"\n", False
            with suppress(httpx.TransportError):
                async for piece in stream:
                    resumable = resumable or _EVENT_ID.search(last + piece) is not None
                    last = piece[-8:]
                    yield piece
            if not resumable:
                yield (
                    b"\n\nevent: message\ndata: "
                    + _error(number, "it ended before a message that can be read had come")
                    + b"\n\n"
                )

        async def aclose(self) -> None:
            await stream.aclose()

    return Ending()


@asynccontextmanager
async def in_process(server: Any) -> AsyncIterator[tuple[Any, Any]]:
    """The two memory streams to a server object of this process, which runs beside it until the end.

    Raises `TypeError` for what is no server of the SDK.
    """
    import anyio
    from mcp.shared.memory import create_client_server_memory_streams

    low = getattr(server, "_mcp_server", server)  # FastMCP keeps the low-level server there; the SDK has no public way
    if not (hasattr(low, "run") and hasattr(low, "create_initialization_options")):
        raise TypeError(f"a {type(server).__name__} is no MCP server; give a FastMCP or a low-level Server of the SDK")
    async with create_client_server_memory_streams() as (client, (read, write)), anyio.create_task_group() as tasks:
        tasks.start_soon(low.run, read, write, low.create_initialization_options())
        try:
            yield client
        finally:
            tasks.cancel_scope.cancel()
