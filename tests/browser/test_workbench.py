"""What a user does in JupyterLab, from `%load_ext workbench` to a saved notebook that a stranger reads."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, expect

from tests.browser.conftest import Open
from tests.browser.lab import DARK, LIGHT, SCREENSHOTS, Notebook

AWKWARD = Path(__file__).parents[1] / "servers/awkward.py"
TALKATIVE = AWKWARD.with_name("talkative.py")
ATTACHED = "[a.uri for a in __import__('workbench').session().attachments.values()]"
MATRIX, SUBSCRIPTION = "sap-btp://sum-abap-v1", "crm://customer/4471/subscription"
QUESTION = "Which products does the SUM ABAP test matrix cover, and in what output format?"
# A catalog that its page cannot put in the place of the static table, as in other frontends than JupyterLab.
HOMELESS = """\
from workbench import board
saved = board.static_catalog
board.static_catalog, board.PATIENCE = (lambda rows, session, home: saved(rows, session)), 0.1
%mcp resources"""
# What JupyterLab reports without us, too, where a notebook is opened without a kernel.
LABS_OWN = {
    "Cannot read properties of null (reading 'kernel')",
    "Failed to execute 'removeChild' on 'Node': The node to be removed is not a child of this node.",
}


def _row(output: Locator, text: str) -> Locator:
    return output.get_by_role("row").filter(has_text=text)


def _button(output: Locator, row: str, name: str) -> Locator:
    return _row(output, row).get_by_role("button", name=name)


def _search(output: Locator, words: str) -> None:
    """Search for the one row that has all of these words."""
    output.get_by_role("searchbox").fill(words)
    expect(output.get_by_role("status").first).to_contain_text(re.compile("^1 of "))


def _assert_quiet(*notebooks: Notebook) -> None:
    for nb in notebooks:
        assert (nb.errors, nb.foreign) == ([], [])


def test_clicks_in_the_catalog_attach_detach_preview_and_say_why_a_read_failed(notebook: Open) -> None:
    """P38."""
    nb = notebook(
        "%load_ext workbench\n%mcp connect demo",
        f"%mcp connect awkward -- {sys.executable} {AWKWARD}",
        "%mcp resources",
        HOMELESS,
        "%mcp disconnect awkward",
        "%unload_ext workbench",
    )
    for index in range(4):
        nb.run_cell(index)
    expect(nb.output(3).get_by_role("grid")).to_be_visible()
    table = nb.output(2)
    expect(table.get_by_role("status").first).to_have_text("29 of 29 entries")

    _search(table, "sum abap demo")
    _button(table, MATRIX, "Attach").click()
    nb.wait_kernel(ATTACHED, [MATRIX])
    expect(_row(table, MATRIX)).to_contain_text("attached")
    expect(_row(table, MATRIX)).to_contain_text("2,805")  # tokens, known since it was read
    expect(table.locator("code").first).to_have_text(f"%mcp detach {MATRIX} --server demo")
    _button(table, MATRIX, "Detach").click()
    nb.wait_kernel(ATTACHED, [])
    expect(_row(table, MATRIX)).to_contain_text("read")

    _search(table, "style guide")
    _row(table, "docs://style-guide").get_by_role("gridcell").nth(2).click()
    expect(table.get_by_role("region", name="Preview")).to_contain_text("# Engineering style guide")
    _assert_keys_stay_in(nb, _row(table, "docs://style-guide"))
    _pictures(nb, 2, "catalog-preview")

    _search(table, "files/boom")
    _button(table, "res://files/boom", "Attach").click()
    expect(_row(table, "res://files/boom")).to_contain_text("failed")
    expect(table.locator(".wb-reason")).to_contain_text("store offline <img src=x")

    _search(table, "res://html")
    _row(table, "res://html").get_by_role("gridcell").nth(3).click()
    expect(table.get_by_role("region", name="Preview")).to_contain_text("<script>alert('awkward')</script>")
    assert table.locator("img, b, h1, .wb-catalog script").count() == 0

    _search(table, "customer template demo")
    expect(_row(table, "{id}")).to_be_visible()
    _button(table, "{id}", "Attach").click()
    field = table.get_by_role("combobox", name="id")
    expect(field).to_be_focused()  # it needs a value first
    suggested = table.get_by_role("listbox").get_by_role("option")
    expect(suggested).to_have_count(4)  # what the server suggests
    field.fill("45")
    expect(suggested).to_have_count(2)
    expect(suggested.first).to_have_text("4502")
    field.fill("4471")
    expect(table.locator("code").first).to_have_text(f"%mcp attach {SUBSCRIPTION} --server demo")
    table.locator(".wb-buttons").get_by_role("button", name="Attach").click()
    nb.wait_kernel(ATTACHED, [SUBSCRIPTION])
    _search(table, "4471 demo")
    expect(_row(table, SUBSCRIPTION)).to_contain_text("attached")
    expect(table.get_by_role("status").first).to_contain_text(f"attached {SUBSCRIPTION}")
    table.get_by_role("searchbox").fill("")
    _pictures(nb, 2, "catalog")
    nb.run_cell(4)
    expect(table.get_by_role("status").first).to_contain_text("10 of 10")  # those of demo, and what is attached
    nb.run_cell(5)
    expect(table.get_by_role("grid")).to_have_count(0)
    expect(table.get_by_role("table")).to_be_visible()
    _assert_quiet(nb)


def _assert_keys_stay_in(nb: Notebook, focused: Locator) -> None:
    """`x` and `d d` cut and delete the active cell, were they to reach the notebook."""
    expect(focused).to_be_focused()
    cells = nb.page.evaluate("panel.content.widgets.length")
    for key in ("x", "d", "d"):
        nb.page.keyboard.press(key)
    assert nb.page.evaluate("panel.content.widgets.length") == cells


def test_an_ended_turn_and_the_catalog_are_read_later_without_a_kernel_and_without_trust(notebook: Open) -> None:
    """P37."""
    nb = notebook(
        "%load_ext workbench\nimport os; os.environ['DEMO_TOKEN'] = 'geheim' * 3",
        "%mcp connect demo --env DEMO_TOKEN",
        "%mcp resources",
        f"%%agent --model demo\n{QUESTION}",
    )
    nb.run_all()
    turn = nb.output(3)
    expect(turn).to_contain_text("S/4HANA 2023")
    expect(turn).to_contain_text("JSON Lines")
    expect(turn.locator(".wb-trace")).to_have_count(0)
    expect(_row(turn, f"read {MATRIX}")).to_contain_text("model")
    expect(_row(nb.output(2), MATRIX)).to_contain_text("read")  # the catalog above has learnt of it
    _pictures(nb, 3, "turn")
    saved = nb.save()
    _assert_saved_well(saved)
    nb.page.evaluate("() => panel.sessionContext.session.kernel.restart()")
    expect(nb.output(2).get_by_role("table")).to_be_visible()  # and no widget that nobody answers
    expect(nb.output(2).get_by_role("grid")).to_have_count(0)
    nb.close()

    # Changed outside, so that its signature is not right any more: a stranger's notebook.
    stranger = Path(nb.path).with_name("stranger.ipynb")
    (nb.lab.root / stranger).write_text(json.dumps({**saved, "metadata": {**saved["metadata"], "changed": True}}))
    for path, name in ((nb.path, "reopened"), (str(stranger), "reopened-untrusted")):
        reader = notebook(path=path, kernel=False)
        expect(reader.output(3)).to_contain_text("S/4HANA 2023")
        expect(_row(reader.output(3), f"read {MATRIX}")).to_contain_text("2,805")
        expect(_row(reader.output(2), MATRIX)).to_contain_text("text/markdown")
        _pictures(reader, 2, f"{name}-catalog")
        _pictures(reader, 3, f"{name}-turn")
        assert set(reader.errors) <= LABS_OWN and reader.foreign == []
    _assert_quiet(nb)


def _pictures(nb: Notebook, index: int, name: str) -> None:
    """A cell whole, in both themes, as `build/screenshots/<name>-light.png` and `-dark.png`."""
    nb.page.set_viewport_size({"width": 1280, "height": 1400})
    for theme in (LIGHT, DARK):
        nb.page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', { theme })", theme)
        nb.page.wait_for_function("theme => document.body.dataset.jpThemeName === theme", arg=theme)
        nb.page.locator("#jupyterlab-splash").wait_for(state="detached")
        nb.cell(index).screenshot(path=SCREENSHOTS / f"{name}-{theme.split()[-1].lower()}.png")


def _assert_saved_well(saved: dict[str, Any]) -> None:
    """HTML and text only: a widget's view would be an error message to those who open the notebook later."""
    for cell in saved["cells"][2:]:
        assert [set(output["data"]) for output in cell["outputs"]] == [{"text/html", "text/plain"}]
    assert QUESTION in "".join(saved["cells"][3]["outputs"][0]["data"]["text/plain"])
    assert "widgets" not in saved["metadata"]
    assert "geheimgeheim" not in json.dumps(saved)


def _scripted(*replies: str) -> str:
    return f"""\
import sys; sys.path.insert(0, {str(AWKWARD.parents[2])!r})
import workbench
from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
workbench.session().model = model = Scripted(replies=[{", ".join(replies)}])"""


SEARCH = """Reply(text="I look for tickets.", calls=(Call(id="c1", name="demo__search_tickets", args={"query": "export"}),))"""


def test_a_turn_is_live_and_a_person_approves_denies_and_stops_in_its_running_cell(notebook: Open) -> None:
    nb = notebook(
        "%load_ext workbench\n%mcp connect demo",
        _scripted(
            *(SEARCH, "Reply(text='Found them.')"), *(SEARCH, "Reply(text='Then not.')"),
            SEARCH, "None", "Reply(text='Still here.')",
        ),
        *(f"%%agent\nquestion {number}" for number in range(5)),
    )  # fmt: skip
    nb.run_cell(0)
    nb.run_cell(1)

    cell = _ask(nb, 2)
    expect(cell.locator(".wb-answer")).to_have_text("I look for tickets.")
    expect(cell.get_by_role("log")).to_contain_text("provider call 1 scripted")
    _pictures(nb, 2, "approval")
    cell.get_by_role("button", name="Approve").focus()
    _assert_keys_stay_in(nb, cell.get_by_role("button", name="Approve"))
    cell.get_by_role("button", name="Approve").click()
    expect(_row(cell, "tool search_tickets")).to_contain_text("ok")
    expect(cell).to_contain_text("Found them.")

    cell = _ask(nb, 3)
    cell.get_by_role("textbox", name="Reason").fill("not on a Friday")
    cell.get_by_role("button", name="Deny").click()
    expect(_row(cell, "tool search_tickets")).to_contain_text("refused")
    expect(cell).to_contain_text("Then not.")
    assert nb.kernel_eval("model.seen[-1][-1].content") == "Refused: the user denied it: not on a Friday."

    cell = _ask(nb, 4)
    cell.get_by_role("button", name="Stop").click()
    _assert_stopped(nb, cell)
    _pictures(nb, 4, "stopped")
    nb.run_cell(5)
    cell = nb.output(5)
    expect(cell.locator(".wb-answer")).to_contain_text("Let me think")
    nb.command("notebook:interrupt-kernel")
    _assert_stopped(nb, cell)

    nb.run_cell(6)
    expect(nb.output(6)).to_contain_text("Still here.")
    for index in range(2, 7):
        expect(nb.output(index).locator(".wb-trace")).to_have_count(0)
    _assert_quiet(nb)


def test_a_displayed_catalog_follows_what_its_server_tells(notebook: Open) -> None:
    """Without a magic after it: the server's tool runs on the background loop."""
    said = "wb.loop.submit(wb.connection('s').call({!r}, {!r})); None"
    nb = notebook(
        "%load_ext workbench\nimport workbench; wb = workbench.session()\n"
        f"%mcp connect s --env PYTHONPATH={TALKATIVE.parents[2]} -- {sys.executable} {TALKATIVE}",
        "%mcp attach news://today --refresh notify",
        "%mcp resources",
        said.format("publish", {"text": "new"}),
        said.format("grow", {"name": "late"}),
        "%mcp read slow://report",
    )
    for index in range(3):
        nb.run_cell(index)
    table = nb.output(2)
    expect(_row(table, "news://today")).to_contain_text("attached")
    nb.run_cell(3)
    expect(_row(table, "news://today")).to_contain_text("changed")
    expect(_button(table, "news://today", "Detach")).to_be_visible()
    nb.run_cell(4)
    expect(_row(table, "new://late")).to_be_visible()
    nb.run_cell(5)
    expect(nb.output(5)).to_contain_text("█")
    expect(nb.output(5)).to_contain_text("the whole report")
    expect(nb.output(5)).not_to_contain_text("█")
    outputs = nb.save()["cells"][5]["outputs"]
    assert [output["output_type"] for output in outputs] == ["display_data"]
    assert "█" not in json.dumps(outputs, ensure_ascii=False)
    _assert_quiet(nb)


def _ask(nb: Notebook, index: int) -> Locator:
    """Run a cell until the person in front of it is asked."""
    nb.run_cell(index)
    cell = nb.output(index)
    expect(cell.get_by_role("button", name="Approve")).to_be_visible()
    return cell


def _assert_stopped(nb: Notebook, cell: Locator) -> None:
    expect(cell).to_contain_text("Stopped: the turn was stopped", timeout=3_000)
    expect(cell).not_to_contain_text("Traceback")
    expect(cell.get_by_role("table")).to_contain_text("cancelled")
