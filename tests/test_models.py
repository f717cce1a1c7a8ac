"""Models by name, and a whole turn over the wire to stand-ins for OpenAI and Anthropic, which refuse what they would."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers import awkward
from tests.servers.providers import Call, Failure, Reply, StandIn, Tokens
from workbench import ModelError, Session, models

READ = Call(id="call_r", name="read_resource", args={"uri": "urn:isbn:123"})
PROMPT = Call(id="call_p", name="invoke_prompt", args={"name": "dialogue"})
LINK = Call(id="call_l", name="a__link")
ADD = Call(id="call_a", name="a__add", args={"a": 1, "b": 2})


@pytest.fixture(scope="module")
def wb() -> Iterator[Session]:
    with Session() as made:
        made.connect("a", command=awkward())
        yield made


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest) -> tuple[StandIn, Any]:
    """A stand-in, and a chat model of the provider's own package that talks to it."""
    standing: StandIn = request.getfixturevalue(f"{request.param}_stand_in")
    if request.param == "openai":
        from langchain_openai import ChatOpenAI

        return standing, ChatOpenAI(base_url=standing.url, api_key="x", model="gpt-4o", max_retries=0)  # type: ignore[arg-type]
    from langchain_anthropic import ChatAnthropic

    return standing, ChatAnthropic(base_url=standing.url, api_key="x", model_name="claude-x", max_retries=0)  # type: ignore[call-arg,arg-type]


def test_a_whole_turn_with_parallel_calls_is_taken_by_the_provider(wb: Session, provider: tuple[StandIn, Any]) -> None:
    """P27, P32, P33: one step with a prompt between two reads and a link, then a second step, then the answer."""
    standing, model = provider
    standing.script(
        Reply(text="Let me see.", calls=(PROMPT, READ, LINK, ADD), usage=Tokens(input=100, cached=40, output=9)),
        Reply(calls=(Call(id="call_2", name="read_resource", args={"uri": "crm://customer/4471/subscription"}),)),
        Reply(text="It is annual."),
    )
    turn = wb.ask("Which plan?", model=model, approve="all", new=True)
    assert turn.answer == "It is annual."
    assert len(standing.requests) == 3
    assert turn.totals.input_tokens == 100 + 2 * Tokens().input
    assert turn.totals.cached_tokens == 40
    assert turn.composition.difference.notna().all()
    assert [s.status for s in turn.spans] == ["ok"] * len(turn.spans)


def test_the_thread_of_a_provider_goes_on_in_the_next_turn(wb: Session, provider: tuple[StandIn, Any]) -> None:
    standing, model = provider
    standing.script(Reply(calls=(READ,)), Reply(text="one"), Reply(calls=(ADD,)), Reply(text="two"))
    wb.ask("first", model=model, new=True)
    turn = wb.ask("second", model=model)
    assert turn.answer == "two"
    assert "Refused" in str(standing.requests[-1])


def test_usage_is_asked_for_when_streaming_and_unknown_where_none_comes(openai_stand_in: StandIn, wb: Session) -> None:
    """P39."""
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(base_url=openai_stand_in.url, api_key="x", model="gpt-4o", max_retries=0)  # type: ignore[arg-type]
    openai_stand_in.script(Reply(text="a"), Reply(text="b", usage=None))
    assert wb.ask("x", model=model, new=True).totals.input_tokens == Tokens().input
    assert openai_stand_in.requests[0]["stream_options"] == {"include_usage": True}
    turn = wb.ask("x", model=model, new=True)
    assert turn.totals.input_tokens is None
    assert turn.totals.input_tokens_estimated is not None


@pytest.mark.parametrize("status", [400, 401, 429, 529])
def test_a_providers_error_is_one_line_and_the_next_turn_works(
    wb: Session, provider: tuple[StandIn, Any], status: int
) -> None:
    standing, model = provider
    standing.script(Failure(status=status), Reply(text="fine"))
    with pytest.raises(ModelError) as caught:
        wb.ask("x", model=model, new=True)
    assert f"status {status}" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert wb.turns[-1].status == "error"
    assert wb.ask("x", model=model).answer == "fine"


def test_a_models_name_may_be_a_name_of_langchain(monkeypatch: pytest.MonkeyPatch, openai_stand_in: StandIn) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("OPENAI_BASE_URL", openai_stand_in.url)
    made = models.resolve("openai:gpt-4o")
    assert models.model_name(made) == "gpt-4o"


def test_a_missing_key_package_or_provider_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelError, match="Set OPENAI_API_KEY"):
        models.resolve("openai:gpt-4o")
    monkeypatch.setitem(sys.modules, "langchain_ollama", None)
    with pytest.raises(ModelError, match=r'pip install "mcp-agent-workbench\[ollama\]"'):
        models.resolve("ollama:llama3")
    with pytest.raises(ModelError, match="A model is: demo"):
        models.resolve("nobody:x")
    with pytest.raises(ModelError, match="no chat model"):
        models.resolve(object())  # type: ignore[arg-type]


def test_a_model_that_does_not_stream_works_too(wb: Session) -> None:
    from workbench.demo.model import DemoModel

    turn = wb.ask("Which plan has the subscription of 4471?", model=DemoModel(disable_streaming=True), new=True)
    assert "annual" in turn.answer


def test_a_model_that_takes_no_tools_is_told(wb: Session) -> None:
    from langchain_core.language_models.fake_chat_models import FakeListChatModel

    with pytest.raises(ModelError, match="takes no tools"):
        wb.ask("x", model=FakeListChatModel(responses=["a"]), new=True)
