"""Who decides on the servers' own tools."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Literal

from .calls import Call, Gate, Verdict
from .errors import UsageError
from .loop import apart
from .recorder import Recorder

__all__ = ["Approve", "check", "gate"]

Approve = Literal["ask", "all", "none"] | Callable[[Call], "bool | Awaitable[Verdict]"]


def check(approve: Approve) -> None:
    """Raise `UsageError` for what is no way to approve."""
    if approve not in ("ask", "all", "none") and not callable(approve):
        raise UsageError(f"approve={approve!r} is not known; it is ask, all, none, or a function that gets the call")


def gate(approve: Approve, recorder: Recorder) -> Gate:
    """Who decides on the servers' own tools; a span only where somebody is asked, for the seconds that takes."""

    async def decide(call: Call) -> Verdict:
        if approve == "all":
            return Verdict(True, "user", "approve all")
        if not callable(approve):
            why = "this turn runs without any" if approve == "none" else "nobody is there to be asked"
            reason = f"{call.tool} is a tool of the server {call.server}, and {why}"
            return Verdict(False, "host", f"approve {approve}", reason)
        with recorder.span("gate", call.tool, "user", server=call.server) as span:
            # On a thread of its own: it may ask with `input()`, or read through this session.
            said = await apart(approve, call)
            verdict = await said if inspect.isawaitable(said) else said
            if isinstance(verdict, bool):
                verdict = Verdict(verdict, "user", "asked", "" if verdict else "the user said no")
            if not isinstance(verdict, Verdict):
                raise UsageError(f"the approve function must answer True or False; it answered {verdict!r}")
            span.set(actor=verdict.actor, status="ok" if verdict.allow else "refused")
            span.note(rule=verdict.rule, reason=None if verdict.allow else verdict.reason)
        return verdict

    return decide
