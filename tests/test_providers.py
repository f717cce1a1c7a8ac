"""LangChain's real provider packages against the stand-ins: what reaches the wire, and what comes back from it."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import anthropic
import openai
import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.servers.providers import Call, Failure, Reply, StandIn, Tokens

KEY = SecretStr("x")
READ = {
    "name": "read_resource",
    "description": "Read a resource.",
    "parameters": {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]},
}
TWO_CALLS = (
    Call(id="call_1", name="read_resource", args={"uri": "crm://customer/4471/subscription"}),
    Call(id="call_2", name="read_resource", args={"uri": 'docs://ünï"code'}),
)


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest) -> tuple[StandIn, BaseChatModel]:
    """Each provider's stand-in and LangChain's model for it."""
    standing: StandIn = request.getfixturevalue(f"{request.param}_stand_in")
    options: dict[str, Any] = {"base_url": standing.url, "api_key": KEY, "max_retries": 0, "stream_usage": True}
    if request.param == "openai":
        return standing, ChatOpenAI(model="gpt-4o", **options)
    return standing, ChatAnthropic(**options, model_name="claude-sonnet-5")


def streamed(model: Any, messages: list[AnyMessage]) -> AIMessage:
    message = reduce(add, model.stream(messages))
    assert isinstance(message, AIMessage)
    return message


def asked(*calls: Call) -> AIMessage:
    return AIMessage("", tool_calls=[ToolCall(id=call.id, name=call.name, args=dict(call.args)) for call in calls])


def test_text_arrives_in_many_pieces(provider: tuple[StandIn, BaseChatModel]) -> None:
    standing, model = provider
    standing.script(Reply(text="The subscription of Ångström GmbH ends in May."))
    pieces = [chunk.text for chunk in model.stream("When does it end?") if chunk.text]
    assert len(pieces) > 5
    assert "".join(pieces) == "The subscription of Ångström GmbH ends in May."
    assert standing.requests[0]["stream"] is True


@pytest.mark.parametrize("way", ["stream", "invoke"])
def test_parallel_tool_calls_arrive_whole_and_in_order(provider: tuple[StandIn, BaseChatModel], way: str) -> None:
    standing, model = provider
    standing.script(Reply(text="I look.", calls=TWO_CALLS))
    bound: Any = model.bind_tools([READ])
    message = streamed(bound, [HumanMessage("?")]) if way == "stream" else bound.invoke("?")
    assert message.text == "I look."
    assert [(c["id"], c["name"], c["args"]) for c in message.tool_calls] == [(c.id, c.name, c.args) for c in TWO_CALLS]


@pytest.mark.parametrize("way", ["stream", "invoke"])
def test_usage_is_what_the_provider_reported(provider: tuple[StandIn, BaseChatModel], way: str) -> None:
    standing, model = provider
    standing.script(Reply(text="Yes.", usage=Tokens(input=1200, cached=1000, output=34)))
    message = streamed(model, [HumanMessage("?")]) if way == "stream" else model.invoke("?")
    assert message.usage_metadata is not None
    assert message.usage_metadata["input_tokens"] == 1200
    assert message.usage_metadata["output_tokens"] == 34
    assert message.usage_metadata["input_token_details"]["cache_read"] == 1000


def test_openai_streams_no_usage_unless_asked_for_it(openai_stand_in: StandIn) -> None:
    """With a `base_url` of its own `ChatOpenAI` does not ask, so usage is unknown; it must not become 0."""
    model = ChatOpenAI(model="gpt-4o", base_url=openai_stand_in.url, api_key=KEY, max_retries=0)
    openai_stand_in.script(Reply(text="Yes."))
    assert streamed(model, [HumanMessage("?")]).usage_metadata is None
    assert "stream_options" not in openai_stand_in.requests[0]


@pytest.mark.parametrize("way", ["stream", "invoke"])
def test_an_openai_compatible_server_may_report_no_usage_at_all(openai_stand_in: StandIn, way: str) -> None:
    model: Any = ChatOpenAI(model="m", base_url=openai_stand_in.url, api_key=KEY, stream_usage=True)
    openai_stand_in.script(Reply(text="Yes.", usage=None))
    message = streamed(model, [HumanMessage("?")]) if way == "stream" else model.invoke("?")
    assert not message.usage_metadata


def test_a_whole_turn_with_two_reads_is_accepted(provider: tuple[StandIn, BaseChatModel]) -> None:
    standing, model = provider
    standing.script(Reply(calls=TWO_CALLS), Reply(text="In May."))
    bound = model.bind_tools([READ])
    history: list[AnyMessage] = [SystemMessage("Be brief."), HumanMessage("When?")]
    first = streamed(bound, history)
    results = [ToolMessage("text", tool_call_id=str(call["id"])) for call in first.tool_calls]
    assert streamed(bound, [*history, first, *results, HumanMessage("(a prompt)")]).text == "In May."
    assert len(standing.requests) == 2 and not standing.pending


def error_of(model: Any, messages: list[AnyMessage]) -> openai.APIStatusError | anthropic.APIStatusError:
    try:
        streamed(model, messages)
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        return error
    pytest.fail("the provider took it")


@pytest.mark.parametrize(
    ("status", "says"), [(400, "error"), (429, "rate limit"), (529, "overloaded")], ids=["400", "429", "529"]
)
def test_an_error_keeps_its_status_and_words(provider: tuple[StandIn, BaseChatModel], status: int, says: str) -> None:
    standing, model = provider
    standing.script(Failure(status=status), Reply(text="Better now."))
    error = error_of(model, [HumanMessage("?")])
    assert error.status_code == status and says in str(error).lower()
    assert isinstance(error, (openai.RateLimitError, anthropic.RateLimitError)) == (status == 429)
    assert streamed(model, [HumanMessage("?")]).text == "Better now."


ORDER = {
    "a result is missing": [asked(*TWO_CALLS), ToolMessage("r", tool_call_id="call_1")],
    "a person speaks between call and result": [
        asked(*TWO_CALLS),
        ToolMessage("r", tool_call_id="call_1"),
        HumanMessage("Meanwhile ..."),
        ToolMessage("r", tool_call_id="call_2"),
    ],
    "a result that nobody asked for": [ToolMessage("r", tool_call_id="call_9")],
    "an answer comes before the results": [asked(*TWO_CALLS), AIMessage("Well ...")],
}
WORDS = (
    "did not have response messages",
    "must be a response to",
    "ids were found without",
    "unexpected `tool_use_id`",
)


@pytest.mark.parametrize("wrong", ORDER.values(), ids=ORDER.keys())
def test_messages_out_of_order_are_refused(provider: tuple[StandIn, BaseChatModel], wrong: list[AnyMessage]) -> None:
    standing, model = provider
    standing.script(Reply(text="never sent"))
    error = error_of(model, [HumanMessage("?"), *wrong])
    assert error.status_code == 400 and any(words in str(error) for words in WORDS)
    assert len(standing.pending) == 1


@pytest.mark.parametrize("name", ["docs.read", "a/b", "x" * 65, "größe"])
def test_a_tool_name_that_providers_do_not_take_is_refused(provider: tuple[StandIn, BaseChatModel], name: str) -> None:
    _, model = provider
    error = error_of(model.bind_tools([{**READ, "name": name}]), [HumanMessage("?")])
    assert error.status_code == 400 and "tools" in str(error)


@pytest.mark.parametrize("url", ["file:///etc/hostname", "sap-btp://sum-abap-v1"])
def test_an_mcp_uri_as_an_image_is_refused(provider: tuple[StandIn, BaseChatModel], url: str) -> None:
    """The adapters turn a `resource_link` into a block with the MCP URI; providers cannot fetch it."""
    _, model = provider
    message = HumanMessage([{"type": "image", "url": url}, {"type": "text", "text": "?"}])
    assert error_of(model, [message]).status_code == 400


def test_every_request_is_kept_as_it_was_sent(provider: tuple[StandIn, BaseChatModel]) -> None:
    standing, model = provider
    standing.script(Reply(text="Yes."))
    model.bind_tools([READ]).invoke([SystemMessage("Be brief."), HumanMessage("When?")])
    (request,) = standing.requests
    said = [request.get("system"), *(message["content"] for message in request["messages"])]
    assert [text for text in said if text] == ["Be brief.", "When?"]
    assert [tool.get("name") or tool["function"]["name"] for tool in request["tools"]] == ["read_resource"]


def test_a_script_at_its_end_says_so(provider: tuple[StandIn, BaseChatModel]) -> None:
    _, model = provider
    assert "script() one more reply" in str(error_of(model, [HumanMessage("?")]))


@pytest.mark.parametrize("way", ["read", "tool", "prompt", "attach"])
def test_an_image_reaches_each_provider_in_its_own_form_after_all_results(
    provider: tuple[StandIn, BaseChatModel], way: str
) -> None:
    """P25: LangChain's profiles of both models say that they take images; the stand-ins check the order of messages."""
    import json

    from tests.test_window import server
    from workbench import Session

    standing, model = provider
    call = {
        "read": Call(id="c1", name="read_resource", args={"uri": "img:///small"}),
        "tool": Call(id="c1", name="s__snap", args={}),
        "prompt": Call(id="c1", name="invoke_prompt", args={"name": "look"}),
    }.get(way)
    beside = Call(id="c2", name="read_resource", args={"uri": "text:///headed"})
    standing.script(*([Reply(calls=(call, beside))] if call else []), Reply(text="A teal picture."))
    with Session() as wb:
        wb.connect("s", server=server())
        if way == "attach":
            wb.attach("img:///small")
        turn = wb.ask("What is it?", model=model, approve="all")
        again = Reply(text="As I said.")
        standing.script(again)
        wb.ask("And again?", model=model)
    assert turn.answer == "A teal picture."
    where = "image_url" if isinstance(model, ChatOpenAI) else "base64"
    sent = json.dumps(standing.requests[-2])
    assert f'"{where}"' in sent and ("data:image/png;base64," in sent or '"media_type": "image/png"' in sent)
    rule = "OpenAI's 85 + 170 a tile" if isinstance(model, ChatOpenAI) else "Anthropic's pixels / 750"
    assert rule in str(turn.composition.counter.iloc[-1])
