"""The tools that the demo model was given, as far as it can call them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from workbench.demo.context import FIND, READ, is_companion

__all__ = ["Companion", "Tools", "filled", "given"]


class Companion(NamedTuple):
    """A tool that stands for one resource or template."""

    name: str
    text: str
    """What a question is held against: its name and description."""
    required: tuple[str, ...]
    """Parameters that need a value."""


class Tools(NamedTuple):
    """Which of the tools that it can call there are."""

    read: bool = False
    find: bool = False
    companions: tuple[Companion, ...] = ()
    miss: float | None = None
    """Where they were there, and the turn is one that is to miss: on what part of the turns that happens."""


def given(tools: Iterable[Mapping[str, Any]] | None) -> Tools:
    """From the schemas in OpenAI's form, which any host or server may have written."""
    functions = [_mapping(tool, "function") for tool in tools or ()]
    names = {function.get("name") for function in functions}
    made = [_companion(function) for function in functions if is_companion(str(function.get("name")))]
    return Tools(READ in names, FIND in names, tuple(companion for companion in made if companion))


def _companion(function: Mapping[str, Any]) -> Companion | None:
    """`None` for a tool that wants more than names filled in: it stands for no template."""
    name, parameters = str(function["name"]), _mapping(function, "parameters")
    required = tuple(map(str, parameters.get("required") or ()))
    if any(_mapping(_mapping(parameters, "properties"), each).get("type") != "string" for each in required):
        return None
    # How every companion of the workbench answers tells none from another.
    about = re.sub(r" \(answers with (a link|the content)\)\Z", "", str(function.get("description") or ""))
    return Companion(name, f"{name.rpartition('-tool')[0]} {about}", required)


def _mapping(whole: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = whole.get(key)
    return value if isinstance(value, Mapping) else {}


def filled(names: Iterable[str], question: str) -> dict[str, str] | None:
    """A value for each name, when the question holds exactly as many numbers; else `None`."""
    names, numbers = list(names), re.findall(r"\b\d+\b", question)
    if names and len(numbers) != len(names):
        return None
    return dict(zip(names, numbers, strict=False))
