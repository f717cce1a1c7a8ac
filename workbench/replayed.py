"""What came of a replay: a row a turn, rates with their intervals, and where two designs differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import statistics
from .errors import UsageError
from .outcome import OUTCOMES
from .statistics import Interval, Paired
from .turn import Turn

if TYPE_CHECKING:
    import pandas

    from .cases import Aside
    from .store import Store

__all__ = ["Difference", "Differing", "Rate", "Replayed", "spread"]

Design = tuple[str, str]
"""Pattern and model."""
FIGURES = ("input_tokens", "input_tokens_estimated", "carried_tokens_estimated", "calls", "seconds", "price_usd")


class Rate(NamedTuple):
    """How often, of how many, and the interval of 95 % (Wilson's)."""

    successes: int
    trials: int
    interval: Interval | None

    @property
    def share(self) -> float | None:
        """`None` where nothing was tried."""
        return self.successes / self.trials if self.trials else None


class Difference(NamedTuple):
    """Two designs on the same cases: how their rates differ."""

    a: Design
    b: Design
    what: str
    """`hit` or `correct`."""
    mean: float
    """Rate of A - rate of B, over the cases that both have."""
    interval: Interval | None
    """Of the mean, by bootstrap over cases."""
    paired: Paired
    needed: int | None
    """Cases that would settle a difference as large as this one (power 80 %); `None` where there is none."""


@dataclass(frozen=True)
class Differing:
    """The turns of which only one of two designs had what was needed, or was right. Displays with both traces of each."""

    a: Design
    b: Design
    what: str
    pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]]
    """The rows of A and of B."""
    replayed: Replayed = field(repr=False)

    def __repr__(self) -> str:
        from .view import text

        return text.differing(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        from .view import html, text

        return {"text/html": html.differing(self), "text/plain": text.differing(self)}


@dataclass
class Replayed:
    """The results of a replay, those that were in its store before among them. Displays as a summary."""

    keys: Sequence[str]
    """Of its tasks, in their order."""
    store: Store
    aside: Sequence[Aside] = ()
    """Cases that could not be used, and why."""
    stopped: str | None = None
    """Why it ended before all was done."""
    concurrency: int | None = None
    kept: int = 0
    """How many results were in the store before."""
    _rows: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each task that has finished, with its key; `hit`, `correct` and figures are `None` where nobody knows."""
        if len(self._rows) < len(self.keys):
            self._rows = {key: {**row, "key": key} for key, row in self.store.rows(self.keys)}
        return list(self._rows.values())

    @property
    def designs(self) -> list[Design]:
        """Pattern and model of each, in the order in which they were named."""
        return list(dict.fromkeys((row["pattern"], row["model"]) for row in self.rows))

    def of(self, design: Design) -> list[dict[str, Any]]:
        """The rows of a design."""
        return [row for row in self.rows if (row["pattern"], row["model"]) == design]

    def frame(self) -> pandas.DataFrame:
        """One row a turn."""
        import pandas as pd

        return pd.DataFrame(self.rows).drop(columns="key", errors="ignore").convert_dtypes()

    def rate(self, design: Design, what: str = "hit") -> Rate:
        """How often a design had what it needed (`hit`), or answered right (`correct`), of the turns where that is known."""
        known = [row[what] for row in self.of(design) if row[what] is not None]
        return Rate(sum(known), len(known), statistics.wilson(sum(known), len(known)))

    def outcomes(self, design: Design) -> dict[str, int]:
        """How many of a design's turns had each of `outcome.OUTCOMES`."""
        rows = self.of(design)
        return {kind: sum(row["outcome"] == kind for row in rows) for kind in OUTCOMES}

    def summary(self) -> pandas.DataFrame:
        """One row a design: turns, failures, both rates with denominator and interval, outcomes, and of each figure the median,
        the 95th percentile and the total; `NA` where not every turn's is known."""
        import pandas as pd

        return pd.DataFrame(self.summed()).convert_dtypes()

    def summed(self) -> list[dict[str, Any]]:
        """The rows of `summary()`, with `None` for what is not known."""
        return [self._summed(design) for design in self.designs]

    def _summed(self, design: Design) -> dict[str, Any]:
        rows = self.of(design)
        answered = [row for row in rows if row["error"] is None]
        summed: dict[str, Any] = {
            "pattern": design[0],
            "model": design[1],
            "turns": len(rows),
            "failed": len(rows) - len(answered),
        }
        for what in ("hit", "correct"):
            rate = self.rate(design, what)
            low, high = rate.interval or (None, None)
            summed |= {what: rate.successes, f"{what}_of": rate.trials, f"{what}_rate": rate.share}
            summed |= {f"{what}_low": low, f"{what}_high": high}
        summed |= self.outcomes(design) | {"cut": sum(bool(row["cut"]) for row in rows)}
        for figure in FIGURES:
            summed |= {f"{figure}_{name}": value for name, value in spread(row.get(figure) for row in answered).items()}
        return summed

    def compare(self, a: str | Design, b: str | Design, what: str = "hit") -> Difference:
        """Whether design A does better than B on the same turns; each is a pattern, or (pattern, model).

        Raises `UsageError` where there is no such design, or no turn where it is known of both.
        """
        first, second = self._design(a), self._design(b)
        pairs = [
            (one["case"], one[what], other[what])
            for one, other in self._pairs(first, second)
            if one[what] is not None and other[what] is not None
        ]
        paired = statistics.mcnemar(pairs)
        if paired is None:
            raise UsageError(
                f"there is no turn of which it is known under both {first[0]} and {second[0]} whether it was {what}"
            )
        interval = statistics.bootstrap((case, float(x) - float(y)) for case, x, y in pairs)
        mean = sum(x - y for _, x, y in pairs) / len(pairs)
        return Difference(first, second, what, mean, interval, paired, statistics.turns_needed(paired))

    def differing(self, a: str | Design, b: str | Design, what: str = "hit") -> Differing:
        """The turns where one of two designs was right (or had what it needed) and the other not; opens both traces of each."""
        first, second = self._design(a), self._design(b)
        pairs = self._pairs(first, second)
        found = [(x, y) for x, y in pairs if None not in (x[what], y[what]) and x[what] != y[what]]
        return Differing(first, second, what, found, self)

    def _pairs(self, a: Design, b: Design) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        others = {(row["case"], row["repeat"]): row for row in self.of(b)}
        return [(row, others[key]) for row in self.of(a) if (key := (row["case"], row["repeat"])) in others]

    def _design(self, named: str | Design) -> Design:
        found = [each for each in self.designs if named in (each, each[0])]
        if len(found) != 1:
            known = ", ".join(map(str, self.designs))
            raise UsageError(f"{named!r} is {'no' if not found else 'more than one'} design; there are: {known}")
        return found[0]

    def turn(self, row: Mapping[str, Any]) -> Turn:
        """The turn of a row, with its whole trace."""
        spans = self.store.spans(row["key"])
        return Turn(
            number=next((span.turn for span in spans if span.turn is not None), 0), question=row["question"],
            answer=row.get("answer") or "", status="ok" if row["error"] is None else "error", spans=spans,
        )  # fmt: skip

    def to_parquet(self, path: str | Path) -> Path:
        """`frame()` as a Parquet file. Raises `UsageError` without pyarrow."""
        try:
            self.frame().to_parquet(path)
        except ImportError:
            raise UsageError('Parquet needs pyarrow: pip install "mcp-agent-workbench[replay]"') from None
        return Path(path)

    def charts(self) -> list[Any]:
        """Rates with their intervals, how the seconds are spread, tokens against accuracy."""
        from .view import replayed

        return replayed.charts(self)

    def html(self) -> str:
        """Summary, pictures and differences as one piece of HTML that needs no script and no network."""
        from .view import html

        return html.replay(self) + "".join(chart.html() for chart in self.charts())

    def save(self, path: str | Path) -> Path:
        """`html()` as a page of its own."""
        from .view import html

        path = Path(path)
        path.write_text(html.page("Replay", self.html()), encoding="utf-8")
        return path

    def __repr__(self) -> str:
        from .view import text

        return text.replay(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        from .view import html, text

        return {"text/html": html.replay(self), "text/plain": text.replay(self)}


def spread(values: Iterable[float | None]) -> dict[str, float | None]:
    """Median, 95th percentile and total; all unknown as soon as one of the values is."""
    given = list(values)
    known = [value for value in given if value is not None]
    if not given or len(known) < len(given):
        return dict.fromkeys(("median", "p95", "total"))
    return {
        "median": statistics.quantile(known, 0.5), "p95": statistics.quantile(known, 0.95), "total": sum(known),
    }  # fmt: skip
