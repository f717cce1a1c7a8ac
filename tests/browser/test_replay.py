"""`%replay` in JupyterLab: a bar while it runs, a table with intervals, pictures, and Stop that keeps what is finished."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.lab import DARK, LIGHT

CONNECT = "%load_ext workbench\n%mcp connect demo"
TURNS = """turns = [
    {"id": f"t{n:02}-{customer}", "question": f"What is the renewal date of customer {customer}?", "expect": "renewal_date",
     "relevant": [f"crm://customer/{customer}/subscription"], "attach": [f"crm://customer/{customer}/subscription"]}
    for n in range(20) for customer in (4471, 4480)
]"""


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_rates_intervals_and_pictures_are_shown(notebook: Open, theme: str, request: pytest.FixtureRequest) -> None:
    nb = notebook(CONNECT, TURNS, "%replay turns --patterns catalog,attach --models demo?miss=0.29&seed=7", theme=theme)
    nb.run_all()
    cell = nb.output(2)
    expect(cell.locator("svg.marks").first).to_be_visible()
    rows = cell.get_by_role("table").first.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text(re.compile(r"catalog.*of 40", re.DOTALL))
    expect(rows.nth(1)).to_contain_text(re.compile(r"attach.*40 of 40", re.DOTALL))
    nb.page.set_viewport_size({"width": 1280, "height": 1700})
    cell.scroll_into_view_if_needed()
    nb.screenshot(f"replay-{request.node.callspec.id}")
    assert "turns a second" not in json.dumps(nb.save()["cells"][2]["outputs"])
    assert (nb.errors, nb.foreign) == ([], [])


def test_stop_keeps_what_is_finished_and_the_same_line_goes_on(notebook: Open) -> None:
    line = "%replay turns --patterns catalog --models demo?first=0.4&next=0.4 --concurrency 4 --store kept.sqlite"
    nb = notebook(CONNECT, TURNS, line, "len(__import__('workbench').session().replays[-1].frame())", line)
    nb.run_cell(0)
    nb.run_cell(1)
    nb.run_cell(2)
    cell = nb.output(2)
    expect(cell).to_contain_text(re.compile(r"█.* ([89]|1\d) of 40"), timeout=20_000)
    nb.screenshot("replay-running")
    nb.command("notebook:interrupt-kernel")
    expect(cell).to_contain_text("the replay was stopped")
    expect(cell).not_to_contain_text("Traceback")
    expect(cell).not_to_contain_text("█")
    nb.screenshot("replay-stopped")
    nb.run_cell(3)
    expect(nb.output(3)).to_contain_text(re.compile(r"\d+$"))
    kept = int(nb.output(3).inner_text().split()[-1])
    assert 4 <= kept < 40
    nb.run_cell(4)
    rows = nb.output(4).get_by_role("table").first.locator("tbody tr")
    expect(rows.first).to_contain_text("40 of 40", timeout=30_000)
    expect(nb.output(4)).to_contain_text(f"{kept} of 40 were in the store before")
    assert nb.errors == []
