"""The live view of one running turn: events out in frames, answers and Stop in.

When the turn has ended the caller replaces it by static HTML and closes it; nothing of it is saved.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anywidget

from ..content import clean

__all__ = ["Trace"]

FRAME = 0.05
"""Seconds between two messages: Jupyter's server drops what exceeds 1,000 messages a second."""


class Trace(anywidget.AnyWidget):
    """Rows, the streamed answer, and questions to a person.

    `answer(id, "approve" | "deny", reason)` is called once for each question, `stop()` for each press of Stop.
    `form(id, "accept" | "decline" | "cancel", values)` is called for a server's request, again if it raised.
    All arrive on whichever thread ipykernel delivers clicks (a subshell's from 7.0 to 7.3, the main one from 7.4 on),
    so the callers hop to their own loop with `call_soon_threadsafe`; what they raise is shown in the widget.
    """

    _esm = Path(__file__).with_name("trace.js")
    _css = Path(__file__).with_name("trace.css")

    def __init__(
        self,
        answer: Callable[[str, str, str], None],
        stop: Callable[[], None],
        form: Callable[[str, str, list[Any]], None] = lambda *_: None,
    ) -> None:
        super().__init__()
        self._answer, self._stop, self._form = answer, stop, form
        self._queue: list[dict[str, Any]] = []
        self._sent: list[dict[str, Any]] = []
        self._rows: dict[str, int] = {}
        self._asked: dict[str, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._lock = threading.Lock()  # a page's hello may come on another thread than the events
        self.on_msg(self._clicked)

    def event(self, message: Mapping[str, Any]) -> None:
        """Queue one event for the next frame. One of these, JSON throughout:

        - `{"kind": "row", "id", "depth", "label", "actor", "status", "seconds", "figures"}`: inserts or replaces by id;
          `seconds` is `None` while open, `figures` is text such as "700 bytes, 156 tokens";
        - `{"kind": "text", "text"}`: more of the answer;
        - `{"kind": "ask", "id", "title", "server", "tool", "arguments", "why"}`: a question;
          `arguments` is the whole JSON, indented, as one string;
        - `{"kind": "form", "id", "title", "facts", "text", "url", "host", "yes", "fields"}`: a request. `facts` is a list of
          (name, value), `text` what there is to look through, `yes` the word on the button, and each field has "label",
          "about", "required", "type", "choices" (titles) and "value": a text, or where there are choices their numbers;
        - `{"kind": "answered", "id", "verdict"}`: the question is settled, whoever settled it.

        Call it in the thread of the running loop; with no running loop each event is sent at once.
        """
        last = self._queue[-1] if self._queue else None
        if last and last["kind"] == message["kind"] == "text":
            last["text"] += message["text"]
        else:
            self._queue.append(dict(message))
        self._note(message)
        self._schedule()

    def flush(self) -> None:
        """Send what is queued now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        with self._lock:
            events, self._queue = clean(self._queue), []
            if events:
                for event in events:
                    self._keep(event)
                # `from` lets a page that was reloaded in between see that it missed something.
                self.send({"kind": "batch", "from": len(self._sent) - len(events), "events": events})

    def _keep(self, event: dict[str, Any]) -> None:
        """For a page that is reloaded. Of a row only the last snapshot, where the first one was: a long call has thousands."""
        at = self._rows.setdefault(event["id"], len(self._sent)) if event["kind"] == "row" else len(self._sent)
        self._sent.append(event if at == len(self._sent) else {"kind": "row before"})  # a page counts what it was sent
        self._sent[at] = event

    def close(self) -> None:
        """Take the widget off the page; what is still queued is dropped."""
        self._queue = []
        self.flush()
        super().close()

    def _note(self, message: Mapping[str, Any]) -> None:
        if message["kind"] in ("ask", "form"):
            self._asked[clean(message["id"])] = message["id"]
        elif message["kind"] == "answered":
            self._asked.pop(clean(message["id"]), None)

    def _schedule(self) -> None:
        if self._timer is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
        else:
            self._timer = loop.call_later(FRAME, self.flush)

    def _clicked(self, _widget: object, content: Mapping[str, Any], _buffers: object) -> None:
        kind, question = content.get("kind"), content.get("id")
        if kind == "hello":  # a reloaded page: its model is new, ours is not
            with self._lock:
                self.send({"kind": "batch", "from": 0, "events": list(self._sent)})
        elif kind == "stop":
            self._try(self._stop, None)
        elif kind in ("approve", "deny") and question in self._asked:
            # Popped first: a second click, or a second view of the same widget, cannot answer again.
            identity, reason = self._asked.pop(question), str(content.get("reason") or "")
            if not self._try(lambda: self._answer(identity, kind, reason), question):
                self._asked[question] = identity
        elif kind in ("accept", "decline", "cancel") and question in self._asked:
            identity, values = self._asked.pop(question), content.get("values")
            if not self._try(lambda: self._form(identity, kind, values if isinstance(values, list) else []), question):
                self._asked[question] = identity

    def _try(self, callback: Callable[[], None], question: str | None) -> bool:
        try:
            callback()
        except Exception as error:  # what a click callback raises reaches nobody; the widget can tell
            self.send(clean({"kind": "failed", "id": question, "text": str(error) or type(error).__name__}))
            return False
        return True
