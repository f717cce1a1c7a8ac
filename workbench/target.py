"""Where a server is, from what was typed: checked, and with its secrets kept apart, before anything is started."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .errors import UsageError
from .secret import Secret, expand, in_command, in_url, mask, variables

__all__ = ["Target", "target"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a server is: a command (stdio), a URL (streamable HTTP, or legacy SSE), or an object of this process."""

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, Secret] = field(default_factory=dict)
    cwd: str | None = None
    url: str | None = None
    server: Any = None
    """An SDK server (`FastMCP` or the low-level `Server`) that was made in this process."""
    headers: Mapping[str, Secret] = field(default_factory=dict)
    transport: Literal["stdio", "http", "sse", "memory"] = "stdio"
    timeout: float = 60.0
    """Seconds for the handshake and for each request."""

    roots: tuple[Path, ...] = ()
    """Folders that the server may be told of (MCP specification, "Roots")."""

    bridge: bool = False
    """Whether it is reached through a proxy, as servers are that speak only a newer revision (`bridge.py`)."""

    hidden: tuple[Secret, ...] = ()
    """What a variable in the command or the URL stood for, and what either holds that is nobody's business."""

    notes: tuple[str, ...] = ()
    """What of its entry in a configuration file was not used, in words."""

    def __repr__(self) -> str:
        return f"Target({self.name}: {self.where})"  # the fields would show what the command holds

    @property
    def where(self) -> str:
        """What was typed, for messages; secrets masked."""
        if self.server is not None:
            return f"a {type(self.server).__name__} of this process"
        return mask(self.url or " ".join(self.command), self.secrets)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        return (*self.env.values(), *self.headers.values(), *self.hidden)


def target(
    name: str, command: Sequence[str], env: Mapping[str, str] | Sequence[str], cwd: str | None, url: str | None,
    headers: Mapping[str, str], transport: Literal["http", "sse"], timeout: float, server: Any = None,
    environ: Mapping[str, str] | None = None, bridge: bool = False, roots: Sequence[str | Path] = (),
) -> Target:  # fmt: skip
    """The target that these words mean, variables replaced from `environ` (default: this process's environment).

    Raises `UsageError` saying what to type instead.
    """
    if name == "demo" and not command and not url and server is None:
        command = (sys.executable, "-m", "workbench.demo")
    if not name or sum(map(bool, (command, url, server))) != 1:
        raise UsageError(
            f"connect {name or 'NAME'} to what? Give a command or a URL: %mcp connect {name or 'NAME'} -- COMMAND ARGS, "
            f"or %mcp connect {name or 'NAME'} https://HOST/mcp; %mcp connect demo starts the bundled server"
        )
    if timeout <= 0:
        raise UsageError(f"a timeout of {timeout:g} s is no time at all; give seconds, as in --timeout 60")
    address = expand(url, environ) if url else None
    if address and not address.startswith(("http://", "https://")):
        raise UsageError(
            f"{mask(str(url), in_url(str(url)))!r} is no http:// or https:// address; "
            f"a command goes behind --: %mcp connect {name} -- COMMAND"
        )
    if bridge and server is not None:
        raise UsageError("a server of this process needs no bridge: leave bridge=True out")
    folders = [Path(root).expanduser().resolve() for root in ([roots] if isinstance(roots, str | Path) else roots)]
    if missing := [str(folder) for folder in folders if not folder.is_dir()]:
        raise UsageError(f"a root is a folder that the server is told of; there is no folder {', '.join(missing)}")
    if bridge and folders:
        raise UsageError("the bridge tells its server of no roots: leave out either")
    pairs = list(env.items() if isinstance(env, Mapping) else ((x, f"${{{x}}}") for x in env))
    typed = [*command, *([url] if url else [])]
    started = tuple(expand(word, environ) for word in command)
    kind: Literal["stdio", "http", "sse", "memory"] = transport if url else "stdio" if command else "memory"
    return Target(
        name=name, server=server, transport=kind, command=started, cwd=cwd, url=address, timeout=timeout,
        bridge=bridge, roots=tuple(folders),
        env={key: Secret(expand(value, environ)) for key, value in pairs},
        headers={key: Secret(expand(value, environ)) for key, value in headers.items()},
        hidden=(
            *(secret for text in typed for secret in variables(text, environ)), *in_command(started), *in_url(address or ""),
        ),
    )  # fmt: skip
