"""Prices: of what a provider has measured, at a named table's, or not at all."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench import price as prices
from workbench.price import of_turn, price
from workbench.span import Span, Usage

USED = Usage(input_tokens=1000, output_tokens=100, cached_tokens=400)


def test_a_price_is_of_measured_tokens_and_names_its_table_and_date() -> None:
    found = price("gpt-4.1", USED, "openai")
    assert found is not None
    assert found.usd == pytest.approx(600 * 2e-6 + 400 * 0.5e-6 + 100 * 8e-6)
    version = metadata.version("genai-prices")
    assert found.source == prices.source() == f"genai-prices {version}, data of {prices.DATED[version]}"


def test_the_date_of_the_installed_table_is_one_that_the_table_knows() -> None:
    from genai_prices.data import providers

    days = {
        condition.constraint.start_date
        for provider in providers
        for model in provider.models
        for condition in (model.prices if isinstance(model.prices, list) else ())
        if hasattr(condition.constraint, "start_date")
    }
    assert prices.DATED[metadata.version("genai-prices")] in days


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-4.1-2025-04-14"), ("openai", "gpt-4o-mini"), ("anthropic", "claude-sonnet-4-5"),
        ("anthropic", "claude-sonnet-4-5-20250929"), ("anthropic", "claude-3-5-haiku-latest"), ("azure", "gpt-4.1"),
        ("google_genai", "models/gemini-2.5-flash"), ("groq", "llama-3.3-70b-versatile"), ("xai", "grok-4"),
        (None, "gpt-4.1"), (None, "claude-sonnet-4-5"), ("openai", "GPT-4.1"),
    ],
)  # fmt: skip
def test_models_are_found_by_the_names_that_spans_have(provider: str | None, model: str) -> None:
    found = price(model, USED, provider)
    assert found is not None
    assert 0 < found.usd < 0.1


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("demomodel", "demo"), ("ollama", "llama3"), ("ollama", "gpt-4.1"), ("openai", "claude-sonnet-4-5"),
        ("openai", "gpt-4.1-acme"), ("openai", "ft:gpt-4.1:acme"), ("anthropic", "claude-sonnet-4-5-tuned"),
        ("nobody", "gpt-4.1"), ("openai", ""), (None, ""), (None, "nothing"), ("github-copilot", "gpt-4.1"),
    ],
)  # fmt: skip
def test_a_model_that_only_looks_like_another_has_no_price(provider: str | None, model: str) -> None:
    assert price(model, USED, provider) is None


def test_without_a_provider_those_that_differ_are_not_chosen_between() -> None:
    assert price("command-r", USED, "cohere") != price("command-r", USED, "openrouter")
    assert price("command-r", USED) is None


def test_a_subscription_that_lists_a_model_without_a_price_makes_nothing_free() -> None:
    from genai_prices.data import providers

    listed = {m.id for p in providers if p.id == "github-copilot" for m in p.models}
    assert "gpt-4.1" in listed
    assert price("gpt-4.1", USED) == price("gpt-4.1", USED, "openai") is not None


@pytest.mark.parametrize(
    "usage",
    [
        None, Usage(), Usage(input_tokens=5), Usage(output_tokens=5), Usage(input_tokens=5, output_tokens=5),
        Usage(input_tokens=-5, output_tokens=5, cached_tokens=0), Usage(input_tokens=5, output_tokens=5, cached_tokens=99),
    ],
)  # fmt: skip
def test_what_was_not_measured_or_cannot_be_has_no_price(usage: Usage | None) -> None:
    """Cached input that was not reported, too: a part may have cost a tenth."""
    assert price("gpt-4.1", usage, "openai") is None


def test_where_cached_input_costs_the_same_nobody_needs_to_know_of_it() -> None:
    assert price("llama-3.3-70b-versatile", Usage(input_tokens=1000, output_tokens=0), "groq") is not None


def test_the_price_is_that_of_the_day_of_the_call() -> None:
    """A conditional price of the table, before and after the day on which it changed."""
    from genai_prices.data import providers

    changes = [
        (model.id, condition.constraint.start_date)
        for provider in providers if provider.id == "anthropic"
        for model in provider.models if isinstance(model.prices, list)
        for condition in model.prices if hasattr(condition.constraint, "start_date")
    ]  # fmt: skip
    found = []
    for model, day in changes:
        noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC).timestamp()
        used = Usage(input_tokens=300_000, output_tokens=10, cached_tokens=0)
        found.append((price(model, used, "anthropic", noon - 86400), price(model, used, "anthropic", noon)))
    assert changes
    assert all(before and after for before, after in found)
    assert any(before != after for before, after in found)
    assert price("gpt-4.1", USED, "openai", 1e30) is None, "no such day"


@given(st.text(max_size=300), st.sampled_from([None, "openai", "openrouter", "azure", "bedrock"]))
def test_no_name_raises_anything(model: str, provider: str | None) -> None:
    found = price(model, USED, provider)
    assert found is None or found.usd >= 0
    assert price(f"{model}\ud800(((a+)+)+$", USED, provider) is None


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def no(*_: Any, **__: Any) -> Any:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", no)
    monkeypatch.setattr(socket, "getaddrinfo", no)
    assert price("gpt-4.1-mini", USED, "openai") is not None


def test_another_table_in_this_process_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    from genai_prices import data_snapshot

    before = price("gpt-4.1", USED, "openai")
    other = data_snapshot.DataSnapshot(providers=[], from_auto_update=True)
    monkeypatch.setattr(data_snapshot, "_custom_snapshot", other)
    assert price("gpt-4.1", USED, "openai") == before is not None


def test_without_the_extra_there_is_no_price_and_it_is_known_what_brings_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert prices.missing() is None
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert price("gpt-4.1", USED, "openai") is prices.source() is None
    assert prices.missing() == 'pip install "mcp-agent-workbench[prices]"'


def model(name: str, usage: Usage | None, provider: str) -> Span:
    return Span(
        id=name, parent=None, turn=1, kind="model", name=name, actor="host", started=1_780_000_000.0, seconds=1.0,
        status="ok", usage=usage, detail={"provider": provider},
    )  # fmt: skip


def test_a_turn_costs_what_its_calls_cost_and_nothing_is_guessed() -> None:
    one = model("gpt-4.1", USED, "openai")
    assert of_turn([one, one]) == pytest.approx(0.0044)
    assert of_turn([one, model("gpt-4.1", None, "openai")]) is None
    assert of_turn([one, model("demo", USED, "demomodel")]) is None
    assert of_turn([]) is None


def test_a_comparison_says_whose_prices_it_shows_or_what_brings_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from workbench.compare import Run
    from workbench.turn import Turn
    from workbench.view import compared

    def run(usage: Usage | None) -> Run:
        spans = (replace(model("gpt-4.1", usage, "openai"), detail={"provider": "openai", "composition": []}),)
        return Run(pattern="catalog", repeat=1, turn=Turn(number=1, question="q", answer="a", status="ok", spans=spans))

    assert run(USED).row()["price_usd"] == pytest.approx(0.0022)
    assert f"US$ at the list prices of {prices.source()}." in compared.foot([run(USED)])
    assert "US$" not in compared.foot([run(None)])
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert run(USED).row()["price_usd"] is None
    assert f"For prices: {prices.INSTALL}" in compared.foot([run(USED)])
