"""What a server asks a person for: its question as a form of flat fields, and answers held against that form.

After the MCP specification, "Elicitation" and "Sampling" (revision 2025-11-25). The server's schema never reaches a
validator: of each field only the keywords known here are kept. A `$ref` would be fetched, and a `pattern` can take for
ever to match, so that one is shown and left to the server to check.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Literal
from urllib.parse import urlsplit

from .content import visible
from .errors import UsageError
from .span import Actor

__all__ = ["Action", "Answer", "Field", "Refusal", "Request", "checked", "elicitation"]

MOST_FIELDS, MOST_CHOICES = 100, 1000
LONGEST_SCHEMA, LONGEST_MESSAGE = 200_000, 20_000
"""Characters. A question beyond these is refused: nobody can read what they would agree to."""
INVALID_PARAMS = -32602

Action = Literal["accept", "decline", "cancel"]
_TYPES = ("string", "number", "integer", "boolean", "array")
_LIMITS = {
    "string": ("minLength", "maxLength"), "number": ("minimum", "maximum"), "integer": ("minimum", "maximum"),
    "array": ("minItems", "maxItems"),
}  # fmt: skip
_FORMATS = {
    "email": "an e-mail address", "uri": "an address with its scheme, as in https://host/path",
    "date": "a date as YYYY-MM-DD", "date-time": "a time with its zone, as in 2025-11-25T09:30:00Z",
}  # fmt: skip
_YES, _NO = {"true", "yes", "y", "on", "1"}, {"false", "no", "n", "off", "0"}
_NUMBER = re.compile(r"[+-]?(\d{1,300}(\.\d{0,300})?|\.\d{1,300})([eE][+-]?\d{1,3})?")
# Strict, because a browser and Python take a backslash, an @ or letters outside ASCII for different hosts.
_ADDRESS = re.compile(r"https?://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?([/?#][^\s\\]*)?")


class Refusal(Exception):
    """What the server is told instead of an answer: a JSON-RPC error with its code."""

    def __init__(self, message: str, code: int = INVALID_PARAMS) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a form. All text in it is the server's."""

    name: str
    label: str
    type: Literal["string", "number", "integer", "boolean", "array"]
    required: bool = False
    default: Any = None
    choices: tuple[tuple[str, str], ...] = ()
    """(value, title); empty where anything may be typed."""
    description: str | None = None
    hint: str = ""
    """What is asked for, in our words: "a whole number, at least 1"."""
    schema: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What an answer is held against: of the server's schema only what is known here."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Something that a server asks of the person: to fill in a form, to open a page, or to let a model answer for it."""

    id: str
    server: str
    kind: Literal["form", "url", "sampling"]
    message: str
    """The server's own words. For `sampling` everything that the model would get, as text."""
    fields: tuple[Field, ...] = ()
    url: str | None = None
    turn: int | None = None
    """The turn in which it was asked, `None` outside one."""
    created: float = 0.0
    """Unix seconds, UTC."""
    system: str = ""
    messages: tuple[tuple[str, str], ...] = ()
    """For `sampling`: (role, text), what is no text as a descriptor."""
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    wishes: Mapping[str, str] = field(default_factory=dict)
    """What else a sampling request says, for the person: the models it would like, its temperature."""
    state: Literal["waiting", "accept", "decline", "cancel"] = "waiting"

    @property
    def host(self) -> str:
        """The host of `url`, which decides whose page it is."""
        host = (urlsplit(self.url).hostname or "") if self.url else ""
        return f"[{host}]" if ":" in host else host


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What was decided on a request, by whom, by what rule and (where it was no) why."""

    action: Action
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    actor: Actor = "user"
    rule: str = "answered"
    reason: str = ""


# -- from a server's question to fields


def elicitation(params: Mapping[str, Any]) -> dict[str, Any]:
    """`kind`, `message`, `fields` and `url` of a `Request`; raises `Refusal` saying what a client can show."""
    message = params.get("message")
    if not isinstance(message, str) or len(message) > LONGEST_MESSAGE:
        raise Refusal(f"message must be a text of at most {LONGEST_MESSAGE:,} characters")
    if params.get("mode") == "url":
        url = params.get("url")
        if (
            not isinstance(url, str)
            or len(url) > LONGEST_MESSAGE
            or not _ADDRESS.fullmatch(url)
            or not url.isprintable()
        ):
            raise Refusal("url must be an http or https address: a host in ASCII, no user name, blank or backslash")
        return {"kind": "url", "message": message, "url": url}
    if params.get("mode", "form") != "form":
        raise Refusal("mode must be form or url")
    return {"kind": "form", "message": message, "fields": _fields(params.get("requestedSchema"))}


def _fields(schema: Any) -> tuple[Field, ...]:
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise Refusal("requestedSchema must be the schema of an object")
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise Refusal("requestedSchema needs properties as an object and required as a list")
    if len(properties) > MOST_FIELDS:
        raise Refusal(f"requestedSchema has {len(properties):,} fields; a form takes {MOST_FIELDS}")
    if (size := len(json.dumps(schema))) > LONGEST_SCHEMA:
        raise Refusal(f"requestedSchema has {size:,} characters; a form takes {LONGEST_SCHEMA:,}")
    return tuple(_field(name, raw, name in required) for name, raw in properties.items())


def _field(name: str, raw: Any, required: bool) -> Field:
    raw = _unwrapped(raw) if isinstance(raw, dict) else raw
    kind = raw.get("type") if isinstance(raw, dict) else None
    if kind not in _TYPES:
        raise Refusal(f"field {visible(name, 60)} must have one of the types {', '.join(_TYPES)}; a form is flat")
    items = raw.get("items") if kind == "array" else raw
    if not isinstance(items, dict) or (kind == "array" and items.get("type", "string") != "string"):
        raise Refusal(f"field {visible(name, 60)} is a list whose items are no strings; a form is flat")
    choices = _choices(name, items) if kind in ("string", "array") else ()
    schema: dict[str, Any] = {"type": kind}
    schema |= {key: raw[key] for key in _LIMITS.get(kind, ()) if _is_number(raw.get(key))}
    if kind == "string" and not choices and raw.get("format") in _FORMATS:
        schema["format"] = raw["format"]
    allowed = {"enum": [value for value, _ in choices]} if choices else {}
    schema |= {"items": {"type": "string", **allowed}} if kind == "array" else allowed
    default = raw.get("default")
    return Field(
        name=name, label=_words(raw.get("title")) or name, type=kind, required=required, choices=choices, schema=schema,
        default=default if default is not None and not _problem(schema, default) else None,
        description=_words(raw.get("description")), hint=_hint(schema, raw.get("pattern")),
    )  # fmt: skip


def _unwrapped(raw: dict[str, Any]) -> dict[str, Any]:
    """`anyOf` with null, or a list of types with it, is how servers write "optional"."""
    if "type" not in raw and isinstance(options := raw.get("anyOf"), list):
        real = [x for x in options if isinstance(x, dict) and x.get("type") != "null"]
        return {**raw, **real[0]} if len(real) == 1 else raw
    if isinstance(kinds := raw.get("type"), list):
        named = [kind for kind in kinds if kind != "null"]
        return {**raw, "type": named[0]} if len(named) == 1 else raw
    return raw


def _choices(name: str, raw: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """From `enum` (with the older `enumNames`), or `oneOf`/`anyOf` of `const` and `title`."""
    if isinstance(values := raw.get("enum"), list):
        titles = names if isinstance(names := raw.get("enumNames"), list) and len(names) == len(values) else values
    elif isinstance(options := raw.get("oneOf") or raw.get("anyOf"), list):
        values = [x.get("const") if isinstance(x, dict) else None for x in options]
        titles = [x.get("title") if isinstance(x, dict) else None for x in options]
    else:
        return ()
    if not values or len(values) > MOST_CHOICES or not all(isinstance(value, str) for value in values):
        raise Refusal(f"field {visible(name, 60)} must have 1 to {MOST_CHOICES:,} choices, each a string")
    return tuple((value, _words(title) or value) for value, title in zip(values, titles, strict=True))


def _words(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _hint(schema: Mapping[str, Any], pattern: Any) -> str:
    kind, unit = schema["type"], {"string": " characters", "array": " of them"}.get(schema["type"], "")
    least, most = (schema.get(key) for key in _LIMITS.get(kind, ("", "")))
    said = {"number": ["a number"], "integer": ["a whole number"], "boolean": ["yes or no"]}.get(kind, [])
    said += [_FORMATS[schema["format"]]] if "format" in schema else []
    said += [f"at least {least}{unit}"] if least is not None else []
    said += [f"at most {most}{unit}"] if most is not None else []
    said += [f"must match {pattern}, which only the server checks"] if isinstance(pattern, str) else []
    return ", ".join(said)


# -- from what was typed to what is sent


def checked(fields: Sequence[Field], given: Mapping[str, Any]) -> dict[str, Any]:
    """The answer as the server gets it: strings turned into what the schema wants.

    `given` is by name, or by number from 1 where a name cannot be typed. A field that is not in it has its default; the
    empty string leaves a field out. Raises `UsageError` naming every field that is wrong.
    """
    by_name = {str(number): each for number, each in enumerate(fields, 1)} | {each.name: each for each in fields}
    names = ", ".join(visible(each.name, 60) for each in fields) or "none"
    problems = [
        f"{visible(name, 60)}: there is no such field; there are: {names}" for name in given if name not in by_name
    ]
    values = {by_name[name].name: value for name, value in given.items() if name in by_name}
    answer: dict[str, Any] = {}
    for each in fields:
        try:
            value = _typed(each, values.get(each.name, each.default))
        except ValueError as error:
            problems.append(f"{visible(each.label, 60)}: {error}")
            continue
        if value is None:
            problems += [f"{visible(each.label, 60)}: it is required"] if each.required else []
        elif problem := _problem(each.schema, value):
            problems.append(f"{visible(each.label, 60)}: {problem}")
        else:
            answer[each.name] = value
    if problems:
        raise UsageError("; ".join(problems))
    return answer


def _typed(wanted: Field, value: Any) -> Any:
    """`None` for what was left empty. Raises `ValueError` in words."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if wanted.type == "array":
        parts = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
        return [_chosen(wanted, part) for part in parts] if isinstance(parts, list | tuple) else parts
    if not isinstance(value, str):
        return value
    if wanted.type in ("integer", "number"):
        return _number(value.strip(), whole=wanted.type == "integer")
    if wanted.type == "boolean":
        if (word := value.strip().lower()) not in _YES | _NO:
            raise ValueError(f"{visible(value, 60)!r} is neither yes nor no")
        return word in _YES
    return _chosen(wanted, value)


def _chosen(wanted: Field, value: Any) -> Any:
    """A choice may be given by its title, where that is no choice itself and there is one of that title only."""
    named = [choice for choice, title in wanted.choices if title == value]
    return named[0] if len(named) == 1 and value not in dict(wanted.choices) else value


def _number(text: str, whole: bool) -> int | float:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{visible(text, 60)!r} is not a {'whole ' if whole else ''}number")
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


def _problem(schema: Mapping[str, Any], value: Any) -> str | None:
    """What is wrong with a value, in words; `None` when nothing is."""
    from jsonschema import Draft202012Validator

    if isinstance(value, float) and not math.isfinite(value):
        return "it is no finite number"
    found = next(iter(Draft202012Validator(dict(schema), format_checker=_formats()).iter_errors(value)), None)
    if found is not None and found.validator == "format":
        return f"it must be {_FORMATS[schema['format']]}"
    return None if found is None else visible(found.message)


@cache
def _formats() -> Any:
    """Our own checks: the library has none for two of the four formats without further packages."""
    from jsonschema import FormatChecker

    checks: dict[str, Callable[[str], Any]] = {
        "email": lambda text: re.fullmatch(r"[^@\s]+@[^@\s]+", text),
        "uri": lambda text: re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:\S+", text),
        "date": lambda text: re.fullmatch(r"\d{4}-\d\d-\d\d", text) and datetime.fromisoformat(text),
        "date-time": lambda text: "T" in text.upper() and datetime.fromisoformat(text.upper()).tzinfo,
    }
    checker = FormatChecker(formats=())
    for name, check in checks.items():
        checker.checks(name, raises=ValueError)(
            lambda text, check=check: not isinstance(text, str) or bool(check(text))
        )
    return checker
