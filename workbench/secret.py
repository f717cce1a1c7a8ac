"""Values that must not be seen: header values, environment values, whatever a magic line takes from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

from .errors import UsageError

__all__ = ["Secret", "expand", "in_url", "mask", "variables"]

_MASK = "••••"
_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")
_CREDENTIAL = re.compile(r"key|token|secret|auth|pass|pwd|sig|code|cred|session", re.IGNORECASE)
_LONG = 12  # characters of a query's value from which on it may be a credential whatever its name
_PLAIN = {"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "USER"}  # variables that are no secrets
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
    for word in sorted(words, key=len, reverse=True):
        if len(word) >= _SHORTEST and word.lower() not in ("bearer", "basic", "token"):
            text = text.replace(word, _MASK)
    return text


def in_url(url: str) -> list[Secret]:
    """The parts of an address that may be credentials: the password, and of the query what is named like one or is long.

    Not every value: masking the "test" of `?mode=test` would garble ordinary words in every later message.
    """
    try:
        split = urlsplit(url)
    except ValueError:
        return []
    pairs = [part.partition("=")[::2] for part in split.query.split("&")]
    spelled = [value for name, value in pairs if _CREDENTIAL.search(name) or len(value) >= _LONG]
    spelled.append(split.password or "")
    return [Secret(value) for raw in spelled for value in {raw, unquote(raw)} if value]


def variables(text: str, environ: Mapping[str, str] | None = None) -> list[Secret]:
    """What the variables in `text` stand for; `expand` puts them in."""
    environ = os.environ if environ is None else environ
    names = [name for name, _ in _VARIABLE.findall(text)]
    return [Secret(environ[name]) for name in names if environ.get(name) and name not in _PLAIN]


def expand(text: str, environ: Mapping[str, str] | None = None) -> str:
    """`${NAME}`, `${env:NAME}` and `${NAME:-default}` replaced from the environment.

    Raises `UsageError` naming the variable when it is not set and has no default; nothing has been started by then.
    """
    environ = os.environ if environ is None else environ

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if (known := environ.get(name, default)) is None:
            raise UsageError(
                f"the environment variable {name} is not set (asked for by ${{{name}}}). "
                f"Set it before the start of Jupyter or in a cell: import os; os.environ[{name!r}] = getpass.getpass()"
            )
        return known

    return _VARIABLE.sub(value, text)
