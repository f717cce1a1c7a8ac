"""The fields and the files of the catalog: values that servers suggest, prompts filled in, parts saved by the browser."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, expect

import workbench.widget
from tests.browser.conftest import Open
from tests.browser.lab import SCREENSHOTS, Notebook
from workbench import catalog
from workbench.demo.server import DOCUMENTS

SERVERS = Path(__file__).parents[1] / "servers"
HOSTILE = "x://a/..%2F..%2Fetc%2F\u202egnp.exe"
BYTES = bytes(range(256)) * 3


def _row(output: Locator, text: str) -> Locator:
    return output.get_by_role("row").filter(has_text=text)


def _preview(table: Locator, text: str) -> None:
    _row(table, text).get_by_role("gridcell").nth(2).click()
    expect(table.get_by_role("region", name="Preview")).to_be_visible(timeout=30_000)


def _saved(nb: Notebook, table: Locator, label: str) -> tuple[str, bytes]:
    """What the browser downloads by that button: the file's name and bytes."""
    with nb.page.expect_download() as waiting:
        table.get_by_role("button", name=f"Save {label}").click()
    found = waiting.value
    return found.suggested_filename, Path(found.path()).read_bytes()


def _raw(folder: Path) -> str:
    """A server whose one resource has an evil name and three parts, and whose completions are no better."""
    listed = {"uri": HOSTILE, "name": "evil"}
    template = {"uriTemplate": "x://{id}", "name": "things"}
    parts = [
        {"uri": HOSTILE, "mimeType": "text/html", "blob": base64.b64encode(BYTES).decode()},
        {"uri": "x://b/page", "mimeType": "text/html", "text": "<script>alert(1)</script>"},
        {"uri": "x://b/page", "mimeType": "text/html", "text": "ü\ud800"},
    ]
    values = ["<img src=x onerror=alert(1)>", "two\nlines", "\u202eodd", 7, None, "plain", *["x" * 999] * 200]
    capabilities: dict[str, Any] = {"resources": {}, "completions": {}}
    info = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "r", "version": "1"}}
    replies = {
        "initialize": [info],
        "resources/list": [{"resources": [listed]}],
        "resources/templates/list": [{"resourceTemplates": [template]}],
        "resources/read": [{"contents": parts}],
        "completion/complete": [{"completion": {"values": values, "total": 1_000_000, "hasMore": True}}],
    }
    path = folder / "replies.json"
    path.write_text(json.dumps(replies))
    return f"%mcp connect raw -- {sys.executable} {SERVERS / 'raw.py'} {path}"


def test_a_preview_is_saved_byte_for_byte_under_a_harmless_name(notebook: Open, tmp_path: Path) -> None:
    nb = notebook(
        f"%load_ext workbench\n%mcp connect demo\n{_raw(tmp_path)}",
        f"%mcp connect awkward -- {sys.executable} {SERVERS / 'awkward.py'} --huge 21000000",
        "%mcp resources",
    )
    nb.run_all()
    table = nb.output(2)
    expect(table.get_by_role("grid")).to_be_visible()
    expect(table.get_by_role("status").first).to_contain_text("of")

    table.get_by_role("searchbox").fill("evil raw")
    _preview(table, "evil")
    buttons = table.get_by_role("button", name="Save ")
    expect(buttons).to_have_text(
        ["Save _.._etc__gnp.exe (768 B)", "Save page.html (25 B)", "Save page-2.html (5 B)"], use_inner_text=True
    )
    before = list(nb.page.context.pages)
    assert _saved(nb, table, "_.._etc") == ("_.._etc__gnp.exe", BYTES)
    expect(table.locator(".wb-note", has_text="went to the browser's downloads")).to_be_visible()
    assert _saved(nb, table, "page.html") == ("page.html", b"<script>alert(1)</script>")
    assert _saved(nb, table, "page-2") == ("page-2.html", "ü\ud800".encode(errors="surrogatepass"))
    assert nb.page.context.pages == before, "nothing was opened"
    nb.page.set_viewport_size({"width": 1280, "height": 1400})
    nb.cell(2).screenshot(path=SCREENSHOTS / "catalog-save.png")

    table.get_by_role("searchbox").fill("pdf demo")
    _preview(table, "pdf")
    pdf = next(DOCUMENTS.glob("*.pdf"))
    assert _saved(nb, table, "")[1] == pdf.read_bytes()

    table.get_by_role("searchbox").fill("files/huge awkward")
    _preview(table, "huge")
    expect(buttons).to_have_count(0)
    expect(table.locator(".wb-files")).to_have_text(
        "huge.txt (20.0 MB) is larger than the 20.0 MB that go to a page: %mcp read res://files/huge --save FILE"
    )
    saved = json.dumps(nb.save())
    assert base64.b64encode(BYTES).decode()[:40] not in saved and "alert(1)" not in saved
    assert (nb.errors, nb.foreign) == ([], [])


def test_fields_suggest_what_the_server_knows_and_a_filled_prompt_expands(notebook: Open, tmp_path: Path) -> None:
    nb = notebook(f"%load_ext workbench\n%mcp connect demo\n{_raw(tmp_path)}", "%mcp resources", "%mcp prompts")
    nb.run_all()
    table = nb.output(1)
    expect(table.get_by_role("grid")).to_be_visible()
    table.get_by_role("searchbox").fill("things raw")
    _row(table, "things").get_by_role("gridcell").nth(2).click()
    field = table.get_by_role("combobox", name="id")
    expect(field).to_be_focused()
    options = table.get_by_role("listbox", name="Suggested for id").get_by_role("option")
    expect(options.first).to_have_text("<img src=x onerror=alert(1)>")
    expect(options.nth(1)).to_have_text("plain")  # two lines, or turned about, cannot be typed
    expect(options).to_have_count(98)
    expect(table.locator(".wb-note", has_text="98 of 1,000,000 suggested for id")).to_be_visible()
    assert table.locator("img").count() == 0

    prompts = nb.output(2)
    _row(prompts, "summarize_ticket").get_by_role("gridcell").nth(2).click()
    field = prompts.get_by_role("combobox", name="ticket_id *")
    expect(field).to_be_focused()
    line = prompts.locator("code").first
    expect(line).to_have_text("Fill in ticket_id to get the line.")
    prompts.locator(".wb-buttons").get_by_role("button", name="Preview").click()
    expect(prompts.get_by_role("region", name="Preview")).to_contain_text('"name": "summarize_ticket"')
    field.press_sequentially("T-104", delay=20)
    options = prompts.get_by_role("listbox", name="Suggested for ticket_id").get_by_role("option")
    expect(options).to_have_text(["T-1041"])
    expect(field).to_have_attribute("aria-expanded", "true")
    field.press("Escape")
    expect(options).to_have_count(0)
    field.press("ArrowDown")
    expect(options).to_have_count(1)
    field.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    expect(field).to_have_attribute("aria-activedescendant", options.first.get_attribute("id") or "")
    nb.page.set_viewport_size({"width": 1280, "height": 1400})
    nb.cell(2).screenshot(path=SCREENSHOTS / "catalog-suggestions.png")
    field.press("Enter")
    expect(field).to_have_value("T-1041")
    expect(options).to_have_count(0)
    expect(line).to_have_text("%mcp prompt summarize_ticket ticket_id=T-1041")
    prompts.locator(".wb-buttons").get_by_role("button", name="Preview").click()
    preview = prompts.get_by_role("region", name="Preview")
    expect(preview).to_contain_text("Sum up this ticket in three sentences")
    expect(preview).to_contain_text('"id": "T-1041"')
    nb.page.set_viewport_size({"width": 1280, "height": 1400})
    nb.cell(2).screenshot(path=SCREENSHOTS / "catalog-prompt.png")
    assert (nb.errors, nb.foreign) == ([], [])


def test_the_page_fills_templates_as_python_does(browser: Browser) -> None:
    """The line that the page shows, and the URI that the kernel reads."""
    names = ["{v}", "{+v}", "{#v}", "{.v}", "{/v}", "{;v}", "{?v}", "{&v}", "{v:3}", "{+v:3}", "{w,v}", "{?w,v}"]
    values = [
        "4471",
        "a/b",
        "a b",
        "münchen",
        "東京/駅",
        "😀😀😀😀",
        "100%",
        "a%2Fb",
        "?#[]@!$&'()*+,;=",
        "%zz",
        "[1]",
        '"<>\\^`{|}',
    ]
    cases = [(f"docs://My Döcs/{name}/x", value) for name in names for value in values]
    source = (Path(workbench.widget.__file__).parent / "catalog.js").read_text()
    page = browser.new_page()
    try:
        found = page.evaluate(
            """async ([source, cases]) => {
                const { expand } = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
                return cases.map(([template, v]) => expand(template, { v }));
            }""",
            [source, cases],
        )
    finally:
        page.close()
    wanted = [catalog.fill(template.replace("{w,v}", "{v}"), {"v": value}) for template, value in cases]
    assert list(zip(cases, found, strict=True)) == list(zip(cases, wanted, strict=True))


def test_a_table_of_prompts_or_tools_says_what_it_holds_and_its_buttons_fit(notebook: Open) -> None:
    nb = notebook("%load_ext workbench\n%mcp connect demo", "%mcp prompts", "%mcp tools")
    nb.run_all()
    for index, noun in ((1, "prompts"), (2, "tools")):
        table = nb.output(index)
        expect(table.get_by_role("status").first).to_have_text(f"2 of 2 {noun}")
        expect(table.get_by_text("Enter or click: preview.", exact=True)).to_be_visible()
        cell = table.get_by_role("row").nth(1).get_by_role("gridcell").last
        expect(cell).to_contain_text("Preview")
        assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth")


def test_a_fifth_table_ends_the_first_which_says_so(notebook: Open) -> None:
    nb = notebook("%load_ext workbench\n%mcp connect demo", *["%mcp prompts"] * 5)
    nb.run_all()
    expect(nb.output(5).get_by_role("grid")).to_be_visible()
    expect(nb.output(2).get_by_role("grid")).to_be_visible()
    expect(nb.output(1)).to_contain_text("no longer live: only the 4 newest are. Run its cell again to click in it.")
    expect(nb.output(1)).to_contain_text("code (required), lines")
    expect(nb.output(1).get_by_role("grid")).to_have_count(0)
    nb.page.wait_for_timeout(6_000)  # longer than a page has to take a table over
    expect(nb.output(1).get_by_role("grid")).to_have_count(0)
    expect(nb.output(1)).to_contain_text("no longer live")
