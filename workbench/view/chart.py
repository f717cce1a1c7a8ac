"""Two pictures of a comparison, as Vega-Lite for JupyterLab, as PNG for where there is no JavaScript, and as text.

Names are a server's or a model's words: they are data of the picture, never an expression or markup.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import ledger
from ..content import visible
from . import text

__all__ = ["Chart", "composition", "timeline"]

_MIME = "application/vnd.vegalite.v5+json"  # what JupyterLab 4 draws by itself, so altair stays below 6
_WIDTH, _STEP, _LANE, _GAP, _LABEL = 560, 30, 12, 12, 220  # pixels
_INK = "#808080"  # read on white and on black
_DIFFERENCE = "difference"
# Okabe and Ito's colours, which those who see no red or green tell apart, and greys for what brings no content.
_KINDS = {
    "system": "#999999", "catalog": "#56B4E9", "content": "#D55E00", "tools": "#C0C0C0", "attachments": "#E69F00",
    "reads": "#009E73", "prompts": "#CC79A7", "results": "#0072B2", "replies": "#7F7F7F", "history": "#B0A070",
    "question": "#F0E442", "sampling": "#8DA0CB", _DIFFERENCE: "#333333",
}  # fmt: skip
_STEPS = {
    "model": "#0072B2", "read": "#009E73", "attach": "#E69F00", "tool": "#D55E00", "prompt": "#CC79A7", "gate": "#F0E442",
    "request": "#8DA0CB", "own": "#C0C0C0",
}  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """Displays as its picture; where the extra `charts` is missing, and in a terminal, as a table of the same figures."""

    table: str
    spec: Mapping[str, Any] | None = field(repr=False)
    """Vega-Lite 5; `None` without the extra."""

    def png(self) -> bytes:
        """The picture, drawn without a browser or a network. Raises `ImportError` without the extra."""
        import vl_convert

        return bytes(vl_convert.vegalite_to_png(dict(self.spec or {}), vl_version="5.20", scale=2))

    def html(self) -> str:
        """The picture as an `<img>` that holds itself, its figures for who cannot see it."""
        from .html import picture

        return picture(None if self.spec is None else b64encode(self.png()).decode("ascii"), self.table)

    def __repr__(self) -> str:
        return self.table

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        if self.spec is None:
            return {"text/plain": f'{self.table}\n[As a picture: pip install "mcp-agent-workbench[charts]"]'}
        return {_MIME: self.spec, "image/png": b64encode(self.png()).decode("ascii"), "text/plain": self.table}


def _altair() -> Any:
    try:
        import altair
        import vl_convert  # noqa: F401 - draws the picture that is shown without JavaScript

        return altair
    except ImportError:
        return None


def composition(rows: Sequence[Mapping[str, Any]]) -> Chart:
    """What the inputs of a pattern's provider calls are made of, one bar a pattern.

    A row has `pattern`, `kind` (of `ledger.KINDS`, or `difference` for what the provider counted beside), `tokens`, of all
    calls together (`None` is unknown, and said beside the bar), and `counter`.
    """
    names = list(dict.fromkeys(str(row["pattern"]) for row in rows))
    kinds = [kind for kind in (*ledger.KINDS, _DIFFERENCE) if any(row["kind"] == kind for row in rows)]
    ends = [{"pattern": name, **_end([row for row in rows if row["pattern"] == name])} for name in names]
    table = _composition_table(rows, names, kinds, ends)
    if (alt := _altair()) is None:
        return Chart(table, None)
    known = [row for row in rows if (row["tokens"] or 0) > 0]
    bars = [
        {
            "pattern": row["pattern"], "kind": row["kind"], "tokens": row["tokens"], "place": kinds.index(row["kind"]),
            "counter": row["counter"],
        }
        for row in known
    ]  # fmt: skip
    y = _lanes(alt, names)
    bar = alt.Chart(alt.Data(values=bars)).mark_bar().encode(
        y=y, x=alt.X("tokens:Q", title="input tokens of all provider calls", stack="zero"), order=alt.Order("place:O"),
        color=_colours(alt, _KINDS, kinds),
        tooltip=[alt.Tooltip(f"{name}:N") for name in ("pattern", "kind", "counter")] + [alt.Tooltip("tokens:Q", format=",")],
    )  # fmt: skip
    return Chart(table, _finished(alt, alt.Step(_STEP), bar, _ends(alt, ends, y)))


def _end(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Where a bar ends, and what is written there."""
    counted = [row["tokens"] for row in rows if row["kind"] != _DIFFERENCE]
    known = sum(x for x in counted if x is not None)
    more = sum(row["tokens"] or 0 for row in rows if row["kind"] == _DIFFERENCE)
    said = f"{known + more:,}" + (f" ({more:+,} by the provider's count)" if more else "")
    return {"end": known + max(0, more), "said": said + (" + unknown" if None in counted else "")}


def _composition_table(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], kinds: Sequence[str], ends: Sequence[Mapping[str, Any]]
) -> str:
    def cell(name: str, kind: str) -> str:
        found = [row["tokens"] for row in rows if (row["pattern"], row["kind"]) == (name, kind)]
        return "" if not found else "unknown" if None in found else f"{sum(found):,}"

    counters = ", ".join(dict.fromkeys(str(row["counter"]) for row in rows if row["counter"]))
    lines = [
        [visible(name), *(cell(name, kind) for kind in kinds), str(end["said"])]
        for name, end in zip(names, ends, strict=True)
    ]
    head = f"Input tokens of all provider calls, estimated by {counters or 'nobody'}:"
    return f"{head}\n{text.table(['pattern', *kinds, 'in all'], lines)}"


def timeline(rows: Sequence[Mapping[str, Any]]) -> Chart:
    """What happened when, a lane or more for each pattern: what ran side by side lies one below the other.

    A row has `pattern`, `kind`, `name`, `start` (seconds since the turn began) and `seconds`; the row of kind `turn` is the
    whole, whose end is written beside the bars.
    """
    names = list(dict.fromkeys(str(row["pattern"]) for row in rows))
    wholes = {str(row["pattern"]): row["seconds"] for row in rows if row["kind"] == "turn"}
    steps = [dict(row) for row in rows if row["kind"] != "turn"]
    table = _timeline_table(steps, wholes)
    if (alt := _altair()) is None:
        return Chart(table, None)
    height, labels = 0.0, list[dict[str, Any]]()
    for row in steps:
        row["end"] = row["start"] + row["seconds"]
    for name in names:
        lanes = _side_by_side([row for row in steps if row["pattern"] == name], height)
        labels.append({"pattern": name, "middle": height + lanes * _LANE / 2, "start": 0})
        height += lanes * _LANE + _GAP
    kinds = [kind for kind in _STEPS if any(row["kind"] == kind for row in steps)]
    scale = alt.Scale(domain=[0, height], reverse=True, nice=False)
    bar = alt.Chart(alt.Data(values=steps)).mark_bar(minBandSize=2).encode(
        y=alt.Y("top:Q", axis=None, scale=scale), y2="bottom:Q",
        x=alt.X("start:Q", title="seconds since the turn began"), x2="end:Q", color=_colours(alt, _STEPS, kinds),
        tooltip=[alt.Tooltip(f"{name}:N") for name in ("pattern", "kind", "name")]
        + [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("start", "seconds")],
    )  # fmt: skip
    middle = alt.Y("middle:Q", axis=None, scale=scale)
    ends = [
        {**each, "end": wholes[each["pattern"]], "said": f"{wholes[each['pattern']]:.2f} s"}
        for each in labels
        if wholes.get(each["pattern"]) is not None
    ]
    named = alt.Chart(alt.Data(values=labels)).mark_text(align="right", dx=-8, color=_INK, limit=_LABEL)
    named = named.encode(y=middle, x="start:Q", text="pattern:N", tooltip=alt.Tooltip("pattern:N"))
    return Chart(table, _finished(alt, height, bar, named, _ends(alt, ends, middle)))


def _side_by_side(rows: list[dict[str, Any]], height: float) -> int:
    """Give each row the first lane below `height` that is free when it starts; how many there are."""
    free: list[float] = []
    for row in sorted(rows, key=lambda row: row["start"]):
        lane = next((number for number, end in enumerate(free) if end <= row["start"]), len(free))
        free[lane : lane + 1] = [row["end"]]
        row["top"], row["bottom"] = height + lane * _LANE, height + (lane + 1) * _LANE - 1
    return max(1, len(free))


def _timeline_table(steps: Iterable[Mapping[str, Any]], wholes: Mapping[str, float | None]) -> str:
    sums: dict[str, dict[str, float]] = {name: {} for name in wholes}
    for row in steps:
        own = sums.setdefault(str(row["pattern"]), {})
        own[row["kind"]] = own.get(row["kind"], 0.0) + row["seconds"]
    kinds = [kind for kind in _STEPS if any(kind in own for own in sums.values())]
    lines = [
        [visible(name), *(f"{own[kind]:.3f}" if kind in own else "" for kind in kinds), _seconds(wholes.get(name))]
        for name, own in sums.items()
    ]
    return (
        f"Seconds by kind; what ran side by side counts twice:\n{text.table(['pattern', *kinds, 'whole turn'], lines)}"
    )


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def _lanes(alt: Any, names: Sequence[str]) -> Any:
    return alt.Y("pattern:N", title=None, sort=list(names), axis=alt.Axis(labelLimit=_LABEL, ticks=False, domain=False))


def _colours(alt: Any, colours: Mapping[str, str], kinds: Sequence[str]) -> Any:
    scale = alt.Scale(domain=list(kinds), range=[colours[kind] for kind in kinds])
    return alt.Color("kind:N", title=None, scale=scale, legend=alt.Legend(orient="bottom", columns=7))


def _ends(alt: Any, ends: Sequence[Mapping[str, Any]], y: Any) -> Any:
    """The figures beside the bars."""
    marks = alt.Chart(alt.Data(values=list(ends))).mark_text(align="left", dx=5, color=_INK)
    return marks.encode(y=y, x="end:Q", text="said:N")


def _finished(alt: Any, height: Any, *layers: Any) -> dict[str, Any]:
    chart = (
        alt.layer(*layers)
        .properties(
            width=_WIDTH,
            height=height,
            background="transparent",
            padding={"left": 5, "right": 150, "top": 5, "bottom": 5},
        )
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=_INK, titleColor=_INK, gridColor=_INK, gridOpacity=0.2, domainColor=_INK, tickColor=_INK
        )
        .configure_legend(labelColor=_INK, titleColor=_INK)
    )
    spec: dict[str, Any] = chart.to_dict()
    return spec
