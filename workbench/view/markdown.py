"""A model's answer, which may quote a hostile server, from Markdown to HTML that can do nothing."""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["render"]

_SAFE = ("http://", "https://", "mailto:", "#")


@cache
def _parser() -> Any:
    import mistune

    class Renderer(mistune.HTMLRenderer):
        def image(self, text: str, url: str, title: str | None = None) -> str:
            # An image would be fetched as soon as the notebook is opened: its address could carry what was read.
            return self.link(f"image: {text or mistune.escape(url)}", url, title)

        def safe_url(self, url: str) -> str:
            return mistune.escape(url) if url.strip().lower().startswith(_SAFE) else "#not-a-web-address"

    return mistune.create_markdown(renderer=Renderer(escape=True), plugins=["table", "strikethrough"])


def render(text: str) -> str:
    """Markdown as HTML: raw HTML is shown as text, images become links, other schemes than http(s) and mailto are cut."""
    return str(_parser()(text))
