"""What provider calls cost in money: by the provider's own figures, and a table of prices with its name and date.

The table is that of the package genai-prices (extra `prices`), as it was released. It is never fetched anew: `price` does the
look-up in the package's own data, whatever else in this process may have loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple

from .span import Span, Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider

__all__ = ["DATED", "INSTALL", "Price", "missing", "of_turn", "price", "source"]

INSTALL = 'pip install "mcp-agent-workbench[prices]"'
DATED = {"0.2.3": date(2026, 11, 9)}
"""By release, the newest day on which a price in its table changed, as the table itself says; later ones were announced."""
_PROVIDERS = {
    "anthropic": "anthropic", "azure": "azure", "azure_ai": "azure", "azure_openai": "azure", "bedrock": "aws",
    "bedrock_converse": "aws", "amazon_bedrock": "aws", "cohere": "cohere", "deepseek": "deepseek", "fireworks": "fireworks",
    "google": "google", "google_genai": "google", "google_vertexai": "google", "groq": "groq", "mistral": "mistral",
    "mistralai": "mistral", "openai": "openai", "openrouter": "openrouter", "perplexity": "perplexity",
    "together": "together", "xai": "x-ai",
}  # fmt: skip
"""LangChain's words for who answers, and the table's."""
_LONGEST = 200  # characters of a model's name; the table matches some by regular expressions
_DATE = re.compile(r"(?:[-@]\d{8}|[-@]\d{4}-\d\d-\d\d|-latest)$")


class Price(NamedTuple):
    """US dollars, at list price, and whose table says so."""

    usd: float
    source: str
    """Name, version and date of the table."""


def missing() -> str | None:
    """The command that brings the table, where it is not installed."""
    try:
        import genai_prices  # noqa: F401
    except ImportError:
        return INSTALL
    return None


def source() -> str | None:
    """Name, version and date of the table; `None` where it is not installed."""
    if missing():
        return None
    version = metadata.version("genai-prices")
    return f"genai-prices {version}, data of {DATED.get(version, 'that release')}"


def price(model: str, usage: Usage | None, provider: str | None = None, at: float | None = None) -> Price | None:
    """What one call cost, by the tokens that its provider reported, cached input at its own price.

    `model` is the name as the spans have it, `provider` LangChain's word for who answers, `at` the time of the call in Unix
    seconds (now). `None`, never 0, where a figure was not reported (the cached tokens, too, where they have a price of their
    own), the table does not have just this model, or the extra is not installed. With an unknown provider, all that offer the
    model have to cost the same. Writing to a cache, images and batches are not told apart, and a gateway that poses as a
    provider is priced as that one.
    """
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    if (provider is not None and provider not in _PROVIDERS) or len(model) > _LONGEST or missing():
        return None
    try:
        when = datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)
        found = _matching(model.lower().removeprefix("models/"), _PROVIDERS[provider] if provider is not None else None)
        costs = {_cost(each, where, usage, when) for where, each in found if provider or _priced(each, when)}
    except (ArithmeticError, LookupError, OSError, TypeError, ValueError):  # figures that no call can have
        return None
    (cost,) = costs if len(costs) == 1 else (None,)
    return None if cost is None else Price(cost, source() or "")


def _matching(name: str, known: str | None) -> list[tuple[Provider, ModelInfo]]:
    """The model of that very name: of the provider, or of those whose prices are also its own; of all, if it is unknown."""
    from genai_prices.data import providers

    by_id = {provider.id: provider for provider in providers}
    ids = list(by_id) if known is None else [known, *(by_id[known].fallback_model_providers or ())]
    found = [(by_id[each], model) for each in ids if each in by_id and (model := _of(by_id[each], name))]
    return found if known is None else found[:1]


def _of(provider: Provider, name: str) -> ModelInfo | None:
    """Strictly: the table takes what only begins with a model's name for it, too, and a tuned model has its own price."""
    wanted = {name, _DATE.sub("", name)}
    return next((model for model in provider.models if wanted & _names(model) and model.is_match(name)), None)


def _names(model: ModelInfo) -> set[str]:
    clauses: list[Any] = getattr(model.match, "or_", [model.match])
    told = [getattr(each, "equals", None) or getattr(each, "starts_with", None) for each in clauses]
    return {_DATE.sub("", model.id), model.id, *(text.lower() for text in told if text)}


def _priced(model: ModelInfo, when: datetime) -> bool:
    """Whether tokens are what is paid for: the table lists what comes with a subscription, too, without a price."""
    prices: Any = model.get_prices(when)
    return prices.input_mtok is not None and prices.output_mtok is not None


def _cost(model: ModelInfo, provider: Provider, usage: Usage, when: datetime) -> float | None:
    from genai_prices import Usage as Used

    prices: Any = model.get_prices(when)
    unknown = usage.cached_tokens is None and prices.cache_read_mtok is not None
    if unknown or not _priced(model, when):
        return None
    used = Used(
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cache_read_tokens=usage.cached_tokens
    )
    cost = float(model.calc_price(used, provider, genai_request_timestamp=when).total_price)
    return cost if 0 <= cost < float("inf") else None


def of_turn(spans: Iterable[Span]) -> float | None:
    """US dollars of all provider calls; `None` as soon as one of them is not known."""
    total = 0.0
    calls = [span for span in spans if span.kind == "model"]
    for span in calls:
        found = price(span.name, span.usage, span.detail.get("provider"), span.started)
        if found is None:
            return None
        total += found.usd
    return total if calls else None
