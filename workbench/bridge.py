"""Reaching servers that speak only a newer revision of MCP than the SDK we stand on: through a proxy in an environment of its
own, made once by `uv` (the `bridge` extra), which is our stdio server like any other (docs/adr/0006-newer-servers.md).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from .content import harmless
from .errors import ConnectError, UsageError
from .secret import mask
from .stdio import search_path
from .target import Target

__all__ = ["REVISION", "complaint", "environment", "line", "made", "prepared", "refusal", "supported"]

REVISION = "2026-07-28"
_REFUSED = -32022  # JSON-RPC: this revision is not spoken (MCP 2026-07-28, "Versioning and Compatibility")
_NEWER_ONLY = "io.modelcontextprotocol/protocolVersion"  # what every request of that revision carries, and ours do not
_PACKAGES = ("fastmcp==4.1.6", "mcp==2.3.0")
_PROXY = Path(__file__).with_name("bridge_proxy.py")
_VARIABLE = "MCP_AGENT_WORKBENCH_BRIDGE"
_SAYS = "workbench bridge: "  # how the proxy's own last line begins: all others on its stderr are the server's
_python: list[str] = []  # that of the proxy, once uv has said where it is
_FIND = "import sys, importlib.metadata as m; m.version('fastmcp'); print(sys.executable)"
# A connection without the bridge goes by these too: proxies and certificates are the machine's business.
_NETWORK = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir")


# -- the environment


async def made() -> list[str] | None:
    """The command that starts the proxy, where its environment is there already; needs no network."""
    if not (_python and shutil.which(_python[-1])):  # uv's cache may have been cleaned meanwhile
        status, said, _ = await _uv("--offline")
        if status:
            return None
        _python.append(said.strip().splitlines()[-1])
    return [_python[-1], str(_PROXY)]


async def prepared() -> list[str]:
    """The command that starts the proxy; its environment is made first where it is missing: seconds to minutes, once.

    Raises `UsageError` without `uv`, `ConnectError` in its own words where it cannot make the environment.
    """
    if (command := await made()) is not None:
        return command
    status, said, complaint = await _uv()
    if status:
        last = "\n".join(f"    {harmless(each)}" for each in complaint.strip().splitlines()[-6:])
        raise ConnectError(
            f"the bridge's environment ({', '.join(_PACKAGES)}) could not be made; it needs a network once. uv said:\n{last}"
        )
    _python.append(said.strip().splitlines()[-1])
    return [_python[-1], str(_PROXY)]


async def _uv(*options: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `uv`, which says where the Python is that has the proxy's packages.

    With this process's own environment: which package index is used is the machine's business. An interrupt ends it, and
    what it has started.
    """
    beside = str(Path(sys.executable).parent)
    if (uv := shutil.which("uv", path=beside) or shutil.which("uv")) is None:
        raise UsageError('--bridge needs uv, which is not installed: pip install "mcp-agent-workbench[bridge]"')
    first, *more = _PACKAGES
    starting = asyncio.ensure_future(asyncio.create_subprocess_exec(
        uv, "tool", "run", *options, "--quiet", "--python", sys.executable, "--from", first,
        *(word for package in more for word in ("--with", package)), "python", "-c", _FIND,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    ))  # fmt: skip
    try:
        running = await asyncio.shield(starting)
        said, complaint = await running.communicate()
    except asyncio.CancelledError:
        _end(running := await starting)  # also one that was just being started
        await running.wait()
        raise
    return await running.wait(), said.decode(errors="replace"), complaint.decode(errors="replace")


def _end(running: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):  # it had ended just then
        running.kill() if sys.platform == "win32" else os.killpg(running.pid, signal.SIGKILL)


def environment(target: Target) -> dict[str, str]:
    """What tells the proxy where the server is. Not on its command line: everybody can read that."""
    wanted = {
        "command": target.command, "cwd": target.cwd, "url": target.url, "sse": target.transport == "sse",
        "env": {"PATH": search_path(), **{name: value.reveal() for name, value in target.env.items()}},
        "headers": {name: value.reveal() for name, value in target.headers.items()}, "revision": REVISION,
        "says": _SAYS,
    }  # fmt: skip
    network = {name: value for name, value in os.environ.items() if target.url and name.lower() in _NETWORK}
    return {**network, _VARIABLE: json.dumps(wanted)}


def complaint(stderr: Sequence[str]) -> str | None:
    """Why the proxy gave up, in its own words; `None` where the last words are not its own."""
    last = stderr[-1] if stderr else ""
    return last.removeprefix(_SAYS) if last.startswith(_SAYS) else None


# -- the refusal


def supported(error: object) -> list[str] | None:
    """The newer revisions that a JSON-RPC error says its server speaks and no older; `None` where it says no such thing.

    Servers say it in different ways. The specification's is -32022 with `data.supported`; the Python SDK over HTTP asks for
    what every request of the newer revision carries; others put `data.supported` to a code of their own.
    """
    if not isinstance(error, Mapping):
        return None
    data = error.get("data")
    listed = data.get("supported") if isinstance(data, Mapping) else None
    named = [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
    named = [each for each in named if re.fullmatch(r"\d{4}-\d\d-\d\d", each)][:5]
    if named:
        return None if min(named) < REVISION else named
    told = error.get("code") == _REFUSED or _NEWER_ONLY in str(error.get("message"))
    return [REVISION] if told else None


def refusal(target: Target, spoken: list[str], ours: str) -> str:
    """What to say where a server speaks only these revisions, and we `ours` and older."""
    said = f"{target.name} ({target.where}) speaks only MCP {', '.join(spoken)}, this workbench {ours} and older"
    if REVISION not in spoken:
        return f"{said}; the bridge would speak {REVISION}, so there is no way to it yet."
    rootless = ", which tells of no roots" if target.roots else ""
    return f"{said}. Reach it through the bridge{rootless}: {line(target)}"


def line(target: Target) -> str:
    """What to type to reach the server through the bridge: the same options, but for roots, which it refuses. A value that is
    nobody's business is `VALUE`."""
    words = ["%mcp", "connect", target.name, "--bridge"]
    for name, value in target.env.items():
        words += ["--env", name if os.environ.get(name) == value.reveal() else f"{name}=VALUE"]
    for name in target.headers:
        words += ["--header", f"{name}: VALUE"]
    words += ["--cwd", target.cwd] if target.cwd else []
    words += ["--timeout", f"{target.timeout:g}"] if target.timeout != Target.timeout else []
    words += ["--sse"] if target.transport == "sse" else []
    words += [target.url] if target.url else ["--", *target.command]
    return shlex.join(mask(word, target.secrets) for word in words)
