"""One open session with one MCP server. With `wire.py` and `sdk.py` the only place that knows `mcp`, imported when needed.

`import mcp` costs about two seconds of CPU, and its types rewrite URIs; so requests go out and answers come back as plain
dicts through `ClientSession.send_request`, and are read into the words of `content.py` here. What a server got wrong
becomes a sentence in `Offer.problems`, never an exception that loses the rest.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from . import bridge, decode, notices, sdk, stdio, wire
from .content import (
    Completion,
    Offer,
    Tool,
    visible,
)  # fmt: skip
from .errors import ConnectError, NotConnected, RequestTimeout, ServerError, UsageError
from .forms import Refusal
from .limits import Limits
from .recorder import describe, opened, timer
from .secret import mask
from .span import Span
from .target import Target

if TYPE_CHECKING:
    import httpx
    from mcp import ClientSession

__all__ = ["Asked", "Connection", "Timed"]

T = TypeVar("T")
Asked = Callable[["Connection", str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""What answers a server's own request, by its method and parameters."""
_METHOD_NOT_FOUND, _CONNECTION_CLOSED = -32601, -32000
_FORGOTTEN = (32600, "Session terminated")  # how the SDK puts an HTTP status 404; the sign of the code is its own
_MOST_PAGES = 10_000
_MOST_PROBLEMS = 20  # sentences about what one listing got wrong; 50,000 nameless entries would fill the notebook
_LONGEST_REFUSAL = 1 << 16  # bytes of a status 400's body that are looked at
_LONGEST = 2000  # characters of a server's error text; what is over is counted, not shown
_CLOSE_SECONDS = 3.0
_STREAM_SECONDS = (
    3600.0  # an event stream may be silent while a person fills in a form; requests have their own timeout
)


class Timed(NamedTuple):
    """An answer, and how long the server (with the transport) and the decoding of its answer took, in seconds."""

    value: Any
    waited: float
    decoded: float


class Connection:
    """Opened and closed by one task of its own, as the SDK's cancel scopes need; all else only signals that task.

    Every method is a coroutine for the background loop. After the server has ended each raises `NotConnected` with its
    exit status and last stderr lines.
    """

    def __init__(self, target: Target, revived: bool = False) -> None:
        self.target = target
        self.revived = revived
        """Whether it was opened by itself in place of one whose server had ended."""
        self.server_info = ""
        self.capabilities: Mapping[str, Any] = {}
        self.protocol: str | None = None
        self._process: stdio.Server | None = None
        self._proxy: list[str] = []
        self._refused: Any = None  # the JSON-RPC error in a status 400, which the SDK does not read
        self._session: ClientSession | None = None
        self.forgotten = False
        """Whether the server has answered that it no longer knows our session; nothing of that request was done."""
        self.asked: Asked = _nobody
        """What answers the server's own requests, for forms and samples; may raise `Refusal`."""
        self.notices = notices.Notices(self.mask)
        """What the server tells beside its answers."""
        self.level: str | None = None
        """The least urgent level of log messages that was asked for; `None` leaves it to the server."""
        self._limits = Limits()
        self._closing = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._ended = False
        self._cause: Exception | None = None

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def speaks(self) -> str:
        """The revision of MCP that the server and we have agreed on, in words."""
        if self.target.bridge:
            return f"speaks {bridge.REVISION} through the bridge, which speaks {self.protocol} to us"
        return f"speaks {self.protocol}"

    @property
    def alive(self) -> bool:
        return self._session is not None and not self._ended

    @property
    def session(self) -> ClientSession:
        """The SDK's session, for the adapters' tools."""
        if self._session is None or not self.alive:
            raise NotConnected(self._obituary())
        return self._session

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def stderr(self, lines: int = 8) -> list[str]:
        """The server's last stderr lines, secrets masked."""
        return self._process.stderr.tail(lines) if self._process else []

    def stray(self, lines: int = 8) -> list[str]:
        """The last lines on stdout that were no messages, secrets masked."""
        return self._process.stray.tail(lines) if self._process else []

    def mask(self, text: str) -> str:
        return mask(text, self.target.secrets)

    @property
    def log(self) -> notices.Log:
        """The server's last log messages."""
        return self.notices.log

    # -- life

    async def open(self) -> None:
        """Connect and shake hands. Raises `ConnectError`; nothing is left running then."""
        if self.target.bridge:  # before the handshake's time runs: its environment may have to be made first
            self._proxy = await bridge.prepared()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(ready))
        try:
            await asyncio.wait_for(asyncio.shield(ready), self.target.timeout)
        except BaseException as error:
            self._owner.cancel()
            await asyncio.wait([self._owner])
            ready.exception()  # looked at, whichever of the two it was
            if isinstance(error, asyncio.CancelledError):
                raise
            raise ConnectError(self.refusal(error)) from None

    async def close(self) -> None:
        """Close it from any task; done when the server process is gone."""
        self._closing.set()
        if self._owner is not None:
            # Over HTTP closing is a request too, and a server that is gone may not answer it.
            await asyncio.wait([self._owner], timeout=_CLOSE_SECONDS)
            self._owner.cancel()
            await asyncio.wait([self._owner], timeout=_CLOSE_SECONDS)

    async def _own(self, ready: asyncio.Future[None]) -> None:
        sdk.load()
        from mcp.types import Implementation

        async def incoming(message: object) -> None:
            # What the HTTP transport cannot make sense of (a web page, say) arrives here, and the request would wait on.
            if isinstance(message, Exception) and self.target.url and not ready.done():
                ready.set_exception(message)
            if (said := getattr(message, "root", None)) is not None:
                self.notices.take(said.method, said.params)

        try:
            async with self._transport() as (read, write):
                info = Implementation(name="mcp-agent-workbench", version="0.1.0")
                asks = wire.asks(lambda method, params: self.asked(self, method, params)) | wire.roots(
                    self.target.roots
                )
                client = wire.session_type()(read, write, message_handler=incoming, client_info=info, **asks)
                async with client as session:
                    answer = await session.initialize()
                    self.capabilities = answer.capabilities.model_dump(exclude_none=True)
                    self.protocol = str(answer.protocolVersion)
                    info_text = self.mask(f"{answer.serverInfo.name} {answer.serverInfo.version}")
                    self.server_info = visible(info_text)
                    self._session = session
                    if not ready.done():
                        ready.set_result(None)
                    await self._closing.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(_plain(error))
            elif not self._closing.is_set() and not isinstance(error, asyncio.CancelledError):  # that is ours
                self._cause = _plain(error)
        finally:
            self._ended = True
            self._limits.end()  # the SDK leaves those waiting whose answers can no longer come
            if not ready.done():
                ready.set_exception(ConnectionError("the connection closed during the handshake"))

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[tuple[Any, Any]]:
        headers = {name: value.reveal() for name, value in self.target.headers.items()}
        if self.target.bridge:
            self._process = await stdio.Server.start(self._proxy, bridge.environment(self.target), None, self.mask)
            async with wire.streams(self._process, self._server_ended) as streams:
                yield streams
        elif self.target.transport == "stdio":
            env = {name: value.reveal() for name, value in self.target.env.items()}
            self._process = await stdio.Server.start(self.target.command, env, self.target.cwd, self.mask)
            async with wire.streams(self._process, self._server_ended) as streams:
                yield streams
        elif self.target.transport == "memory":
            async with wire.in_process(self.target.server) as streams:
                yield streams
        elif self.target.transport == "sse":
            from mcp.client.sse import sse_client

            url, seconds = str(self.target.url), self.target.timeout
            async with sse_client(url, headers, seconds, sse_read_timeout=max(_STREAM_SECONDS, 2 * seconds)) as streams:
                yield streams
        else:
            import httpx
            from mcp.client.streamable_http import streamable_http_client

            seconds = self.target.timeout
            timeout = httpx.Timeout(seconds, read=max(_STREAM_SECONDS, 2 * seconds))  # ours ends a request, not httpx
            hooks = {"response": [self._why_refused]}
            async with (
                httpx.AsyncClient(headers=headers, timeout=timeout, follow_redirects=True, event_hooks=hooks) as client,
                streamable_http_client(str(self.target.url), http_client=client) as (read, write, _),
            ):
                yield read, write

    async def _why_refused(self, response: httpx.Response) -> None:
        if self._session is not None:
            return await wire.mended(response)
        if response.status_code != 400:
            return
        body = b""
        async for piece in response.aiter_bytes():
            if len(body := body + piece) > _LONGEST_REFUSAL:
                return
        with suppress(ValueError, RecursionError):
            answer = json.loads(body)
            self._refused = answer.get("error") if isinstance(answer, dict) else None

    def _server_ended(self) -> None:
        self._ended = True

    def refusal(self, error: BaseException) -> str:
        """Why it could not be connected: what was tried, what was found, what to try next."""
        if isinstance(error, ConnectError | UsageError):
            return str(error)
        told = self._refused or (error.error.model_dump() if hasattr(error, "error") else None)  # an McpError's
        if not self.target.bridge and (spoken := bridge.supported(told)):
            from mcp.types import LATEST_PROTOCOL_VERSION

            return bridge.refusal(self.target, spoken, LATEST_PROTOCOL_VERSION)
        if self.target.bridge and (said := bridge.complaint(self.stderr(1))):
            return f"{self.name} ({self.target.where}) could not be connected through the bridge: {said}."
        if isinstance(error, NotConnected):
            found = "it ended before it had listed what it offers"
        elif isinstance(error, TimeoutError):
            found = f"no answer to the handshake within {self.target.timeout:g} s"
        elif isinstance(error, FileNotFoundError) and self.target.cwd and not os.path.isdir(self.target.cwd):
            found = self.mask(f"there is no folder {self.target.cwd!r} to start it in")
        elif isinstance(error, FileNotFoundError):
            found = self.mask(f"there is no command {self.target.command[0]!r} on the PATH")
        elif sent := wire.malformed(error):
            found = f"it answered the handshake with {visible(self.mask(sent))}, which is no valid answer of MCP"
        else:
            found = self.mask(" ".join(str(error).split()) or type(error).__name__)
        return "\n".join(
            [
                f"{self.name} ({self.target.where}) could not be connected: {found}.",
                *self._evidence(),
                self._advice(error),
            ]
        )

    def _obituary(self) -> str:
        if self._session is None or self._closing.is_set():
            return f"{self.name} is not connected. Connect it: %mcp connect {self.name} ..."
        if self.forgotten:
            return f"{self.name} no longer knows this session. Begin a new one: %mcp reconnect {self.name}"
        again = f"{self.name} has ended{', again' if self.revived else ''}."
        return "\n".join([again, *self._evidence(), f"Start it again: %mcp reconnect {self.name}"])

    def _evidence(self) -> list[str]:
        """What was left behind: how the connection failed, exit status, stderr, and stray stdout where there is none."""
        found = [f"The connection failed: {self.mask(describe(self._cause))}."] if self._cause else []
        if self._process is None:
            return found
        if (status := self._process.returncode) is not None:
            found.append(f"Its process ended with status {status}.")
        lines = self.stderr()
        if lines:
            return [*found, "Its last lines on stderr:", *(f"    {line}" for line in lines)]
        stray = self.stray()
        return [*found, *(["Its last lines on stdout:"] if stray else []), *(f"    {line}" for line in stray)]

    def _advice(self, error: BaseException) -> str:
        if self.target.transport == "stdio":
            return (
                f"It was started with {', '.join(self.target.env) or 'no extra variables'} beside {', '.join(stdio.PASSED)}; "
                "more are passed with --env NAME, more time is given with --timeout SECONDS."
            )
        if self.target.transport == "memory":
            return "It runs in this process; `%mcp logs` has nothing of it, its output is this notebook's."
        status = getattr(getattr(self._cause or error, "response", None), "status_code", None)
        if status == 401:
            return (
                "It wants a token, which --header 'Authorization: Bearer ${NAME}' takes from the environment; signing in on a "
                "web page (OAuth) is not possible here."
            )
        if self.target.bridge or status != 400:
            return "Check the address and --header; an older server may want --sse."
        return f"A server that speaks only MCP {bridge.REVISION} or newer answers so; if it is one: {bridge.line(self.target)}"

    # -- requests

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, follow: bool = False
    ) -> dict[str, Any]:
        """One request, as plain data both ways; `follow` asks for its progress and writes it into the span around it.

        Each time that it has come further, the timeout begins anew, up to ten timeouts in all (`limits.py`).
        Raises `ServerError`, `RequestTimeout` or `NotConnected`.
        """
        import anyio
        from mcp.shared.exceptions import McpError

        session = self.session
        try:
            # Around the whole of it: the SDK's own timeout begins when the request is written, which may never be.
            async with self._limits.limited(self.target.timeout) as limit, wire.cancelling(session) as number:
                request = wire.request(method, params, number if follow else None)
                told = self.notices.listening(number, notices.follow(opened()), limit.extend)
                with told if follow else nullcontext():
                    answer = await session.send_request(request, wire.answer_type())
        except TimeoutError:
            if self._ended:
                raise NotConnected(await self._died()) from None
            raise RequestTimeout(
                f"{self.name} did not answer {method} within {limit.given:.3g} s; the connection is still open. "
                f"Connect again with a longer --timeout if it needs more."
            ) from None
        except McpError as error:
            code, text = error.error.code, visible(self.mask(error.error.message), _LONGEST)
            if code == _CONNECTION_CLOSED and (self._ended or text == "Connection closed"):
                raise NotConnected(await self._died()) from None
            if self.target.transport == "http" and (code, text) == _FORGOTTEN:
                self._ended = self.forgotten = True
                raise NotConnected(self._obituary()) from None
            raise ServerError(f"{self.name} answered {method} with an error: {text} (code {code})", code) from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream):
            raise NotConnected(await self._died()) from None
        return dict(answer.model_extra or {})

    @property
    def callers(self) -> tuple[Span, ...]:
        """The spans of the requests that this server has not answered yet: one of them made it ask, if it asks."""
        return self._limits.callers

    def paused(self) -> AbstractContextManager[None]:
        """While the server waits for us, for a person or for a model, its own time to answer does not run."""
        return self._limits.paused()

    async def _died(self) -> str:
        self._ended = True
        if self._process is not None:
            await self._process.ended(0.5)  # so that its exit status is known
        return self._obituary()

    async def offer(self) -> Offer:
        """All pages of all four lists. Reads no content."""
        lists: list[tuple[Any, ...]] = []
        problems: list[str] = []
        for method, key, capability, make in decode.LISTS:
            own: list[str] = []
            offered = self.capabilities.get(capability) is not None
            lists.append(await self._list(method, key, make, own) if offered else ())
            more = len(own) - _MOST_PROBLEMS
            if more > 0:  # the last of them may say why the list ended
                own[_MOST_PROBLEMS - 1 : -1] = [f"{self.name}: {method} has {more:,} more entries with problems"]
            problems += own
        return Offer(resources=lists[0], templates=lists[1], prompts=lists[2], tools=lists[3], problems=tuple(problems))

    async def _list(
        self, method: str, key: str, make: Callable[[str, Mapping[str, Any]], T], problems: list[str]
    ) -> tuple[T, ...]:
        found: dict[str, T] = {}
        try:
            async for number, entry in self._entries(method, key, problems):
                try:
                    made = make(self.name, entry)
                except (KeyError, TypeError, AttributeError, ValueError):
                    problems.append(f"{self.name}: entry {number} of {method} is left out: it has no valid name or URI")
                    continue
                identity = str(getattr(made, "uri", None) or getattr(made, "name", None))
                if identity in found:
                    problems.append(
                        f"{self.name}: {method} lists {visible(self.mask(identity))} twice; the first entry stands"
                    )
                found.setdefault(identity, made)
        except ServerError as error:
            if error.code != _METHOD_NOT_FOUND:
                problems.append(f"{error}; {len(found)} entries had come before")
        except RequestTimeout as error:
            problems.append(f"{error} {len(found)} entries had come before.")
        return tuple(found.values())

    async def _entries(self, method: str, key: str, problems: list[str]) -> AsyncIterator[tuple[int, Any]]:
        cursor: str | None = None
        seen: set[str] = set()
        number = 0
        for _ in range(_MOST_PAGES):
            page = await self.request(method, {"cursor": cursor} if cursor else None)
            entries = page.get(key)
            for entry in entries if isinstance(entries, list) else ():
                number += 1
                yield number, entry
            cursor = page.get("nextCursor")
            if not cursor or not isinstance(cursor, str) or cursor in seen:
                return
            seen.add(cursor)
        problems.append(f"{self.name}: {method} was ended after {_MOST_PAGES:,} pages")

    # -- being told of changes

    async def subscribe(self, uri: str) -> None:
        """`resources/subscribe`: from now on `notices.subscribed` has whether it has changed.

        Raises `UsageError` where the server does not offer that.
        """
        if decode.mapping(self.capabilities.get("resources")).get("subscribe") is not True:
            raise UsageError(
                f"{self.name} does not tell of changes (it declares no resources.subscribe): attach it with "
                "refresh once or turn"
            )
        await self.request("resources/subscribe", {"uri": uri})
        self.notices.subscribed.setdefault(uri, False)

    async def unsubscribe(self, uri: str) -> None:
        """`resources/unsubscribe`; nothing where there was no subscription."""
        if self.notices.subscribed.pop(uri, None) is not None:
            await self.request("resources/unsubscribe", {"uri": uri})

    async def set_level(self, level: str) -> None:
        """`logging/setLevel`: the least urgent level (one of `notices.LEVELS`) of the log messages to be sent.

        Raises `UsageError` where the server has no levels.
        """
        if level not in notices.LEVELS:
            raise UsageError(f"{level!r} is no level of log messages; there are: {', '.join(notices.LEVELS)}")
        if self.capabilities.get("logging") is None:
            raise UsageError(f"{self.name} declares no logging, so it takes no level; %mcp logs shows what it wrote")
        await self.request("logging/setLevel", {"level": level})
        self.level = level

    async def read(self, uri: str) -> Timed:
        """`resources/read`; the value is a `Content`. The URI goes out exactly as given."""
        return await self._timed("resources/read", {"uri": uri}, lambda raw: decode.content(self.name, uri, raw))

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Timed:
        """`prompts/get`; the value is a `PromptResult`."""
        params = {"name": name, "arguments": dict(arguments)}
        return await self._timed("prompts/get", params, lambda raw: decode.prompt_result(self.name, name, raw))

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Timed:
        """`tools/call`; the value is a `ToolResult`. A result with `isError` is a value too, not an exception."""
        params = {"name": tool, "arguments": dict(arguments)}
        return await self._timed("tools/call", params, lambda raw: decode.tool_result(self.name, tool, raw))

    async def complete(
        self, kind: Literal["resource", "prompt"], name: str, argument: str, value: str, given: Mapping[str, str]
    ) -> Completion:
        """`completion/complete` for a variable of a template (`name` is its URI template) or an argument of a prompt.

        `given` is what is filled in already. Empty where the server completes nothing.
        """
        if self.capabilities.get("completions") is None:
            return Completion()
        ref = {"type": "ref/resource", "uri": name} if kind == "resource" else {"type": "ref/prompt", "name": name}
        params = {"ref": ref, "argument": {"name": argument, "value": value}, "context": {"arguments": dict(given)}}
        try:
            return decode.completion(await self.request("completion/complete", params))
        except ServerError as error:
            if error.code == _METHOD_NOT_FOUND:
                return Completion()
            raise

    def listing(self, tools: Sequence[Tool]) -> Any:
        """A session for the adapters' `load_mcp_tools` that lists exactly `tools`.

        They are listed already, all pages. A schema that is not an object's, which providers refuse with the whole request,
        becomes one.
        """
        from mcp import types

        def valid(tool: Tool) -> types.Tool:
            schema = {**tool.schema, "type": "object", "properties": decode.mapping(tool.schema.get("properties"))}
            return types.Tool(name=tool.name, title=tool.title, description=tool.description, inputSchema=schema)

        class Listing:
            async def list_tools(self, cursor: str | None = None) -> types.ListToolsResult:
                return types.ListToolsResult(tools=[valid(tool) for tool in tools])

        return Listing()

    async def _timed(self, method: str, params: Mapping[str, Any], decode: Callable[[dict[str, Any]], Any]) -> Timed:
        started = timer()
        raw = await self.request(method, params, follow=True)
        waited = timer()
        value = decode(raw)
        return Timed(value, waited - started, timer() - waited)


async def _nobody(connection: Connection, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    raise Refusal(f"nobody answers {method} here", _METHOD_NOT_FOUND)


def _plain(error: BaseException) -> Exception:
    """The first real error inside anyio's exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else ConnectionError(str(error) or type(error).__name__)
