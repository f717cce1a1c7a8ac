"""What a person does when a server asks back in the middle of a turn: fills in, opens, allows, says no, stops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, expect

from tests.browser.conftest import Open
from tests.browser.lab import DARK, SCREENSHOTS, Notebook
from tests.servers import HERE

ROOT = Path(__file__).parents[2]
COLOURS = [{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}, {"const": "#00f", "title": "Blue"}]
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "title": "City", "description": "Where to?", "minLength": 2},
        "days": {"type": "integer", "title": "Days", "minimum": 1, "maximum": 30, "default": 3},
        "mail": {"type": "string", "format": "email"},
        "window": {"type": "boolean", "title": "A seat at the window"},
        "seat": {"type": "string", "oneOf": COLOURS, "title": "Colour of the seat", "default": "#0f0"},
        "extras": {"type": "array", "items": {"anyOf": COLOURS}, "title": "Extras", "default": ["#00f"]},
        "__proto__": {"type": "string", "title": "<img src=x onerror=alert(1)>"},
        "a\u202eb": {"type": "string"},
    },
    "required": ["city", "window"],
}
SETUP = f"""\
import os, sys
os.environ["PYTHONPATH"] = {str(ROOT)!r}
sys.path.insert(0, {str(ROOT)!r})
%load_ext workbench
%mcp connect s --env PYTHONPATH -- python {HERE / "asking.py"}
import workbench
from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
wb = workbench.session()
def calls(name, *more, **args):
    wb.model = Scripted(replies=[Reply(calls=(Call(id="r1", name="s__" + name, args=args),)), *more, Reply(text="Done.")])"""


def _cells(*calls: str) -> list[str]:
    return [cell for call in calls for cell in (call, "%%agent --approve all --new\ngo")]


def _ask(nb: Notebook, index: int) -> Locator:
    """Run a call's two cells until its request is shown; the request's card."""
    nb.run_cell(index)
    nb.run_cell(index + 1)
    card = nb.output(index + 1).get_by_role("group", name="Request of the server s")
    expect(card).to_be_visible()
    return card


def _said(nb: Notebook, index: int) -> Any:
    expect(nb.output(index + 1)).to_contain_text("Done.")
    return nb.kernel_eval("wb.turns[-1].messages[2].content")


def test_a_person_answers_what_servers_ask_by_clicks(notebook: Open) -> None:
    raw = f"calls('raw_form', schema={SCHEMA!r}, message='Book a trip <b>now</b>')"
    nb = notebook(
        SETUP,
        *_cells(raw, "calls('page')", "calls('think', Reply(text='Waves.'))", "calls('book')", "calls('book')"),
        theme=DARK,
    )
    nb.run_cell(0)

    card = _ask(nb, 1)
    expect(card).to_contain_text("s asks: Book a trip <b>now</b>")
    expect(card).to_contain_text("Never give it a password")
    expect(card).to_contain_text("<img src=x onerror=alert(1)>")
    expect(card).to_contain_text("a⟨U+202E⟩b")
    expect(card.get_by_label("Days", exact=True)).to_have_value("3")
    assert card.evaluate("card => !card.contains(document.activeElement)")
    card.get_by_role("button", name="Submit").click()
    expect(card).to_contain_text("That failed: City: it is required; A seat at the window: it is required")
    card.get_by_label("City").fill("Rome")
    card.get_by_label("mail").fill("ada")
    card.get_by_label("A seat at the window").select_option("yes")
    card.get_by_label("Colour of the seat").select_option("Red")
    card.get_by_label("Green", exact=True).check()
    card.get_by_label("<img").fill("v")
    card.get_by_label("b", exact=False).last.fill("w")
    card.get_by_role("button", name="Submit").click()
    expect(card).to_contain_text("That failed: mail: it must be an e-mail address")
    card.screenshot(path=SCREENSHOTS / "request-form.png")
    card.get_by_label("mail").fill("ada@example.org")
    card.get_by_role("button", name="Submit").click()
    assert json.loads(_said(nb, 1)) == {
        "action": "accept",
        "content": {
            "city": "Rome", "days": 3, "mail": "ada@example.org", "window": True, "seat": "#f00",
            "extras": ["#0f0", "#00f"], "__proto__": "v", "a\u202eb": "w",
        },
    }  # fmt: skip
    expect(nb.output(2)).to_contain_text("server asks for a form")

    card = _ask(nb, 3)
    expect(card.locator("code b")).to_have_text("pay.example")
    card.screenshot(path=SCREENSHOTS / "request-page.png")
    link = card.get_by_role("link", name="Open pay.example")
    assert link.get_attribute("rel") == "noopener noreferrer"
    assert link.get_attribute("href") == "https://pay.example/cart?id=7"
    assert not nb.foreign
    with nb.page.context.expect_page() as opened:
        link.click()
    assert opened.value.evaluate("window.opener") is None
    opened.value.close()
    assert _said(nb, 3) == "accept"

    card = _ask(nb, 5)
    expect(card).to_contain_text("The tokens are yours")
    expect(card.get_by_role("region")).to_contain_text("A line on the sea")
    card.screenshot(path=SCREENSHOTS / "request-sample.png")
    card.get_by_role("button", name="Approve").click()
    assert _said(nb, 5) == "scripted: Waves. (endTurn)"
    expect(nb.output(6)).to_contain_text("provider call 2 scripted for server s")

    card = _ask(nb, 7)
    card.get_by_role("button", name="Decline").click()
    assert _said(nb, 7) == "decline"

    _ask(nb, 9)
    nb.output(10).get_by_role("button", name="Stop").click()
    expect(nb.output(10)).to_contain_text("Stopped: the turn was stopped", timeout=3_000)
    nb.wait_kernel("wb.pending", [])
    assert nb.errors == []
    saved = nb.save()
    assert "Rome" not in json.dumps([cell["outputs"] for cell in saved["cells"]])
