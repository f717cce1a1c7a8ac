"""A model's answer, which may quote a hostile server, from Markdown to HTML that can do nothing."""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["render"]

_TABLE = "mistune.plugins.table"
_PLUGINS = ["table", f"{_TABLE}.table_in_quote", f"{_TABLE}.table_in_list", "strikethrough"]
_SAFE = ("http://", "https://", "mailto:", "#")


@cache
def _parser() -> Any:
    import mistune

    class Renderer(mistune.HTMLRenderer):
        def image(self, text: str, url: str, title: str | None = None) -> str:
            # An image would be fetched as soon as the notebook is opened: its address could carry what was read.
            return self.link(f"image: {text or mistune.escape(url)}", url, title)

        def table_cell(self, text: str, align: str | None = None, head: bool = False) -> str:
            # JupyterLab would align text to the right, as if it were figures.
            tag = "th" if head else "td"
            return f'<{tag} style="text-align:{align or "left"}">{text}</{tag}>\n'

        def sanitize_url(self, url: str) -> str:
            return url if url.strip().lower().startswith(_SAFE) else "#not-a-web-address"

    return mistune.create_markdown(renderer=Renderer(escape=True), plugins=_PLUGINS)


def render(text: str) -> str:
    """Markdown as HTML: raw HTML is shown as text, images become links, other schemes than http(s) and mailto are cut."""
    return str(_parser()(text))
