"""Spans: everything the workbench does is one, everything it shows is a fold over them.

A span is emitted when it opens and again when it closes (and in between when it learns something worth showing). The
last snapshot of an id wins, the order of first arrival is the order of display.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Literal

from .content import visible

Kind = Literal["turn", "model", "tool", "read", "attach", "prompt", "gate", "request", "connect"]
Actor = Literal["user", "host", "model"]
Status = Literal["open", "ok", "error", "refused", "cancelled", "waiting"]
JSON = Any  # None, bool, int, float, str, list, dict: what json.dumps takes

__all__ = ["JSON", "Actor", "Kind", "Span", "Status", "Usage", "fold", "sentence", "tree"]


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens as the *provider* reported them. `None` is "not reported", which is not the same as 0."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """The part of `input_tokens` that the provider served from its prompt cache."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """One thing that happened: a turn, a provider call, a read, an attachment, a prompt, a tool call, a question to a person.

    `request` is a server asking for a form, a page to open or a model's answer; its actor is who decided. `attach` is content
    put into a turn without a new request (it was read before); `detail` never holds content, only its size, its SHA-256 and
    where it came from.
    """

    id: str
    parent: str | None
    turn: int | None
    """The number of the turn it belongs to; `None` for what happened outside one (connecting, a read by a magic)."""
    kind: Kind
    name: str
    """Model id, tool name, prompt name, URI or server name."""
    actor: Actor
    started: float
    """Unix seconds, UTC."""
    seconds: float | None = None
    """`None` while open."""
    status: Status = "open"
    usage: Usage | None = None
    detail: Mapping[str, JSON] = field(default_factory=dict)

    def to_json(self) -> dict[str, JSON]:
        """A dict that `json.dumps` takes and `from_json` reads back."""
        # Not `asdict`, which copies all that is below: a replay writes thousands.
        usage = asdict(self.usage) if self.usage else None
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"usage": usage}

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> Span:
        """The inverse of `to_json`; raises `TypeError` when a field is missing or unknown."""
        usage = data.get("usage")
        return cls(**{**data, "usage": Usage(**usage) if usage else None})


def fold(snapshots: Iterable[Span]) -> tuple[Span, ...]:
    """The latest snapshot of every span, in the order in which the spans first arrived."""
    latest: dict[str, Span] = {}
    for span in snapshots:
        latest[span.id] = span
    return tuple(latest.values())


def tree(spans: Iterable[Span]) -> Iterator[tuple[int, Span]]:
    """Depth and span, parents before children; a span whose parent is not among them counts as a root."""
    spans = tuple(spans)
    known = {span.id for span in spans}
    children: dict[str | None, list[Span]] = {}
    for span in spans:
        parent = span.parent if span.parent in known and span.parent != span.id else None
        children.setdefault(parent, []).append(span)
    pending = [(0, span) for span in reversed(children.get(None, []))]
    while pending:
        depth, span = pending.pop()
        yield depth, span
        pending += [(depth + 1, child) for child in reversed(children.get(span.id, []))]


def _figures(span: Span) -> str:
    parts = []
    if span.seconds is not None:
        parts.append(f"{span.seconds * 1000:.0f} ms" if span.seconds < 1 else f"{span.seconds:.2f} s")
    if (size := span.detail.get("bytes")) is not None:
        parts.append(f"{size:,} bytes")
    return f" ({', '.join(parts)})" if parts else ""


def _decision(span: Span) -> str:
    """What became of a model's request, and by whose decision: a tool's a person may have made, all others the host."""
    who, rule = span.detail.get("decided_by", "host"), span.detail.get("rule")
    by = f" (rule {visible(str(rule))})" if rule else ""
    if span.status in ("open", "waiting", "cancelled") and not rule:
        return "it was cancelled before it was decided" if span.status == "cancelled" else "it is not decided yet"
    end = {
        "refused": "refused it", "error": "allowed it and it failed", "cancelled": "allowed it and it was cancelled",
        "open": "allowed it and it is not done yet", "waiting": "allowed it and it is not done yet",
    }.get(span.status, "allowed it")  # fmt: skip
    return f"{who} {end}{by}"


def _settled(span: Span) -> str:
    """What became of a server's own request."""
    if span.status in ("open", "waiting"):
        return "it is not answered yet"
    if span.status in ("ok", "refused"):
        reason = span.detail.get("reason")
        why = f" ({visible(str(reason))})" if reason else ""
        return f"{span.actor} {'accepted' if span.status == 'ok' else 'refused'} it{why}"
    return "it was cancelled" if span.status == "cancelled" else f"it failed: {visible(str(span.detail.get('error')))}"


def sentence(span: Span) -> str:
    """The audit row of a span: who decided what, when, and by which rule.

    After "Application-controlled resources and model-controlled tools": a host's read closes the question "why was
    this in the context" by itself, a model's request names an actor whose reasons are not in the log.
    """
    at = datetime.fromtimestamp(span.started, UTC).strftime("%H:%M:%SZ")
    # On one line, and in quotes where it holds blanks: a URI that the model made up could pose as a row, or as its end.
    name = repr(shown) if " " in (shown := visible(span.name)) else shown
    turn = f" for turn {span.turn}" if span.turn is not None else ""
    if span.kind == "request":
        server = visible(str(span.detail.get("server") or "unknown"))
        return f"server {server} asked for {shown} at {at}{turn}; {_settled(span)}{_figures(span)}"
    verb = {
        "read": "read", "attach": "attached", "prompt": "used prompt", "tool": "called", "model": "called model",
        "gate": "decided on", "connect": "connected", "turn": "asked",
    }[span.kind]  # fmt: skip
    if span.actor == "model" and span.kind in ("read", "prompt", "tool"):
        return f"model requested {name} at {at}{turn}; {_decision(span)}{_figures(span)}"
    failed = "" if span.status == "ok" else f", {span.status}"
    why = f" (rule {visible(str(rule))})" if span.kind == "attach" and (rule := span.detail.get("rule")) else ""
    return f"{span.actor} {verb} {name} at {at}{turn}{why}{failed}{_figures(span)}"
