"""What a replay shows: a line a design, the designs against each other, the turns where two differ, and three pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from .. import price
from ..content import visible
from ..errors import UsageError
from ..outcome import OUTCOMES
from .chart import Chart
from .drawing import STEP, Drawing, short
from .rows import UNKNOWN
from .text import aligned

if TYPE_CHECKING:
    from ..replayed import Design, Difference, Differing, Rate, Replayed
    from ..replaying import Progress

WHAT = {"hit": "in context", "correct": "right"}
"""Names of the two rates."""
MOST_PAIRS, MOST_ASIDE, MOST_OPEN, MOST_SHOWN = 10, 10, 3, 20
_BAR = 24  # characters


def named(design: Design, replayed: Replayed) -> str:
    """The pattern, and the model where there are several."""
    several = len({model for _, model in replayed.designs}) > 1
    return visible(f"{design[0]} {design[1]}" if several else design[0], 80)


def percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def rate(found: Rate) -> str:
    """With its denominator and its interval."""
    if found.interval is None or found.share is None:
        return UNKNOWN
    low, high = found.interval
    return f"{found.successes:,} of {found.trials:,} = {percent(found.share)} ({100 * low:.1f} to {100 * high:.1f})"


def lines(replayed: Replayed) -> tuple[list[str], list[list[str]]]:
    """Heads and a line for each design, without the columns of which nothing is known."""
    every = [_line(replayed, design, row) for design, row in zip(replayed.designs, replayed.summed(), strict=True)]
    heads = [head for head in (every[0] if every else {}) if any(line[head] not in ("", UNKNOWN) for line in every)]
    return heads, [[line[head] for head in heads] for line in every]


def _line(replayed: Replayed, design: Design, row: Mapping[str, Any]) -> dict[str, str]:
    line = {
        "design": named(design, replayed),
        "turns": f"{row['turns']:,}",
        "failed": f"{row['failed']:,}" if row["failed"] else "",
    }
    line[WHAT["hit"]] = rate(replayed.rate(design))
    line["how"] = ", ".join(f"{kind} {row[kind]:,}" for kind in OUTCOMES if row[kind])
    line["cut"] = f"{row['cut']:,}" if row["cut"] else ""
    line[WHAT["correct"]] = rate(replayed.rate(design, "correct"))
    for head, key, form in (
        ("input tokens reported", "input_tokens", ",.0f"), ("input tokens estimated", "input_tokens_estimated", ",.0f"),
        ("content carried (estimated)", "carried_tokens_estimated", ",.0f"), ("provider calls", "calls", ",.4g"),
        ("seconds", "seconds", ",.3f"), ("US$", "price_usd", ",.5f"),
    ):  # fmt: skip
        line[head] = _spread(row, key, form)
    return line


def _spread(row: Mapping[str, Any], key: str, form: str) -> str:
    found = [row[f"{key}_{each}"] for each in ("median", "p95", "total")]
    return UNKNOWN if None in found else " / ".join(f"{each:{form}}" for each in found)


def foot(replayed: Replayed) -> str:
    """What the figures are."""
    counters = ", ".join(dict.fromkeys(row["counter"] for row in replayed.rows if row.get("counter")))
    at_once = replayed.concurrency or 1
    priced = any(row.get("price_usd") is not None for row in replayed.rows)
    kinds = {row["outcome"] for row in replayed.rows}
    told = [
        "Intervals hold 95 % (Wilson). Figures are median / 95th percentile / total of the turns that did not fail.",
        "In context: the content that a turn needs was there before the answer. " if kinds - {None} else "",
        *(f"{kind}: {means}." for kind, means in OUTCOMES.items() if kind in kinds),
        f"Estimated by {counters}." if counters else "",
        f"Seconds were taken with {at_once:,} turns at a time, and hold their waiting for each other." if at_once > 1 else "",
        f"US$ at the list prices of {price.source()}." if priced else "",
        f"{UNKNOWN} is unknown.",
    ]  # fmt: skip
    return " ".join(text.strip() for text in told if text)


def notes(replayed: Replayed) -> list[str]:
    """What did not run, and why."""
    left = len(replayed.keys) - len(replayed.rows)
    told = (
        [f"{visible(replayed.stopped, 300)}; {left:,} of {len(replayed.keys):,} turns are left"]
        if replayed.stopped
        else []
    )
    if left and not replayed.stopped:
        told.append(f"{left:,} of {len(replayed.keys):,} turns have not been run; run it again with the same store")
    if replayed.kept:
        told.append(
            f"{replayed.kept:,} of {len(replayed.keys):,} were in the store before, with seconds of their own time"
        )
    failed: dict[str, int] = {}
    for row in replayed.rows:
        if row["error"]:
            failed[row["error"]] = failed.get(row["error"], 0) + 1
    told += [
        f"{number:,} failed: {visible(why, 200)}"
        for why, number in sorted(failed.items(), key=lambda x: -x[1])[:MOST_ASIDE]
    ]
    if failed:
        told.append("What failed is run again the next time.")
    told += [f"{visible(each.where)} is left out: {visible(each.why, 200)}" for each in replayed.aside[:MOST_ASIDE]]
    if (more := len(replayed.aside) - MOST_ASIDE) > 0:
        told.append(f"{more:,} more are left out: see .aside")
    return told


def against(replayed: Replayed) -> list[str]:
    """Each two designs on the same turns, in a sentence."""
    pairs = list(combinations(replayed.designs, 2))
    found = []
    for first, second in pairs[:MOST_PAIRS]:
        for what in WHAT:
            try:
                found.append(sentence(replayed, replayed.compare(second, first, what)))
            except UsageError:  # nobody knows of any turn
                continue
    if len(pairs) > MOST_PAIRS:
        found.append(f"{len(pairs) - MOST_PAIRS:,} more pairs: .compare(A, B)")
    return found


def sentence(replayed: Replayed, found: Difference) -> str:
    """`attach against catalog, in context: +29.2 points (23.5 to 35.0), ...`."""
    spread = f" ({100 * found.interval.low:+.1f} to {100 * found.interval.high:+.1f})" if found.interval else ""
    paired = found.paired
    p = "p < 0.001" if paired.p < 0.001 else f"p = {paired.p:.3f}"
    open_ = found.needed is not None and paired.p >= 0.05
    needed = f"; {found.needed:,} cases would settle a difference like this" if open_ else ""
    return (
        f"{named(found.a, replayed)} against {named(found.b, replayed)}, {WHAT[found.what]}: {100 * found.mean:+.1f} points"
        f"{spread}; better in {paired.only_a:,} of {paired.cases:,} cases, worse in {paired.only_b:,} ({p}){needed}"
    )


def head(replayed: Replayed) -> str:
    """How much of what."""
    cases = len({row["case"] for row in replayed.rows})
    several = sorted({row["repeat"] for row in replayed.rows})
    times = f", {several[-1]} times each" if several and several[-1] > 1 else ""
    only = {model for _, model in replayed.designs}
    model = f" with {visible(next(iter(only)), 80)}" if len(only) == 1 else ""
    designs = len(replayed.designs)
    counts = f"{cases:,} case{'s' * (cases != 1)} under {designs:,} design{'s' * (designs != 1)}"
    return f"{counts}{model}{times}"


def pairs(replayed: Replayed) -> Iterable[Differing]:
    """Where each two designs differ: in what was in the context, then in what was right."""
    return (replayed.differing(b, a, what) for a, b in combinations(replayed.designs, 2) for what in WHAT)


def differs(found: Differing, most: int | None = None) -> str:
    """How many turns, and how many of them are shown."""
    names = " and ".join(named(each, found.replayed) for each in (found.a, found.b))
    shown = min(len(found.pairs), MOST_SHOWN if most is None else most)
    part = f", of which {shown:,} are shown" if shown < len(found.pairs) else ""
    return f"{names} differ in {len(found.pairs):,} turns in what was {WHAT[found.what]}{part}"


def differences(found: Differing) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of the turns where two designs differ."""
    names = [named(each, found.replayed) for each in (found.a, found.b)]
    key = "outcome" if found.what == "hit" else "correct"
    lines = [
        [visible(str(a["case"]), 40), visible(a["question"], 80), str(a[key]), str(b[key])]
        for a, b in found.pairs[:MOST_SHOWN]
    ]
    return ["case", "question", *names], lines


def opened(differing: Differing, most: int) -> list[tuple[str, str, str]]:
    """Question, and both turns as HTML, of the first turns where two designs differ."""
    from . import html

    def shown(row: Mapping[str, Any]) -> str:
        return html.turn(differing.replayed.turn(row))

    return [(visible(a["question"], 200), shown(a), shown(b)) for a, b in differing.pairs[:most]]


def progress(found: Progress) -> str:
    """One line while it runs."""
    done, total = found.kept + found.done, found.total
    full = round(_BAR * done / total) if total else _BAR
    rate = f", {found.rate:.3g} turns a second" if found.rate else ""
    left = f", {_minutes(found.left)} left" if found.left is not None and done < total else ""
    kept = f", {found.kept:,} from the store" if found.kept else ""
    failed = f", {found.failed:,} failed" if found.failed else ""
    retried = f", {found.retried:,} asked again" if found.retried else ""
    return f"{'█' * full}{'░' * (_BAR - full)} {done:,} of {total:,}{kept}{rate}{left}{failed}{retried}"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


# -- pictures


def charts(replayed: Replayed) -> list[Chart]:
    """Rates with their intervals, how the seconds are spread, tokens against accuracy; those of which something is known."""
    if not replayed.rows:
        return []
    made = [
        _rates(replayed, what)
        for what in WHAT
        if any(replayed.rate(design, what).trials for design in replayed.designs)
    ]
    return [*made, _seconds(replayed), *_tokens(replayed)]


def _rates(replayed: Replayed, what: str) -> Chart:
    title = f"{WHAT[what]}, % of the turns; the bar is the interval of 95 %"
    drawing = Drawing(title, STEP * len(replayed.designs), 100.0, {"said": "rate"})
    table = []
    for number, design in enumerate(replayed.designs):
        found, name, top = replayed.rate(design, what), named(design, replayed), number * STEP
        table.append([name, rate(found)])
        drawing.names.append({"pattern": name, "label": short(name), "y": top + STEP / 2})
        if found.interval is None or found.share is None:
            continue
        low, high = (100 * end for end in found.interval)
        place = {"pattern": name, "said": rate(found)}
        drawing.bars.append({**place, "kind": "interval", "x": low, "x2": high, "y": top + 10, "y2": top + STEP - 10})
        drawing.bars.append(
            {**place, "kind": "rate", **_mark(100 * found.share, 100.0), "y": top + 5, "y2": top + STEP - 5}
        )
        drawing.ends.append(
            {**place, "said": f"{found.successes:,} of {found.trials:,}", "x": high, "y": top + STEP / 2}
        )
    return _chart(title, ["design", WHAT[what]], table, drawing)


def _mark(at: float, across: float) -> dict[str, float]:
    return {"x": max(0.0, at - across * 0.004), "x2": min(across, at + across * 0.004)}


def _seconds(replayed: Replayed) -> Chart:
    from ..statistics import quantile

    title = "Seconds of a turn: 5th to 95th percentile, middle half, median"
    spreads = []
    for design in replayed.designs:
        taken = [row["seconds"] for row in replayed.of(design) if row["error"] is None and row["seconds"] is not None]
        if taken:
            ends = [quantile(taken, share) or 0.0 for share in (0.05, 0.25, 0.5, 0.75, 0.95)]
            spreads.append((named(design, replayed), ends))
    across = max((ends[-1] for _, ends in spreads), default=1.0) or 1.0
    drawing = Drawing(title, STEP * max(1, len(spreads)), across, {"said": "seconds"})
    for number, (name, (least, low, middle, high, most)) in enumerate(spreads):
        top = number * STEP
        place = {"pattern": name, "said": f"{least:.3f} – {low:.3f} – {middle:.3f} – {high:.3f} – {most:.3f} s"}
        drawing.names.append({"pattern": name, "label": short(name), "y": top + STEP / 2})
        for kind, begin, end, gap in (("5 to 95 %", least, most, 13), ("middle half", low, high, 8)):
            drawing.bars.append(
                {
                    **place,
                    "kind": kind,
                    "x": begin,
                    "x2": max(end, begin + across * 0.002),
                    "y": top + gap,
                    "y2": top + STEP - gap,
                }
            )
        drawing.bars.append({**place, "kind": "median", **_mark(middle, across), "y": top + 5, "y2": top + STEP - 5})
        drawing.ends.append({"pattern": name, "said": f"{middle:.3f} s", "x": most, "y": top + STEP / 2})
    table = [[name, *(f"{end:.3f}" for end in ends)] for name, ends in spreads]
    return _chart(title, ["design", "5 %", "25 %", "median", "75 %", "95 %"], table, drawing)


def _tokens(replayed: Replayed) -> list[Chart]:
    """Tokens against accuracy, where both are known; measured and estimated never in one picture."""
    what = "correct" if any(replayed.rate(design, "correct").trials for design in replayed.designs) else "hit"
    summed = replayed.summed()
    key = "input_tokens" if all(row["input_tokens_median"] is not None for row in summed) else "input_tokens_estimated"
    points = [
        (named(design, replayed), row[f"{key}_median"], replayed.rate(design, what))
        for design, row in zip(replayed.designs, summed, strict=True)
        if row[f"{key}_median"] is not None and replayed.rate(design, what).share is not None
    ]
    if not points:
        return []
    told = "reported" if key == "input_tokens" else "estimated"
    title = f"Input tokens {told}, median of a turn; upwards: {WHAT[what]}"
    high, across = 6 * STEP, max(tokens for _, tokens, _ in points) * 1.05 or 1.0
    drawing = Drawing(title, high, across, {"said": "is"})
    for share in (1.0, 0.5, 0.0):
        drawing.names.append({"pattern": "", "label": f"{100 * share:.0f} %", "y": (1 - share) * high})
    for name, tokens, found in points:
        middle = (1 - (found.share or 0.0)) * high
        place = {"pattern": name, "said": f"{tokens:,.0f} tokens, {rate(found)}"}
        drawing.bars.append({**place, "kind": short(name), **_mark(tokens, across), "y": middle - 5, "y2": middle + 5})
    table = [[name, f"{tokens:,.0f}", rate(found)] for name, tokens, found in points]
    return [_chart(title, ["design", f"input tokens {told}", WHAT[what]], table, drawing)]


def _chart(title: str, heads: Sequence[str], table: Sequence[Sequence[str]], drawing: Drawing) -> Chart:
    words = "; ".join(f"{line[0]}: {', '.join(line[1:])}" for line in table)
    return Chart(f"{title}:\n{aligned(heads, table, 1)}", f"{title}. {words}.", drawing)
