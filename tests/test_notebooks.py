"""The lessons: they run offline from top to bottom, and what is committed reads well, is small and holds no state."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest

from workbench import hygiene, lesson

ROOT = Path(__file__).parent.parent
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
every_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
LARGEST = 500 * 1024  # a comparison holds the whole trace of each pattern, and two pictures


# What a further cell prints of each lesson's own variables: the figures behind its claims.
ROWS = "{run.pattern: run.row() for run in wb.comparisons[0].runs}"
COMPOSED = "{run.pattern: ledger.composition(run.turn.spans)[0] for run in wb.comparisons[0].runs}"
PROBES = {
    "02-patterns-compared": f"dict(rows={ROWS}, composed={COMPOSED}, carried=turn.carried.to_dict('records'), "
    "largest=int(runs['dump'].carried.tokens.max()))",
    "03-one-call-or-two": f"dict(rows={ROWS}, sums=sums.drop(columns='asked for').to_dict(), found=found, "
    "missed=missed.answer, asked=ASKED, policed=wb.turns[-2].totals.provider_calls, mention=list(mention.reads().actor))",
    "04-what-must-stay-a-tool": f"dict(rows={ROWS}, composed={COMPOSED}, sizes=sizes, answers=answers, "
    "refused=list(refused.frame().status), tools=[tool.name for tool in wb.offer.tools])",
    "05-replay": "dict(first={p: first.rate((p, m)) for p, m in first.designs}, points=difference, third=found, "
    "how=second.summary().set_index('pattern')[['hit', 'hit_of', 'given', 'fired']].astype(int).T.to_dict(), "
    "width=list(table.to - table['from']), mine=mine.summary().set_index('pattern').correct.astype(int).to_dict())",
}


def sources(book: nbformat.NotebookNode) -> list[str]:
    return [cell.source for cell in book.cells]


@cache
def run(path: Path) -> tuple[nbformat.NotebookNode, dict[str, Any]]:
    """The lesson after a fresh run, and what its probe printed."""
    book, folder = nbformat.read(path, as_version=4), tempfile.mkdtemp()
    probe = PROBES.get(path.stem, "{}")
    book.cells.append(
        nbformat.v4.new_code_cell(f"import json\nfrom workbench import ledger\nprint(json.dumps({probe}))")
    )
    nbformat.write(book, copy := Path(folder) / path.name)
    try:
        book = lesson.execute(copy)
    finally:
        shutil.rmtree(folder)
    return book, json.loads(book.cells.pop().outputs[0].text)


@every_lesson
def test_a_lesson_runs_fresh_and_the_committed_one_has_the_same_cells(path: Path, tmp_path: Path) -> None:
    committed = nbformat.read(path, as_version=4)
    book, _ = run(path)
    assert sources(book) == sources(committed)
    nbformat.write(book, fresh := tmp_path / path.name)
    for file in (path, fresh):
        assert file.stat().st_size <= LARGEST
        check_saved(nbformat.read(file, as_version=4))


def check_saved(book: nbformat.NotebookNode) -> None:
    """No widget state, no error, no machine's path, and every output has a plain form."""
    assert "widgets" not in book.metadata
    for cell in book.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error"
            if "data" in output:
                assert "text/plain" in output.data
                assert "application/vnd.jupyter.widget-view+json" not in output.data
    text = nbformat.writes(book)
    assert not re.search(r"/(home|root|Users|tmp|work)/", text)
    assert not re.search(r"(?i)(api[_-]?key|secret|password)\W{1,3}[\w-]{8,}", text)


def test_the_first_lesson_shows_what_a_cut_would_have_lost() -> None:
    book = nbformat.read(ROOT / "notebooks" / "01-first-turn.ipynb", as_version=4)
    shown = "\n".join(lesson.texts(book))
    assert "S/4HANA 2023" in shown
    assert "JSON Lines" in shown
    assert "model requested sap-btp://sum-abap-v1" in shown
    assert "user read docs://style-guide" in shown


def facts(name: str) -> tuple[dict[str, Any], str]:
    """The figures of a lesson's fresh run, and its prose."""
    book, found = run(ROOT / "notebooks" / f"{name}.ipynb")
    return found, "\n".join(cell.source for cell in book.cells if cell.cell_type == "markdown")


def test_the_second_lesson_compares_what_each_pattern_costs_and_loses() -> None:
    found, _ = facts("02-patterns-compared")
    rows = found["rows"]
    assert {name: row["correct"] for name, row in rows.items()} == {
        "dump": True, "truncate(2000)": False, "catalog": True, "attach": True, "companion": True,
    }  # fmt: skip
    assert {name: row["calls"] for name, row in rows.items() if row["correct"]} == {
        "dump": 1, "catalog": 2, "attach": 1, "companion": 3,
    }  # fmt: skip
    tokens = {name: row["input_tokens_estimated"] for name, row in rows.items()}
    assert 0.2 < tokens["catalog"] / tokens["dump"] < 0.3, "about a quarter"
    assert tokens["truncate(2000)"] < tokens["attach"] < tokens["catalog"] < tokens["companion"] < tokens["dump"]
    assert [name for name, row in rows.items() if row["lost_tokens_estimated"]] == ["truncate(2000)"]
    assert 0.7 < found["largest"] / tokens["dump"] < 0.8, "three quarters are the API reference"
    assert {row["label"]: row["calls"] for row in found["carried"]} == {
        "docs://style-guide": 3, "sum_abap_v1-tool": 2, "sap-btp://sum-abap-v1": 1,
    }  # fmt: skip


def test_the_third_lesson_adds_up_the_seconds_of_one_call_and_of_two() -> None:
    found, prose = facts("03-one-call-or-two")
    model, host, difference = (found["sums"][name] for name in ("model decides", "host decides", "difference"))
    slack = 0.5  # of a machine with much else to do
    for terms, decides in ((model, 1.4), (host, 0.0)):
        assert decides <= terms["call that decides"] <= decides + slack
        assert 0.038 <= terms["read"] <= 0.038 + slack
        assert 2.1 <= terms["call that answers"] <= 2.1 + slack
        assert terms["not itemised"] >= 0
        assert sum(terms.values()) - terms["total"] == pytest.approx(terms["total"])
    assert difference["total"] == pytest.approx(1.4, abs=slack)
    assert "The delays are simulated" in prose
    assert [row["calls"] for row in found["rows"].values()] == [2, 1]
    assert all(row["correct"] for row in found["rows"].values())
    assert found["found"] == {"model decides": 42, "host decides": 60}
    assert '"annual"' not in found["missed"]
    assert found["policed"] == 1
    assert found["mention"] == ["user", "user"]


def test_the_fourth_lesson_shows_what_a_tool_for_every_resource_costs() -> None:
    found, prose = facts("04-what-must-stay-a-tool")
    rows, composed, sizes = found["rows"], found["composed"], found["sizes"]
    assert {name: row["calls"] for name, row in rows.items()} == {
        "companion": 3, "companion(embedded)": 2, "catalog": 2, "attach(docs://style-guide)": 1,
    }  # fmt: skip
    assert all(row["correct"] for row in rows.values())
    own = composed["attach(docs://style-guide)"]["tools"]
    doors = composed["companion(embedded)"]["tools"] - own
    assert f"{doors} + {composed['companion']['tools'] - own - doors} tokens in every call" in prose
    assert f"{composed['catalog']['catalog']} + {composed['catalog']['tools'] - own}" in prose
    assert sizes["200"]["companion"] > 3 * sizes["50"]["companion"] > 9 * sizes["10"]["companion"]
    assert sizes["200"]["catalog"] < 1.2 * sizes["50"]["catalog"] < sizes["200"]["companion"] / 4
    assert len(set(found["answers"])) == len(found["answers"]), "each search is another content"
    assert found["refused"] == ["ok", "ok", "refused", "ok"]
    assert found["tools"] == ["search_tickets", "style_guide_tool"]


def test_the_fifth_lesson_has_rates_with_intervals_and_says_what_is_simulated() -> None:
    found, prose = facts("05-replay")
    fired, trials, (low, high) = found["first"]["catalog"]
    assert trials == 240 and low < 0.71 < high and low < fired / 240 < high
    assert found["first"]["attach"][:2] == [240, 240]
    mean, interval, paired = found["points"][3:6]
    assert mean == pytest.approx(1 - fired / 240) and interval[0] < mean < interval[1]
    assert paired[:3] == [240 - fired, 0, 240] and paired[3] < 0.001
    how = found["how"]
    assert how["attach"] == {"hit": 120, "hit_of": 240, "given": 120, "fired": 0}
    assert how["attach+catalog"]["given"] == 120 and how["attach+catalog"]["hit"] > how["catalog"]["hit"] > 120
    assert found["width"] == sorted(found["width"], reverse=True) and 0.11 < found["width"][3] < 0.12
    assert found["third"][6] > 240, "this set does not settle it, as the text says"
    assert found["mine"] == {"dump": 0, "catalog": 12, "attach": 12}
    assert "The miss rate is simulated" in prose and "no finding" in prose


def test_the_lessons_that_notes_name_are_there() -> None:
    for kind, (_, link) in hygiene.KINDS.items():
        name, _, anchor = link.partition("#")
        assert ROOT / name in LESSONS, kind
        text = "\n".join(sources(nbformat.read(ROOT / name, as_version=4)))
        assert not anchor or anchor in [title.replace(" ", "-") for title in re.findall(r"(?m)^#+ (.+)$", text)]


def test_the_page_of_a_lesson_loads_nothing_from_the_network() -> None:
    page = lesson.to_html(nbformat.read(LESSONS[0], as_version=4))
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=[\"']?(https?:)?//", page)
    assert "S/4HANA 2023" in page


def test_the_demo_prints_question_answer_and_trace_and_says_where_the_files_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lesson.main([str(LESSONS[0]), str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for shown in ("Which products does", "S/4HANA 2023", "provider call 1 demo", str(tmp_path / "01-first-turn.html")):
        assert shown in out
    assert (tmp_path / "01-first-turn.ipynb").exists()
