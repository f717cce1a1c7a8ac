"""The same question under several patterns, each in a turn of its own: what each costs, and what it loses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import ledger, pattern, price, tokens
from .errors import UsageError
from .expect import expectation
from .pattern import Attach, Pattern, Sum
from .recorder import describe
from .turn import Turn

if TYPE_CHECKING:
    import pandas

__all__ = ["COMPARED", "Comparison", "Run", "plan", "run", "warm"]

COMPARED = ("dump", "truncate", "catalog", "attach", "companion")
"""Unless others are named; `attach` where something is attached."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One pattern, once."""

    pattern: str
    repeat: int
    turn: Turn
    error: str | None = None
    """Why there is no answer."""
    correct: bool | None = None
    """Whether the answer is what was expected; `None` where nothing was, or where there is no answer."""

    def row(self) -> dict[str, Any]:
        """Its figures. Tokens are the provider's, those that are named `estimated` counted here by `counter`; seconds are the
        turn's, and of these those spent in the model, waiting for servers, and the rest. `None` is unknown."""
        totals, seconds = self.turn.totals, ledger.seconds(self.turn.spans)
        return {
            "pattern": self.pattern,
            "repeat": self.repeat,
            "correct": self.correct,
            "calls": totals.provider_calls,
            "reads": totals.reads,
            "input_tokens": totals.input_tokens,
            "cached_tokens": totals.cached_tokens,
            "input_tokens_estimated": totals.input_tokens_estimated,
            "carried_tokens_estimated": totals.carried_tokens_estimated,
            "lost_tokens_estimated": totals.lost_tokens_estimated,
            "counter": totals.counter,
            "seconds": seconds["total"],
            "model_seconds": seconds["model"],
            "server_seconds": seconds["server"],
            "own_seconds": seconds["own"],
            "price_usd": price.of_turn(self.turn.spans),
            "answer": self.turn.answer or None,
            "error": self.error,
        }


@dataclass
class Comparison:
    """What came of it, run by run; grows while it runs, and keeps what is finished when it is stopped."""

    question: str
    expect: str | None = None
    runs: list[Run] = field(default_factory=list)
    running: str | None = None
    """The pattern under which it is asked just now, and how many there are; `None` when all is done."""

    def frame(self) -> pandas.DataFrame:
        """One row a run; see `Run.row`."""
        from .view import frame

        return frame.comparison(self.runs)

    def charts(self) -> list[Any]:
        """What the calls' input is made of, and when what happened: two pictures that display by themselves."""
        from .view import compared

        return compared.charts(self.runs)

    def html(self) -> str:
        """Table and pictures as one piece of HTML that needs no script and no network."""
        from .view import html

        return html.comparison(self) + "".join(chart.html() for chart in self.charts())

    def __repr__(self) -> str:
        from .view import text

        return text.comparison(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        from .view import html, text

        return {"text/html": html.comparison(self), "text/plain": text.comparison(self)}


def plan(patterns: Iterable[str | Pattern] | None, attached: bool) -> list[tuple[str, Pattern]]:
    """The patterns with their names. Raises `UsageError` for one that there is not, that is named twice, or `attach` where
    nothing is attached."""
    if patterns is None:
        patterns = [name for name in COMPARED if attached or name != "attach"]
    given = pattern.split(patterns, ",") if isinstance(patterns, str) else list(patterns)
    made = [pattern.resolve(each.strip() if isinstance(each, str) else each) for each in given]
    names = [pattern.name_of(each) for each in made]
    if not made:
        raise UsageError(f"name the patterns to compare, such as {','.join(COMPARED)}")
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise UsageError(f"{', '.join(twice)} is named twice; use --repeat to run each several times")
    if not attached and any(map(carries, made)):
        raise UsageError("nothing is attached, so attach has nothing to show: %mcp attach URI first, or attach(URI)")
    return list(zip(names, made, strict=True))


def carries(chosen: Pattern) -> bool:
    """Whether what is attached to the session takes part: in `attach` alone, or each pattern would get it."""
    return any(
        isinstance(part, Attach) and not part.uris for part in (chosen.parts if isinstance(chosen, Sum) else (chosen,))
    )


def warm() -> None:
    """Import what a first turn imports and make the counter: else the first pattern would pay for all of them."""
    for name in _IMPORTED:
        with suppress(ImportError):  # an extra that is not installed
            import_module(name)
    tokens.counter()


_IMPORTED = ("langgraph.graph", "langchain_mcp_adapters.tools", "bm25s", "pypdf", "filetype", "PIL.Image")


async def run(
    comparison: Comparison,
    patterns: Sequence[tuple[str, Pattern]],
    repeat: int,
    ask: Callable[[Pattern, list[Turn]], Awaitable[Turn]],
    tell: Callable[[], None] = lambda: None,
) -> None:
    """Ask under each pattern, one after the other so that none waits for another, and put each run into `comparison`.

    A failure is a run, not the end. `ask` puts its turn into the list, whatever comes of it. `tell` is called whenever there
    is something new to show.
    """
    right, whole = expectation(comparison.expect), [(n, *each) for n in range(1, repeat + 1) for each in patterns]
    try:
        for done, (number, name, chosen) in enumerate(whole):
            comparison.running = f"{name}, {done + 1} of {len(whole)}"
            tell()
            turns: list[Turn] = []
            why = None
            try:
                await ask(chosen, turns)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # a provider's, a server's, or one of a pattern that the user has written
                why = describe(error).split("\n")[0]
            correct = right(turns[-1].answer) if right and why is None else None
            comparison.runs.append(Run(pattern=name, repeat=number, turn=turns[-1], error=why, correct=correct))
    finally:
        comparison.running = None
        tell()
