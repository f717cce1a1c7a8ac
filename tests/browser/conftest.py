"""One JupyterLab and one Chromium for all tests of this folder, which all get the marker `browser`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.lab import Lab, Notebook, browser, lab_server, open_notebook, write_notebook

Open = Callable[..., Notebook]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)


# Not for the session: while Playwright is open this thread runs an event loop, and `asyncio.run` elsewhere would fail.
@pytest.fixture(scope="package", name="browser")
def _browser(chromium: str) -> Iterator[Browser]:
    with browser(chromium) as launched:
        yield launched


@pytest.fixture(scope="package")
def lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab on an empty folder; `chromium` first, so that nothing is started where a test is skipped."""
    with lab_server(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture
def notebook(browser: Browser, lab: Lab, request: pytest.FixtureRequest) -> Iterator[Open]:
    """`notebook(*cells, theme=..., kernel=...)` writes a new notebook and opens it; `path=` opens one that is there."""
    opened: list[Notebook] = []
    numbers = count(1)

    def open_one(
        *cells: str, path: str | None = None, theme: str = "JupyterLab Light", kernel: bool = True
    ) -> Notebook:
        if path is None:
            path = f"{request.node.originalname}-{next(numbers)}.ipynb"
            write_notebook(lab.root / path, *cells)
        opened.append(open_notebook(browser, lab, path, theme=theme, kernel=kernel))
        return opened[-1]

    yield open_one
    for nb in opened:
        nb.close()
