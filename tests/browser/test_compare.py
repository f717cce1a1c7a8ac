"""`%%compare` in JupyterLab: a table that grows, two pictures, and Stop that keeps what is finished."""

from __future__ import annotations

import nbformat
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Open
from tests.browser.lab import DARK, LIGHT, SCREENSHOTS
from workbench.lesson import to_html

COMPARE = """%%compare --patterns dump,truncate,catalog,attach,companion --expect "S/4HANA 2023"
Which products does the SUM ABAP test matrix cover, and in what output format?"""
SLOW = "%%compare --model demo?next=3 --patterns attach,dump\nWhat says the matrix?"
CELLS = ("%load_ext workbench\n%mcp connect demo\n%mcp attach sap-btp://sum-abap-v1", COMPARE)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_the_table_and_both_pictures_are_shown(notebook: Open, theme: str, request: pytest.FixtureRequest) -> None:
    nb = notebook(*CELLS, theme=theme)
    nb.run_all()
    cell = nb.output(1)
    expect(cell.locator("svg.marks")).to_have_count(2)
    rows = cell.get_by_role("table").first.locator("tbody tr")
    expect(rows).to_have_count(5)
    for row, (pattern, said) in enumerate(
        [
            ("dump", "right"),
            ("truncate(2000)", "wrong"),
            ("catalog", "right"),
            ("attach", "right"),
            ("companion", "right"),
        ]
    ):
        expect(rows.nth(row)).to_contain_text(pattern)
        expect(rows.nth(row)).to_contain_text(said)
    nb.page.set_viewport_size({"width": 1280, "height": 1500})
    cell.locator("summary", has_text="catalog").first.click()
    cell.scroll_into_view_if_needed()
    nb.screenshot(f"compare-{request.node.callspec.id}")
    assert nb.foreign == []
    assert nb.errors == []


def test_stop_keeps_the_patterns_that_have_finished(notebook: Open) -> None:
    nb = notebook(CELLS[0], SLOW, "len(workbench.session().comparisons[-1].runs)")
    nb.run_cell(0)
    nb.run_cell(1)
    expect(nb.output(1)).to_contain_text("Asking under attach, 1 of 2", timeout=20_000)
    expect(nb.output(1)).to_contain_text("Asking under dump, 2 of 2", timeout=20_000)
    table = nb.output(1).get_by_role("table").first
    expect(table.locator("tbody tr")).to_have_count(1)
    nb.command("notebook:interrupt-kernel")
    expect(nb.output(1)).to_contain_text("the comparison was stopped")
    expect(nb.output(1)).not_to_contain_text("Asking under")
    expect(nb.output(1)).not_to_contain_text("Traceback")
    expect(table.locator("tbody tr")).to_have_count(1)
    expect(nb.output(1).locator("svg.marks")).to_have_count(2)


def test_the_export_to_html_shows_table_and_pictures_without_a_network(notebook: Open, browser: Browser) -> None:
    nb = notebook(*CELLS)
    nb.run_all()
    nb.save()
    page = SCREENSHOTS / "compare-export.html"
    page.write_text(to_html(nbformat.read(nb.lab.root / nb.path, as_version=4)))
    shown, wanted = browser.new_page(viewport={"width": 1200, "height": 1600}), list[str]()
    shown.on("request", lambda asked: wanted.append(asked.url))
    shown.goto(page.as_uri())
    expect(shown.locator(".jp-OutputArea-output img")).to_have_count(2)
    expect(shown.get_by_role("table").first.locator("tbody tr")).to_have_count(5)
    shown.screenshot(path=SCREENSHOTS / "compare-export.png")
    assert [url for url in wanted if not url.startswith(("data:", "file:"))] == []
    shown.close()
