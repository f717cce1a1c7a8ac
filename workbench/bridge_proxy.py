"""The proxy of `bridge.py`: a stdio server of our revision in front of a server of a newer one.

Run under fastmcp 4 in an environment of its own; nothing of the workbench can be imported here.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from fastmcp.server import create_proxy

_FLUSH_SECONDS = 0.3  # for the server's last words, on their way through us
_open_process = anyio.open_process
_servers: list[Any] = []


async def _in_our_group(*args: Any, start_new_session: bool = False, **more: Any) -> Any:
    # The SDK starts servers in a session of their own; here they must end with us, however we end.
    _servers.append(await _open_process(*args, **more))
    return _servers[-1]


def _transport(wanted: dict[str, Any]) -> Any:
    if wanted["url"]:
        kind = SSETransport if wanted["sse"] else StreamableHttpTransport
        return kind(wanted["url"], headers=wanted["headers"])
    anyio.open_process = _in_our_group
    command, *args = wanted["command"]
    return StdioTransport(command, args, env=wanted["env"], cwd=wanted["cwd"])


async def _end_with_it() -> None:
    """A server that has ended ends us: else we would seem connected for ever, and nobody would start it again."""
    for server in _servers:
        await server.wait()
        await anyio.sleep(_FLUSH_SECONDS)
        os._exit(_status(server))


def _status(server: Any) -> int:
    return server.returncode if server.returncode and server.returncode > 0 else 1


async def _connected(client: Client[Any], wanted: dict[str, Any]) -> Client[Any]:
    """The client, connected; ends us in one line where the server cannot be reached, or needs no bridge."""
    try:
        await client.__aenter__()
    except Exception as error:
        for server in _servers:
            with anyio.move_on_after(_FLUSH_SECONDS):
                await server.wait()
                sys.exit(_status(server))  # its own last words are on our stderr, which it shares
        said = " ".join(str(error).removeprefix("Client failed to connect: ").split()) or type(error).__name__
        sys.exit(f"{wanted['says']}its server could not be reached: {said}")
    if client.protocol_version != wanted["revision"]:
        sys.exit(
            f"{wanted['says']}It speaks MCP {client.protocol_version}, which needs no bridge: connect it without --bridge"
        )
    return client


async def main() -> None:
    """Serve until stdin ends, or the server behind does."""
    logging.disable()  # stderr is the server's, whose last words a traceback of ours would push out
    # Taken out at once, so that no server behind inherits it.
    wanted = json.loads(os.environ.pop("MCP_AGENT_WORKBENCH_BRIDGE"))
    # It asks the server which revisions it speaks; pinned to one, the client would believe it to speak that.
    client = await _connected(Client(_transport(wanted), mode="auto"), wanted)
    info = client.server_info
    proxy = create_proxy(
        client, name=(info and info.name) or "unnamed server", version=(info and info.version) or "",
        instructions=client.instructions,
    )  # fmt: skip
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_with_it)
        await proxy.run_async(show_banner=False, log_level="ERROR")
        for server in _servers:  # as politely as we were asked; who asked us ends the whole group if it takes long
            await server.stdin.aclose()
            await server.wait()
        os._exit(0)


if __name__ == "__main__":
    anyio.run(main)
