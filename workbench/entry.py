"""One server of another host's configuration file as a `Target`: its keys checked, its variables replaced."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from . import inputs, jsonc
from .config import SECTIONS, Config, Entry
from .content import visible
from .errors import UsageError, WorkbenchError
from .secret import Secret, expand, references
from .target import Target, target

__all__ = ["forget", "targets"]

_IN_SECONDS = ("cline_mcp_settings.json", "mcp_settings.json")  # Cline's and, of the same descent, Roo's
_COMMAND, _ADDRESS = ("command", "args", "env", "cwd", "envFile"), ("url", "headers")
_TYPE = ("type", "transport", "transportType")  # today's key, FastMCP's, Cline's older one
_KINDS: dict[str, Literal["stdio", "http", "sse"]] = {
    "stdio": "stdio", "local": "stdio", "http": "http", "streamablehttp": "http", "sse": "sse",
}  # fmt: skip
_WANTED = {
    **dict.fromkeys(("command", "cwd", "envFile", "url", *_TYPE), "a string"), "args": 'a list of strings, as in ["-y", "x"]',
    **dict.fromkeys(("env", "headers"), 'an object of strings, as in {"NAME": "value"}'),
    "timeout": "a number above 0", "disabled": "true or false",
}  # fmt: skip


def targets(
    config: Config, entries: Sequence[Entry], answers: MutableMapping[inputs.Key, Secret], timeout: float
) -> tuple[list[Target], dict[str, WorkbenchError]]:
    """The targets of these entries, and by name why some are none. Inputs that are not among `answers` are asked for, and
    added. `timeout` (seconds) is for entries that give none."""
    done, failed = list[Target](), dict[str, WorkbenchError]()
    for entry in entries:
        try:
            done.append(_target(config, entry, answers, timeout))
        except UsageError as error:
            failed[entry.name] = error
    return done, failed


def _target(config: Config, entry: Entry, answers: MutableMapping[inputs.Key, Secret], timeout: float) -> Target:
    fields = _checked(config, entry)
    kind = _kind(config, entry, fields)
    used = _COMMAND if kind == "stdio" else _ADDRESS
    mine = {name: fields[name] for name in used if name in fields}
    command = [str(word) for word in (mine["command"], *mine.get("args", ()))] if kind == "stdio" else []
    env = {name: str(value) for name, value in mine.get("env", {}).items() if value is not None}
    headers = {name: str(value) for name, value in mine.get("headers", {}).items() if value is not None}
    cwd, file, url = mine.get("cwd"), mine.get("envFile"), mine.get("url")
    typed = [*command, *env.values(), *headers.values(), *(text for text in (cwd, file, url) if text)]
    try:
        environ = _environ(config, entry, answers, typed)
        values = _env_file(config.folder / Path(expand(file, environ)).expanduser()) if file else {}
        # As variables, so that what stands in them is not taken for a variable again.
        environ = ChainMap({f"envFile:{number}": value for number, value in enumerate(values.values())}, environ)  # type: ignore[arg-type]
        env = {name: f"${{envFile:{number}}}" for number, name in enumerate(values)} | env
        made = target(
            entry.name, command, env, _folder(config, expand(cwd, environ) if cwd else None), url, headers,
            "sse" if kind == "sse" else "http", _seconds(config, fields.get("timeout"), timeout), environ=environ,
        )  # fmt: skip
    except UsageError as error:
        raise UsageError(f"{config.where(entry)}: {error}") from None
    return replace(made, notes=tuple(_notes(config, entry, fields, used)))


def _checked(config: Config, entry: Entry) -> dict[str, Any]:
    """The entry's fields, of the right shapes; what is null counts as left out. No value is repeated: it may be secret."""
    if not isinstance(entry.fields, dict):
        raise UsageError(
            f'{config.where(entry)} is {_named(entry.fields)}; an object is wanted, as in {{"command": "npx"}}'
        )
    places = config.document.places
    twice = [at for section in SECTIONS for at in places.get((section, entry.name), ())]
    if len(twice) > 1:
        lines = " and ".join(jsonc.position(config.document.text, at).partition(":")[0] for at in twice)
        raise UsageError(f"{config.where(entry)} is there twice (lines {lines}), and only one would count; rename one")
    fields = {name: value for name, value in entry.fields.items() if value is not None}
    for name, value in fields.items():
        if name in _WANTED and not _fits(name, value):
            raise UsageError(f"{config.where(entry, name)}: {name} is {_named(value)}; {_WANTED[name]} is wanted")
    return fields


def _fits(name: str, value: Any) -> bool:
    """VS Code allows numbers, and null, for a variable; the same is taken wherever a string stands in a list or an object."""
    if name == "timeout":
        return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")
    if name == "disabled":
        return isinstance(value, bool)
    if name == "args":
        return isinstance(value, list) and all(_scalar(each) for each in value)
    if name in ("env", "headers"):
        return isinstance(value, dict) and all(each is None or _scalar(each) for each in value.values())
    return isinstance(value, str)


def _scalar(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _named(value: Any) -> str:
    """What kind of thing it is, and what kinds are in it: never the value."""
    words = {str: "a string", list: "a list", dict: "an object", bool: "true or false", type(None): "null"}
    kind = words.get(type(value), "a number")
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    inner = sorted({words.get(type(each), "a number") for each in held})
    return f"{kind} with {' and '.join(inner)} in it" if inner else kind


def _kind(config: Config, entry: Entry, fields: Mapping[str, Any]) -> Literal["stdio", "http", "sse"]:
    """How to reach it; an address without a type is streamable HTTP, as the specification has it since 2025-03-26."""
    command, url = fields.get("command"), fields.get("url")
    if bool(command) == bool(url):
        keys = ", ".join(visible(key, 40) for key in fields) or "no keys at all"
        what = "has both command and url; take one out"
        if not command:
            what = f"has neither command nor url (it has {keys}); say how to reach it: " + (
                '"command": "npx", "args": [...], or "url": "https://HOST/mcp"'
            )
        raise UsageError(f"{config.where(entry)} {what}")
    key = next((name for name in _TYPE if fields.get(name)), "type")
    said = fields.get(key, "stdio" if command else "http")
    kind = _KINDS.get(said.lower().replace("-", "").replace("_", ""))
    if kind is None:
        raise UsageError(
            f"{config.where(entry, key)}: the {key} {visible(said, 40)!r} is not known; there are stdio, http and sse"
        )
    if (kind == "stdio") != bool(command):
        has = "command" if command else "url"
        raise UsageError(f"{config.where(entry, key)}: the {key} is {visible(said, 40)}, but what it has is a {has}")
    return kind


def _seconds(config: Config, given: float | None, default: float) -> float:
    """An entry's `timeout` in seconds. Cline means seconds (30 to 3600 in its menu, and so does Roo); Claude Code means
    milliseconds and does not heed less than 1000. No file says which, so it is told by the file's name, then by size."""
    if given is None:
        return default
    return given if config.path.name in _IN_SECONDS or given < 1000 else given / 1000


def _folder(config: Config, cwd: str | None) -> str | None:
    """Where a command starts: a project's servers in the project's folder, as VS Code, Cursor and Claude Code do."""
    if cwd is None:
        return str(config.folder) if config.of_project else None
    return str(config.folder / Path(cwd).expanduser())


def _notes(config: Config, entry: Entry, fields: Mapping[str, Any], used: Sequence[str]) -> Iterator[str]:
    meant = {*used, *_TYPE, "timeout", "disabled"}
    # `"autoApprove": []` stands in every file of Cline's; what is empty loses nothing.
    if ignored := [
        visible(key, 40) for key, value in fields.items() if key not in meant and value not in (False, "", [], {})
    ]:
        word = "is" if len(ignored) == 1 else "are"
        yield f"{config.where(entry, ignored[0])}: {', '.join(ignored)} {word} ignored: nothing here takes it"
    for key in fields:
        if len(config.document.places.get((entry.section, entry.name, key), ())) > 1:
            yield f"{config.where(entry, key)}: {visible(key, 40)} is there twice; this one counted"
    if " " in fields.get("command", "") and not fields.get("args"):
        yield f"{config.where(entry, 'command')}: the command has blanks in it; its arguments belong in args"


def forget(config: Config, names: Sequence[str], answers: MutableMapping[inputs.Key, Secret]) -> None:
    """Drop what was answered for these entries: it may have been mistyped, and is asked again."""
    for name in names:
        for _, spelled in references(str(config.entries[name].fields)):
            answers.pop(inputs.key(config.path, str(spelled).removeprefix("input:")), None)


# -- variables


def _environ(
    config: Config, entry: Entry, answers: MutableMapping[inputs.Key, Secret], texts: Sequence[str]
) -> Mapping[str, str]:
    """What the variables in `texts` stand for. Whatever cannot be found is told before anything is asked."""
    folder = str(config.folder)
    given = {
        "workspaceFolder": folder, "workspaceFolderBasename": os.path.basename(folder), "userHome": str(Path.home()),
        "pathSeparator": os.sep, "/": os.sep, "CLAUDE_PROJECT_DIR": os.environ.get("CLAUDE_PROJECT_DIR", folder),
    }  # fmt: skip
    environ = ChainMap(given, os.environ)
    asked = dict[str, None]()
    for text in texts:
        expand(text, environ)
        for spelled, name in references(text):
            if name is None:
                raise UsageError(
                    f"{visible(spelled.partition(':-')[0], 60)} is a variable that only its host can fill in; put the value "
                    "there, or ${NAME} and set the environment variable NAME"
                )
            if name.startswith("input:"):
                asked[name] = None
    for name in asked:
        given[name] = inputs.answer(
            config.path, config.document.value.get("inputs"), name.removeprefix("input:"), answers
        )
    return environ


def _env_file(path: Path) -> dict[str, str]:
    """The variables of an `envFile`; values as they stand, without a look at other variables."""
    from dotenv.parser import parse_stream  # `dotenv_values` would log a bad line and go on

    try:
        bindings = list(parse_stream(StringIO(path.read_text("utf-8-sig"))))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"its envFile {path} cannot be read: {getattr(error, 'strerror', None) or 'no UTF-8'}"
        ) from None
    if bad := [binding.original.line for binding in bindings if binding.error]:
        raise UsageError(f"its envFile {path}:{bad[0]} is no NAME=VALUE")
    return {binding.key: binding.value or "" for binding in bindings if binding.key}
