"""What provider calls cost in money: by the provider's own figures, and prices with their source and date."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import NamedTuple

from .span import Span, Usage

__all__ = ["Price", "of_turn", "price"]

_PROVIDERS = {"google_genai": "google", "google_vertexai": "google", "azure_openai": "azure", "mistralai": "mistral"}


class Price(NamedTuple):
    """US dollars, by whose table, and when that was last checked (`None` where it does not say)."""

    usd: float
    source: str
    checked: date | None


def price(provider: str | None, model: str, usage: Usage | None, at: float | None = None) -> Price | None:
    """What one call cost, by the tokens that its provider reported; `provider` is LangChain's word for it.

    `None` where the provider, the model or the usage is not known, or the extra `prices` (genai-prices, which brings its
    table with it) is not installed. Cached input has its own price. `at` is the time of the call in Unix seconds.
    """
    if not provider or usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    try:
        import genai_prices
    except ImportError:
        return None
    used = genai_prices.Usage(
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cache_read_tokens=usage.cached_tokens
    )
    when = None if at is None else datetime.fromtimestamp(at, UTC)
    try:
        found = genai_prices.calc_price(
            used, model, provider_id=_PROVIDERS.get(provider, provider), genai_request_timestamp=when
        )
    except (LookupError, ValueError):  # no such provider or model in the table, or no price for what was used
        return None
    return Price(float(found.total_price), f"genai-prices {genai_prices.__version__}", _checked(found.model))


def _checked(model: object) -> date | None:
    checked = getattr(model, "prices_checked", None)
    return checked if isinstance(checked, date) else None


def of_turn(spans: Iterable[Span]) -> float | None:
    """US dollars of all provider calls; `None` as soon as one of them is not known."""
    total = 0.0
    calls = [span for span in spans if span.kind == "model"]
    for span in calls:
        found = price(span.detail.get("provider"), span.name, span.usage, span.started)
        if found is None:
            return None
        total += found.usd
    return total if calls else None
