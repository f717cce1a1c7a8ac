"""The proxy of `bridge.py`: a stdio server of our revision in front of a server of a newer one.

Run under fastmcp 4 in an environment of its own; nothing of the workbench can be imported here.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from fastmcp.server import create_proxy
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED

_open_process = anyio.open_process


async def _in_our_group(*args: Any, start_new_session: bool = False, **more: Any) -> Any:
    # The SDK starts servers in a session of their own; here they must end with us, however we end.
    return await _open_process(*args, **more)


async def main() -> None:
    """Serve until stdin ends; a server that cannot be reached ends us at once, with its own words on stderr."""
    # Taken out at once, so that no server behind inherits it.
    wanted = json.loads(os.environ.pop("MCP_AGENT_WORKBENCH_BRIDGE"))
    transport: Any
    if wanted["url"]:
        kind = SSETransport if wanted["sse"] else StreamableHttpTransport
        transport = kind(wanted["url"], headers=wanted["headers"])
    else:
        anyio.open_process = _in_our_group
        command, *args = wanted["command"]
        transport = StdioTransport(command, args, env=wanted["env"], cwd=wanted["cwd"])
    async with Client(transport, mode=wanted["revision"]) as client:
        try:
            await client.list_tools()
        except MCPError as error:
            if error.error.code == CONNECTION_CLOSED:
                sys.exit(f"{error}")  # any other error is an answer, if only that it has no tools
        await create_proxy(client).run_async(show_banner=False, log_level="ERROR")


if __name__ == "__main__":
    anyio.run(main)
