"""The client's other half: what a server tells and asks beside its answers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from tests.test_lifecycle import RESOURCE, replies
from workbench import Session, Span, Turn, UsageError
from workbench.notices import Log

CHATTY = [sys.executable, str(Path(__file__).parent / "servers" / "chatty.py")]
LONG = "trigger-long-running-operation"
BOARD, PLAIN = "board://sprint/current", "plain://Host/%C3%84%20b"


@contextmanager
def served() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([*CHATTY, str(port)], stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        while "running on" not in (line := server.stderr.readline()):
            assert line, "the server did not start"
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.kill()
        server.wait()


@pytest.fixture(params=["stdio", "memory", "http"])
def wb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    if request.param == "http":
        with served() as url, Session() as session:
            session.connect("c", url=url, roots=[tmp_path])
            yield session
        return
    with Session() as session:
        if request.param == "stdio":
            session.connect("c", command=CHATTY, env={"TOKEN": "chatty-secret-1"}, roots=[tmp_path])
        else:
            session.connect("c", server=_fresh(), roots=[tmp_path])
        yield session


def _fresh() -> Any:
    """The same server in this process, new for each test."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("chatty", CHATTY[1])
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["chatty"] = module  # FastMCP reads a function's types from its module
    spec.loader.exec_module(module)
    return module.made


def call(wb: Session, *tools: str) -> tuple[Turn, str]:
    """A turn that calls the tools one after the other, and what the model got of the last one."""
    replies = [Reply(calls=(Call(id=f"c{n}", name=f"c__{tool}", args={}),)) for n, tool in enumerate(tools)]
    model = Scripted(replies=[*replies, Reply(text="done")])
    turn = wb.ask("go", model=model, approve="all", new=True)
    return turn, str(model.seen[-1][-1].content)


def until(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return True


# -- progress


def test_progress_of_a_read_is_in_its_span_while_it_runs_and_after(wb: Session) -> None:
    shown: list[Span] = []
    emit = wb.recorder._emit
    wb.recorder._emit = lambda span: (shown.append(span), emit(span))[1]
    assert wb.read(BOARD).parts[0].data == "version 1"
    (read,) = [span for span in wb.spans if span.kind == "read"]
    assert (read.detail["progress"], read.detail["progress_total"], read.detail["progress_told"]) == (3, 3, 3)
    assert [s.detail.get("progress") for s in shown if s.seconds is None] == [None, 1, 2, 3], (
        "each was shown while it was open"
    )
    assert len([s for s in wb._snapshots if s.id == read.id]) == 2, "one of them is kept, and the last"


def test_progress_of_a_tool_is_in_the_trace(wb: Session) -> None:
    model = Scripted(
        replies=[Reply(calls=(Call(id="r", name="read_resource", args={"uri": BOARD}),)), Reply(text="done")]
    )
    shown = repr(wb.ask("go", model=model, new=True))
    assert "progress 3 of 3 (100%): page 3" in shown
    assert "chatty-secret-1" not in shown, "what a server echoes is masked"


def test_odd_progress_is_counted_not_believed_and_floods_nothing(wb: Session) -> None:
    turn, said = call(wb, "odd_progress")
    assert said == "done"
    (span,) = [span for span in turn.spans if span.kind == "tool"]
    # JSON has no NaN; over HTTP they come on another stream than the answer, and what is later is nobody's.
    assert 0 < span.detail["progress_told"] <= 2004
    assert span.detail["progress"] in (5, 6) and span.detail["progress_total"] is None
    assert len(span.detail["progress_text"]) < 300
    assert len([s for s in wb._snapshots if s.id == span.id]) < 60


@pytest.mark.parametrize("secret", ["chatty-secret-1", 'hush"word\\with-signs'])
def test_a_secret_that_a_server_tells_is_masked_wherever_it_stands(secret: str) -> None:
    with Session() as wb:
        wb.connect("c", command=CHATTY, env={"TOKEN": secret})
        turn, _ = call(wb, "leak")
        shown = repr(turn) + repr(turn.spans) + "".join(map(str, wb.connection("c").log.tail(10)))
        assert "logged in with ••••" in shown and '"password": "••••"' in shown
        for part in (secret, secret[:8], secret[:4], secret.replace('"', '\\"')[:8]):
            assert part not in shown


# -- log messages


def test_log_messages_stay_with_the_connection(wb: Session, capfd: pytest.CaptureFixture[str]) -> None:
    call(wb, "speak")
    connection = wb.connection("c")
    # Over HTTP they come on two streams, in any order.
    lines = {line.level: str(line) for line in connection.log.tail(10)}
    assert "debug: a quiet word" in lines["debug"]
    assert 'error store: {"disk": "full"' in lines["error"]
    assert connection.target.transport != "stdio" or "chatty-secret-1" not in lines["error"]
    assert "(+7,000 characters)" in lines["info"]
    assert [line.level for line in connection.log.tail(10, "warning")] == ["error"]
    assert capfd.readouterr() == ("", "")


def test_a_log_is_bounded() -> None:
    log = Log()
    for number in range(1000):
        log.add("info", None, number)
    assert [line.text for line in log.tail(2)] == ["998", "999"]
    assert len(log.tail(10_000)) == 200


# -- changes


def test_an_attachment_is_read_again_only_after_its_server_has_told_of_a_change(wb: Session) -> None:
    for uri in (BOARD, PLAIN):
        wb.attach(uri, refresh="notify")
        first, _ = call(wb)
        assert not [span for span in first.spans if span.kind == "read"]
        turn, said = call(wb, "change")
        assert "subscribed: ['" in said
        assert not [span for span in turn.spans if span.kind == "read"], "a running turn never changes"
        turn, _ = call(wb)
        assert [(s.actor, s.name) for s in turn.spans if s.kind == "read"] == [("host", uri)]
        assert "version" in str(wb.attachments["c", uri].content.parts[0].data)
        again, _ = call(wb)
        assert not [span for span in again.spans if span.kind == "read"]
        wb.detach(uri)
        assert call(wb, "change")[1] == "subscribed: []"
    assert not wb.attachments


def test_a_new_session_is_subscribed_again_and_what_happened_meanwhile_is_not_missed(wb: Session) -> None:
    wb.attach(PLAIN, refresh="notify")
    wb.reconnect("c")
    turn, _ = call(wb)
    assert [span.name for span in turn.spans if span.kind == "read"] == [PLAIN]
    call(wb, "change")
    turn, _ = call(wb)
    assert [span.name for span in turn.spans if span.kind == "read"] == [PLAIN]


def test_from_a_server_that_can_no_longer_tell_it_is_read_at_each_turn(tmp_path: Path) -> None:
    answers = {"resources_list": [RESOURCE], "resources_read": [{"contents": [{"uri": "a:1", "text": "x"}]}]}
    info = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "raw", "version": "1"}}
    telling = {**info, "capabilities": {"resources": {"subscribe": True}}}
    with Session() as wb:
        wb.connect("c", command=replies(tmp_path, initialize=[telling], **answers))
        wb.attach("a:1", refresh="notify")
        assert not [span for span in call(wb)[0].spans if span.kind == "read"]
        refused = '{"jsonrpc": "2.0", "id": @ID@, "error": {"code": -32601, "message": "no more"}}'
        wb.connect("c", command=replies(tmp_path, initialize=[telling], resources_subscribe=[refused], **answers))
        for _ in range(3):
            assert [span.name for span in call(wb)[0].spans if span.kind == "read"] == ["a:1"]
        wb.disconnect("c")
        wb.connect("demo")
        turn, _ = call(wb)
        assert "could not be read again" in repr(turn)


def test_lists_that_change_while_they_are_first_listed_are_listed_again(tmp_path: Path) -> None:
    told = '{"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}'
    first = json.dumps({"resources": [RESOURCE["resources"][0]]})
    both = {"resources": [RESOURCE["resources"][0], {"uri": "a:2", "name": "second"}]}
    line = told + '\n{"jsonrpc": "2.0", "id": @ID@, "result": ' + first + "}"
    with Session() as wb:
        assert len(wb.connect("c", command=replies(tmp_path, resources_list=[line, both])).resources) == 1
        assert until(lambda: len(wb.offer.resources) == 2)


def test_listing_again_does_not_blur_which_call_made_a_server_ask(tmp_path: Path) -> None:
    told = '{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}'
    form = {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}
    asks = json.dumps({"jsonrpc": "2.0", "id": "e1", "method": "elicitation/create", "params": form})
    done = '{"jsonrpc": "2.0", "id": @ID@, "result": {"content": [{"type": "text", "text": "done"}]}}'
    tools = {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}
    command = replies(tmp_path, tools_list=[tools, None], tools_call=[f"{told}\n{done}", f"{asks}\n{done}"])
    with Session(on_request=lambda request: False) as wb:
        wb.connect("c", command=command)
        call(wb, "act")
        assert until(lambda: bool(wb.connection("c")._limits._calls)), "it is listed again, which is never answered"
        call(wb, "act")
        assert until(lambda: any(span.kind == "request" for span in wb.spans))
        assert [span.turn for span in wb.spans if span.kind == "request"] == [2]


def test_a_server_that_does_not_tell_is_refused_in_words() -> None:
    with Session() as wb:
        wb.connect("demo")
        with pytest.raises(UsageError, match=r"does not tell of changes.*refresh once or turn"):
            wb.attach(wb.offer.resources[0].uri, refresh="notify")
        assert not wb.attachments


def test_lists_that_change_while_a_turn_runs_change_the_next_one(wb: Session) -> None:
    told: list[int] = []
    wb.listeners.append(lambda: told.append(len(wb.offer.tools)))
    replies = [Reply(calls=(Call(id="g", name="c__grow", args={}),)), Reply(text="done")]
    model = Scripted(replies=replies)
    before = len(wb.offer.tools)
    wb.ask("go", model=model, approve="all")
    names = [tool["function"]["name"] for tool in model.tools]
    assert "c__late" not in names, "the tools of a running turn never change"
    assert told == [before + 1]
    _, said = call(wb, "late")
    assert said == "new"


# -- roots


def test_roots_are_told_when_the_server_asks_and_only_then_declared(wb: Session, tmp_path: Path) -> None:
    assert call(wb, "folders")[1] == f"{tmp_path.as_uri()} {tmp_path.name}, changing: False"
    with Session() as other:
        other.connect("c", command=CHATTY)
        assert call(other, "folders")[1].startswith("refused")
        with pytest.raises(UsageError, match=r"there is no folder .*nowhere"):
            other.connect("c", command=CHATTY, roots=[tmp_path / "nowhere"])
        assert other.connection("c").alive


# -- a real one


@pytest.mark.npm
def test_server_everything_from_npm_tells(npm_server: tuple[str, str]) -> None:
    with Session() as wb:
        wb.connect("c", command=[*npm_server, "stdio"])
        replies = [Reply(calls=(Call(id="l", name=f"c__{LONG}", args={"duration": 0.6, "steps": 3}),)), Reply(text="x")]
        assert "progress 3 of 3" in repr(wb.ask("go", model=Scripted(replies=replies), approve="all"))
        uri = wb.offer.resources[0].uri
        wb.attach(uri, refresh="notify")
        assert "Received Subscribe Resource request" in str(wb.connection("c").log.tail(5))
        call(wb, "toggle-subscriber-updates")
        assert until(lambda: ("c", uri) in wb.stale)
        assert [span.name for span in call(wb)[0].spans if span.kind == "read"] == [uri]
        call(wb, "toggle-simulated-logging")
        assert until(lambda: "message" in wb.connection("c").log.tail(1)[0].text)


# -- nonsense, as it stands between a request and its answer


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc": "2.0", "id": 1, "method": "no/such"}',
        '{"jsonrpc": "2.0", "id": "x", "method": "sampling/createMessage", "params": 7}',
        '{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "?", "progress": "much"}}',
        '{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "loud", "data": 1}}',
        '{"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "not a url"}}',
        '{"jsonrpc": "2.0", "id": 5, "method": "ping"}',
    ],
)
def test_nonsense_from_a_server_ends_nothing(tmp_path: Path, line: str) -> None:
    good = '{"jsonrpc": "2.0", "id": @ID@, "result": {"contents": [{"uri": "a:1", "text": "fine"}]}}'
    with Session() as wb:
        wb.connect("a", command=replies(tmp_path, resources_list=[RESOURCE], resources_read=[f"{line}\n{good}"]))
        for _ in range(2):
            assert wb.read("a:1").parts[0].data == "fine"
