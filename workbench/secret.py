"""Values that must not be seen: header values, environment values, whatever a magic line takes from the environment."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import cast
from urllib.parse import unquote, urlsplit

from .errors import UsageError

__all__ = ["Secret", "expand", "in_command", "in_url", "mask", "references", "variables"]

_MASK = "••••"
_VARIABLE = re.compile(r"\$\{(?:env:)?(/|(?:input|envFile):[^}]+?|\w+)(?::-([^}]*))?\}")
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_OF_A_HOST = re.compile(r"\$\{[a-zA-Z]+:[a-zA-Z]")
_CREDENTIAL = re.compile(r"key|token|secret|auth|pass|pwd|sig|code|cred|session", re.IGNORECASE)
_LONG = 12  # characters of a query's value from which on it may be a credential whatever its name
_NAMED = re.compile(r"(?:key|token|secret|password|passwd|pwd|credentials?|authorization)$", re.IGNORECASE)
_ASSIGNED = re.compile(r"-*([\w.-]+)\s*[=:]\s*(.+)", re.DOTALL)  # NAME=VALUE, --name=VALUE, "Name: VALUE"
_ISSUED = re.compile(
    r"(?<!\w)(?:sk-|gh[opsur]_|github_pat_|glpat-|xox[abeprs]-|AKIA|eyJ)[\w.-]{8,}"
)  # tokens by prefix
_MIXED = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w.~%-]+$")  # letters and digits, as in the key that is part of an address
_PLAIN = {  # variables that are no secrets: of every system, and of the hosts' configuration files
    "HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "USER",
    "CLAUDE_PROJECT_DIR", "workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/",
}  # fmt: skip
_SHORTEST = 4  # masking every "1" or "on" would make all text unreadable and protects nothing


class Secret:
    """A string that shows itself only to `reveal`; `repr`, `str` and format are masked, so that tracebacks and
    `%xmode Verbose` are too."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return _MASK

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Secret is not pickled: it would end up in a file")


def mask(text: str, secrets: Iterable[Secret]) -> str:
    """`text` with every secret value (and each word of one, as in "Bearer TOKEN") replaced by dots."""
    words = {word for secret in secrets for word in (secret.reveal(), *secret.reveal().split())}
    words |= {
        json.dumps(word, ensure_ascii=plain)[1:-1] for word in words for plain in (True, False)
    }  # as JSON spells them
    for word in sorted(words, key=len, reverse=True):
        if len(word) >= _SHORTEST and word.lower() not in ("bearer", "basic", "token"):
            text = text.replace(word, _MASK)
    return text


def in_url(url: str) -> list[Secret]:
    """The parts of an address that may be credentials: the password, of the query what is named like one or is long, and of
    the path what reads like one.

    Not every value: masking the "test" of `?mode=test` would garble ordinary words in every later message.
    """
    try:
        split = urlsplit(url)
    except ValueError:
        return []
    pairs = [part.partition("=")[::2] for part in split.query.split("&")]
    spelled = [value for name, value in pairs if _CREDENTIAL.search(name) or len(value) >= _LONG]
    spelled.append(split.password or "")
    spelled += [
        part for part in split.path.split("/") if _ISSUED.match(part) or (len(part) >= 2 * _LONG and _MIXED.match(part))
    ]
    return [Secret(value) for raw in spelled for value in {raw, unquote(raw)} if value]


def in_command(words: Sequence[str]) -> list[Secret]:
    """The words of a command that may be credentials: what is named like one (`--api-key X`, `TOKEN=X`, `Authorization: X`),
    what an address among them holds, and what begins like a token that a large service issues."""
    found = []
    for flag, word in pairwise(("", *words)):
        pair = _ASSIGNED.fullmatch(word)
        if pair and _NAMED.search(pair[1]):
            found.append(pair[2])
        elif flag.startswith("-") and _NAMED.search(flag) and not word.startswith("-"):
            found.append(word)
        found += _ISSUED.findall(word)
    addresses = [secret for word in words if "://" in word for secret in in_url(word)]
    return [Secret(value) for value in found if not value.isdigit()] + addresses  # `--max-token 4096` is none


def references(text: str) -> Iterator[tuple[str, str | None]]:
    """Each variable in `text` as it is spelled, and the name that `expand` looks up; `None` where that cannot be told: a
    variable of one host only (`${command:ID}`), or one inside another. What a shell may mean (`${X%.js}`) is none of ours."""
    for found in _REFERENCE.finditer(text):
        nested = "${" in found[0][2:]
        if (known := _VARIABLE.fullmatch(found[0])) or nested or _OF_A_HOST.match(found[0]):
            yield found[0], known[1] if known and not nested else None


def variables(text: str, environ: Mapping[str, str] | None = None) -> list[Secret]:
    """What the variables in `text` stand for; `expand` puts them in."""
    environ = os.environ if environ is None else environ
    names = [name for name, _ in _VARIABLE.findall(text)]
    return [Secret(environ[name]) for name in names if environ.get(name) and name not in _PLAIN]


def expand(text: str, environ: Mapping[str, str] | None = None) -> str:
    """`${NAME}`, `${env:NAME}` and `${NAME:-default}` replaced from the environment.

    `${input:ID}`, `${envFile:KEY}` and `${/}`, which no variable of a system can be called, stay where `environ` has none.
    Raises `UsageError` naming the variable when it is not set and has no default; nothing has been started by then.
    """
    environ = os.environ if environ is None else environ

    def value(found: re.Match[str]) -> str:
        name, default = str(found[1]), cast("str | None", found[2])
        if (known := environ.get(name, default)) is None:
            if not re.fullmatch(r"\w+", name):
                return found[0]
            raise UsageError(
                f"the environment variable {name} is not set (asked for by ${{{name}}}). "
                f"Set it before the start of Jupyter or in a cell: import os; os.environ[{name!r}] = getpass.getpass()"
            )
        return known

    return _VARIABLE.sub(value, text)
