"""The clickable catalog: rows out, clicks in.

Rows never are a trait, because traits are saved in the notebook: they travel as messages, and once more when a
reloaded page asks for them. The saved notebook holds the static table that the caller supplies.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from ..catalog import CatalogRow
from ..content import Completion, clean
from ..saving import File

__all__ = ["Catalog", "CatalogRow"]

_CHUNK_ROWS = 2_000
_CHUNK_CHARACTERS = 1_000_000  # a message stays small even where each name has 100 kB
_CLICKS = ("attach", "detach", "preview")


class Catalog(anywidget.AnyWidget):
    """A virtualised table of rows that can be attached, detached and previewed by click or key.

    `act` is called with `{"kind": "attach"|"detach"|"preview", "key": str, "values": {variable: str}}` on whichever
    thread ipykernel delivers clicks (the main one from 7.4 on); what it raises is shown in the row. `static` is what
    the saved notebook shows instead: `{"text/html": ..., "text/plain": ...}`. The methods are for the main thread only.

    Raises `ValueError` when two rows have the same key.
    """

    _esm = Path(__file__).with_name("catalog.js")
    _css = Path(__file__).with_name("catalog.css")
    home = traitlets.Unicode().tag(sync=True)
    """Class of the element in whose place a page shows this widget, also where its view is not displayed."""
    settled = False
    """Whether a page has found `home`."""

    def __init__(
        self,
        rows: Sequence[CatalogRow],
        act: Callable[[dict[str, Any]], None],
        static: Mapping[str, str],
        home: str = "",
    ) -> None:
        super().__init__(home=home)
        self._act, self._static = act, dict(static)
        self._previewed: tuple[str, Sequence[File]] = ("", ())
        self.on_msg(self._clicked)
        self.replace(rows)

    def replace(self, rows: Sequence[CatalogRow]) -> None:
        """Show these rows and no others."""
        # Keyed by what the page knows the row by: a key with a lone surrogate cannot be sent as it is.
        self._rows = {clean(row.key): row for row in rows}
        if len(self._rows) < len(rows):
            msg = f"{len(rows) - len(self._rows)} of {len(rows)} rows have a key that another row has too"
            raise ValueError(msg)
        self._send_rows()

    def update(self, row: CatalogRow) -> None:
        """Replace the row with this key; add it at the end when there is none."""
        self._rows[clean(row.key)] = row
        self.send({"kind": "update", "row": _wire(row)})

    def preview(self, key: str, title: str, text: str, note: str = "", files: Sequence[File] = ()) -> None:
        """Show `text` beneath the table, as text; `note` says what was shortened, and by how much.

        `files` can be saved from there. Their bytes stay here until somebody asks for them, and until the next preview.
        """
        self._previewed = clean(key), files
        told = [[file.name, file.part.size, file.refused] for file in files]
        self.send(clean({"kind": "preview", "key": key, "title": title, "text": text, "note": note, "files": told}))

    def _save(self, content: Mapping[str, Any]) -> None:
        """The bytes of one file, to the page that asked: all that show this notebook hear it, and `token` tells them apart.

        Without bytes where there is no such file any more.
        """
        (key, files), number = self._previewed, content.get("number")
        chosen = [file for i, file in enumerate(files) if i == number and content.get("key") == key]
        buffers = [file.part.raw for file in chosen if not file.refused]
        self.send({"kind": "file", "token": str(content.get("token"))}, buffers=buffers)

    def working(self, key: str, text: str) -> None:
        """Say beneath the table what a row waits for; an empty text takes it away."""
        self.send(clean({"kind": "working", "key": key, "text": text}))

    def suggest(self, key: str, name: str, value: str, found: Completion) -> None:
        """Offer what a server suggests in the field `name` of a row, as long as it holds `value`."""
        # What cannot be typed cannot be chosen either: another string would be sent than was shown.
        shown = [option for option in found.values if option.isprintable()]
        total = max(found.total or 0, len(found.values)) if found.total is not None or not found.more else None
        self.send(
            clean({"kind": "suggest", "key": key, "name": name, "value": value, "options": shown, "total": total})
        )

    def notice(self, text: str) -> None:
        """One line for the person, read out by screen readers; an empty text takes it away."""
        self.send(clean({"kind": "notice", "text": text}))

    def _send_rows(self) -> None:
        start, total = 0, len(self._rows)
        for chunk in _chunks(map(_wire, self._rows.values())):
            self.send({"kind": "rows", "from": start, "total": total, "rows": chunk})
            start += len(chunk)

    def _clicked(self, _widget: object, content: Mapping[str, Any], _buffers: object) -> None:
        if content.get("kind") == "hello":  # a reloaded page: its model is new, ours is not
            self._send_rows()
            return
        if content.get("kind") == "settled":
            self.settled = True
            return
        if content.get("kind") == "save":
            self._save(content)
            return
        row = self._rows.get(content.get("key", ""))
        if (
            row is not None
            and content.get("kind") == "complete"
            and content.get("name") in list(map(clean, row.variables))
        ):
            with suppress(Exception):  # a suggestion that fails is none
                self._act({"kind": "complete", "key": row.key, **_given(row, content)})
            return
        if row is None or content.get("kind") not in _CLICKS:
            return
        try:
            self._act({"kind": content["kind"], "key": row.key, "values": _given(row, content)["values"]})
        except Exception as error:  # what a click callback raises reaches nobody; the row can tell
            self.update(replace(row, state="failed", reason=str(error) or type(error).__name__))
        self.send({"kind": "done", "key": content["key"]})

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        try:
            data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
            return {**data, **self._static}, metadata
        except Exception as error:
            # IPython swallows what a repr method raises.
            warnings.warn(f"the catalog could not be shown: {error!r}", RuntimeWarning, stacklevel=2)
            raise


def _given(row: CatalogRow, content: Mapping[str, Any]) -> dict[str, Any]:
    """What the fields of a row hold, by the names that the row has; and which of them is typed into."""
    given = content.get("values") or {}
    values = {name: str(given[clean(name)]) for name in row.variables if given.get(clean(name))}
    return {"values": values, "name": next((n for n in row.variables if clean(n) == content.get("name")), None)}


_values = attrgetter(*(field.name for field in fields(CatalogRow)))


def _wire(row: CatalogRow) -> list[Any]:
    return list(clean(_values(row)))


def _chunks(rows: Iterable[list[Any]]) -> Iterator[list[list[Any]]]:
    """At least one chunk, so that a page also learns that there are no rows."""
    chunk: list[list[Any]] = []
    characters = 0
    for row in rows:
        size = sum(len(item) for item in row if isinstance(item, str))
        if chunk and (len(chunk) == _CHUNK_ROWS or characters + size > _CHUNK_CHARACTERS):
            yield chunk
            chunk, characters = [], 0
        chunk.append(row)
        characters += size
    yield chunk
