"""VS Code's `${input:ID}`: values that a configuration file leaves to the person, asked once a session and never shown."""

from __future__ import annotations

import builtins
import getpass
import os
import re
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from .content import visible
from .errors import UsageError
from .secret import Secret

__all__ = ["Key", "answer", "key", "variable"]

Key = tuple[str, str]
"""A file and the ID of one of its inputs: two files may mean two things by `token`."""


def key(path: Path, ident: str) -> Key:
    """Where an answer is kept."""
    return str(path.resolve()), ident


def variable(ident: str) -> str:
    """The environment variable that answers an input without a question: `api-key` is `MCP_INPUT_API_KEY`."""
    return "MCP_INPUT_" + re.sub(r"\W", "_", ident).upper()


def answer(path: Path, declared: Any, ident: str, answers: MutableMapping[Key, Secret]) -> str:
    """The value of an input: from the environment, from `answers`, or else asked for, and then added there.

    `declared` is what the file has under `inputs`. Raises `UsageError` where nobody can be asked and there is no default.
    """
    if (given := os.environ.get(variable(ident))) is not None:
        return given
    if (at := key(path, ident)) not in answers:
        answers[at] = Secret(_ask(path, declared, ident))
    return answers[at].reveal()


def _ask(path: Path, declared: Any, ident: str) -> str:
    known = {
        item["id"]: item
        for item in (declared if isinstance(declared, list) else ())
        if isinstance(item, dict) and isinstance(item.get("id"), str)
    }
    where = variable(ident)
    instead = f"set the environment variable {where}: import os, getpass; os.environ[{where!r}] = getpass.getpass()"
    name = f"the input {visible(ident, 60)!r} of {path}"
    if ident not in known:
        listed = ", ".join(visible(each, 60) for each in known) or "none"
        raise UsageError(f'{name} is not declared; declared under "inputs" are: {listed}. Add it there, or {instead}')
    kind = known[ident].get("type")
    if kind not in ("promptString", "pickString"):
        raise UsageError(f"{name} is of the type {visible(str(kind), 40)!r}, which only VS Code can run; {instead}")
    typed = _pick(known[ident], name) if kind == "pickString" else _prompt(known[ident], name)
    if typed is None:
        raise UsageError(f"{name} is asked for, and nobody can be asked here; {instead}")
    if not typed:
        raise UsageError(f"{name} was left empty. Connect again to be asked again, or {instead}")
    return typed


def _prompt(item: Mapping[str, Any], name: str) -> str | None:
    """What was typed, unseen even without `"password": true`: what `input` reads stays in the saved notebook."""
    default = item.get("default") if isinstance(item.get("default"), str) else None
    shown = f" [{visible(default, 60)}]" if default and item.get("password") is not True else ""
    typed = _typed(f"{_described(item, name)}{shown}: ", hidden=True)
    return typed or default or typed


def _pick(item: Mapping[str, Any], name: str) -> str | None:
    listed = item.get("options")
    options = [one for one in map(_option, listed) if one] if isinstance(listed, list) else []
    if not options:
        raise UsageError(f"{name} is a pickString without options; add some, or set {variable(str(item['id']))}")
    lines = [f"  {number}  {visible(label, 80)}" for number, (label, _) in enumerate(options, 1)]
    default = item.get("default")
    typed = _typed("\n".join([_described(item, name), *lines, f"1 to {len(options)}: "]), hidden=False)
    if not typed:
        known = [value for _, value in options]
        return default if default in known else typed
    picked = {str(number): value for number, (_, value) in enumerate(options, 1)}
    picked = dict(options) | {value: value for _, value in options} | picked
    if typed not in picked:
        raise UsageError(f"{name} is one of {len(options)} options; what was typed is neither a number nor one of them")
    return picked[typed]


def _option(option: Any) -> tuple[str, str] | None:
    """Label and value; VS Code takes a string, or an object with both."""
    if isinstance(option, dict):
        option = (option.get("label"), option.get("value"))
        return option if all(isinstance(each, str) for each in option) else None
    return (option, option) if isinstance(option, str) else None


def _described(item: Mapping[str, Any], name: str) -> str:
    return f"{visible(str(item.get('description') or 'A value is wanted'))} ({name})"


def _typed(prompt: str, *, hidden: bool) -> str | None:
    """What a person typed; `None` where nobody can: no terminal, or a kernel that was started for a batch run."""
    read = getpass.getpass if hidden else builtins.input  # a kernel puts its own in place of both
    ours = read.__module__ in ("getpass", "builtins")
    if ours and not (sys.stdin and sys.stdin.isatty()):
        return None
    try:
        return str(read(prompt)).strip()
    except (NotImplementedError, EOFError):  # IPython's StdinNotImplementedError is one of the former
        return None
