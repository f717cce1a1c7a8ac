"""How the demo model says it: quotations in Markdown, and honest words where there is nothing to quote."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from workbench.demo.context import FIND, READ, Call, Document, Entry, Turn, is_companion
from workbench.demo.passages import Passage
from workbench.demo.tools import Tools
from workbench.ranking import words

__all__ = ["Quote", "answer", "failed", "nothing"]

WHO = "the demo model, a word search and not a language model"


class Quote(NamedTuple):
    """A passage, and what the catalog says of the document that it is from."""

    document: Document
    entry: Entry | None
    passage: Passage

    @property
    def title(self) -> str:
        return f"{self.entry.uri} {self.entry.name}" if self.entry else self.document.uri

    @property
    def words(self) -> list[str]:
        """All that it may count as matching by: its own words, and those by which its document is offered."""
        return words(" ".join([self.entry.text if self.entry else self.document.uri, *self.passage]))


def _code(uri: str) -> str:
    """A URI as a Markdown code span, whatever is in it."""
    fence = "`" * (max(map(len, re.findall("`+", uri)), default=0) + 1)
    return f"{fence}{uri}{fence}" if len(fence) == 1 else f"{fence} {uri} {fence}"


def _quoted(text: str, mime: str | None = None) -> str:
    """A Markdown quotation; what is known to be no Markdown is fenced, or its lines would run together."""
    if mime and "markdown" not in mime and "\n" in text:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        text = f"{fence}\n{text}\n{fence}"
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def failed(now: Turn) -> str:
    """What each call that failed was, and what was said of it."""
    told = [f"{_doing(call)} failed:\n\n{_quoted(said)}" for call, said in now.failures]
    return "\n\n".join([*told, f"This is said by {WHO}."])


def _doing(call: Call) -> str:
    verb = "Calling" if is_companion(call.name) else "Searching for" if call.name == FIND else "Reading"
    return f"{verb} {_code(call.subject)}"


def answer(quotes: Iterable[Quote], tools: Tools) -> str:
    """The passages, each under the URI that it is from."""
    by_uri: dict[str, list[str]] = {}
    for document, _, passage in quotes:
        by_uri.setdefault(document.uri, []).append(_quoted(passage.text, document.mime))
    parts = [f"From {_code(uri)}:\n\n" + "\n\n…\n\n".join(texts) for uri, texts in by_uri.items()]
    missed = f" {_missed(tools.miss)}" if tools.miss is not None else ""
    return "\n\n".join(parts) + f"\n\nQuoted by {WHO}.{missed}"


def _missed(part: float) -> str:
    return (
        f"I called no tool for this: I am set to call none on {100 * part:.3g}% of the turns that need one (simulated)."
    )


def nothing(now: Turn, tools: Tools, best: str | None, callable_: bool) -> str:
    """Why there is no answer; `best` is what matches best, and `callable_` whether nothing was missing to call for it."""
    if read := now.called(READ):
        found = f"I read {_code(read[-1].subject)}, and nothing in it matches the question."
    elif now.companion:
        answered = (
            f"answered with a link to {_code(now.link.subject)}, but I was given no tool to read it."
            if now.link
            else ""
        )
        found = f"{_code(now.companion.name)} {answered or 'answered, and nothing in it matches the question.'}"
    elif best and not callable_:
        found = f"{_code(best)} matches best, but needs a value: put the number into the question, as in 'customer 12'."
    elif tools.miss is not None:
        found = f"{f'{_code(best)} matches best. ' if best else ''}{_missed(tools.miss)}"
    elif best:
        found = f"{_code(best)} matches best, but I was given no tool to read it."
    else:
        found = f"Nothing matches the question, {_looked(now, tools)}."
    limits = f"I quote what shares words with a question, call no tool but {_names(now, tools)}, and know nothing else."
    return f"{found} I am {WHO}: {limits}"


def _looked(now: Turn, tools: Tools) -> str:
    entries = f"{len(now.entries)} catalog entries that I was shown"
    searched = "".join(f" or found for {_code(call.subject)}" for call in now.called(FIND))
    companions = f", the {len(tools.companions)} tools that stand for resources," if tools.companions else ""
    return f"in the {entries}{searched}{companions} or attached"


def _names(now: Turn, tools: Tools) -> str:
    also = [_code(FIND)] * tools.find + ["those whose names end in `-tool`"] * bool(tools.companions)
    return ", ".join([_code(READ), *also[:-1]]) + (f" and {also[-1]}" if also else "")
