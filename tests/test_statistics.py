"""Intervals and tests, against published tables and statsmodels."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar as reference_mcnemar
from statsmodels.stats.proportion import proportion_confint

from workbench.errors import UsageError
from workbench.statistics import Paired, bootstrap, mcnemar, quantile, turns_needed, wilson


def test_the_seeds_figure_has_its_interval() -> None:
    """Asked for by issue 6: "71 % of 240 gives 64.8 to 76.2 %" (170 of 240)."""
    assert [f"{100 * end:.1f}" for end in wilson(170, 240) or ()] == ["64.8", "76.2"]


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_is_that_of_the_published_table(successes: int, trials: int, low: float, high: float) -> None:
    """R. G. Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17 (1998), table I."""
    assert wilson(successes, trials) == pytest.approx((low, high), abs=0.00005)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from([0.9, 0.95, 0.99])
)
def test_wilson_agrees_with_statsmodels_and_holds_the_rate(counts: tuple[int, int], confidence: float) -> None:
    low, high = wilson(*counts, confidence) or (math.nan, math.nan)
    assert (low, high) == pytest.approx(proportion_confint(*counts, alpha=1 - confidence, method="wilson"), abs=1e-9)
    assert 0 <= low <= counts[0] / counts[1] <= high <= 1


def test_of_nothing_there_is_no_rate_and_impossible_counts_are_refused() -> None:
    assert wilson(0, 0) is None
    for counts in ((3, 2), (-1, 2)):
        with pytest.raises(UsageError, match="is no rate"):
            wilson(*counts)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_is_exact(both: int, only_a: int, only_b: int, neither: int) -> None:
    pairs = [(True, True)] * both + [(True, False)] * only_a + [(False, True)] * only_b + [(False, False)] * neither
    found = mcnemar((n, *pair) for n, pair in enumerate(pairs))
    if not pairs:
        assert found is None
        return
    assert found is not None and (found.only_a, found.only_b, found.cases) == (only_a, only_b, len(pairs))
    expected = reference_mcnemar([[both, only_a], [only_b, neither]], exact=True).pvalue if only_a + only_b else 1.0
    assert found.p == pytest.approx(expected, abs=1e-12)


def test_repeats_of_a_case_are_no_further_cases() -> None:
    once = mcnemar([("x", True, False), ("y", False, False)])
    thrice = mcnemar([("x", True, False)] * 3 + [("y", False, False)] * 3)
    assert once == thrice == Paired(1, 0, 2, 1.0)
    split = mcnemar([("x", True, False), ("x", False, True)])
    assert split == Paired(0, 0, 1, 1.0), "as often one as the other"


def test_the_bootstrap_draws_whole_cases() -> None:
    drawn = random.Random(1)
    differences = [(case, float(drawn.random() < 0.3)) for case in range(200)]
    found = bootstrap(differences)
    assert found is not None and found == bootstrap(differences), "the same seed gives the same ends"
    mean = sum(x for _, x in differences) / 200
    error = 1.96 * math.sqrt(mean * (1 - mean) / 200)
    assert found == pytest.approx((mean - error, mean + error), abs=0.015), "as the normal interval, with as many cases"
    # The same turns run five times say no more than once: taken for new turns, they would halve the interval.
    assert bootstrap([pair for pair in differences for _ in range(5)]) == pytest.approx(found, abs=0.01)
    assert bootstrap([("x", 1.0), ("x", 0.0)]) is None
    assert bootstrap([]) is None


def test_so_many_turns_settle_a_difference_as_often_as_promised() -> None:
    seen = Paired(only_a=15, only_b=5, cases=100, p=0.04)
    needed = turns_needed(seen)
    assert needed is not None
    drawn = random.Random(2)
    settled = 0
    for _ in range(400):
        kinds = drawn.choices(("a", "b", "same"), (0.15, 0.05, 0.80), k=needed)
        found = mcnemar((n, kind == "a", kind == "b") for n, kind in enumerate(kinds))
        settled += found is not None and found.p < 0.05
    assert 0.70 < settled / 400 < 0.88, "80 %, less a little: the exact test is conservative"
    assert turns_needed(Paired(5, 5, 100, 1.0)) is None


def test_quantiles_of_nothing_are_unknown() -> None:
    assert quantile([], 0.5) is None
    assert quantile([1.0, 2.0, 4.0], 0.5) == 2.0 and quantile([0.0, 1.0], 0.95) == 0.95
