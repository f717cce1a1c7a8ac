"""What a person sees of a content: JSON indented, tables as tables, Markdown rendered, all else as text. Never as markup."""

from __future__ import annotations

import csv
import json
import shlex
from typing import Any

from ..content import Content, Part, harmless, one_line, visible
from ..media import BY_A_PERSON, Shown, human_size, shown
from . import html, text

__all__ = ["PREVIEW", "bundle", "plain"]

PREVIEW = 20_000
"""Characters of a part that are shown to a person; how many more there are is said."""
_ROWS, _COLUMNS, _CELL = 100, 30, 200  # of a table
_PARSED = 5_000_000  # characters of JSON up to which it is indented


def plain(content: Content) -> tuple[str, str]:
    """A content as text, and what was left out of it or has to be said about it."""
    parts = [_part(part, _saving(content.uri)) for part in content.parts]
    several = len(parts) > 1
    texts = [f"{part['head']}\n{part['plain']}" if several else str(part["plain"]) for part in parts]
    return "\n\n".join(texts), "; ".join(note for part in parts for note in part["notes"])


def bundle(content: Content) -> dict[str, str]:
    """A content as HTML and as text, each part apart under its own URI and type."""
    parts = [_part(part, _saving(content.uri)) for part in content.parts]
    more = f"; all of it: workbench.session().read({content.uri!r})"
    for part in parts:
        part["note"] = "; ".join(part["notes"]) + (more if part["cut"] else "")
    blocks = [part["head"] + "\n" if len(parts) > 1 else "" for part in parts]
    noted = [f"\n[{part['note']}]" if part["note"] else "" for part in parts]
    said = [f"{head}{part['plain']}{note}" for head, part, note in zip(blocks, parts, noted, strict=True)]
    return {
        "text/html": html.content(parts),
        "text/plain": "\n\n".join(said) or "[The server answered with no content.]",
    }


def _saving(uri: str) -> str:
    """What to type to save it: a magic line where one can spell the URI."""
    if uri and harmless(one_line(uri)) == uri:
        return f"save it to a file: %mcp read {shlex.quote(uri)} --save FILE"
    return f"save it to a file: workbench.session().read({uri!r}).save('FILE')"


def _part(part: Part, saving: str) -> dict[str, Any]:
    """`head`, `plain`, `notes` (what was left out or has to be said), `cut`, and for HTML `table` or `markdown`."""
    said = shown(part)
    if isinstance(part.data, bytes) and said.text.endswith(end := f"{BY_A_PERSON}.]"):
        said = said._replace(text=f"{said.text.removesuffix(end)}{saving}]")
    found: dict[str, Any] = {
        "head": f"{visible(part.uri)} ({visible(part.mime or 'type not stated')}, {human_size(part.size)})",
        "notes": [visible(said.note, 1000)] if said.note else [],
        "cut": False,
    }
    if said.best == "csv" and (table := _table(said.text, "\t" if "tab-" in (part.mime or "") else ",")):
        return found | table | {"notes": found["notes"] + table["notes"]}
    whole = _indented(said)
    if len(whole) > PREVIEW:
        found["notes"].append(f"{len(whole) - PREVIEW:,} of {len(whole):,} characters are not shown here")
        found["cut"] = True
    found["plain"] = harmless(whole[:PREVIEW])
    if said.best == "markdown" and not found["cut"]:
        found["markdown"] = found["plain"]
    return found


def _indented(said: Shown) -> str:
    if said.best != "json" or len(said.text) > _PARSED:
        return said.text
    try:
        return json.dumps(json.loads(said.text), indent=1, ensure_ascii=False)
    except (ValueError, RecursionError):
        return said.text


def _table(whole: str, delimiter: str) -> dict[str, Any] | None:
    """The first rows and columns; `None` where it is no table."""
    try:
        rows = list(csv.reader(whole[: 100 * PREVIEW].splitlines(), delimiter=delimiter))
    except csv.Error:
        return None
    rows = [row for row in rows if row]
    if len(rows) < 2 or len(rows[0]) < 2:
        return None
    width = max(map(len, rows))
    shown_rows = [[visible(one_line(cell), _CELL) for cell in row[:_COLUMNS]] for row in rows[: _ROWS + 1]]
    head, *body = [row + [""] * (min(width, _COLUMNS) - len(row)) for row in shown_rows]
    lines = len(rows) if len(whole) <= 100 * PREVIEW else whole.count("\n")
    notes = [f"{len(body):,} of {lines - 1:,} rows are shown here"] if lines - 1 > len(body) else []
    notes += [f"{_COLUMNS} of {width:,} columns are shown here"] if width > _COLUMNS else []
    return {
        "plain": text.table([cell or " " for cell in head], body), "table": [head, *body], "notes": notes, "cut": bool(notes),
    }  # fmt: skip
