"""Sessions under interrupts, beside each other, closed while they work, and servers that hold the connection up."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.servers import awkward, raw
from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from tests.test_connection import gone, pid_of
from workbench import ConnectError, RequestTimeout, ServerError, Session, UsageError, WorkbenchError, stdio
from workbench.loop import Loop

RESOURCE = {"resources": [{"uri": "a:1", "name": "one"}]}
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@pytest.fixture
def wb() -> Iterator[Session]:
    with Session() as made:
        yield made


def replies(tmp_path: Path, **methods: list[Any]) -> list[str]:
    """The command of a server that sends these replies; `resources_read` stands for `resources/read`."""
    file = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
    file.write_text(json.dumps({name.replace("_", "/"): value for name, value in methods.items()}))
    return raw(file)


# -- interrupts


@linux
@pytest.mark.parametrize("seed", range(3))
def test_interrupts_at_any_moment_leave_no_server_behind(tmp_path: Path, seed: int) -> None:
    """Connecting, reading, reconnecting and closing, each interrupted at a random moment."""
    command = replies(tmp_path, resources_list=[RESOURCE], resources_read=[{"contents": [{"uri": "a:1", "text": "x"}]}])
    chance, pids = random.Random(seed), set[int]()
    start = stdio.Server.start.__func__  # type: ignore[attr-defined]

    async def noted(cls: Any, *arguments: Any) -> stdio.Server:
        server: stdio.Server = await start(cls, *arguments)
        pids.add(server.pid)
        return server

    main = threading.main_thread().ident or 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stdio.Server, "start", classmethod(noted))
        wb = Session()
        for _ in range(12):
            timer = threading.Timer(chance.uniform(0, 0.4), signal.pthread_kill, (main, signal.SIGINT))
            try:
                timer.start()
                wb.connect("a", command=command)
                wb.read("a:1")
                wb.reconnect("a")
                wb.disconnect("a")
                timer.join()
            except (KeyboardInterrupt, WorkbenchError):
                pass
            timer.cancel()
        wb.close()
    assert pids
    assert [pid for pid in pids if not gone(pid)] == []


@linux
def test_a_close_that_is_interrupted_still_ends_the_servers(wb: Session) -> None:
    wb.connect("stubborn", command=awkward("--case", "stubborn"))
    pid = pid_of(wb, "stubborn")
    close = wb.servers.close

    async def interrupted() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        await close()

    wb.servers.close = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        wb.close()
    assert gone(pid)


# -- closing and going on


def test_a_session_goes_on_after_close_with_many_threads(wb: Session) -> None:
    for _ in range(2):
        wb.connect("a", command=awkward())
        model = Scripted(replies=[Reply(text="done")] * 6)
        with ThreadPoolExecutor(3) as pool:
            asked = [pool.submit(wb.ask, f"question {n}", model=model, new=True) for n in range(6)]
            turns = [future.result() for future in asked]
        assert [turn.answer for turn in turns] == ["done"] * 6
        wb.close()


def test_closing_ends_what_others_are_waiting_for(wb: Session) -> None:
    wb.connect("a", command=awkward("--slow", "60"))
    reading = threading.Event()
    record = wb.recorder._emit

    def emit(span: Any) -> None:
        record(span)
        if span.kind == "read":
            reading.set()

    wb.recorder._emit = emit
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wb.read, "res://files/slow")
        assert reading.wait(20)
        wb.close()
        with pytest.raises(BaseException):  # noqa: B017 - cancelled, or told that the connection is closed
            waiting.result(20)


def test_two_reconnects_at_once_leave_one_server(wb: Session) -> None:
    wb.connect("a", command=awkward())
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: wb.reconnect("a"), range(2)))
    assert wb.read("urn:isbn:123").parts[0].data == "a book"
    mine = [task for task in asyncio.all_tasks(wb.loop._running()) if "Connection._own" in repr(task)]
    assert len(mine) == 1


def test_two_sessions_do_not_disturb_each_other(wb: Session) -> None:
    with Session() as other:
        wb.connect("a", command=awkward())
        other.connect("a", command=awkward())
        other.close()
        assert wb.read("urn:isbn:123").parts[0].data == "a book"


def test_a_closed_session_is_freed() -> None:
    import gc
    import weakref

    made = Session()
    made.connect("a", command=awkward())
    made.close()
    watched = weakref.ref(made)
    del made
    gc.collect()
    assert watched() is None


def test_waiting_on_the_loops_own_thread_is_an_error_and_not_a_deadlock() -> None:
    loop = Loop()

    async def inside() -> None:
        loop.run(asyncio.sleep(0))

    with pytest.raises(UsageError, match="wait for itself"):
        loop.run(inside())
    loop.stop()


def test_an_approve_function_may_read_through_the_session(wb: Session) -> None:
    wb.connect("a", command=awkward())
    model = Scripted(replies=[Reply(calls=(Call(id="1", name="a__add", args={"a": 1, "b": 2}),)), Reply(text="done")])
    wb.ask("go", model=model, approve=lambda call: wb.read("urn:isbn:123").parts[0].data == "a book")
    assert [s.status for s in wb.turns[-1].spans if s.kind == "tool"] == ["ok"]


@pytest.mark.parametrize("approve", ["yes", 1, None])
def test_an_approve_that_is_none_is_refused_before_anything_is_asked(wb: Session, approve: Any) -> None:
    wb.connect("a", command=awkward())
    with pytest.raises(UsageError, match="ask, all, none"):
        wb.ask("go", approve=approve)
    assert wb.turns == []


@linux
def test_connecting_again_and_again_leaves_no_file_open(wb: Session) -> None:
    def files() -> int:
        return len(os.listdir("/proc/self/fd"))

    grandchild = "sleep 30 & exec {}".format(" ".join(awkward()))
    for _ in range(2):
        wb.connect("a", command=["sh", "-c", grandchild])
        wb.disconnect("a")
    before = files()
    for _ in range(3):
        wb.connect("a", command=["sh", "-c", grandchild])
        wb.disconnect("a")
    assert files() <= before


# -- what the two sides tell each other


@pytest.mark.parametrize("end", ["interrupt", "timeout"])
def test_a_server_is_told_that_nobody_waits_any_more(wb: Session, end: str) -> None:
    from mcp.server.fastmcp import FastMCP

    mine, began, stopped = FastMCP("mine"), threading.Event(), threading.Event()

    @mine.resource("slow://one")
    async def one() -> str:
        began.set()
        if end == "interrupt":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise
        return "never"

    wb.connect("mine", server=mine, timeout=0.5 if end == "timeout" else 30)
    with pytest.raises((KeyboardInterrupt, RequestTimeout)):
        wb.read("slow://one")
    assert began.is_set()
    assert stopped.wait(5)
    assert wb.connections["mine"].alive


def test_a_list_that_changes_is_listed_again(wb: Session) -> None:
    from mcp.server.fastmcp import FastMCP

    mine = FastMCP("mine")

    @mine.tool()
    async def grow() -> str:
        mine.resource("notes://new", name="new")(lambda: "here")
        for _ in range(20):
            await mine.get_context().session.send_resource_list_changed()
        return "grown"

    wb.connect("mine", server=mine)
    assert wb.offer.resources == ()
    model = Scripted(replies=[Reply(calls=(Call(id="1", name="mine__grow"),)), Reply(text="done")])
    wb.ask("grow", model=model, approve="all")
    again = wb.servers._listing.get("mine")
    if again is not None:
        wb.loop.run(_ended(again))
    assert wb.read("notes://new").parts[0].data == "here"


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])


# -- servers that hold things up


def test_a_list_that_is_never_answered_costs_that_list(wb: Session, tmp_path: Path) -> None:
    offer = wb.connect("a", command=replies(tmp_path, resources_list=[RESOURCE], prompts_list=[None]), timeout=1)
    assert [r.uri for r in offer.resources] == ["a:1"]
    assert "prompts/list" in offer.problems[0]


def test_entries_that_are_listed_twice_are_told(wb: Session, tmp_path: Path) -> None:
    twice = {"resources": [{"uri": "a:1", "name": "one"}, {"uri": "a:1", "name": "two"}]}
    offer = wb.connect("a", command=replies(tmp_path, resources_list=[twice]))
    assert [r.name for r in offer.resources] == ["one"]
    assert "lists a:1 twice" in offer.problems[0]


def test_a_server_that_ends_while_it_lists_is_a_connect_error(wb: Session) -> None:
    dies = (
        "import json,sys\nfor line in sys.stdin:\n m=json.loads(line)\n if m['method']!='initialize': sys.exit(5)\n"
        " print(json.dumps({'jsonrpc':'2.0','id':m['id'],'result':{'protocolVersion':'2025-11-25','capabilities':"
        "{'tools':{}},'serverInfo':{'name':'x','version':'1'}}}),flush=True)"
    )
    with pytest.raises(ConnectError, match="status 5"):
        wb.connect("a", command=[sys.executable, "-c", dies])
    assert wb.connections == {}


def test_a_server_that_does_not_read_times_out_each_request(wb: Session) -> None:
    """The SDK's own timeout begins when a request is written, which here never happens."""
    deaf = (
        "import json,sys,time\nfor line in sys.stdin:\n m=json.loads(line)\n if m['method']=='prompts/get': time.sleep(60)\n"
        " if 'id' in m: print(json.dumps({'jsonrpc':'2.0','id':m['id'],'result':{'protocolVersion':'2025-11-25',"
        "'capabilities':{'tools':{}},'serverInfo':{'name':'x','version':'1'}}}),flush=True)"
    )
    wb.connect("deaf", command=[sys.executable, "-c", deaf], timeout=1)
    for _ in range(3):
        with pytest.raises(RequestTimeout):
            wb.loop.run(wb.connection("deaf").prompt("p", {"text": "x" * 400_000}))


@pytest.mark.parametrize("identity", ["[1]", "{}", "null", "1.5", "77", '"77"'])
def test_a_reply_to_nobody_ends_nothing(wb: Session, tmp_path: Path, identity: str) -> None:
    stray = f'{{"jsonrpc": "2.0", "id": {identity}, "result": {{}}}}\n'
    good = '{"jsonrpc": "2.0", "id": @ID@, "result": {"contents": [{"uri": "a:1", "text": "fine"}]}}'
    wb.connect("a", command=replies(tmp_path, resources_list=[RESOURCE], resources_read=[stray + good]))
    assert wb.read("a:1").parts[0].data == "fine"
    assert wb.read("a:1").parts[0].data == "fine"


def test_a_broken_reply_is_told_to_its_caller_whatever_ids_it_holds(wb: Session, tmp_path: Path) -> None:
    broken = '{"jsonrpc": "2.0", "result": {"contents": [{"id": 77, "text": ]}, "id": @ID@}'
    wb.connect("a", command=replies(tmp_path, resources_list=[RESOURCE], resources_read=[broken]), timeout=20)
    with pytest.raises(ServerError, match="cannot be parsed"):
        wb.read("a:1")


def test_a_line_without_end_is_given_up(wb: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "_LONGEST", 1 << 20)
    endless = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    with pytest.raises(ConnectError, match="without an end of line"):
        wb.connect("a", command=[sys.executable, "-c", endless], timeout=20)


def test_a_part_that_is_not_base64_does_not_lose_the_others(wb: Session, tmp_path: Path) -> None:
    parts = {
        "contents": [{"uri": "a:1", "text": "kept"}, {"uri": "a:2", "blob": "%%%"}, {"uri": "a:3", "blob": "YQ\n=="}]
    }
    wb.connect("a", command=replies(tmp_path, resources_list=[RESOURCE], resources_read=[parts]))
    kept, broken, wrapped = [part.data for part in wb.read("a:1").parts]
    assert (kept, wrapped) == ("kept", b"a")
    assert "not valid base64" in str(broken)


def test_lone_surrogates_neither_end_the_session_nor_reach_a_provider(wb: Session, tmp_path: Path) -> None:
    listed = '{"jsonrpc":"2.0","id":@ID@,"result":{"resources":[{"uri":"a:\\ud800","name":"\\ud800","description":"\\udfff"}]}}'
    answer = '{"jsonrpc":"2.0","id":@ID@,"result":{"contents":[{"uri":"a:1","text":"x\\ud800y"}]}}'
    wb.connect("a", command=replies(tmp_path, resources_list=[listed], resources_read=[answer]))
    (resource,) = wb.offer.resources
    assert wb.read(resource.uri).parts[0].data == "x\ud800y"
    model = Scripted(
        replies=[Reply(calls=(Call(id="1", name="read_resource", args={"uri": "a:\ufffd"}),)), Reply(text="done")]
    )
    wb.ask("what\ud800?", model=model)
    for request in model.seen:
        for message in request:
            str(message.content).encode()


def test_notifications_nobody_knows_stay_out_of_the_cell(
    wb: Session, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """P08: the SDK warns of them through the root logger."""
    unknown = '{"jsonrpc": "2.0", "method": "notifications/unheard_of", "params": {}}\n'
    good = '{"jsonrpc": "2.0", "id": @ID@, "result": {"contents": [{"uri": "a:1", "text": "fine"}]}}'
    wb.connect("a", command=replies(tmp_path, resources_list=[RESOURCE], resources_read=[unknown * 5 + good]))
    wb.read("a:1")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": None},
        {"properties": []},
        {"type": "object", "properties": {"x": {"$ref": "#/nowhere"}}},
        {"type": "object", "properties": {"x": {"$ref": "http://example/schema"}}},
        {"type": "object", "properties": {"x": {"$ref": 5}}},
        {"type": "object", "properties": {"x": {"$ref": "#"}}},
        {"type": "object", "properties": {"\ud800": {"description": "\ud800"}}},
    ],
    ids=str,
)
def test_an_absurd_schema_costs_one_tool_at_most(
    wb: Session, tmp_path: Path, schema: Any, openai_stand_in: Any
) -> None:
    from langchain_openai import ChatOpenAI

    listed = {"tools": [{"name": "odd", "inputSchema": schema}, {"name": "good", "inputSchema": {"type": "object"}}]}
    wb.connect("a", command=replies(tmp_path, tools_list=[listed]))
    openai_stand_in.script(Reply(text="done"))
    model = ChatOpenAI(base_url=openai_stand_in.url, api_key="x", model="gpt-4o", max_retries=0)  # type: ignore[arg-type]
    turn = wb.ask("go", model=model)
    assert turn.answer == "done"
    sent = {tool["function"]["name"]: tool["function"]["parameters"] for tool in openai_stand_in.requests[0]["tools"]}
    assert "a__good" in sent
    assert all(parameters["type"] == "object" for parameters in sent.values())
    assert ("a__odd" in sent) is not bool(turn.spans[0].detail.get("left_out"))


# -- secrets in addresses


def test_what_an_address_holds_is_masked_wherever_it_is_shown(wb: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCS_TOKEN", "from-the-env-1")
    with pytest.raises(ConnectError) as caught:
        wb.connect("a", url="http://user:pass-word-2@127.0.0.1:9/mcp?key=typed-in-3&t=${DOCS_TOKEN}", timeout=5)
    with pytest.raises(ConnectError) as second:
        wb.connect("b", command=["no-such-command", "--token", "${DOCS_TOKEN}"])
    shown = f"{caught.value} {second.value} {wb.spans}"
    assert not [secret for secret in ("from-the-env-1", "pass-word-2", "typed-in-3") if secret in shown]


def test_the_loop_that_starts_servers_is_ours_whatever_policy_the_kernel_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """P41, as far as it can be tried here."""

    class Refusing(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            raise NotImplementedError

    asyncio.set_event_loop_policy(Refusing())
    try:
        with Session() as wb:
            assert wb.connect("demo").resources
    finally:
        asyncio.set_event_loop_policy(None)


@linux
def test_a_turn_says_that_the_tools_of_a_server_that_has_ended_are_missing(wb: Session, tmp_path: Path) -> None:
    tool = {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}
    wb.connect("a", command=replies(tmp_path, tools_list=[tool]))
    wb.connect("b", command=replies(tmp_path, tools_list=[tool]))
    os.kill(pid_of(wb, "a"), signal.SIGKILL)
    while wb.connections["a"].alive:
        time.sleep(0.05)
    model = Scripted(replies=[Reply(text="done")])
    turn = wb.ask("go", model=model)
    assert "a__add" not in str(model.tools) and "b__add" in str(model.tools)
    (said,) = turn.spans[0].detail["left_out"]
    assert "the tools of a are left out" in said and "%mcp reconnect a" in said
    assert said in repr(turn)
