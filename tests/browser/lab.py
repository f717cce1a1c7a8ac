"""A real JupyterLab in a real Chromium, driven from tests (Playwright's synchronous face).

    with lab_server(tmp_path) as lab, browser("/usr/bin/chromium") as chromium:
        write_notebook(lab.root / "demo.ipynb", "1 + 1")
        nb = open_notebook(chromium, lab, "demo.ipynb")
        nb.run_all()
        expect(nb.output(0)).to_contain_text("2")

No request leaves this machine: what tries to is in `foreign`.
"""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from playwright.sync_api import Browser, Error, Locator, Page, Route, sync_playwright

from tests.browser.server import Lab, lab_server

__all__ = [
    "DARK",
    "LIGHT",
    "SCREENSHOTS",
    "Lab",
    "Notebook",
    "browser",
    "lab_server",
    "open_notebook",
    "write_notebook",
]

SCREENSHOTS = Path(__file__).parents[2] / "build/screenshots"
LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"


@contextmanager
def browser(executable: str) -> Iterator[Browser]:
    """The Chromium at this path, without a display. While the block lasts, this thread runs an event loop."""
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable, args=arguments)
        try:
            yield launched
        finally:
            launched.close()


@dataclass(frozen=True, kw_only=True)
class Notebook:
    """A notebook that is open in a page of its own. Times out with Playwright's `TimeoutError`."""

    page: Page
    lab: Lab
    path: str
    errors: list[str] = field(default_factory=list)
    """Uncaught exceptions and console errors of the page."""
    foreign: list[str] = field(default_factory=list)
    """Addresses off this machine that the page wanted; none was let through."""

    def command(self, name: str, **arguments: Any) -> None:
        """Start a JupyterLab command by its id; does not wait for it."""
        self.page.evaluate("([name, args]) => { jupyterapp.commands.execute(name, args) }", [name, arguments])

    def run_all(self, seconds: float = 60) -> None:
        """Run all cells and wait until the last has ended, or one has raised."""
        self.page.evaluate(
            """() => { window.runAll = null; jupyterapp.commands.execute('notebook:run-all-cells')
                       .then(() => { window.runAll = 'done' }, error => { window.runAll = String(error) }) }"""
        )
        state = self.page.wait_for_function("window.runAll", timeout=seconds * 1000).json_value()
        assert state == "done", state

    def run_cell(self, index: int) -> None:
        """Start one cell; does not wait, so that a test can click while it runs."""
        self.page.evaluate("index => { panel.content.activeCellIndex = index }", index)
        self.command("notebook:run-cell")

    def save(self) -> dict[str, Any]:
        """Save, and give the notebook's JSON as it is on the disk."""
        self.page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
        saved: dict[str, Any] = json.loads((self.lab.root / self.path).read_text())
        return saved

    def cell(self, index: int) -> Locator:
        return self.page.locator(".jp-NotebookPanel:visible .jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int) -> Locator:
        """All outputs of a cell, with their prompts (`[2]:`)."""
        return self.cell(index).locator(".jp-Cell-outputArea")

    def screenshot(self, name: str) -> Path:
        """A picture of the window, as `build/screenshots/<name>.png`."""
        path = SCREENSHOTS / f"{name}.png"
        self.page.screenshot(path=path)
        return path

    def kernel_eval(self, expression: str, seconds: float = 10) -> Any:
        """The value, a literal, of a Python expression in the notebook's kernel; waits while a blocking cell runs."""
        (session,) = self.lab.sessions(self.path)
        client = BlockingKernelClient()
        client.load_connection_file(str(self.lab.home / f"runtime/kernel-{session['kernel']['id']}.json"))
        client.start_channels()
        try:
            wanted = {"value": f"repr({expression})"}
            reply = client.execute("", silent=True, user_expressions=wanted, reply=True, timeout=seconds)
        finally:
            client.stop_channels()
        value = reply["content"]["user_expressions"]["value"]
        assert value["status"] == "ok", f"{value['ename']}: {value['evalue']}"
        return ast.literal_eval(ast.literal_eval(value["data"]["text/plain"]))

    def wait_kernel(self, expression: str, expected: Any, seconds: float = 10) -> None:
        """Ask until the expression has this value: a click reaches the kernel a little later."""
        deadline = time.monotonic() + seconds
        while (found := self.kernel_eval(expression)) != expected:
            assert time.monotonic() < deadline, f"{expression} is {found!r}, not {expected!r}"
            self.page.wait_for_timeout(20)  # unlike time.sleep it lets the page's own events in

    def close(self) -> None:
        """Close the page and end its kernel, which would else greet the next page that opens this path."""
        self.page.context.close()
        self.lab.shut_down(self.path)


def open_notebook(browser: Browser, lab: Lab, path: str, *, theme: str = LIGHT, kernel: bool = True) -> Notebook:
    """Open a saved notebook in a fresh browser context and wait until it can be used.

    With `kernel=False` no kernel is started, as for a reader; else it is idle when this returns.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    nb = Notebook(page=context.new_page(), lab=lab, path=path)
    nb.page.set_default_timeout(30_000)
    _watch(nb)
    nb.page.goto(f"{lab.url}lab?reset", wait_until="domcontentloaded")
    nb.page.wait_for_function("window.jupyterapp !== undefined")
    nb.page.evaluate(_OPEN, [path, kernel])
    nb.page.locator(".jp-NotebookPanel:visible .jp-Notebook").wait_for()
    _dress(nb.page, theme)
    nb.page.wait_for_function(_USABLE, arg=kernel)
    nb.page.set_default_timeout(15_000)
    return nb


_OPEN = """async ([path, start]) => {
    const { commands, restored } = jupyterapp;
    await restored;
    const kernelPreference = start ? {} : { shouldStart: false, canStart: true, autoStartDefault: false };
    window.panel = await commands.execute('docmanager:open', { path, factory: 'Notebook', kernelPreference });
}"""
# Commands act on the current widget, and JupyterLab, while it starts, sometimes leaves none (1 of 15 on a busy machine).
_USABLE = """start => {
    const { shell } = jupyterapp;
    if (shell.currentWidget !== window.panel) { shell.activateById(window.panel.id); return false; }
    return !start || window.panel.sessionContext.session?.kernel?.status === 'idle';
}"""


def _dress(page: Page, theme: str) -> None:
    """The theme is a setting of the server, so every page says which it wants.

    It is asked for when the splash has gone: JupyterLab takes a splash that is shown again while it fades away twice,
    which is an uncaught error.
    """
    splash = page.locator("#jupyterlab-splash")
    splash.wait_for(state="detached")
    page.evaluate(
        """theme => document.body.dataset.jpThemeName === theme
                    || jupyterapp.commands.execute('apputils:change-theme', { theme })""",
        theme,
    )
    page.wait_for_function("theme => document.body.dataset.jpThemeName === theme", arg=theme)
    splash.wait_for(state="detached")


def _watch(nb: Notebook) -> None:
    def refuse(route: Route) -> None:
        nb.foreign.append(route.request.url)
        route.abort()

    nb.page.context.route(lambda url: not url.startswith((nb.lab.url, "data:", "blob:")), refuse)

    def note(error: Error) -> None:
        # ipywidgets' own, in every notebook without a kernel: it asks the session that is not there for its kernel.
        if "(reading 'kernel')" not in error.message or "/jupyterlab-manager/static/" not in (error.stack or ""):
            nb.errors.append(str(error))

    nb.page.on("pageerror", note)
    nb.page.on("console", lambda message: nb.errors.append(message.text) if message.type == "error" else None)


def write_notebook(path: Path, *cells: str) -> None:
    """Write a notebook of these code cells, for the `python3` kernel."""
    fresh: dict[str, Any] = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    made = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "cells": [{**fresh, "id": f"cell-{index}", "source": source} for index, source in enumerate(cells)],
    }
    path.write_text(json.dumps(made))
