"""What a stand-in provider is told to answer, in no provider's own words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Call:
    """A tool call that the model makes. Providers make up the ids; a test may want to know them."""

    id: str
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """What the provider reports: all input tokens, those of them that came from its cache, and output tokens."""

    input: int = 11
    cached: int = 0
    output: int = 7


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer: text, then tool calls. `usage=None`: an OpenAI-compatible server that never reports any."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: Tokens | None = Tokens()


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An HTTP error in the provider's own body; without a message, the provider's usual one for this status."""

    status: int
    message: str | None = None


class Refused(Exception):
    """The request breaks a rule of the provider: status 400 with this message."""

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


def pieces(text: str, chars: int = 6) -> Iterator[str]:
    """Text as a stream brings it: cut anywhere, also inside words and JSON strings."""
    return (text[at : at + chars] for at in range(0, len(text), chars))
