"""The driver itself: what the other tests of this folder stand on."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.lab import DARK


def test_a_notebook_runs_and_its_saved_output_opens_without_a_kernel(notebook: Open) -> None:
    nb = notebook("x = 1 + 1", "x")
    nb.run_all()
    expect(nb.output(1)).to_contain_text("2")
    assert nb.kernel_eval("x") == 2
    nb.run_cell(0)
    nb.wait_kernel("len(In)", 4)
    assert nb.save()["cells"][1]["outputs"][0]["data"]["text/plain"] == ["2"]
    nb.close()

    reader = notebook(path=nb.path, kernel=False, theme=DARK)
    expect(reader.output(1)).to_contain_text("2")
    assert reader.page.evaluate("document.body.dataset.jpThemeLight") == "false"
    assert reader.page.evaluate("panel.sessionContext.session") is None
    assert [*nb.errors, *reader.errors] == []
    assert [*nb.foreign, *reader.foreign] == []


def test_a_page_is_light_unless_dark_is_asked_for_whatever_the_page_before_was(notebook: Open) -> None:
    assert notebook("1", kernel=False, theme=DARK).page.evaluate("document.body.dataset.jpThemeLight") == "false"
    nb = notebook("1", kernel=False)
    assert nb.page.evaluate("document.body.dataset.jpThemeLight") == "true"
    assert nb.screenshot("driver-light").read_bytes().startswith(b"\x89PNG")


def test_running_all_cells_comes_back_when_one_raises(notebook: Open) -> None:
    nb = notebook("1 / 0", "'never'")
    nb.run_all()
    expect(nb.output(0)).to_contain_text("ZeroDivisionError")
    assert nb.save()["cells"][1]["outputs"] == []


def test_a_request_to_another_machine_is_blocked_and_reported(notebook: Open) -> None:
    nb = notebook("from IPython.display import HTML; HTML('<img src=\"https://example.org/a.png\">')")
    nb.run_all()
    expect(nb.output(0).locator("img")).to_be_attached()
    assert nb.foreign == ["https://example.org/a.png"]
