"""The configuration files of other hosts, as they are: where they lie and what servers they name (`entry.py` reads each).

Claude Code's `.mcp.json`, `claude_desktop_config.json`, Cursor's `.cursor/mcp.json` and Cline's `cline_mcp_settings.json` hold
`mcpServers`, VS Code's `.vscode/mcp.json` holds `servers` and `inputs`. Formats: code.claude.com/docs/en/mcp,
code.visualstudio.com/docs/copilot/reference/mcp-configuration, cursor.com/docs/context/mcp, Cline's services/mcp/schemas.ts.
Nothing is started here: a project's file is offered (`offers`) until somebody asks for it.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from . import jsonc
from .content import clean, visible
from .errors import ConnectError, UsageError, WorkbenchError
from .target import Target

__all__ = ["Config", "Entry", "choose", "failure", "found", "load", "offers"]

PROJECT = (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
SECTIONS = ("mcpServers", "servers")
_LISTED = 12  # names in an offer
_LARGEST = 4 << 20  # bytes; Claude Code's own ~/.claude.json holds servers too, and it grows


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One server of a file, as it stands there."""

    name: str
    section: str
    fields: Any = field(repr=False)
    """A mapping, if the file is right."""

    @property
    def disabled(self) -> bool:
        return isinstance(self.fields, dict) and self.fields.get("disabled") is True


@dataclass(frozen=True, kw_only=True)
class Config:
    """A file that was read. Values that may be secret are in it as they were in the file: it is not for showing."""

    path: Path
    document: jsonc.Document
    entries: Mapping[str, Entry]

    def __repr__(self) -> str:
        return f"Config({self.path}: {', '.join(self.entries)})"

    @property
    def notes(self) -> tuple[str, ...]:
        """What other hosts would not read, in words."""
        if self.document.lenient is None or "servers" in self.document.value:  # VS Code's files may have comments
            return ()
        at = f"{self.path}:{self.document.lenient}"
        return (
            f"{at}: no strict JSON from here; read all the same (comments, trailing commas), as only some hosts do",
        )

    @property
    def folder(self) -> Path:
        """What `${workspaceFolder}` stands for: the project's folder, or for a user's own file the working folder."""
        above = self._above
        folder = above.parent if above.name in (".vscode", ".cursor") else above
        return folder if self.of_project and folder != Path.home() else Path.cwd()

    @property
    def of_project(self) -> bool:
        return self.path.name == ".mcp.json" or self._above.name in (".vscode", ".cursor")

    @property
    def _above(self) -> Path:
        return Path(os.path.abspath(self.path)).parent  # not `resolve`: a link belongs to the project that it lies in

    def where(self, entry: Entry, *keys: str) -> str:
        """ "FILE:line:column: NAME", for the beginning of a message."""
        return f"{self.path}:{self.document.at(entry.section, entry.name, *keys)}: {visible(entry.name)}"


# -- finding and reading


def found(folder: Path | None = None) -> list[Path]:
    """Project files in the working folder and its parents up to the repository's root, the nearest first; as one types them."""
    try:
        here = (folder or Path.cwd()).resolve()
    except OSError:  # the working folder is gone
        return []
    tree = [here, *here.parents]
    roots = [number for number, each in enumerate(tree) if os.path.exists(each / ".git")]
    within = tree[: roots[0] + 1] if roots else tree[:1]  # without a repository nothing above is this project's
    return [
        Path(os.path.relpath(each / name, here)) for each in within for name in PROJECT if os.path.isfile(each / name)
    ]


def offers(name: str | None = None) -> str:
    """What the project's files have (or those that have `name`), and what to type; empty where there is nothing."""
    return "\n".join(_offers(name))


def _offers(name: str | None) -> Iterator[str]:
    for path in found():
        line = f"%mcp connect --config {shlex.quote(str(path))}"
        try:
            names = list(load(path).entries)
        except UsageError as error:
            if name is None:
                yield f"found {path}, which cannot be used: {error}"
            continue
        if names and (name is None or name in names):
            more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
            listed = ", ".join(visible(each, 60) for each in names[:_LISTED]) + more
            yield f"found {path} with {listed}: {line} {shlex.quote(visible(name or names[0], 60))}"


def load(path: str | Path) -> Config:
    """Read a file; raises `UsageError` with line and column. The same file is parsed once."""
    path = Path(path).expanduser()
    try:
        if path.is_file():
            state = path.stat()
            return _load(path, str(path.resolve()), state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    what = f"{path} is no file" if path.exists() else f"there is no file {path} (the working folder is {Path.cwd()})"
    near = [path / name for name in PROJECT if (path / name).is_file()] or found()
    hint = f"there is {', '.join(map(str, near))}" if near else "none was found in this project either"
    raise UsageError(f"{what}; {hint}. Type the file: %mcp connect --config {near[0] if near else '.mcp.json'}")


@lru_cache(maxsize=16)
def _load(path: Path, real: str, changed: int, size: int) -> Config:
    if size > _LARGEST:
        raise UsageError(f"{path} has {size:,} bytes; that is no configuration file (at most {_LARGEST:,} are read)")
    raw = path.read_bytes()
    try:
        document = jsonc.read(raw.decode(json.detect_encoding(raw)))  # editors on Windows write UTF-16, or a BOM
        return Config(path=path, document=document, entries=_entries(path, document))
    except RecursionError:
        raise UsageError(f"{path} is nested too deep for a configuration file") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text: it is not encoded in UTF-8 or UTF-16") from None
    except json.JSONDecodeError as error:
        what = "it is empty" if not raw.strip() else f"this is no JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        hint = r"; in JSON a backslash is written \\" if "escape" in error.msg else ""
        raise UsageError(f"{path}:{error.lineno}:{error.colno}: {what}{hint}") from None


def _entries(path: Path, document: jsonc.Document) -> dict[str, Entry]:
    top = document.value
    sections = [name for name in SECTIONS if isinstance(top, dict) and top.get(name) is not None]
    if not sections:
        keys = ", ".join(visible(key, 40) for key in list(top)[:8]) if isinstance(top, dict) else ""
        has = f"what it has is {keys}" if keys else "it has nothing of the kind"
        raise UsageError(
            f'{path} names no servers: {{"mcpServers": {{NAME: ...}}}} is wanted ("servers" in VS Code\'s file), and {has}'
        )
    for name in sections:
        if len(document.places.get((name,), ())) > 1:
            raise UsageError(
                f"{path}:{document.at(name)}: {name} is there twice, and only one would count; make one of them"
            )
        if not isinstance(top[name], dict):
            raise UsageError(f'{path}:{document.at(name)}: {name} is no object; {{"{name}": {{NAME: ...}}}} is wanted')
    return {
        clean(name): Entry(name=clean(name), section=section, fields=clean(fields))
        for section in sections
        for name, fields in top[section].items()
    }


def choose(config: Config, names: Sequence[str] = ()) -> list[Entry]:
    """The entries with these names, or all that are not disabled. Raises `UsageError` listing what the file has."""
    has = ", ".join(visible(e.name, 60) + (" (disabled)" if e.disabled else "") for e in config.entries.values())
    if unknown := [name for name in names if name not in config.entries]:
        raise UsageError(f"{config.path} has no server {', '.join(map(repr, unknown))}; it has: {has or 'none'}")
    chosen = [config.entries[name] for name in dict.fromkeys(names)]
    chosen = chosen or [entry for entry in config.entries.values() if not entry.disabled]
    if not chosen:
        raise UsageError(
            f"{config.path} has nothing to connect; it has: {has or 'none'}. Name one to connect it all the same."
        )
    return chosen


def failure(config: Config, failed: Mapping[str, WorkbenchError], tried: Sequence[Target]) -> WorkbenchError:
    """One error for all of `failed`, after the others of `tried` were connected."""
    stood = [each.name for each in tried if each.name not in failed]
    notes = {each.name: each.notes for each in tried}
    parts = ["\n".join([str(error), *notes.get(name, ())]) for name, error in failed.items()]
    text = parts[0]
    if len(parts) > 1 or stood:
        text = "\n".join([
            f"{len(parts)} of {len(parts) + len(stood)} servers in {config.path} could not be connected:",
            *("  " + part.replace("\n", "\n    ") for part in parts),
            f"Connected: {', '.join(visible(name, 60) for name in stood) or 'none'}. When that is put right: "
            f"%mcp connect --config {shlex.quote(str(config.path))} {' '.join(shlex.quote(visible(x, 60)) for x in failed)}",
        ])  # fmt: skip
    if all(isinstance(error, UsageError) for error in failed.values()):
        return UsageError(text)
    return ConnectError(
        f'{text}\nIn the file --env, --header, --timeout, --sse are env, headers, timeout, "type": "sse".'
    )
