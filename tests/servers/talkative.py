"""A server that says much unasked: progress, log messages, changed lists and resources. Over stdio, or with `--http` over HTTP.

python talkative.py [--http] [--plain]

`--plain` declares neither `subscribe` nor `logging`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # as in workbench/demo/__main__.py

import mcp.types as t  # noqa: E402
from mcp.server.fastmcp import Context, FastMCP  # noqa: E402
from mcp.shared.exceptions import McpError  # noqa: E402
from mcp.shared.message import ServerMessageMetadata, SessionMessage  # noqa: E402
from pydantic import AnyUrl  # noqa: E402

from workbench import wire  # noqa: E402
from workbench.demo.server import http_app, serve  # noqa: E402

server = FastMCP("talkative", log_level="WARNING")
low = server._mcp_server
news = {"text": "nothing yet", "reads": "0"}
subscribed: set[str] = set()
asked_level: list[str] = []
declared = low.get_capabilities


def capabilities(*options: Any) -> t.ServerCapabilities:
    made = declared(*options)
    if made.resources:
        made.resources.subscribe = "--plain" not in sys.argv
    return made


low.get_capabilities = capabilities  # type: ignore[method-assign]  # the SDK always declares `false`

if "--plain" not in sys.argv:

    @low.set_logging_level()  # type: ignore[no-untyped-call,untyped-decorator]
    async def set_level(level: str) -> None:
        asked_level.append(level)


@low.subscribe_resource()  # type: ignore[no-untyped-call,untyped-decorator]
async def subscribe(uri: AnyUrl) -> None:
    subscribed.add(str(uri))


@low.unsubscribe_resource()  # type: ignore[no-untyped-call,untyped-decorator]
async def unsubscribe(uri: AnyUrl) -> None:
    subscribed.discard(str(uri))


@server.resource("news://today")
async def today() -> str:
    news["reads"] = str(int(news["reads"]) + 1)
    if news["text"] == "changes while it is read":
        await server.get_context().session.send_resource_updated(AnyUrl("news://today"))
        await asyncio.sleep(0.2)
        news["text"] = "changed"
        return "changes while it is read"
    if news["text"] == "broken":
        raise ValueError("the press is broken")
    return news["text"]


@server.resource("slow://report")
async def report() -> str:
    await steps(4, 0.3, "reading page")
    return "the whole report"


@server.resource("slow://broken")
async def broken() -> str:
    await steps(3, 0.3)
    raise ValueError("it fell apart")


@server.prompt()
async def brief() -> str:
    await steps(3, 0.3)
    return "be brief"


async def steps(number: int, each: float, text: str | None = None, total: float | None = -1) -> None:
    for step in range(1, number + 1):
        await asyncio.sleep(each)
        said = f"{text} {step}" if text else None
        await server.get_context().report_progress(step, number if total == -1 else total, said)


@server.tool()
async def work(number: int = 3, each: float = 0.0, text: str | None = "step", total: float | None = -1) -> str:
    """Works for a while, and says how far it has come; a total of -1 is the right one."""
    await steps(number, each, text, total)
    return f"did {number}"


@server.tool()
async def stuck(seconds: float, each: float = 0.1) -> str:
    """Says again and again that it has come to 1, which is no progress."""
    for _ in range(int(seconds / each)):
        await asyncio.sleep(each)
        await server.get_context().report_progress(1, 2)
    return "done"


@server.tool()
async def say(notices: list[list[Any]], ctx: Context, times: int = 1) -> str:
    """Sends notifications, each a method and its params, as they are; "@TOKEN" is the progress token of this call."""
    meta = ctx.request_context.meta
    token = meta.progressToken if meta else None
    for _ in range(times):
        for method, params in notices:
            params = {key: token if value == "@TOKEN" else value for key, value in params.items()}
            made = t.JSONRPCMessage(t.JSONRPCNotification(jsonrpc="2.0", method=method, params=params))
            where = ServerMessageMetadata(related_request_id=ctx.request_id)
            await ctx.session._write_stream.send(SessionMessage(message=made, metadata=where))
    return "said"


@server.tool()
async def ask(method: str, ctx: Context, params: dict[str, Any] | None = None) -> str:
    """Asks the client for something, and gives what it answers, or the code of its error."""
    where = ServerMessageMetadata(related_request_id=ctx.request_id)
    request: Any = wire.request(method, params)
    try:
        answer: Any = await ctx.session.send_request(request, wire.answer_type(), metadata=where)
    except McpError as error:
        return f"error {error.error.code}"
    return json.dumps(answer.model_extra)


@server.tool()
async def declares(ctx: Context) -> str:
    """The client's capabilities, as it declared them."""
    client = ctx.session.client_params
    return client.capabilities.model_dump_json(exclude_none=True) if client else ""


@server.tool()
async def publish(text: str, ctx: Context, times: int = 1) -> str:
    """Changes `news://today`, and says so to those who have subscribed."""
    news["text"] = text
    for _ in range(times if "news://today" in subscribed else 0):
        await ctx.session.send_resource_updated(AnyUrl("news://today"))
    return " ".join(sorted(subscribed)) or "nobody"


@server.tool()
async def level() -> str:
    """The level of log messages that was asked for last."""
    return asked_level[-1] if asked_level else "none"


@server.tool()
async def grow(ctx: Context, name: str = "grown") -> str:
    """From now on there is a tool and a resource more, and this is said."""
    server.tool(name=name)(lambda: "I am new")
    server.resource(f"new://{name}", name=name)(lambda: "new")
    await ctx.session.send_tool_list_changed()
    await ctx.session.send_resource_list_changed()
    return "grown"


if __name__ == "__main__":
    if "--http" in sys.argv:
        serve(http_app(low), 0)
    else:
        server.run()
