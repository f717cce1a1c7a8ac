"""The bundled MCP server: a small company's world with one of everything that a host has to handle.

Long Markdown whose last lines matter, a record behind a template, a board that changes, a picture, a PDF, bytes of no
known kind and text that is not UTF-8. On the SDK's low-level server, because its FastMCP cannot state a size.
"""
# The SDK's decorators carry no types; everything between them is checked.
# mypy: disable-error-code="no-untyped-call,untyped-decorator"

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import Any

import anyio
from mcp import McpError, types
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

__all__ = ["build", "http_app", "serve", "serve_stdio", "sse_app"]

DOCUMENTS = Path(__file__).parent / "documents"
STYLE_GUIDE, BOARD, CUSTOMER = "docs://style-guide", "board://sprint/current", "crm://customer/{id}/subscription"
RESOURCE_NOT_FOUND = -32002  # MCP specification, "Resources", error handling
COLUMNS = ["to do", "in progress", "in review", "done"]

TICKETS: list[dict[str, str]] = json.loads((DOCUMENTS / "tickets.json").read_bytes())
CUSTOMERS: dict[str, dict[str, Any]] = json.loads((DOCUMENTS / "customers.json").read_bytes())

# The four lists as they go over the wire, and for each resource that is a file the file's name.
OFFER: dict[str, list[dict[str, Any]]] = json.loads((DOCUMENTS / "offer.json").read_bytes())
FILES = {entry["uri"]: DOCUMENTS / entry.pop("file") for entry in OFFER["resources"] if "file" in entry}
RESOURCES = {
    entry["uri"]: types.Resource(**entry, size=FILES[entry["uri"]].stat().st_size if entry["uri"] in FILES else None)
    for entry in OFFER["resources"]
}
TEMPLATES = [types.ResourceTemplate(**entry) for entry in OFFER["templates"]]
TOOLS = [types.Tool(**entry) for entry in OFFER["tools"]]
PROMPTS = {entry["name"]: types.Prompt(**entry) for entry in OFFER["prompts"]}


def build(delay: float = 0.0, sleep: Callable[[float], Awaitable[None]] = anyio.sleep) -> Server[Any, Any]:
    """The server, with a board of its own; every read waits `delay` seconds first, by `sleep`.

    Example:
        >>> wb.connect("slow", server=build(delay=0.038))
    """
    server: Server[Any, Any] = Server("workbench-demo", version="1", instructions=__doc__.partition("\n")[0])
    board: dict[str, Any] = json.loads((DOCUMENTS / "sprint-board.json").read_bytes())
    _offer(server)

    @server.read_resource()
    async def read(uri: AnyUrl) -> Iterable[ReadResourceContents]:
        await sleep(delay)
        return [_content(str(uri), board)]

    @server.call_tool()
    async def call(name: str, arguments: dict[str, Any]) -> Any:
        if name == "search_tickets":
            return _search(**arguments)
        if name == "style_guide_tool":
            return [types.ResourceLink(type="resource_link", **RESOURCES[STYLE_GUIDE].model_dump())]
        raise _error(types.INVALID_PARAMS, f"Unknown tool: {name}")

    @server.get_prompt()
    async def prompt(name: str, arguments: dict[str, str] | None) -> types.GetPromptResult:
        return _prompt(name, arguments or {})

    @server.completion()
    async def complete(reference: Any, argument: types.CompletionArgument, _context: Any) -> types.Completion:
        values = {"id": list(CUSTOMERS), "ticket_id": [ticket["id"] for ticket in TICKETS]}.get(argument.name, [])
        return types.Completion(values=[value for value in values if value.startswith(argument.value)])

    return server


def _offer(server: Server[Any, Any]) -> None:
    @server.list_resources()
    async def resources() -> list[types.Resource]:
        return list(RESOURCES.values())

    @server.list_resource_templates()
    async def templates() -> list[types.ResourceTemplate]:
        return TEMPLATES

    @server.list_tools()
    async def tools() -> list[types.Tool]:
        return TOOLS

    @server.list_prompts()
    async def prompts() -> list[types.Prompt]:
        return list(PROMPTS.values())


def _error(code: int, message: str) -> McpError:
    return McpError(types.ErrorData(code=code, message=message))


def _content(uri: str, board: dict[str, Any]) -> ReadResourceContents:
    if uri == BOARD:
        return ReadResourceContents(json.dumps(_move_a_card(board), indent=2), "application/json")
    if uri in FILES:
        data, mime = FILES[uri].read_bytes(), RESOURCES[uri].mimeType
        return ReadResourceContents(data.decode() if mime == "text/markdown" else data, mime)
    before, after = CUSTOMER.split("{id}")
    record = CUSTOMERS.get(uri.removeprefix(before).removesuffix(after))
    if record is None or not (uri.startswith(before) and uri.endswith(after)):
        raise _error(RESOURCE_NOT_FOUND, f"Resource not found: {uri}. Customers on file: {', '.join(CUSTOMERS)}")
    return ReadResourceContents(json.dumps(record, indent=2), "application/json")


def _move_a_card(board: dict[str, Any]) -> dict[str, Any]:
    """One card goes to the next column at each read: a stale copy can be told from a fresh one."""
    card = board["cards"][board["revision"] % len(board["cards"])]
    card["status"] = COLUMNS[(COLUMNS.index(card["status"]) + 1) % len(COLUMNS)]
    board["revision"] += 1
    return board


def _search(query: str, status: str | None = None, since: str | None = None) -> dict[str, Any]:
    alternatives = [part.lower().split() for part in query.split(" OR ")]
    first = date.fromisoformat(since) if since else date.min

    def wanted(ticket: Mapping[str, str]) -> bool:
        customer = CUSTOMERS[ticket["customer"]]["customer"]["name"]
        text = f"{ticket['id']} {customer} {ticket['subject']} {ticket['text']}".lower()
        return any(words and all(word in text for word in words) for words in alternatives)

    found = [
        ticket for ticket in reversed(TICKETS)
        if wanted(ticket) and status in (None, ticket["status"]) and date.fromisoformat(ticket["opened"]) >= first
    ]  # fmt: skip
    return {"count": len(found), "tickets": found}


def _prompt(name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    if (known := PROMPTS.get(name)) is None:
        raise _error(types.INVALID_PARAMS, f"Unknown prompt: {name}")
    for argument in known.arguments or []:
        if argument.required and argument.name not in arguments:
            raise _error(types.INVALID_PARAMS, f"Missing required argument: {argument.name}")
    if name == "review":
        part = f" Look at lines {arguments['lines']} only." if "lines" in arguments else ""
        text = f"Review this code against the engineering style guide ({STYLE_GUIDE}).{part}\n\n{arguments['code']}"
    else:
        ticket = next((t for t in TICKETS if t["id"] == arguments["ticket_id"]), None)
        if ticket is None:
            raise _error(types.INVALID_PARAMS, f"Unknown ticket: {arguments['ticket_id']}")
        text = f"Sum up this ticket in three sentences: problem, state, next step.\n\n{json.dumps(ticket, indent=2)}"
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(description=known.description, messages=[message])


def serve_stdio(server: Server[Any, Any]) -> None:
    """Serve one client on stdin and stdout until stdin ends."""

    async def run() -> None:
        async with stdio_server() as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    anyio.run(run)


def _security() -> TransportSecuritySettings:
    """Only what was addressed to this machine by name: else any page in a browser could rebind its own name to us."""
    here = ["127.0.0.1:*", "localhost:*"]
    return TransportSecuritySettings(allowed_hosts=here, allowed_origins=[f"http://{host}" for host in here])


def http_app(server: Server[Any, Any]) -> Starlette:
    """Streamable HTTP, at any path; `/mcp` by custom."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    manager = StreamableHTTPSessionManager(server, security_settings=_security())

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Starlette(routes=[Mount("/", app=manager.handle_request)], lifespan=lifespan)


def sse_app(server: Server[Any, Any]) -> Starlette:
    """Legacy SSE: the stream at `/sse`, messages posted to `/messages/`."""
    from mcp.server.sse import SseServerTransport

    transport = SseServerTransport("/messages/", _security())

    async def stream(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())
        return Response()  # Starlette calls what a route returns; the SDK says to give it an empty answer

    return Starlette(routes=[Route("/sse", stream), Mount("/messages/", app=transport.handle_post_message)])


def serve(app: Starlette, port: int) -> None:
    """Serve on 127.0.0.1; port 0 takes a free one. The address is in uvicorn's line on stderr."""
    import uvicorn

    uvicorn.run(app, host="127.0.0.1", port=port)
