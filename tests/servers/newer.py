"""A server on fastmcp 4 or mcp 2, run in an environment of its own: `newer.py [--only-new] [--stubborn] [--http]`.

`--only-new` lets it speak MCP 2026-07-28 and nothing older. The Python SDK has no such option, so its own path for that
revision is given every request, over both transports: what it answers to ours is the SDK's answer, not this file's.
`--stubborn` ignores SIGTERM and the end of stdin. The header that came with the last request is shown by `environment`.
"""

# ruff: noqa: E402

from __future__ import annotations

import os
import signal
import sys
import time
import warnings

warnings.simplefilter("ignore")

import mcp.server.runner as runner
import mcp.server.streamable_http_manager as manager

try:
    from fastmcp import FastMCP as Made
except ImportError:
    from mcp.server.mcpserver import MCPServer as Made

ONLY_NEW = "--only-new" in sys.argv
made, seen = Made("newer"), {}


@made.resource("x:///text", mime_type="text/markdown")
def text() -> str:
    return "# Text\n" + "line\n" * 3000 + "the last line, grüß gott"


@made.resource("x:///bytes", mime_type="application/octet-stream")
def data() -> bytes:
    return bytes(range(256))


@made.tool()
def add(a: int, b: int) -> int:
    return a + b


@made.tool()
def environment() -> str:
    token = os.environ.get("NEWER_TOKEN") or seen.get("authorization")
    return f"{token} {'MCP_AGENT_WORKBENCH_BRIDGE' in os.environ} {os.getcwd()} {os.getpid()}"


@made.tool()
def crash() -> str:
    print("fatal: out of cheese", file=sys.stderr, flush=True)
    os._exit(7)


@made.prompt()
def review(code: str) -> str:
    return f"Review {code}."


if "--fail" in sys.argv:
    sys.exit("fatal: no database")
if "--stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if ONLY_NEW:

    async def modern(server, read, write, *, lifespan_state, raise_exceptions=False, **_):
        await runner._serve_modern_stream(
            server, read, write, lifespan_state=lifespan_state, raise_exceptions=raise_exceptions
        )

    async def modern_http(self, scope, receive, send):
        state = self._lifespan_state
        await manager.handle_modern_request(
            self.app, self.security_settings, self.json_response, state, scope, receive, send
        )

    runner._serve_legacy_stream = modern
    manager.StreamableHTTPSessionManager._handle_request = modern_http

if "--http" in sys.argv:
    import uvicorn

    app = (getattr(made, "http_app", None) or made.streamable_http_app)()

    async def noted(scope, receive, send):
        seen.update({name.decode(): value.decode() for name, value in scope.get("headers", ())})
        await app(scope, receive, send)

    uvicorn.run(noted, host="127.0.0.1", port=0)
elif hasattr(made, "http_app"):
    made.run(show_banner=False, log_level="ERROR")
else:
    made.run()
while "--stubborn" in sys.argv:
    time.sleep(1)
