"""Servers that ask back in the middle of a call: real ones over stdio, HTTP and in this process, answered in every way."""

from __future__ import annotations

import asyncio
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.servers import asking
from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from workbench import NotConnected, RequestTimeout, Session, Span, Turn, UsageError
from workbench.asked import MOST_A_MINUTE, MOST_WAITING
from workbench.forms import Answer, Request
from workbench.ledger import KINDS
from workbench.span import sentence

ROOT = Path(__file__).parent.parent


@contextmanager
def over_http() -> Iterator[str]:
    server = subprocess.Popen(
        asking("--http"), stderr=subprocess.PIPE, text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}
    )
    assert server.stderr is not None
    try:
        for line in server.stderr:
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                threading.Thread(target=server.stderr.read, daemon=True).start()
                yield found[0] + "/mcp"
                return
        raise AssertionError("the server did not say where it listens")
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="module", params=["stdio", "http", "memory"])
def every(request: pytest.FixtureRequest) -> Iterator[Session]:
    with Session() as wb:
        if request.param == "stdio":
            wb.connect("s", command=asking(), env={"PYTHONPATH": str(ROOT)})
            yield wb
        elif request.param == "memory":
            from tests.servers.asking import server

            wb.connect("s", server=server)
            yield wb
        else:
            with over_http() as url:
                wb.connect("s", url=url)
                yield wb
                wb.close()


@pytest.fixture
def wb() -> Iterator[Session]:
    with Session() as made:
        connect(made)
        yield made


def connect(wb: Session) -> None:
    wb.connect("s", command=asking(), env={"PYTHONPATH": str(ROOT)}, timeout=20)


def hurry(wb: Session) -> None:
    """One second for every request from now on; a server on a busy machine takes longer to start."""
    wb.connections["s"].target = replace(wb.connections["s"].target, timeout=1)


def ask(wb: Session, tool: str, *says: str | None, **args: Any) -> tuple[str, Turn]:
    """A turn that calls this tool of the server, and what the tool answered. `says`: the model's replies that are sampled."""
    call = Reply(calls=(Call(id="1", name=f"s__{tool}", args=args),))
    replies = [call, *(None if text is None else Reply(text=text) for text in says), Reply(text="done")]
    turn = wb.ask("go", model=Scripted(replies=replies, reports=True), approve="all", new=True)
    return str(turn.messages[2].content), turn


def test_functions_that_wait_for_ever_hold_up_no_read() -> None:
    """More of them than a default executor has threads, as where a server withdraws what nobody has answered yet."""
    from tests.servers.asking import server

    let_go = threading.Event()
    with Session(on_request=lambda request: let_go.wait(60)) as wb:
        names = [f"s{number}" for number in range(12)]
        for name in names:
            wb.connect(name, server=server)
        wb.connect("demo")
        jobs = [wb.loop.submit(wb.connections[name].call("many", {"times": -MOST_WAITING})) for name in names]
        until = time.monotonic() + 20
        while len(wb.pending) < len(names) * MOST_WAITING and time.monotonic() < until:
            time.sleep(0.05)
        assert len(wb.pending) == len(names) * MOST_WAITING
        try:
            assert wb.start_read(wb.offer.only("demo").resources[0].uri, "demo").future.result(10).size
        finally:
            let_go.set()
        for job in jobs:
            job.future.result(20)


def requests(turn: Turn) -> list[Span]:
    return [span for span in turn.spans if span.kind == "request"]


def until(true: Callable[[], Any], seconds: float = 10) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


# -- every way to answer, over every transport


def test_a_form_is_filled_in_by_a_scripts_function(every: Session) -> None:
    seen: list[Request] = []

    def fill(request: Request) -> dict[str, Any]:
        seen.append(request)
        return {"city": "Rome", "window": "yes"}

    every.on_request = fill
    said, turn = ask(every, "book")
    assert said == 'accept {"city":"Rome","days":3,"window":true}'
    assert (seen[0].server, seen[0].kind, seen[0].message, seen[0].turn) == ("s", "form", "Book a trip", turn.number)
    assert [f.name for f in seen[0].fields] == ["city", "days", "window"]
    (span,) = requests(turn)
    assert (span.actor, span.status, span.detail["rule"], span.detail["fields"]) == ("user", "ok", "on_request", 3)
    assert span.detail["person_seconds"] >= 0
    assert "Rome" not in repr(turn.spans)
    tool = next(s for s in turn.spans if s.kind == "tool")
    assert span.parent == tool.id
    assert "server s asked for a form" in sentence(span)
    assert "user accepted it" in sentence(span)


@pytest.mark.parametrize(
    ("answer", "says", "status"),
    [(False, "decline", "refused"), (Answer(action="cancel"), "cancel", "cancelled"), (None, "decline", "refused")],
)
def test_a_form_may_be_declined_or_put_away(every: Session, answer: Any, says: str, status: str) -> None:
    async def later(request: Request) -> Any:
        await asyncio.sleep(0)
        return answer

    every.on_request = later
    said, turn = ask(every, "book")
    assert said == says
    assert [span.status for span in requests(turn)] == [status]


def test_a_page_to_open_is_consented_to_and_never_opened(every: Session) -> None:
    seen: list[Request] = []
    every.on_request = lambda request: bool(not seen.append(request))  # type: ignore[func-returns-value]
    said, turn = ask(every, "page")
    assert said == "accept"
    assert (seen[0].kind, seen[0].url, seen[0].host) == ("url", "https://pay.example/cart?id=7", "pay.example")
    assert requests(turn)[0].detail["url_host"] == "pay.example"
    said, turn = ask(every, "page", url="https://bank.example@evil.example")
    assert "a host in ASCII" in said
    assert [span.status for span in requests(turn)] == ["refused"]
    assert len(seen) == 1


def test_a_model_answers_for_a_server_when_the_person_allows_it(every: Session) -> None:
    seen: list[Request] = []
    every.on_request = lambda request: bool(not seen.append(request))  # type: ignore[func-returns-value]
    said, turn = ask(every, "think", "The sea is wide.")
    assert said == "scripted: The sea is wide. (endTurn)"
    assert seen[0].message == "system:\nBe brief.\n\nuser:\nA line on the sea"
    assert (seen[0].max_tokens, seen[0].wishes) == (50, {"models": "opus", "speed": "0.5"})
    calls = [span for span in turn.spans if span.kind == "model"]
    assert [span.detail.get("requested_by") for span in calls] == [None, "s", None]
    assert [span.detail["call"] for span in calls] == [1, 2, 3]
    assert calls[1].parent == requests(turn)[0].id
    assert turn.totals.provider_calls == 3
    assert turn.totals.input_tokens == 33
    frame = turn.composition
    assert (frame[list(KINDS)].sum(axis=1) + frame.difference).tolist() == frame.input_tokens.tolist()
    assert frame.sampling.tolist()[1] > 0
    assert (frame.sampling.tolist()[0], frame.catalog.tolist()[1], frame.history.tolist()[1]) == (0, 0, 0)
    assert "provider call 2 scripted for server s" in repr(turn)


def test_a_sample_that_is_denied_is_an_error_for_the_server(every: Session) -> None:
    every.on_request = lambda request: Answer(action="decline", reason="too dear")
    said, turn = ask(every, "think")
    assert said == "the request was rejected: too dear"
    assert [span.kind for span in turn.spans if span.kind == "model"] == ["model", "model"]


def test_with_nobody_there_all_of_it_is_refused_with_the_reason(every: Session) -> None:
    """Also under approve="all": that is for tools."""
    every.on_request = None
    for tool, says in (("book", "decline"), ("page", "decline"), ("think", "nobody is there to answer it")):
        said, turn = ask(every, tool)
        assert says in said
        (span,) = requests(turn)
        assert (span.actor, span.status) == ("host", "refused")
        assert "on_request" in span.detail["reason"]
        assert "nobody is there to answer it" in repr(turn)


def test_a_read_for_oneself_may_ask_too(every: Session) -> None:
    every.on_request = lambda request: {"city": "Oslo"}
    content = every.read("trip://next")
    assert content.parts[0].data == "accept Oslo"
    read, asked = every.spans[-2:]
    assert (asked.kind, asked.parent, asked.turn) == ("request", read.id, None)


# -- answering from elsewhere, and waiting


def test_a_request_waits_for_answer_and_takes_no_wrong_one(wb: Session) -> None:
    wb.on_request = lambda request: "wait"
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(ask(wb, "book")[0]))
    thread.start()
    (request,) = until(lambda: wb.pending)
    for values, says in (({}, "City: it is required"), ({"city": "R"}, "too short"), ({"town": "R"}, "no such field")):
        with pytest.raises(UsageError, match=says):
            wb.answer(request.id, values)
    with pytest.raises(UsageError, match=f"no request 'r99' .* waiting: {request.id}"):
        wb.answer("r99")
    with pytest.raises(UsageError, match="accept, decline or cancel"):
        wb.answer(request.id, action="later")  # type: ignore[arg-type]
    assert wb.pending == [request]
    wb.answer(request.id, {"city": "Rome"})
    thread.join(10)
    assert found == ['accept {"city":"Rome","days":3,"window":false}']
    assert wb.pending == []
    with pytest.raises(UsageError, match="waiting: none"):
        wb.answer(request.id, {"city": "Rome"})


def test_while_a_person_thinks_the_servers_time_does_not_run(wb: Session) -> None:
    hurry(wb)

    def slowly(request: Request) -> dict[str, str]:
        time.sleep(1.5)
        return {"city": "Rome"}

    wb.on_request = slowly
    assert ask(wb, "book")[0].startswith("accept")
    said, turn = ask(wb, "book", wait=3)
    assert "did not answer tools/call within 1 s" in said
    assert [span.status for span in requests(turn)] == ["ok"]


def test_other_calls_of_the_same_server_are_answered_meanwhile(wb: Session) -> None:
    """The SDK would read no further while one of its callbacks waits."""
    wb.on_request = lambda request: "wait"
    job = wb.start_read("trip://next", "s")
    until(lambda: wb.pending)
    wb.read("trip://outcome")
    wb.answer(wb.pending[0].id, action="decline")
    assert job.future.result(10).parts[0].data == "decline"


def test_a_turn_that_is_stopped_takes_its_requests_along(wb: Session) -> None:
    async def stop() -> Turn:
        task = asyncio.ensure_future(wb.aask("go", model=Scripted(replies=[call]), approve="all"))
        await asyncio.to_thread(until, lambda: wb.pending)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return wb.turns[-1]

    wb.on_request = lambda request: "wait"
    call = Reply(calls=(Call(id="1", name="s__book"),))
    turn = asyncio.run(stop())
    until(lambda: not wb.pending)
    asked = until(lambda: [s for s in wb.spans if s.kind == "request" and s.seconds is not None])
    assert (asked[0].status, asked[0].turn, asked[0].detail["rule"]) == ("cancelled", turn.number, "stopped")
    wb.on_request = lambda request: {"city": "Rome"}
    assert ask(wb, "book")[0].startswith("accept")


def test_a_request_that_the_server_withdraws_waits_no_more(wb: Session) -> None:
    wb.on_request = lambda request: "wait"
    said, turn = ask(wb, "gives_up")
    assert said.startswith("withdrawn")
    assert [span.status for span in requests(turn)] == ["cancelled"]
    assert wb.pending == []


def test_a_disconnected_server_asks_nothing_any_more(wb: Session) -> None:
    wb.on_request = lambda request: "wait"
    job = wb.start_read("trip://next", "s")
    until(lambda: wb.pending)
    wb.disconnect("s")
    with pytest.raises(NotConnected):
        job.future.result(10)
    assert wb.pending == []
    (asked,) = [s for s in wb.spans if s.kind == "request"]
    assert asked.status == "cancelled"


def test_a_request_outside_every_call_waits_until_it_is_answered(wb: Session) -> None:
    wb.on_request = lambda request: "wait"
    assert ask(wb, "later")[0] == "soon"
    (request,) = until(lambda: wb.pending)
    wb.answer(request.id, {"city": "Bonn"})
    until(lambda: not wb.pending)
    until(lambda: "Bonn" in str(wb.read("trip://outcome").parts[0].data))


def test_a_session_is_closed_while_a_request_waits(wb: Session) -> None:
    wb.on_request = lambda request: "wait"
    job = wb.start_read("trip://next", "s")
    (request,) = until(lambda: wb.pending)
    wb.close()
    assert job.future.exception(10) is not None
    assert wb.pending == []
    with pytest.raises(UsageError, match="waiting: none"):
        wb.answer(request.id, action="decline")


# -- what goes wrong


@pytest.mark.parametrize(
    "answer", [lambda r: 1 / 0, lambda r: {"city": "R"}, lambda r: "yes"], ids=["bug", "bad", "word"]
)
def test_a_function_that_fails_costs_that_request_and_the_reason_stays_here(wb: Session, answer: Any) -> None:
    wb.on_request = answer
    said, turn = ask(wb, "book")
    assert "the client could not answer this" in said
    (span,) = requests(turn)
    assert span.status == "error"
    assert span.detail["error"]
    assert turn.answer == "done"


def test_a_provider_that_fails_is_an_error_for_the_server_without_its_words(wb: Session) -> None:
    class Failing(Scripted):
        async def _astream(self, messages: Any, *args: Any, **options: Any) -> Any:
            if len(messages) == 2 and "A line on" in str(messages[1].content):
                raise RuntimeError("key sk-secret is wrong")
            async for chunk in super()._astream(messages, *args, **options):
                yield chunk

    wb.on_request = lambda request: True
    model = Failing(replies=[Reply(calls=(Call(id="1", name="s__think"),)), Reply(text="done")])
    turn = wb.ask("go", model=model, approve="all")
    assert str(turn.messages[2].content) == "the client's model scripted could not answer"
    assert [s.status for s in turn.spans if s.kind == "model"] == ["ok", "error", "ok"]
    assert turn.answer == "done"


def test_a_sample_ends_at_the_tokens_that_were_asked_for(wb: Session) -> None:
    wb.on_request = lambda request: True
    said, _ = ask(wb, "think", "one two three four five six seven eight nine ten", limit=3)
    assert said.endswith("(maxTokens)")
    assert "ten" not in said


def test_a_sample_shows_what_is_no_text_as_a_descriptor_and_leaves_out_what_is_for_people(wb: Session) -> None:
    seen: list[Request] = []
    wb.on_request = lambda request: bool(not seen.append(request))  # type: ignore[func-returns-value]
    said, _ = ask(wb, "think", "fine", picture=True)
    assert said.startswith("scripted: fine")
    assert [role for role, _ in seen[0].messages] == ["user", "assistant"]
    assert "image/png" in seen[0].messages[1][1]
    assert "for people only" in seen[0].message
    assert "psst" not in seen[0].message


def test_two_samples_at_once_are_both_allowed_and_counted(wb: Session) -> None:
    wb.on_request = lambda request: True
    said, turn = ask(wb, "think", "one", "two", times=2)
    assert sorted(re.findall("one|two", said)) == ["one", "two"]
    assert turn.totals.provider_calls == 4
    assert sorted(s.detail["call"] for s in turn.spans if s.kind == "model") == [1, 2, 3, 4]


def test_a_sample_that_is_stopped_is_cancelled(wb: Session) -> None:
    async def stop() -> None:
        model = Scripted(replies=[Reply(calls=(Call(id="1", name="s__think"),)), None])
        task = asyncio.ensure_future(wb.aask("go", model=model, approve="all"))
        await asyncio.to_thread(until, lambda: sum(span.kind == "model" for span in wb.spans) == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    wb.on_request = lambda request: True
    asyncio.run(stop())
    until(lambda: all(s.seconds is not None for s in wb.spans))
    assert [s.status for s in wb.spans if s.kind == "model"] == ["ok", "cancelled"]


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(10_000)}}, "10,000 fields"),
        ({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}, "a form is flat"),
        ({"type": "array"}, "the schema of an object"),
    ],
    ids=["many", "nested", "no-object"],
)
def test_a_form_that_cannot_be_shown_is_refused_in_words(wb: Session, schema: Any, says: str) -> None:
    wb.on_request = lambda request: True
    said, turn = ask(wb, "raw_form", schema=schema)
    assert says in said
    assert [(s.status, s.actor) for s in requests(turn)] == [("refused", "host")]


def test_strange_names_come_back_as_they_came(wb: Session) -> None:
    names = ["__proto__", "a\u202eb", "<b>"]
    wb.on_request = lambda request: {f.name: "v" for f in request.fields}
    said, _ = ask(wb, "raw_form", schema={"type": "object", "properties": {name: {"type": "string"} for name in names}})
    assert all(name in said for name in names)


def test_a_message_that_nobody_can_read_through_is_refused(wb: Session) -> None:
    wb.on_request = lambda request: True
    assert "at most 20,000 characters" in ask(wb, "raw_form", schema={}, message="x" * 30_000)[0]
    assert "a person can look through 1,000,000" in ask(wb, "think", about="x" * 1_000_001)[0]


def test_a_server_that_asks_many_things_at_once_waits_for_a_few(wb: Session) -> None:
    wb.on_request = lambda request: "wait"
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(ask(wb, "many", times=-MOST_WAITING - 2)[0]))
    thread.start()
    until(lambda: len(wb.pending) == MOST_WAITING and sum(s.status == "refused" for s in wb.spans) == 2)
    for request in wb.pending:
        wb.answer(request.id)
    thread.join(10)
    said = found[0].split("; ")
    assert said.count("accept") == MOST_WAITING
    assert sum("wait for an answer already" in word for word in said) == 2


def test_a_server_that_asks_without_end_is_refused_after_a_while_in_one_row(wb: Session) -> None:
    said, turn = ask(wb, "many", times=MOST_A_MINUTE + 20)
    assert said.count("decline") == MOST_A_MINUTE
    assert said.count("try again later") == 20
    assert len(requests(turn)) == MOST_A_MINUTE + 1


def test_secrets_that_a_server_repeats_are_masked_in_what_is_shown(wb: Session) -> None:
    wb.connect("s", command=asking(), env={"PYTHONPATH": str(ROOT), "KEY": "geheimgeheim"})
    seen: list[Request] = []
    wb.on_request = lambda request: bool(not seen.append(request))  # type: ignore[func-returns-value]
    ask(wb, "raw_form", schema={}, message="your key is geheimgeheim")
    assert seen[0].message == "your key is ••••"
    assert "geheimgeheim" not in repr([s for s in wb.spans if s.kind == "request"])


def test_secrets_in_every_text_of_a_form_and_a_sample_are_masked_where_it_is_shown(wb: Session) -> None:
    from workbench import cards
    from workbench.view import text

    wb.connect("s", command=asking(), env={"PYTHONPATH": str(ROOT), "KEY": (key := "geheimgeheim")})
    shown: list[str] = []
    answers: list[Any] = []

    def show(request: Request) -> Any:
        card = cards.card(request, wb.mask) | {"url": ""}  # where the link leads; `shown` is what is read
        shown.extend([text.request(request, wb.mask), str(card)])
        return answers.pop(0) if answers else True

    wb.on_request = show
    properties = {
        f"a {key}": {"type": "string", "title": f"t {key}", "description": "x" * 995 + key, "pattern": key},
        "b": {"type": "string", "default": f"key={key}"},
        "c": {"type": "string", "oneOf": [{"const": key, "title": f"use {key}"}]},
    }
    answers.append({"1": "typed", "c": key})
    said, _ = ask(wb, "raw_form", schema={"type": "object", "properties": properties})
    assert f'"b":"key={key}"' in said and f'"c":"{key}"' in said, "what is sent is whole"
    _, turn = ask(wb, "think", "sampled", about=f"the sea {key}")
    model = next(span for span in turn.spans if span.detail.get("requested_by"))
    ask(wb, "page", url=f"https://pay.example/cart?id={key}")
    assert len(shown) == 6 and all("••••" in each for each in shown)
    assert "gehe" not in "".join(shown) + repr(model)


def test_a_default_that_holds_a_secret_stands_where_the_page_leaves_it_empty() -> None:
    from workbench import cards
    from workbench.forms import Field

    def mask(text: str) -> str:
        return text.replace("geheim", "••••")

    field = Field(name="b", label="b", type="string", required=True, default="key=geheim")
    card = cards._field(field, mask)
    assert (card["value"], card["required"]) == ("", False) and "not shown" in card["about"]
    assert cards._hidden(field, mask) and not cards._hidden(replace(field, default="plain"), mask)


def test_the_servers_time_runs_on_when_it_has_its_answer(wb: Session) -> None:
    hurry(wb)
    wb.on_request = lambda request: False
    connection = wb.connections["s"]

    async def silent() -> None:
        await connection.request("tools/call", {"name": "book", "arguments": {"wait": 30}})

    started = time.monotonic()
    with pytest.raises(RequestTimeout):
        wb.loop.run(silent())
    assert 0.9 < time.monotonic() - started < 5


@pytest.mark.npm
def test_server_everything_from_npm_elicits_and_samples(npm_server: tuple[str, str]) -> None:
    with Session(on_request=_first) as wb:
        offer = wb.connect("s", command=[*npm_server, "stdio"])
        names = [tool.name for tool in offer.tools if re.search("sampl|elicit", tool.name.lower())]
        assert len(names) >= 2
        for name in names:
            args = {"prompt": "hello", "maxTokens": 20} if "sampl" in name.lower() else {}
            args |= {"url": "https://example.org/consent"} if "url" in name else {}
            said, turn = ask(wb, name, "sampled!", **args)
            assert [span.status for span in requests(turn)] == ["ok"], (name, said)
            assert ("sampled!" in said) == ("sampl" in name.lower())


def _first(request: Request) -> Any:
    """Something for every required field that has no default."""
    values = {"string": "Ada", "integer": "42", "number": "1.5", "boolean": "yes"}
    formats = {
        "email": "ada@example.org",
        "uri": "https://example.org",
        "date": "2024-02-29",
        "date-time": "2025-11-25T09:30:00Z",
    }
    return {
        f.name: f.choices[0][0] if f.choices else formats.get(f.schema.get("format", ""), values.get(f.type, "x"))
        for f in request.fields
        if f.required and f.default is None
    }
