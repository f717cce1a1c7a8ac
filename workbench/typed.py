"""Answering a server's request by typing, where a cell blocks: no click arrives then, but the kernel's `input()` works."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .content import harmless, visible
from .errors import UsageError
from .forms import Field, Request, checked
from .view import text

if TYPE_CHECKING:
    from .sessions import Session

__all__ = ["Typist"]

_ACTIONS = {
    "a": "accept",
    "accept": "accept",
    "y": "accept",
    "yes": "accept",
    "c": "cancel",
    "cancel": "cancel",
} | dict.fromkeys(("d", "decline", "n", "no"), "decline")


class Typist:
    """Asks for each request once. Called on the main thread, between two slices of its waiting."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seen: set[str] = set()

    def __call__(self) -> None:
        for request in self._session.pending:
            if request.id not in self._seen:
                self._seen.add(request.id)
                self._ask(request)

    def _ask(self, request: Request) -> None:
        print(text.request(request, self._session.mask))
        values: dict[str, Any] = {}
        try:
            while (action := _ACTIONS.get(input("Accept, decline or cancel? [a/d/c] ").strip().lower())) is None:
                pass
            if action == "accept":
                values = {each.name: _value(each, self._session.mask) for each in request.fields}
        except (EOFError, NotImplementedError):  # what IPython raises where no input can be asked for is one
            action = "decline"
        try:
            self._session.answer(request.id, values, action=action)  # type: ignore[arg-type]
        except UsageError as error:  # it was withdrawn while the person was typing
            print(harmless(str(error)))


def _value(field: Field, mask: Callable[[str], str]) -> Any:
    """Asked again until the form takes it. What is left empty has the default, or is left out."""
    while True:
        typed = input(f"{visible(mask(field.label))}: ")
        value = field.default if not typed.strip() else typed
        try:
            return checked([field], {field.name: value}).get(field.name, "")
        except UsageError as error:
            print(harmless(mask(str(error))))
