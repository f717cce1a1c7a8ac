"""A server on fastmcp 4.1, run in an environment of its own: `newer.py [--only-new] [--http]`.

`--only-new` lets it speak MCP 2026-07-28 and nothing older: over stdio the SDK's own path for that revision answers every
request, over HTTP what does not carry its header gets a bare 400.
"""

# ruff: noqa: E402

from __future__ import annotations

import os
import sys
import warnings

warnings.simplefilter("ignore")

import mcp.server.runner as runner
from fastmcp import FastMCP

ONLY_NEW = "--only-new" in sys.argv
made = FastMCP("newer")


@made.resource("x:///text", mime_type="text/markdown")
def text() -> str:
    return "# Text\n" + "line\n" * 3000 + "the last line, grüß gott"


@made.resource("x:///bytes", mime_type="application/octet-stream")
def data() -> bytes:
    return bytes(range(256))


@made.tool
def add(a: int, b: int) -> int:
    return a + b


@made.tool
def environment() -> str:
    return f"{os.environ.get('NEWER_TOKEN')} {'MCP_AGENT_WORKBENCH_BRIDGE' in os.environ} {os.getcwd()} {os.getpid()}"


@made.prompt
def review(code: str) -> str:
    return f"Review {code}."


if "--fail" in sys.argv:
    sys.exit("fatal: no database")
if ONLY_NEW:

    async def modern(server, read, write, *, lifespan_state, raise_exceptions=False, **_):
        await runner._serve_modern_stream(
            server, read, write, lifespan_state=lifespan_state, raise_exceptions=raise_exceptions
        )

    runner._serve_legacy_stream = modern

if "--http" in sys.argv:
    import uvicorn

    app = made.http_app()

    async def only_new(scope, receive, send):
        headers = dict(scope.get("headers", ()))
        if ONLY_NEW and scope["type"] == "http" and headers.get(b"mcp-protocol-version", b"") < b"2026":
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    uvicorn.run(only_new, host="127.0.0.1", port=0)
else:
    made.run(show_banner=False, log_level="ERROR")
