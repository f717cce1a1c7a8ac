"""Reaching servers that speak only a newer revision of MCP than the SDK we stand on: through a proxy in an environment of its
own, made once by `uv` (the `bridge` extra), which is our stdio server like any other (docs/adr/0006-newer-servers.md).
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

from .errors import ConnectError, UsageError
from .stdio import search_path
from .target import Target

__all__ = ["REFUSED", "REVISION", "environment", "line", "prepared"]

REVISION = "2026-07-28"
REFUSED = -32022
"""JSON-RPC code: the server does not speak the revision that was asked for (MCP 2026-07-28, "Versioning")."""
_FASTMCP = "fastmcp==4.1.6"
_PROXY = Path(__file__).with_name("bridge_proxy.py")
_VARIABLE = "MCP_AGENT_WORKBENCH_BRIDGE"


def _uv() -> str:
    beside = str(Path(sys.executable).parent)
    if (found := shutil.which("uv", path=beside) or shutil.which("uv")) is None:
        raise UsageError('--bridge needs uv, which is not installed: pip install "mcp-agent-workbench[bridge]"')
    return found


async def prepared() -> list[str]:
    """The command that starts the proxy; its environment is made first, which takes seconds and a network, once.

    Raises `UsageError` without `uv`, `ConnectError` in its own words where it cannot make the environment.
    """
    # With this process's own environment: proxies, certificates and the package index are the machine's business.
    command = [_uv(), "run", "--quiet", "--no-project", "--python", sys.executable, "--with", _FASTMCP, "python"]
    made = await asyncio.create_subprocess_exec(
        *command, "-c", "pass", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        _, said = await made.communicate()
    except asyncio.CancelledError:
        made.kill()
        raise
    if made.returncode:
        last = said.decode(errors="replace").strip().splitlines()[-6:]
        raise ConnectError(
            f"the bridge's environment ({_FASTMCP}) could not be made; it needs a network once. uv said:\n"
            + "\n".join(f"    {each}" for each in last)
        )
    return [*command[:2], "--offline", *command[2:], str(_PROXY)]


def environment(target: Target) -> dict[str, str]:
    """What tells the proxy where the server is. Not on its command line: everybody can read that."""
    env = {name: value.reveal() for name, value in target.env.items()}
    headers = {name: value.reveal() for name, value in target.headers.items()}
    wanted = {
        "command": target.command, "env": {"PATH": search_path(), **env}, "cwd": target.cwd, "url": target.url,
        "headers": headers, "sse": target.transport == "sse", "revision": REVISION,
    }  # fmt: skip
    cache = {name: os.environ[name] for name in ("UV_CACHE_DIR", "XDG_CACHE_HOME") if name in os.environ}
    return {**cache, _VARIABLE: json.dumps(wanted)}


def line(target: Target) -> str:
    """What to type to reach the server through the bridge."""
    return f"%mcp connect {target.name} --bridge {target.where if target.url else f'-- {target.where}'}"
