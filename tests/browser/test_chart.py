"""The pictures of a comparison where they are looked at: in JupyterLab, light and dark, and in an export to HTML."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import Open
from tests.browser.lab import DARK, LIGHT, SCREENSHOTS, Notebook
from workbench.lesson import to_html

HOSTILE = """<img src=x onerror="window.hacked = 1"> '); window.hacked = 1; ('"""
ROWS = f"""\
from workbench.view import chart
def counts(pattern, difference=None, **kinds):
    rows = [dict(pattern=pattern, kind=k, tokens=n, counter="o200k_base") for k, n in kinds.items()]
    measured = dict(pattern=pattern, kind="difference", tokens=difference, counter="the provider")
    return rows + ([] if difference is None else [measured])
def steps(pattern, *made):
    return [dict(zip(("kind", "name", "start", "seconds"), each), pattern=pattern) for each in made]
hostile = {HOSTILE!r}
composed = [
    *counts("dump", -420, system=310, content=9200, tools=640, question=18),
    *counts("truncate(2000)", 35, system=310, content=2400, tools=640, question=18),
    *counts("catalog", 120, system=620, catalog=1400, tools=1900, reads=820, replies=60, question=36),
    *counts('attach("crm://customer/4471") + catalog', system=310, catalog=700, tools=640, attachments=420, question=18),
    *counts("companion", system=310, tools=3900, results=None, replies=90, question=36),
    *counts(hostile, system=900, reads=None),
]
timed = [
    *steps("dump", ("turn", "q", 0, 2.2), ("read", "crm://a", .01, .05), ("read", "crm://b", .01, .09),
           ("model", "demo", .12, 2.05)),
    *steps("catalog", ("turn", "q", 0, 3.6), ("model", "demo", .01, 1.4), ("gate", "read", 1.41, .2),
           ("tool", "read_resource", 1.61, .2), ("read", "crm://a", 1.62, .18), ("tool", "read_resource", 1.61, .3),
           ("read", "crm://b", 1.63, .25), ("model", "demo", 1.95, 1.6)),
    *steps(hostile, ("turn", "q", 0, 2.1), ("attach", "crm://a", 0, 0), ("model", hostile, .01, 1.2),
           ("tool", hostile, 1.3, None)),
]
"""
CELLS = (ROWS, "chart.composition(composed)", "chart.timeline(timed)")


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_jupyterlab_draws_both_pictures_by_itself(notebook: Open, theme: str, request: pytest.FixtureRequest) -> None:
    nb = notebook(*CELLS, theme=theme)
    nb.run_all()
    for cell, text in ((1, "9,748 (420 below the estimate)"), (2, "3.600 s")):
        expect(nb.output(cell).locator("svg.marks")).to_be_visible()
        expect(nb.output(cell).locator("svg.marks")).to_contain_text(text)
        expect(nb.output(cell).locator("img")).to_have_count(0)
    assert "unknown: results" in nb.output(1).inner_text()
    _look(nb, request.node.callspec.id)
    _hover(nb)
    assert nb.page.evaluate("window.hacked") is None
    assert nb.foreign == []
    assert nb.errors == []
    data = nb.save()["cells"][1]["outputs"][0]["data"]
    assert sorted(data) == ["application/vnd.vegalite.v5+json", "image/png", "text/plain"]


def _look(nb: Notebook, name: str) -> None:
    """Both pictures in one screenshot, without the cells that made them."""
    nb.command("notebook:hide-all-cell-code")
    expect(nb.cell(1).locator(".jp-InputArea:not([hidden])")).to_be_hidden()
    nb.cell(1).scroll_into_view_if_needed()
    nb.screenshot(f"chart-{name}")


def _hover(nb: Notebook) -> None:
    """A hostile name is the words of the tooltip."""
    bar: Locator = nb.output(1).locator("svg.marks .mark-text text", has_text="<img src=x")
    bar.hover()
    tip = nb.page.locator("#vg-tooltip-element")
    expect(tip).to_contain_text(HOSTILE)
    expect(tip.locator("img")).to_have_count(0)


def test_the_export_to_html_shows_both_pictures_without_a_network(
    notebook: Open, browser: Browser, tmp_path: Path
) -> None:
    nb = notebook(*CELLS)
    nb.run_all()
    nb.save()
    (page := tmp_path / "export.html").write_text(to_html(nbformat.read(nb.lab.root / nb.path, as_version=4)))
    shown, wanted = browser.new_page(viewport={"width": 1000, "height": 900}), list[str]()
    shown.on("request", lambda asked: wanted.append(asked.url))
    shown.goto(page.as_uri())
    pictures = shown.locator(".jp-OutputArea-output img")
    expect(pictures).to_have_count(2)
    assert all(width > 700 for width in _widths(shown))
    pictures.first.scroll_into_view_if_needed()
    shown.screenshot(path=SCREENSHOTS / "chart-export.png")
    assert [url for url in wanted if not url.startswith(("data:", "file:"))] == []
    assert shown.evaluate("window.hacked") is None
    shown.close()


def _widths(page: Page) -> list[int]:
    """As drawn, of the pictures that could be decoded."""
    found: list[int] = page.evaluate(
        "[...document.querySelectorAll('.jp-OutputArea-output img')].filter(i => i.naturalWidth).map(i => i.width)"
    )
    assert len(found) == 2
    return found
