"""A server that tells: progress, log messages, changes of resources and of its lists; and it asks for the roots.

`python chatty.py` over stdio, `python chatty.py PORT` over HTTP; on FastMCP, with subscriptions on its low-level server.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

# As in workbench/demo/__main__.py: the tests start this server some twenty times.
if __name__ == "__main__":
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.lowlevel import NotificationOptions
from pydantic import AnyUrl

made = FastMCP("chatty", log_level="INFO")
low = made._mcp_server
board = {"version": 1}
subscribed: set[str] = set()

# FastMCP declares neither, though the low-level server can.
options = low.create_initialization_options
low.create_initialization_options = lambda *_, **__: _declared()  # type: ignore[method-assign]


def _declared() -> Any:
    made = options(NotificationOptions(tools_changed=True, resources_changed=True))
    made.capabilities.resources.subscribe = True  # type: ignore[union-attr]
    return made


@low.subscribe_resource()
async def subscribe(uri: AnyUrl) -> None:
    subscribed.add(str(uri))


@low.unsubscribe_resource()
async def unsubscribe(uri: AnyUrl) -> None:
    subscribed.discard(str(uri))


@low.set_logging_level()
async def level(level: Any) -> None:
    board["level"] = level


@made.resource("board://sprint/current", name="board")
async def current() -> str:
    context = made.get_context()
    for step in range(1, 4):
        await context.report_progress(step, 3, f"page {step} {os.environ.get('TOKEN', '')}".strip())
        await asyncio.sleep(0.15)
    return f"version {board['version']}"


@made.resource("plain://Host/Ä b", name="plain")
def plain() -> str:
    return f"version {board['version']}"


@made.tool()
async def leak(context: Context[Any, Any, Any]) -> str:
    secret = os.environ.get("TOKEN", "none")
    await context.report_progress(1, 2, f"logged in with {secret}")
    await context.session.send_log_message("info", "z" * 1990 + secret, logger=secret)
    await context.session.send_log_message("info", {"password": secret})
    return "done"


@made.tool()
async def change(context: Context[Any, Any, Any]) -> str:
    board["version"] += 1
    for uri in [*subscribed, "never://subscribed"]:
        await context.session.send_resource_updated(AnyUrl(uri))
    return f"subscribed: {sorted(subscribed)}"


@made.tool()
async def grow(context: Context[Any, Any, Any]) -> str:
    made.add_tool(lambda: "new", name="late")
    made.resource("late://one", name="late")(lambda: "late")
    await context.session.send_tool_list_changed()
    await context.session.send_resource_list_changed()
    await asyncio.sleep(0.3)
    return "grown"


@made.tool()
async def odd_progress(context: Context[Any, Any, Any]) -> str:
    for progress, total in [(1, 0), (5, float("inf")), (3, 10), (float("nan"), 1), *((6, None) for _ in range(2000))]:
        await context.session.send_progress_notification(_token(context), progress, total, "x" * 5000)
    await context.session.send_progress_notification("nobody's", 1)
    return "done"


def _token(context: Context[Any, Any, Any]) -> Any:
    assert context.request_context.meta is not None
    return context.request_context.meta.progressToken


@made.tool()
async def speak(context: Context[Any, Any, Any]) -> str:
    await context.debug("a quiet word")
    await context.session.send_log_message("error", {"disk": "full", "token": "chatty-secret-1"}, logger="store")
    await context.session.send_log_message("info", "y" * 9000)
    return str(board.get("level"))


@made.tool()
async def folders(context: Context[Any, Any, Any]) -> str:
    try:
        found = await context.session.list_roots()
    except Exception as error:
        return f"refused: {error}"
    params = context.session.client_params
    change = params and params.capabilities.roots and params.capabilities.roots.listChanged
    return " ".join(f"{root.uri} {root.name}" for root in found.roots) + f", changing: {change}"


if __name__ == "__main__":
    made.settings.port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    made.run("streamable-http" if made.settings.port else "stdio")
