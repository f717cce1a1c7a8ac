"""Rates with their intervals, and two designs on the same turns. `scipy` is imported where it is used (extra `replay`).

A rate without its denominator says little: the seed "Application-controlled resources and model-controlled tools" counts 240
turns and a tool that fired on 71 % of those where it was relevant; `wilson(170, 240)` says 64.8 to 76.2 %.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from math import ceil, sqrt
from typing import Any, NamedTuple

from .errors import UsageError

__all__ = ["Interval", "Paired", "bootstrap", "mcnemar", "quantile", "turns_needed", "wilson"]

_RESAMPLES = 10_000


class Interval(NamedTuple):
    """Both ends; fractions of 1 for rates, else in the unit of what was measured."""

    low: float
    high: float


class Paired(NamedTuple):
    """Two designs, A and B, on the same cases."""

    only_a: int
    """Cases in which A did better,"""
    only_b: int
    """and those in which B did."""
    cases: int
    p: float
    """Two-sided, exact."""


def _scipy() -> Any:
    try:
        from scipy import stats
    except ImportError:
        raise UsageError('intervals need scipy: pip install "mcp-agent-workbench[replay]"') from None
    return stats


def wilson(successes: int, trials: int, confidence: float = 0.95) -> Interval | None:
    """The score interval of a rate; `None` where nothing was tried.

    With p = successes / trials, n = trials and z the normal quantile of the confidence:
    (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n). E. B. Wilson, "Probable inference, the law of succession, and
    statistical inference", JASA 22 (1927). Raises `UsageError` for counts that no trial can have.
    """
    if not 0 <= successes <= trials:
        raise UsageError(f"{successes} of {trials} is no rate")
    if not trials:
        return None
    found = _scipy().binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    return Interval(float(found.low), float(found.high))


def mcnemar(pairs: Iterable[tuple[Hashable, bool, bool]]) -> Paired | None:
    """Whether two designs do equally well on the same cases; `None` without any. `pairs` are (case, A right, B right).

    The cases in which A did better are binomial with 1/2 among all in which they differ, if neither is better (Q. McNemar,
    "Note on the sampling error of the difference between correlated proportions", Psychometrika 12, 1947; exact as in
    Fagerland et al., BMC Medical Research Methodology 13:91, 2013). A case that was run several times counts once, for the
    design that did better in more of its runs: repeats are no independent turns.
    """
    ahead: dict[Hashable, int] = {}
    for case, a, b in pairs:
        ahead[case] = ahead.get(case, 0) + a - b
    if not ahead:
        return None
    only_a, only_b = sum(x > 0 for x in ahead.values()), sum(x < 0 for x in ahead.values())
    p = float(_scipy().binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
    return Paired(only_a, only_b, len(ahead), p)


def bootstrap(
    differences: Iterable[tuple[Hashable, float]], confidence: float = 0.95, seed: int = 0
) -> Interval | None:
    """The percentile interval of the mean difference, (case, A - B) each; `None` with less than two cases.

    Whole cases are drawn with replacement, each with all of its repeats, 10,000 times: repeats of one case are alike (A. C.
    Davison and D. V. Hinkley, "Bootstrap Methods and their Application", 1997, section 3.8). The same seed gives the same ends.
    """
    import numpy as np

    sums: dict[Hashable, list[float]] = {}
    for case, difference in differences:
        sums.setdefault(case, []).append(difference)
    if len(sums) < 2:
        return None
    wholes, counts = np.array([sum(x) for x in sums.values()]), np.array([len(x) for x in sums.values()])
    drawn = _scipy().bootstrap(
        (wholes, counts), lambda whole, count, axis: whole.sum(axis=axis) / count.sum(axis=axis), paired=True, vectorized=True,
        confidence_level=confidence, n_resamples=_RESAMPLES, batch=_batch(len(sums)), method="percentile", rng=seed,
    )  # fmt: skip
    return Interval(float(drawn.confidence_interval.low), float(drawn.confidence_interval.high))


def _batch(cases: int) -> int:
    return max(1, min(_RESAMPLES, 5_000_000 // cases))  # 40 MB of drawn numbers at a time


def turns_needed(paired: Paired, power: float = 0.8, confidence: float = 0.95) -> int | None:
    """How many cases would show the difference that these have, if it is real; `None` where there is none.

    With d the share of the cases in which the designs differ and e the difference of their rates:
    (z₁ √d + z₂ √(d - e²))² / e², z₁ and z₂ the normal quantiles of the confidence (two-sided) and the power. R. J. Connor,
    "Sample size for testing differences in proportions for the paired-sample design", Biometrics 43 (1987).
    """
    from statistics import NormalDist

    differ = (paired.only_a + paired.only_b) / paired.cases
    effect = (paired.only_a - paired.only_b) / paired.cases
    if not effect:
        return None
    z_confidence, z_power = NormalDist().inv_cdf((1 + confidence) / 2), NormalDist().inv_cdf(power)
    return ceil((z_confidence * sqrt(differ) + z_power * sqrt(differ - effect**2)) ** 2 / effect**2)


def quantile(values: Sequence[float], share: float) -> float | None:
    """The value below which that share of them lies, between two of them by their distance; `None` where there is none."""
    import numpy as np

    return float(np.quantile(values, share)) if len(values) else None
