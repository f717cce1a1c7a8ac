"""DataFrames: the same spans for those who count."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .. import ledger
from ..span import Span

if TYPE_CHECKING:
    import pandas

    from ..compare import Run

__all__ = ["carried", "comparison", "composition", "spans"]

_DETAIL = (
    "server",
    "bytes",
    "tokens",
    "counter",
    "mime",
    "rule",
    "wait_seconds",
    "decode_seconds",
    "render_seconds",
    "sha256",
    "error",
)


def spans(spans: Iterable[Span]) -> pandas.DataFrame:
    """One row a span: what, who, when (UTC), seconds, bytes and tokens. Tokens of a read are counted by `counter`;
    `input_tokens` and `output_tokens` are the provider's own. Unknown is missing, never 0."""
    import pandas

    records = [
        {
            "turn": span.turn, "kind": span.kind, "name": span.name, "actor": span.actor, "status": span.status,
            "started": pandas.Timestamp(span.started, unit="s", tz="UTC"), "seconds": span.seconds,
            "input_tokens": span.usage.input_tokens if span.usage else None,
            "output_tokens": span.usage.output_tokens if span.usage else None,
            **{key: span.detail.get(key) for key in _DETAIL},
        }
        for span in spans
    ]  # fmt: skip
    columns = [
        "turn",
        "kind",
        "name",
        "actor",
        "status",
        "started",
        "seconds",
        "input_tokens",
        "output_tokens",
        *_DETAIL,
    ]
    whole = dict.fromkeys(("turn", "input_tokens", "output_tokens", "bytes", "tokens"), "Int64")
    return pandas.DataFrame(records, columns=columns).astype(whole)


def carried(spans: Iterable[Span]) -> pandas.DataFrame:
    """One row for each content that the turn's requests held; see `ledger.carried`."""
    import pandas

    columns = ["kind", "label", "tokens", "calls", "carried", "counter"]
    return pandas.DataFrame(ledger.carried(spans), columns=columns).astype({"tokens": "Int64", "carried": "Int64"})


def comparison(runs: Iterable[Run]) -> pandas.DataFrame:
    """One row a run of a comparison; see `compare.Run.row`."""
    import pandas

    made = pandas.DataFrame([run.row() for run in runs])
    whole = [name for name in made.columns if name.endswith(("_tokens", "_estimated")) or name in ("calls", "reads")]
    return made.astype(dict.fromkeys(whole, "Int64") | ({"correct": "boolean"} if "correct" in made else {}))


def composition(spans: Iterable[Span]) -> pandas.DataFrame:
    """One row a provider call; the kinds and `difference` (where known) sum to `input_tokens`."""
    import pandas

    columns = [
        "call",
        "model",
        *ledger.KINDS,
        "counter",
        "estimated",
        "measured",
        "difference",
        "input_tokens",
        "cached",
    ]
    whole = dict.fromkeys((*ledger.KINDS, "estimated", "measured", "difference", "input_tokens", "cached"), "Int64")
    return pandas.DataFrame(ledger.composition(spans), columns=columns).astype(whole)
