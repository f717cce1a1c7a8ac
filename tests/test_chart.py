"""The pictures of a comparison: right figures in picture, words and table; unknown is unknown; names are only data."""

from __future__ import annotations

import io
import json
import re
import sys
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from workbench.ledger import KINDS
from workbench.view import drawing
from workbench.view.chart import composition, timeline
from workbench.view.drawing import COLOURS, LANE, MIME, OTHER, STEP, WIDTH, Chart, lanes, short

HOSTILE = '<img src=x onerror="alert(1)">'
CODE = "'); datum.x; event.view.alert(1); ('"


def counts(pattern: str, difference: int | None = None, **kinds: int | None) -> list[dict[str, Any]]:
    rows = [{"pattern": pattern, "kind": kind, "tokens": n, "counter": "o200k"} for kind, n in kinds.items()]
    measured = {"pattern": pattern, "kind": "difference", "tokens": difference, "counter": "the provider"}
    return [*rows, *([measured] if difference is not None else [])]


def step(pattern: str, kind: str, name: str, start: float, seconds: float | None) -> dict[str, Any]:
    return {"pattern": pattern, "kind": kind, "name": name, "start": start, "seconds": seconds}


def bars(chart: Chart, layer: str = "bars") -> list[dict[str, Any]]:
    """The rows of a layer, as they stand in the finished Vega-Lite."""
    assert chart.drawing is not None
    rows: list[dict[str, Any]] = getattr(chart.drawing, layer)
    assert rows in list(chart.spec()["datasets"].values()) or not rows
    return rows


def table(chart: Chart) -> list[list[str]]:
    return [re.split(r"\s{2,}", line) for line in chart.table.splitlines()[1:]]


TWO = [*counts("dump", system=310, content=9200, question=18), *counts("catalog", system=620, reads=820, catalog=1400)]
THREE_STEPS = [
    step("dump", "turn", "What?", 0.0, 2.2),
    step("dump", "model", "demo", 0.2, 1.9),
    step("dump", "read", "crm://a", 0.01, 0.05),
    step("dump", "read", "crm://b", 0.02, 0.1),
]


def test_a_bar_is_stacked_by_kind_in_the_order_of_the_kinds_and_its_total_stands_at_its_end() -> None:
    chart = composition(TWO)
    assert [(b["pattern"], b["kind"], b["x"], b["x2"], b["tokens"]) for b in bars(chart)] == [
        ("dump", "system", 0, 310, 310),
        ("dump", "content", 310, 9510, 9200),
        ("dump", "question", 9510, 9528, 18),
        ("catalog", "system", 0, 620, 620),
        ("catalog", "catalog", 620, 2020, 1400),
        ("catalog", "reads", 2020, 2840, 820),
    ]
    assert [(e["said"], e["x"]) for e in bars(chart, "ends")] == [("≈ 9,528", 9528), ("≈ 2,840", 2840)]
    assert "by o200k" in chart.spec()["layer"][0]["encoding"]["x"]["axis"]["title"]
    assert table(chart) == [
        ["pattern", "system", "catalog", "content", "reads", "question", "estimated"],
        ["dump", "310", "0", "9,200", "0", "18", "9,528"],
        ["catalog", "620", "1,400", "0", "820", "0", "2,840"],
    ]
    assert "dump: ≈ 9,528 (system 310, content 9,200, question 18)." in chart.alt


def test_the_order_of_kinds_can_be_given_and_a_kind_that_is_not_among_them_is_shown_last() -> None:
    chart = composition(counts("p", system=1, odd=2, reads=4), kinds=("reads", "system"))
    assert [b["kind"] for b in bars(chart)] == ["reads", "system", "odd"]
    assert chart.spec()["layer"][0]["encoding"]["color"]["scale"]["range"][-1] == OTHER


def test_rows_of_the_same_kind_are_added_up_and_one_that_is_unknown_makes_the_sum_unknown() -> None:
    chart = composition([*counts("p", reads=4), *counts("p", reads=6), *counts("q", reads=1), *counts("q", reads=None)])
    assert [b["tokens"] for b in bars(chart)] == [10]
    assert [f["kind"] for f in bars(chart, "frames")] == ["reads"]


def test_what_is_unknown_is_outlined_and_named_and_is_never_0() -> None:
    chart = composition([*counts("some", system=100, reads=None, results=None), *counts("none", reads=None)])
    some, none = bars(chart, "frames")
    assert (some["x"], some["kind"], some["said"], some["tokens"]) == (100, "reads, results", "unknown", None)
    assert none["x"] == 0 < none["x2"]
    said = [end["said"] for end in bars(chart, "ends")]
    assert said == ["≈ 100 + unknown: reads, results", "unknown: reads"]
    assert table(chart)[1:] == [
        ["some", "100", "unknown", "unknown", "unknown"],
        ["none", "0", "unknown", "0", "unknown"],
    ]


def test_without_any_known_figure_there_is_still_a_picture() -> None:
    chart = composition(counts("p", reads=None))
    assert chart.png().startswith(b"\x89PNG")
    assert composition(counts("p", reads=0)).png().startswith(b"\x89PNG")


def test_what_the_provider_counted_beyond_the_estimate_is_stacked_as_a_kind_of_its_own() -> None:
    chart = composition(counts("p", system=100, difference=20))
    assert [(b["kind"], b["x"], b["x2"], b["said"]) for b in bars(chart)][1:] == [("difference", 100, 120, "+20")]
    assert bars(chart, "ends")[0]["said"] == "120 (20 above the estimate)"
    assert table(chart)[1] == ["p", "100", "100", "+20", "120"]


def test_what_the_provider_counted_below_the_estimate_is_outlined_over_it_and_adds_nothing() -> None:
    chart = composition(counts("p", system=100, difference=-20))
    assert [b["kind"] for b in bars(chart)] == ["system"]
    (frame,) = bars(chart, "frames")
    assert (frame["x"], frame["x2"], frame["said"], frame["tokens"]) == (80, 100, "-20", -20)
    assert bars(chart, "ends")[0]["said"] == "80 (20 below the estimate)"
    assert table(chart)[1] == ["p", "100", "100", "-20", "80"]


def test_what_was_reported_is_unknown_where_the_provider_reports_nothing_or_a_kind_is_unknown() -> None:
    chart = composition(
        [*counts("exact", 0, system=9), *counts("silent", system=9), *counts("half", 5, system=9, reads=None)]
    )
    assert [end["said"] for end in bars(chart, "ends")] == ["9", "≈ 9", "≈ 9 + unknown: reads"]
    assert [line[-2:] for line in table(chart)[1:]] == [["+0", "9"], ["unknown", "unknown"], ["+5", "unknown"]]
    assert "difference" not in [bar["kind"] for bar in bars(chart)]


@given(st.dictionaries(st.sampled_from(KINDS), st.integers(0, 10**6), min_size=1), st.integers(-(10**6), 10**6))
def test_a_bar_ends_where_its_kinds_and_the_difference_sum_to(tokens: dict[str, int], difference: int) -> None:
    chart = composition(counts("p", difference, **tokens))
    assert chart.drawing is not None
    total, pieces = sum(tokens.values()), chart.drawing.bars
    assert sum(bar["tokens"] for bar in pieces) == total + max(0, difference)
    assert [bar["x2"] for bar in pieces[:-1]] == [bar["x"] for bar in pieces[1:]]
    assert chart.drawing.ends[0]["said"].startswith(f"{total + difference:,}")


def test_steps_that_ran_side_by_side_lie_one_below_the_other() -> None:
    chart = timeline(THREE_STEPS)
    where = {(b["kind"], b["what"]): (b["x"], round(b["x2"], 6), b["y"]) for b in bars(chart)}
    assert where == {
        ("read", "crm://a"): (0.01, 0.06, 0), ("read", "crm://b"): (0.02, 0.12, LANE), ("model", "demo"): (0.2, 2.1, 0),
    }  # fmt: skip
    assert bars(chart, "ends")[0]["said"] == "2.200 s"
    assert bars(chart, "bands")[0]["x2"] == 2.2
    assert table(chart)[1:3] == [
        ["dump", "turn", "0.000 s", "2.200 s"],
        ["dump", "read", "crm://a", "0.010 s", "0.050 s"],
    ]
    assert "dump: 2.200 s (model 1.900 s, read 0.150 s)." in chart.alt


def test_without_a_turn_the_whole_ends_with_the_last_step() -> None:
    assert bars(timeline([step("p", "model", "m", 1.0, 11.5)]), "ends")[0]["said"] == "12.5 s"


def test_what_took_no_time_can_be_seen_and_what_has_not_ended_is_outlined_to_the_end() -> None:
    chart = timeline(
        [step("p", "attach", "a", 0, 0.0), step("p", "model", "m", 1, 4.0), step("p", "tool", "t", 2, None)]
    )
    assert [(b["x2"] - b["x"]) * WIDTH / 5 >= 2 for b in bars(chart)] == [True, True]
    (frame,) = bars(chart, "frames")
    assert (frame["x"], frame["x2"], frame["said"], frame["seconds"]) == (2, 5, "not ended", None)
    assert bars(chart, "ends")[0]["said"] == "not ended"
    assert bars(chart)[0]["seconds"] == 0.0


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100) | st.none()), max_size=40))
def test_no_two_steps_of_a_lane_overlap(times: list[tuple[float, float | None]]) -> None:
    rows = [step("p", "tool", "t", start, seconds) for start, seconds in times]
    high, placed = lanes(rows, 0.5, 200.0)
    assert len(placed) == len(rows)
    ends: dict[int, float] = {}
    for row, lane in placed:
        assert ends.get(lane, 0.0) <= row["start"]
        ends[lane] = 200.0 if row["seconds"] is None else row["start"] + row["seconds"]
    assert (max(ends, default=0) + 1) * high <= 12 * LANE + 1e-6


def test_many_steps_at_once_do_not_make_the_picture_endless_and_the_table_says_what_it_leaves_out() -> None:
    chart = timeline([step("p", "read", f"crm://{n}", 0.0, 1.0 + n) for n in range(100)])
    assert chart.drawing is not None and chart.drawing.height == pytest.approx(12 * LANE)
    assert sorted(line[2] for line in table(chart)[2:-1]) == [f"crm://{n}" for n in range(90, 100)]
    assert table(chart)[-1] == ["p", "+ 90 shorter"]


@pytest.mark.parametrize("name", [HOSTILE, CODE, "a\ud800b", "\u202eevil\x1b[31m", "${x}", "a.b[0]", ""])
def test_hostile_names_are_data_of_the_picture_and_nothing_else(name: str) -> None:
    import vl_convert

    for chart in (composition(counts(name, system=9)), timeline([step(name, "tool", name, 0, 1.0)])):
        spec = chart.spec()
        shown = chart.drawing.names[0]["pattern"]  # type: ignore[union-attr]
        assert shown.isprintable() and shown.encode() is not None
        vega = vl_convert.vegalite_to_vega(spec, vl_version="5.8")
        assert not shown or shown in json.dumps(vega.pop("data"), ensure_ascii=False).replace('\\"', '"').replace(
            "\\\\", "\\"
        )
        del spec["datasets"]
        for made in (spec, vega):
            assert not shown or json.dumps(shown)[1:-1] not in json.dumps(made)
        svg = ElementTree.fromstring(vl_convert.vegalite_to_svg(chart.spec(), vl_version="5.8"))
        assert {element.tag.rpartition("}")[2] for element in svg.iter()} <= {
            "svg",
            "rect",
            "g",
            "path",
            "line",
            "text",
        }
        assert short(shown) in [text.text or "" for text in svg.iter("{http://www.w3.org/2000/svg}text")] or not shown
        assert not {key for element in svg.iter() for key in element.attrib if key.startswith("on")}
        assert chart.png().startswith(b"\x89PNG")


def test_the_html_is_an_image_whose_words_are_escaped_and_no_script() -> None:
    made = composition(counts('"><b onclick=x>', system=9)).html()
    assert made.count("<") == 1 and made.startswith('<img src="data:image/png;base64,')
    assert " &#34;&gt;&lt;b onclick=x&gt;: ≈ 9 (system 9)." in made


def test_a_long_name_is_shortened_at_the_bar_and_whole_in_the_tooltip() -> None:
    name = 'attach("crm://customer/4471/subscription") + catalog #2'
    chart = composition(counts(name, system=9))
    (shown,) = bars(chart, "names")
    assert shown["label"] == 'attach("crm://cus…talog #2' and shown["pattern"] == name
    assert chart.spec()["layer"][-2]["encoding"]["tooltip"]["field"] == "pattern"
    assert name in chart.table


def test_the_bundle_is_for_jupyterlab_and_for_code_hosts_and_the_png_is_as_wide_as_it_says() -> None:
    chart = composition(TWO)
    bundle, metadata = chart._repr_mimebundle_()
    assert list(bundle) == [MIME, "image/png", "text/plain"]
    assert bundle[MIME]["$schema"].endswith("/v5.json") and bundle["text/plain"] == chart.table
    image = Image.open(io.BytesIO(chart.png()))
    image.load()
    assert image.width == 2 * metadata["image/png"]["width"] > 2 * WIDTH
    assert image.height > 2 * 2 * STEP
    assert image.convert("RGBA").getpixel((0, 0))[3] == 0  # transparent
    assert metadata[MIME]["embed_options"]["actions"]["editor"] is False


def test_the_picture_is_packed_without_a_change() -> None:
    import vl_convert

    spec = composition(TWO).spec()
    loose = vl_convert.vegalite_to_png(spec, vl_version="5.8", scale=2)
    packed = drawing.png(spec)
    assert len(packed) < len(loose) / 2
    assert Image.open(io.BytesIO(packed)).tobytes() == Image.open(io.BytesIO(loose)).tobytes()


def test_the_same_rows_give_the_same_picture_whatever_theme_the_user_has_chosen() -> None:
    import altair

    first, again = composition(TWO), timeline(THREE_STEPS)
    spec, png, other = first.spec(), first.png(), again.spec()
    with altair.theme.enable("dark"):
        assert composition(TWO).spec() == spec and composition(TWO).png() == png
        assert timeline(THREE_STEPS).spec() == other
        assert altair.theme.active == "dark"


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_without_the_extra_the_table_is_shown_and_how_to_get_the_picture(missing: str, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    chart = composition(counts(HOSTILE, system=9))
    bundle, metadata = chart._repr_mimebundle_()
    assert metadata == {} and list(bundle) == ["text/plain"]
    assert bundle["text/plain"] == f'{chart.table}\npip install "mcp-agent-workbench[charts]"'
    assert "<pre" in chart.html() and "<img" not in chart.html() and "&lt;img" in chart.html()


@pytest.mark.parametrize("chart", [composition([]), timeline([])], ids=["composition", "timeline"])
def test_nothing_to_draw_is_said(chart: Chart) -> None:
    assert chart._repr_mimebundle_() == ({"text/plain": chart.table}, {})
    assert chart.table.startswith("There was no ") and "<pre" in chart.html()


@pytest.mark.parametrize("number", [1, 12])
def test_the_picture_grows_with_the_patterns(number: int) -> None:
    rows = [row for n in range(number) for row in counts(f"p{n}", system=9)]
    assert composition(rows).spec()["height"] == number * STEP


def test_every_kind_has_a_colour_and_the_kinds_of_input_each_their_own() -> None:
    kinds = [*KINDS, "difference"]
    assert len({COLOURS[kind] for kind in kinds}) == len(kinds)
    assert all(
        _contrast(colour, "#000000") > 4 for colour in COLOURS.values()
    )  # kinds are written in black in their bars


def _contrast(one: str, other: str) -> float:
    """WCAG 2.1, "contrast ratio"."""
    dark, light = sorted(map(_luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
