"""A picture as data, and how it is drawn and shown: bars with names before them and figures behind them.

Across are units (tokens, seconds), down are pixels. Every word is a value of the data, never markup; what is an expression in
Vega-Lite names nothing but the fields of this module. A picture is shown three times over: as Vega-Lite, as the PNG that code
hosts and exports to HTML take, and as a table of the same figures. No SVG: `nbconvert` would write its markup into the page as
it is, and the notebook would grow by as much again.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair

__all__ = [
    "COLOURS", "LANE", "MIME", "OTHER", "SCALE", "STEP", "WIDTH", "Chart", "Drawing", "draw", "lanes", "png", "seconds",
    "short", "words",
]  # fmt: skip

MIME = "application/vnd.vegalite.v5+json"
"""What JupyterLab 4 draws by itself: its extension vega5 4.6.6 holds Vega-Lite 5.6.1, and there is no later type."""
_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"  # a name; nobody fetches it
_MISSING = 'pip install "mcp-agent-workbench[charts]"'
_MENU = {"export": True, "source": False, "compiled": False, "editor": False}  # the editor is a page on the internet
WIDTH, STEP, LANE = 520, 30, 14  # pixels: of the bars, of one stacked bar with its gap, of a lane
_HIGHEST = 12 * LANE  # a pattern with more lanes than these gets thinner ones
SCALE = 2  # pixels of the PNG for one of the page
_DRAWN_AS = "5.8"  # of the Vega-Lites that vl-convert holds the nearest to JupyterLab's 5.6.1
_LETTER = 6.5  # pixels of one letter, on the wide side
_INK = "#7b7b7b"  # 4.2:1 on white, 4.5:1 on the #111 of JupyterLab's dark theme
# Okabe and Ito's eight (without black, which the dark theme swallows), then what is rarely seen. All take black letters.
_BLUE, _SKY, _GREEN, _ORANGE, _RED, _PINK, _YELLOW = (
    "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#F0E442",
)  # fmt: skip
OTHER = "#999999"
COLOURS = {
    "system": OTHER, "catalog": _SKY, "content": _BLUE, "tools": _ORANGE, "attachments": _GREEN, "reads": _RED,
    "prompts": _PINK, "results": _YELLOW, "replies": "#B9A6E0", "history": "#A6761D", "question": "#D0D0D0",
    "sampling": "#7FC9B5", "difference": "#767676",
    "model": _BLUE, "read": _RED, "tool": _ORANGE, "prompt": _PINK, "attach": _GREEN, "gate": _YELLOW, "request": _SKY,
    "connect": "#A6761D",
    "interval": _SKY, "rate": _BLUE, "5 to 95 %": OTHER, "middle half": _SKY, "median": _BLUE,
}  # fmt: skip
"""The colour of a kind of input and of a kind of step: what belongs together has the same. Others are `OTHER`."""


@dataclass(frozen=True)
class Drawing:
    """What is where. Every row of `bars`, `frames` and `bands` has `x`, `x2`, `y` and `y2`; the others `x` and `y`."""

    title: str
    height: float
    across: float = 1.0
    tips: Mapping[str, str] = field(default_factory=dict)
    """Fields of bars and frames, and what a tooltip calls them."""
    bands: list[dict[str, Any]] = field(default_factory=list)
    """A tint below the bars: how long the whole took."""
    bars: list[dict[str, Any]] = field(default_factory=list)
    """By `kind`, of `pattern`."""
    frames: list[dict[str, Any]] = field(default_factory=list)
    """Outlined only: what is unknown; with a `wash` above 0 what is below it is whitened: it is not there."""
    words: list[dict[str, Any]] = field(default_factory=list)
    """`kind`, in the bars that have room."""
    names: list[dict[str, Any]] = field(default_factory=list)
    """`label` before the bars; the whole name is `pattern`."""
    ends: list[dict[str, Any]] = field(default_factory=list)
    """`said` behind the bars."""


@dataclass(frozen=True)
class Chart:
    """Displays as its picture; in a terminal, and without the extra `charts`, as a table of the same figures."""

    table: str
    alt: str = field(repr=False)
    """The figures in words, for who cannot see the picture."""
    drawing: Drawing | None = field(repr=False)
    """`None` where there is nothing to draw."""

    def altair(self) -> altair.LayerChart:
        """The picture to be changed further. Raises `ImportError` without the extra."""
        return draw(self.drawing or Drawing("", 0))

    def spec(self) -> dict[str, Any]:
        """The picture in Vega-Lite 5, whatever themes and transformers the user has set. Raises `ImportError` as above."""
        import altair as alt

        with alt.theme.enable("none"), alt.data_transformers.enable("default"):
            made: dict[str, Any] = self.altair().to_dict()
        return made | {"$schema": _SCHEMA}

    def png(self) -> bytes:
        """The picture, drawn without a browser or a network. Raises `ImportError` as above."""
        return png(self.spec())

    def html(self) -> str:
        """The picture as an `<img>` that holds itself; the table where it cannot be drawn. No script, no network."""
        from .html import picture

        bundle, metadata = self._repr_mimebundle_()
        width = metadata.get("image/png", {}).get("width")
        return picture(bundle.get("image/png"), width, self.alt, bundle["text/plain"])

    def __repr__(self) -> str:
        return self.table

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        if self.drawing is None:
            return {"text/plain": self.table}, {}
        try:
            spec, image = self.spec(), self.png()
        except ImportError:
            return {"text/plain": f"{self.table}\n{_MISSING}"}, {}
        # The height follows, also where a narrow page makes the picture narrower.
        width = struct.unpack(">I", image[16:20])[0] // SCALE
        bundle = {MIME: spec, "image/png": b64encode(image).decode("ascii"), "text/plain": self.table}
        return bundle, {MIME: {"embed_options": {"renderer": "svg", "actions": _MENU}}, "image/png": {"width": width}}


def short(name: str, longest: int = 26) -> str:
    """A name with its beginning and its end, where a number tells repeats apart."""
    return name if len(name) <= longest else f"{name[: longest - 9]}…{name[-8:].lstrip()}"


def seconds(value: float | None) -> str:
    """Three digits below 10 s, as in the trace; `None` is what has not ended."""
    if value is None:
        return "not ended"
    return f"{value:.3f} s" if value < 10 else f"{value:.1f} s"


def words(bars: Iterable[Mapping[str, Any]], across: float) -> list[dict[str, Any]]:
    """The kinds of the bars that are wide enough to have it written in them."""
    return [
        {"kind": bar["kind"], "x": (bar["x"] + bar["x2"]) / 2, "y": (bar["y"] + bar["y2"]) / 2}
        for bar in bars
        if (bar["x2"] - bar["x"]) / across * WIDTH > _LETTER * len(bar["kind"]) + 6 and bar["y2"] - bar["y"] >= LANE
    ]


def lanes(
    rows: Iterable[Mapping[str, Any]], least: float, end: float
) -> tuple[float, list[tuple[Mapping[str, Any], int]]]:
    """The height of a lane, and for each row the first that is free when it starts. What takes less than `least` seconds
    occupies as many; what has not ended, until `end`."""
    free: list[float] = []
    placed = []
    for row in sorted(rows, key=lambda row: row["start"]):
        start, took = row["start"], row["seconds"]
        number = next((number for number, until in enumerate(free) if until <= start), len(free))
        free[number : number + 1] = [max(end if took is None else start + took, start + least)]
        placed.append((row, number))
    return min(LANE, _HIGHEST / max(1, len(free))), placed


def draw(drawing: Drawing) -> altair.LayerChart:
    """The picture, for light and dark pages alike. Raises `ImportError` without the extra `charts`."""
    import altair as alt

    axis = alt.Axis(title=drawing.title, tickCount=6, labelFlush=False)
    x = alt.X("x:Q", scale=alt.Scale(domain=[0, drawing.across], nice=False), axis=axis)
    y = alt.Y("y:Q", scale=alt.Scale(domain=[drawing.height, 0], nice=False), axis=None)
    area = {"x": x, "x2": "x2:Q", "y": y, "y2": "y2:Q"}
    said = {"pattern": "pattern", "kind": "kind", **drawing.tips}
    tips = [alt.Tooltip(f"{name}:N", title=title) for name, title in said.items()]
    text = {"type": "text", "baseline": "middle", "color": _INK, "fontSize": 12}
    frame = {"fill": "#fff", "strokeWidth": 1.5, "strokeDash": [4, 3]}
    wash = alt.FillOpacity("wash:Q", scale=None)
    rows: list[tuple[list[dict[str, Any]], Any, dict[str, Any]]] = [
        (drawing.bands, {**_BAR, "fill": _INK, "fillOpacity": 0.2}, area),
        (drawing.bars, _BAR, {**area, "color": _colour(drawing.bars), "tooltip": tips}),
        (drawing.frames, {**_BAR, **frame}, {**area, "fillOpacity": wash, "tooltip": tips}),
        (drawing.words, {**text, "color": "#000", "fontSize": 10}, {"x": x, "y": y, "text": "kind:N"}),
        (
            drawing.names, {**text, "align": "right", "dx": -8},
            {"x": alt.value(0), "y": y, "text": "label:N", "tooltip": "pattern:N"},
        ),
        (
            drawing.ends, {**text, "align": "left", "dx": 6, "fontWeight": "bold"},
            {"x": x, "y": y, "text": "said:N", "tooltip": ["pattern:N", "said:N"]},
        ),
    ]  # fmt: skip
    # What has no rows is left out: a legend of nothing would be as wide as NaN.
    layers = [alt.Chart(alt.InlineData(values=each), mark=mark).encode(**to) for each, mark, to in rows if each]
    layered = alt.LayerChart(layer=layers)
    return _styled(layered.properties(width=WIDTH, height=drawing.height, background="transparent"))


_BAR = {"type": "rect", "stroke": _INK, "strokeWidth": 0.5}


def _colour(bars: Sequence[Mapping[str, Any]]) -> altair.Color:
    """Its legend in the order of `COLOURS`, then what is in none of it."""
    import altair as alt

    found = dict.fromkeys(bar["kind"] for bar in bars)
    kinds = [kind for kind in COLOURS if kind in found] + [kind for kind in found if kind not in COLOURS]
    scale = alt.Scale(domain=kinds, range=[COLOURS.get(kind, OTHER) for kind in kinds])
    return alt.Color("kind:N", scale=scale, title=None, legend=alt.Legend(orient="bottom", columns=7))


def _styled(chart: altair.LayerChart) -> altair.LayerChart:
    ink = {"labelColor": _INK, "titleColor": _INK}
    axis = {"gridColor": _INK, "gridOpacity": 0.2, "domainColor": _INK, "tickColor": _INK, "titleFontWeight": "normal"}
    styled: altair.LayerChart = (
        chart.configure_view(stroke=None)
        .configure_axis(**ink, **axis, labelFontSize=11, titleFontSize=12)
        .configure_legend(**ink, symbolType="square", symbolStrokeWidth=0, labelFontSize=12)
    )
    return styled


def png(spec: Mapping[str, Any]) -> bytes:
    """The PNG of a picture in Vega-Lite 5, drawn here. Raises `ImportError` without the extra `charts`.

    It is packed once more: vl-convert packs fast, and a notebook would carry three to four times as much.
    """
    import vl_convert

    chunks = list(_chunks(bytes(vl_convert.vegalite_to_png(dict(spec), vl_version=_DRAWN_AS, scale=SCALE))))
    pixels = zlib.compress(zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT")), 9)
    kept = [(kind, data) for kind, data in chunks if kind not in (b"IDAT", b"IEND")]
    every = [*kept, (b"IDAT", pixels), (b"IEND", b"")]
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in every
    )


_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def _chunks(image: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kind and data of each chunk of a PNG (its specification, "Chunk layout")."""
    at = len(_SIGNATURE)
    while at < len(image):
        (size,) = struct.unpack(">I", image[at : at + 4])
        yield image[at + 4 : at + 8], image[at + 8 : at + 8 + size]
        at += 12 + size
