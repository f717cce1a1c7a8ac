"""The lessons: they run offline from top to bottom, and what is committed reads well, is small and holds no state."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from workbench import lesson

ROOT = Path(__file__).parent.parent
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
every_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
LARGEST = 300 * 1024  # a comparison saves two pictures, as an image for code hosts and as data for JupyterLab


def sources(book: nbformat.NotebookNode) -> list[str]:
    return [cell.source for cell in book.cells]


@every_lesson
def test_a_lesson_runs_fresh_and_the_committed_one_has_the_same_cells(path: Path, tmp_path: Path) -> None:
    committed = nbformat.read(path, as_version=4)
    book = lesson.execute(path)
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
