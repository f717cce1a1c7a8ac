"""What servers say unasked, however odd, often and hostile it is: real ones over stdio and HTTP. Beside `test_client.py`."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.servers import raw, talkative
from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from workbench import ServerError, Session, Span, Turn, UsageError
from workbench.catalog import rows
from workbench.notices import LEVELS, Line, Log
from workbench.view.rows import progress

ROOT = Path(__file__).parent.parent
ENV = {"PYTHONPATH": str(ROOT)}
NEWS = "news://today"


@contextmanager
def over_http() -> Iterator[str]:
    server = subprocess.Popen(talkative("--http"), stderr=subprocess.PIPE, text=True, cwd=ROOT, env=ENV)
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


@pytest.fixture(scope="module", params=["stdio", "http"])
def every(request: pytest.FixtureRequest) -> Iterator[Session]:
    with Session() as wb:
        if request.param == "stdio":
            wb.connect("s", command=talkative(), env=ENV)
            yield wb
        else:
            with over_http() as url:
                wb.connect("s", url=url)
                yield wb
                wb.close()


@pytest.fixture
def wb() -> Iterator[Session]:
    with Session() as made:
        yield made


@pytest.fixture
def chat(wb: Session) -> Session:
    """The server in this process, which starts at once; what it kept of the test before is gone."""
    from tests.servers.talkative import low, news, subscribed

    subscribed.clear()
    news["text"] = "nothing yet"
    wb.connect("s", server=low)
    return wb


@pytest.fixture(scope="module")
def secretive() -> Iterator[Session]:
    with Session() as made:
        made.connect("s", command=talkative(), env={**ENV, "KEY": 's3cr"et-ü'})
        yield made


def ask(wb: Session, tool: str, **args: Any) -> tuple[str, Turn]:
    """A turn that calls this tool of the server, and what the tool answered."""
    turn = wb.ask("go", model=calling(tool, **args), approve="all", new=True)
    return str(turn.messages[2].content), turn


def calling(*tools: str, **args: Any) -> Scripted:
    """A model that calls these tools, one a step, all with the same arguments, and says "done"."""
    steps = [Reply(calls=(Call(id=str(n), name=f"s__{tool}", args=args),)) for n, tool in enumerate(tools)]
    return Scripted(replies=[*steps, Reply(text="done")])


def say(wb: Session, *notices: tuple[str, Any], times: int = 1) -> Turn:
    """A turn in which the server's tool sends these notifications as they are."""
    said, turn = ask(wb, "say", notices=[list(each) for each in notices], times=times)
    assert said == "said"
    return turn


def of(turn: Turn, kind: str) -> Span:
    (span,) = [span for span in turn.spans if span.kind == kind]
    return span


def until(true: Callable[[], Any], seconds: float = 10) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def replying(tmp_path: Path, **methods: list[Any]) -> list[str]:
    """The command of a server that sends these replies; `resources_read` stands for `resources/read`."""
    file = tmp_path / "replies.json"
    file.write_text(json.dumps({name.replace("_", "/"): value for name, value in methods.items()}))
    return raw(file)


# -- progress


@pytest.mark.parametrize(
    ("kind", "last"),
    [("read", "progress 4 of 4 (100%): reading page 4"), ("prompt", "progress 3 of 3 (100%)")],
)
def test_a_read_and_a_prompt_tell_it_while_they_run(every: Session, kind: str, last: str) -> None:
    with ThreadPoolExecutor() as pool:
        work = pool.submit(every.read, "slow://report") if kind == "read" else pool.submit(every.prompt, "brief")
        seen = {progress(span) for _ in iter(work.done, True) if (span := every.progressing)}
    assert work.exception() is None
    assert len(seen) >= 2
    assert progress([span for span in every.spans if span.kind == kind][-1]) == last
    assert every.progressing is None


def test_the_live_view_of_a_turn_gets_it(chat: Session) -> None:
    from workbench.notebook import _live_row

    seen: list[Any] = []
    model = calling("work", number=3, each=0.2)
    asyncio.run(chat.aask("go", model=model, approve="all", live=seen.append))
    tools = [_live_row(x, 0) for x in seen if isinstance(x, Span) and x.kind == "tool"]
    assert [row["figures"] for row in tools[:-1]] == [
        "",
        *(f"progress {n} of 3 ({n / 3:.0%}): step {n}" for n in (1, 2, 3)),
    ]
    assert "of 3" not in tools[-1]["figures"], "the finished row has its result's figures"


@pytest.mark.parametrize(
    ("params", "shown"),
    [
        ({"progressToken": 999_999}, None),
        ({"progressToken": True}, None),
        ({"progressToken": ["@TOKEN"]}, None),
        ({"progressToken": "1" * 5000}, None),
        ({"progress": None}, None),
        ({"progress": "5"}, None),
        ({"progress": True}, None),
        ({"progress": {}}, None),
        ({"total": 0}, "5"),
        ({"total": -1}, "5"),
        ({"total": "10"}, "5"),
        ({"total": 4}, "5 of 4"),
        ({"total": 10}, "5 of 10 (50%)"),
        ({"progress": -5, "total": 10}, "-5 of 10"),
        ({"progress": 1234567.5}, "1,234,567.5"),
        ({"progress": 10**300}, "1e+300"),
        ({"message": 7}, "5"),
        ({"message": "  "}, "5"),
        ({"message": "a\nb\u202e<b>"}, "5: a b\\u202e<b>"),
        ({"message": "x" * 1000}, f"5: {'x' * 200}… (+800 characters)"),
        ({"more": 1}, "5"),
    ],
)
def test_whatever_a_server_says_of_its_progress(every: Session, params: dict[str, Any], shown: str | None) -> None:
    turn = say(every, ("notifications/progress", {"progressToken": "@TOKEN", "progress": 5, **params}))
    assert progress(of(turn, "tool")) == (shown and f"progress {shown}")
    assert of(turn, "tool").detail.get("progress_told") == (1 if shown else None)


def test_progress_never_goes_backwards(every: Session) -> None:
    steps = [
        ("notifications/progress", {"progressToken": "@TOKEN", "progress": n, "message": f"at {n}"})
        for n in (3, 9, 1, 4)
    ]
    assert progress(of(say(every, *steps), "tool")) == "progress 9: at 4"


def test_numbers_that_are_none_and_numbers_without_end(wb: Session, tmp_path: Path) -> None:
    """As bytes on the wire: no SDK would send them."""
    told = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":@ID@,"progress":%s}}'
    lines = [told % value for value in ("NaN", "Infinity", "-Infinity", "1e999", "9" * 400, "7")]
    answer = '{"jsonrpc":"2.0","id":@ID@,"result":{"contents":[{"uri":"a:1","text":"here"}]}}'
    late = told % "8"  # of a request that has been answered
    resource = {"resources": [{"uri": "a:1", "name": "one"}]}
    wb.connect(
        "r", command=replying(tmp_path, resources_list=[resource], resources_read=["\n".join([*lines, answer, late])])
    )
    assert wb.read("a:1").parts[0].data == "here"
    (span,) = [span for span in wb.spans if span.kind == "read"]
    assert (progress(span), span.detail["progress_told"]) == ("progress 7", 1)
    assert wb.read("a:1").parts[0].data == "here"


def test_a_flood_of_progress_is_counted_and_shown_ten_times_a_second(chat: Session) -> None:
    seen: list[Any] = []
    notice = [
        "notifications/progress",
        {"progressToken": "@TOKEN", "progress": 1, "total": 10_000, "message": "x" * 300},
    ]
    started = time.monotonic()
    model = calling("say", notices=[notice], times=10_000)
    turn = asyncio.run(chat.aask("go", model=model, approve="all", live=seen.append))
    took = time.monotonic() - started
    assert of(turn, "tool").detail["progress_told"] == 10_000
    shown = [x for x in seen if isinstance(x, Span) and x.kind == "tool"]
    assert len(shown) <= 10 * took + 4
    assert len(chat._snapshots) < 20, "the session keeps one snapshot of an open span"


def test_progress_begins_the_timeout_anew(wb: Session) -> None:
    wb.connect("s", command=talkative(), env=ENV, timeout=3)
    said, turn = ask(wb, "work", number=5, each=1)
    assert said == "did 5"
    assert (of(turn, "tool").seconds or 0) > 4.5


def test_progress_does_not_keep_a_request_for_ever(wb: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.limits.MOST_TIMES", 2)
    wb.connect("s", command=talkative(), env=ENV, timeout=3)
    said, turn = ask(wb, "work", number=60, each=0.5)
    assert "did not answer tools/call within 6 s" in said
    assert 5.5 < (of(turn, "tool").seconds or 0) < 8
    assert ask(wb, "work", number=1)[0] == "did 1"


def test_the_same_progress_again_and_again_is_none(wb: Session) -> None:
    wb.connect("s", command=talkative(), env=ENV, timeout=3)
    said, turn = ask(wb, "stuck", seconds=20)
    assert "did not answer tools/call within 3" in said
    assert (of(turn, "tool").seconds or 0) < 5


def test_a_secret_in_progress_is_masked(secretive: Session) -> None:
    notice = ("notifications/progress", {"progressToken": "@TOKEN", "progress": 1, "message": 's3cr"et-ü'})
    turn = say(secretive, notice)
    assert re.fullmatch(r"progress 1: \W+", str(progress(of(turn, "tool"))))


# -- log messages


def test_any_json_is_logged(every: Session) -> None:
    datas = ["text", {"table": "bills", "rows": [1, None]}, 7, None, ["a"], False]
    say(every, *(("notifications/message", {"level": "info", "logger": "db", "data": data}) for data in datas))
    told = until(lambda: (found := every.connection("s").log.tail(6)) and found[-1].text == "false" and found)
    assert [line.text for line in told] == [
        "text",
        '{"table": "bills", "rows": [1, null]}',
        "7",
        "null",
        '["a"]',
        "false",
    ]
    assert {(line.level, line.logger) for line in told} == {("info", "db")}
    assert abs(told[0].at - time.time()) < 60


@pytest.mark.parametrize(
    ("params", "level", "logger", "text"),
    [
        ({}, "unknown", "", "null"),
        ({"level": 7, "data": "x"}, "unknown", "", "x"),
        ({"level": "LOUD" * 100, "data": "x"}, "LOUDLOUDLOUDLOUDLOUD… (+380 characters)", "", "x"),
        ({"level": "info", "logger": {"a": 1}, "data": "x" * 5000}, "info", "", "x" * 2000 + "… (+3,000 characters)"),
        ({"level": "info", "logger": "a\nb", "data": "stderr:\n  x"}, "info", "a b", "stderr: x"),
        ({"level": "info", "data": {"k": ["v" * 5000]}}, "info", "", '{"k": ["' + "v" * 1992 + "… (+3,011 characters)"),
        ({"level": 's3cr"et-ü', "data": {'s3cr"et-ü': [{"x": 'a s3cr"et-ü b'}]}}, None, "", None),
    ],
)
def test_whatever_a_server_logs(
    secretive: Session, params: dict[str, Any], level: str | None, logger: str, text: str | None
) -> None:
    say(secretive, ("notifications/message", params))
    (line,) = secretive.connection("s").log.tail(1, "emergency" if level not in LEVELS else "debug")
    assert "s3cr" not in str(line)
    assert line.logger == logger
    assert (level, text) == (None, None) or (line.level, line.text) == (level, text)


def test_data_nested_without_end_ends_nothing(wb: Session, tmp_path: Path) -> None:
    """What is deeper than some 250 levels does not get past the SDK."""
    told = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%s}}'
    lines = [told % ("[" * depth + "]" * depth) for depth in (900, 100_000, 150)]
    answer = '{"jsonrpc":"2.0","id":@ID@,"result":{"contents":[{"uri":"a:1","text":"here"}]}}'
    resource = {"resources": [{"uri": "a:1", "name": "one"}]}
    replies = {"resources_list": [resource], "resources_read": ["\n".join([*lines, answer])]}
    wb.connect("r", command=replying(tmp_path, **replies))
    assert wb.read("a:1").parts[0].data == "here"
    assert [line.text for line in wb.connection("r").log.tail(9)] == ["[" * 150 + "]" * 150]


def test_the_level_is_asked_for_where_there_are_levels_and_again_after_reconnecting(chat: Session) -> None:
    chat.set_log_level("s", "warning")
    chat.reconnect("s")
    assert ask(chat, "level")[0] == "warning"
    with pytest.raises(UsageError, match="'loud' is no level of log messages; there are: debug, info"):
        chat.set_log_level("s", "loud")
    chat.connect("plain", command=talkative("--plain"), env=ENV)
    with pytest.raises(UsageError, match="plain declares no logging"):
        chat.set_log_level("plain", "debug")


def test_levels_are_ordered_and_an_unknown_one_is_never_hidden() -> None:
    log = Log()
    for level in (*LEVELS, "odd"):
        log.add(level, None, "x")
    assert [line.level for line in log.tail(99, "critical")] == ["critical", "alert", "emergency", "odd"]
    assert log.tail(0) == []
    assert isinstance(log.tail(1)[0], Line)


# -- subscriptions


def reads(turn: Turn) -> int:
    return sum(span.kind == "read" for span in turn.spans)


def test_what_has_changed_is_read_again_at_the_next_turn_and_only_then(every: Session) -> None:
    ask(every, "publish", text="one")
    every.attach(NEWS, refresh="notify")
    model = calling("publish", "work", text="two", number=1)
    turn = every.ask("go", model=model, approve="all", new=True)
    assert reads(turn) == 0
    assert all("one" in str(request) and "two" not in str(request[1].content) for request in model.seen)
    until(lambda: every.stale == {("s", NEWS)})
    assert "one" in str(every.attachments["s", NEWS].content), "it is not read before a turn needs it"
    _, turn = ask(every, "work", number=1)
    assert reads(turn) == 1
    assert "two" in str(every.attachments["s", NEWS].content)
    assert not every.stale
    assert reads(ask(every, "work", number=1)[1]) == 0
    every.detach(NEWS)
    assert ask(every, "publish", text="three")[0] == "nobody", "it is unsubscribed"


def test_what_changes_while_it_is_read_is_read_again(chat: Session) -> None:
    chat.attach(NEWS, refresh="notify")
    ask(chat, "publish", text="changes while it is read")
    until(lambda: chat.stale)
    ask(chat, "work", number=1)
    assert "changes while" in str(chat.attachments["s", NEWS].content)
    assert chat.stale
    ask(chat, "work", number=1)
    assert chat.attachments["s", NEWS].content.parts[0].data == "changed"
    assert not chat.stale


def test_what_cannot_be_read_again_is_tried_at_each_turn(chat: Session) -> None:
    ask(chat, "publish", text="whole")
    chat.attach(NEWS, refresh="notify")
    ask(chat, "publish", text="broken")
    until(lambda: chat.stale)
    for _ in range(2):
        _, turn = ask(chat, "work", number=1)
        assert "could not be read again, so this is the content of" in repr(turn)
        assert chat.attachments["s", NEWS].content.parts[0].data == "whole"
        assert chat.stale


def test_a_part_of_what_was_subscribed_to_counts_and_nothing_else(chat: Session) -> None:
    chat.attach(NEWS, refresh="notify")
    strange: list[Any] = [
        f"{NEWS}x",
        "news://toda",
        "news://",
        "",
        "NEWS://TODAY",
        "slow://report",
        7,
        None,
        ["news://today"],
    ]
    say(chat, *(("notifications/resources/updated", {"uri": uri}) for uri in strange))
    say(chat, ("notifications/resources/updated", {}), ("notifications/resources/updated", {"uri": "x" * 100_000}))
    assert not chat.stale
    say(chat, ("notifications/resources/updated", {"uri": f"{NEWS}/sport"}))
    assert chat.stale == {("s", NEWS)}


def test_a_flood_of_updates_is_told_once(chat: Session) -> None:
    told: list[int] = []
    chat.attach(NEWS, refresh="notify")
    chat.listeners.append(lambda: told.append(1))
    ask(chat, "publish", text="again", times=5000)
    until(lambda: chat.stale)
    ask(chat, "work", number=1)
    assert told == [1]


def test_a_server_that_tells_of_no_changes_is_refused_in_words(wb: Session) -> None:
    wb.connect("s", command=talkative("--plain"), env=ENV)
    wb.attach(NEWS)
    with pytest.raises(UsageError, match=r"declares no resources.subscribe.*once or turn"):
        wb.attach(NEWS, refresh="notify")
    assert wb.attachments["s", NEWS].refresh == "once"
    with pytest.raises(UsageError, match=r"once .* turn .* notify"):
        wb.attach(NEWS, refresh="never")  # type: ignore[arg-type]


def test_what_cannot_be_read_is_not_left_subscribed(chat: Session) -> None:
    ask(chat, "publish", text="broken")
    with pytest.raises(ServerError):
        chat.attach(NEWS, refresh="notify")
    assert not chat.attachments
    assert not chat.connection("s").notices.subscribed
    assert ask(chat, "publish", text="fine")[0] == "nobody"


def test_attaching_otherwise_unsubscribes(chat: Session) -> None:
    chat.attach(NEWS, refresh="notify")
    chat.attach(NEWS, refresh="turn")
    assert ask(chat, "publish", text="x")[0] == "nobody"


def test_a_new_connection_is_subscribed_again_and_what_may_have_changed_is_read(chat: Session) -> None:
    chat.attach(NEWS, refresh="notify")
    chat.reconnect("s")
    assert chat.stale == {("s", NEWS)}
    assert reads(ask(chat, "work", number=1)[1]) == 1
    assert reads(ask(chat, "work", number=1)[1]) == 0
    assert ask(chat, "publish", text="x")[0] == NEWS
    chat.disconnect("s")
    chat.connect("s", command=talkative("--plain"), env=ENV)
    (problem,) = [span for span in chat.spans if span.kind == "connect"][-1].detail["problems"]
    assert "news://today is read at each turn's start from now on: s does not tell of changes" in problem
    assert [reads(ask(chat, "work", number=1)[1]) for _ in range(2)] == [1, 1]


def test_a_dead_server_is_started_for_what_it_can_no_longer_tell_of(wb: Session) -> None:
    wb.connect("s", command=talkative(), env=ENV)
    wb.attach(NEWS, refresh="notify")
    dead = wb.connection("s")
    assert dead._process is not None
    dead._process._process.kill()
    until(lambda: not dead.alive)
    assert wb.connect("plain", command=talkative("--plain"), env=ENV)
    _, turn = ask(wb, "work", number=1)
    assert reads(turn) == 1
    assert wb.connection("s").alive
    assert reads(ask(wb, "work", number=1)[1]) == 0


def test_the_catalog_says_that_an_attached_resource_has_changed(chat: Session) -> None:
    chat.attach(NEWS, refresh="notify")
    ask(chat, "publish", text="new")
    until(lambda: chat.stale)
    found = rows(chat.offer, list(chat.attachments), chat.spans, ["resource"], chat.stale)
    assert {row.uri: row.state for row in found.values()} == {NEWS: "changed", "slow://report": "", "slow://broken": ""}


# -- roots


def test_a_server_is_told_of_the_folders_it_may_work_in(wb: Session, tmp_path: Path) -> None:
    odd = tmp_path / "My Dócs #1"
    odd.mkdir()
    wb.connect("s", command=talkative(), env=ENV, roots=[tmp_path, str(odd)])
    assert json.loads(ask(wb, "declares")[0])["roots"] == {"listChanged": False}
    roots = json.loads(ask(wb, "ask", method="roots/list")[0])["roots"]
    assert roots == [{"uri": each.resolve().as_uri(), "name": each.name} for each in (tmp_path, odd)]
    assert "%23" in roots[1]["uri"]
    wb.reconnect("s")
    assert len(json.loads(ask(wb, "ask", method="roots/list")[0])["roots"]) == 2


def test_without_roots_none_are_declared(every: Session) -> None:
    assert "roots" not in json.loads(ask(every, "declares")[0])
    assert ask(every, "ask", method="roots/list")[0].startswith("error")


def test_a_root_that_is_no_folder_is_refused_before_anything_starts(wb: Session, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for wrong, why in (
        ("no-such-folder", "there is no folder .*no-such-folder"),
        (tmp_path / "file", "there is no folder .*file"),
    ):
        with pytest.raises(UsageError, match=why):
            wb.connect("s", command=["no-such-command"], roots=[tmp_path, wrong])
    assert wb.spans == ()
    with pytest.raises(UsageError, match="no roots"):
        wb.connect("s", url="http://127.0.0.1:9", roots=[tmp_path], bridge=True)


# -- lists that change


def test_the_tools_of_a_running_turn_never_change(every: Session) -> None:
    offered: list[list[str]] = []

    class Noting(Scripted):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            offered.append([tool["function"]["name"] for tool in tools])
            return super().bind_tools(tools)

    grow = Reply(calls=(Call(id="1", name="s__grow", args={"name": "first"}),))
    wait = Reply(calls=(Call(id="2", name="s__work", args={"number": 3, "each": 0.5}),))
    early = Reply(calls=(Call(id="3", name="s__first"),))
    model = Noting(replies=[grow, wait, early, Reply(text="done")])
    turn = every.ask("go", model=model, approve="all", new=True)
    assert "first" in [tool.name for tool in every.offer.tools], "it was listed again while the turn ran"
    assert len(offered) == 1
    assert "s__first" not in offered[0]
    assert [span.status for span in turn.spans if span.name == "s__first"] == ["refused"]
    every.ask("go", model=Noting(replies=[early, Reply(text="done")]), approve="all", new=True)
    assert "s__first" in offered[1]
    assert every.read("new://first").parts[0].data == "new"


def test_a_displayed_catalog_follows_a_changed_list_by_itself(chat: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.test_widget import FakeComm
    from workbench import board as boards

    monkeypatch.setattr("comm.create_comm", lambda **opened: FakeComm(**opened))

    async def look() -> list[str]:
        board = boards.Board(chat, ("resource",))
        await chat.aask("go", model=calling("grow", name="second"), approve="all")
        sent: list[Any] = board.widget.comm.sent
        comm, heard = board.widget.comm, asyncio.Event()
        comm.heard = heard.set
        await asyncio.wait_for(heard.wait(), 10)
        return [message["row"][0] for message in sent if message["kind"] == "update"]

    assert asyncio.run(look()) == ["resource s new://second"]
    chat.servers._tell()  # the board's loop has ended


def test_a_click_that_is_refused_before_any_read_says_so_in_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.test_widget import FakeComm
    from workbench import board as boards

    monkeypatch.setattr("comm.create_comm", lambda **opened: FakeComm(**opened))
    entry = {"uri": "p:1", "name": "p", "annotations": {"audience": ["user"]}}
    answers = {
        "resources/list": [{"resources": [entry]}],
        "resources/read": [{"contents": [{"uri": "p:1", "text": "x"}]}],
    }
    (replies := tmp_path / "replies.json").write_text(json.dumps(answers))

    async def clicked(wb: Session) -> list[Any]:
        board = boards.Board(wb, ("resource",))
        for _ in range(2):
            sent: list[Any] = board.widget.comm.sent
            del sent[:]
            message = {"method": "custom", "content": {"kind": "attach", "key": "resource s p:1", "values": {}}}
            board.widget.comm.deliver({"content": {"data": message}, "buffers": []})
            async with asyncio.timeout(10):
                while not any(m["kind"] in ("update", "notice") for m in sent):  # noqa: ASYNC110 - a page sets no event
                    await asyncio.sleep(0.05)
        return sent

    with Session() as wb:
        wb.connect("s", command=raw(replies))
        (row,) = (m["row"] for m in asyncio.run(clicked(wb)) if m["kind"] == "update")
    assert row[10] == "failed" and "for people only" in row[11]


def test_a_click_on_a_slow_resource_is_answered_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.test_widget import FakeComm, click
    from workbench import board as boards

    monkeypatch.setattr("comm.create_comm", lambda **opened: FakeComm(**opened))
    answers = {"resources/list": [{"resources": [{"uri": "p:1", "name": "p"}]}], "resources/read": [None]}
    (replies := tmp_path / "replies.json").write_text(json.dumps(answers))

    async def clicked(wb: Session) -> tuple[list[Any], list[Any]]:
        board = boards.Board(wb, ("resource",))
        at_once = click(board.widget, kind="preview", key="resource s p:1", values={})
        sent: list[Any] = board.widget.comm.sent
        async with asyncio.timeout(10):
            while sent[-1]["kind"] != "update":  # noqa: ASYNC110 - a page sets no event
                await asyncio.sleep(0.05)
        return at_once, sent

    with Session() as wb:
        wb.connect("s", command=raw(replies), timeout=1.5)
        at_once, sent = asyncio.run(clicked(wb))
    assert at_once[0] == {"kind": "working", "key": "resource s p:1", "text": "reading …"}
    assert [message["text"] for message in sent if message["kind"] == "working"] == ["reading …", ""]
    assert sent[-1]["row"][10] == "failed"


def test_a_server_whose_lists_change_without_end_is_listed_once_a_second(chat: Session) -> None:
    times: list[float] = []
    chat.listeners.append(lambda: times.append(time.monotonic()))
    started = time.monotonic()
    for _ in range(5):
        say(chat, ("notifications/tools/list_changed", {}), ("notifications/prompts/list_changed", {}), times=200)
        time.sleep(0.3)
    until(lambda: len(times) >= 2)
    assert len(times) <= time.monotonic() - started + 1


# -- nonsense


def test_a_ping_is_answered_and_an_unknown_request_is_refused_as_such(every: Session) -> None:
    assert ask(every, "ask", method="ping")[0] == "{}"
    assert ask(every, "ask", method="no/such/method", params={"a": 1})[0] == "error -32601"
    assert ask(every, "ask", method="elicitation/create", params={"a": 1})[0] == "error -32602"
    assert ask(every, "ask", method="tools/call", params={"name": "x"})[0] == "error -32601"


@pytest.mark.parametrize(
    "notice",
    [
        ("notifications/no_such", {"a": [1]}),
        ("notifications/cancelled", {}),
        ("notifications/cancelled", {"requestId": 12345}),
        ("notifications/tasks/status", {"task": 1}),
        ("/list_changed", {}),
        ("", {}),
        ("notifications/initialized", {}),
    ],
)
def test_nonsense_ends_nothing_and_prints_nothing(
    every: Session, notice: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    say(every, notice, times=3)
    assert ask(every, "work", number=1)[0] == "did 1"
    assert capfd.readouterr() == ("", "")


# -- in a notebook


class Cells:
    """A notebook that somebody looks at, as a page keeps it: outputs in order, updated in place."""

    def __init__(self, client: Any, watched: bool) -> None:
        self.client, self.watched = client, watched
        self.lines: list[str] = []

    def run(self, code: str) -> list[dict[str, Any]]:
        """What is left of the outputs at the end; `lines` are the texts that were shown meanwhile."""
        outputs: list[dict[str, Any]] = []
        places: dict[str, dict[str, Any]] = {}
        self.lines = []

        def hear(message: dict[str, Any]) -> None:
            content, kind = message["content"], message["msg_type"]
            if kind in ("display_data", "stream", "error"):
                outputs.append(content)
            if kind == "display_data" and (place := content["transient"].get("display_id")):
                places[place] = content
            if kind == "update_display_data":
                places[content["transient"]["display_id"]]["data"] = content["data"]
            if kind in ("display_data", "update_display_data"):
                self.lines.append(content["data"].get("text/plain", ""))

        self.client.execute_interactive(code, timeout=60, allow_stdin=self.watched, output_hook=hear)
        return outputs

    def text(self, code: str) -> str:
        return "\n".join(output["data"]["text/plain"] for output in self.run(code))


@pytest.fixture(scope="module", params=[True, False], ids=["watched", "batch"])
def cells(request: pytest.FixtureRequest) -> Iterator[Cells]:
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(ROOT))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        made = Cells(client, request.param)
        made.run(f"%load_ext workbench\n%mcp connect s --env PYTHONPATH={ROOT} -- {' '.join(talkative())}")
        made.run(f"%mcp connect plain --env PYTHONPATH={ROOT} -- {' '.join(talkative('--plain'))}")
        yield made
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.parametrize(
    ("line", "shown", "result"),
    [
        ("%mcp read slow://report --server s", "slow://report: ", "the whole report"),
        ("%mcp attach slow://report --server s", "slow://report: ", "attached slow://report from s"),
        ("%mcp prompt brief --server s", "brief: ", "be brief"),
    ],
)
def test_a_cell_shows_how_far_a_read_has_come_and_keeps_only_its_result(
    cells: Cells, line: str, shown: str, result: str
) -> None:
    outputs = cells.run(f"print('before')\n{line}")
    assert len(outputs) == 2
    assert outputs[0]["text"] == "before\n"
    assert result in outputs[1]["data"]["text/plain"]
    *lines, last = cells.lines
    assert result in last
    if not cells.watched:
        assert lines == []
        return
    assert len(lines) >= 2
    assert lines == sorted(lines, key=lambda text: text.count("█"))
    assert all(text.startswith(shown) and "░" in text + "░" and re.search(r"\d of \d \(\d+%\)", text) for text in lines)


def test_a_read_that_fails_leaves_no_line_behind(cells: Cells) -> None:
    *before, error = cells.run("%mcp read slow://broken --server s")
    assert "it fell apart" in "".join(error["traceback"])
    assert [output["data"] for output in before] == ([{}] if cells.watched else [])
    (output,) = cells.run("%mcp read slow://report --server s --save /no/such/folder/file")[-1:]
    assert output["ename"] == "UsageError"
    assert cells.text(f"%mcp read {NEWS} --server s")


def test_logs_by_magic(cells: Cells) -> None:
    say = [["notifications/message", {"level": level, "data": f"a {level}\nline"}] for level in ("debug", "error")]
    shown = cells.run(
        "import workbench; from tests.servers.scripted import Scripted; from tests.servers.script import Call, Reply\n"
        f"call = Reply(calls=(Call(id='1', name='s__say', args={{'notices': {say!r}}}),))\n"
        "_ = workbench.session().ask('go', model=Scripted(replies=[call, Reply(text='x')]), approve='all')"
    )
    assert shown == [], "nothing is printed unasked"
    every = cells.text("%mcp logs s")
    assert "stderr:\n" in every
    assert every.endswith("stdout, beside the protocol:\n  nothing")
    assert re.search(r"log messages:\n  \d\d:\d\d:\d\dZ debug: a debug line\n  \d\d:\d\d:\d\dZ error: a error", every)
    assert "log messages of level warning and above:\n" in (some := cells.text("%mcp logs s --level warning"))
    assert "a error" in some
    assert "debug" not in some
    assert cells.text("%mcp logs s --lines 0").count("nothing") == 3
    assert cells.text("%mcp logs s --set-level warning").startswith("s is asked for log messages from warning on\n")
    (error,) = cells.run("%mcp logs plain --set-level debug")
    assert "declares no logging" in error["evalue"]
    (error,) = cells.run("%mcp logs s --level loud")
    assert "invalid choice" in error["evalue"]


def test_notify_and_root_by_magic(cells: Cells, tmp_path: Path) -> None:
    assert "read again when its server says it changed" in cells.text(f"%mcp attach {NEWS} --server s --refresh notify")
    cells.run("%mcp reconnect s")
    assert f"{NEWS} (server s); it may have changed, and the next turn reads it again" in cells.text("%mcp")
    (error,) = cells.run(f"%mcp attach {NEWS} --server plain --refresh notify")
    assert "declares no resources.subscribe" in error["evalue"]
    command = f"%mcp connect r --root {tmp_path} --root tests --env PYTHONPATH={ROOT} -- {' '.join(talkative())}"
    assert f"  it is told of the folder {ROOT / 'tests'}" in cells.text(command)
    (error,) = cells.run("%mcp connect r --root no-such-folder -- x")
    assert "there is no folder" in error["evalue"]
    assert "r: connected" in cells.text("%mcp disconnect plain\n%mcp")
    cells.run(f"%mcp connect plain --env PYTHONPATH={ROOT} -- {' '.join(talkative('--plain'))}")


# -- a server that nobody here wrote


@pytest.mark.npm
def test_server_everything_tells_of_progress_logs_changes_and_gets_roots(
    wb: Session, npm_server: tuple[str, str], tmp_path: Path
) -> None:
    offer = wb.connect("s", command=[*npm_server, "stdio"], roots=[tmp_path])
    assert "get-roots-list" in [
        tool.name for tool in until(lambda: wb.offer if len(wb.offer.tools) > 16 else None).tools
    ]
    assert tmp_path.name in ask(wb, "get-roots-list")[0]
    _, turn = ask(wb, "trigger-long-running-operation", duration=1, steps=4)
    assert progress(of(turn, "tool")) == "progress 4 of 4 (100%)"
    wb.set_log_level("s", "debug")
    uri = offer.resources[0].uri
    wb.attach(uri, refresh="notify")
    until(lambda: any("Received Subscribe Resource request" in m.text for m in wb.connection("s").log.tail(99, "info")))
    assert reads(ask(wb, "toggle-subscriber-updates")[1]) == 0
    until(lambda: wb.stale == {("s", uri)})
    assert reads(ask(wb, "toggle-simulated-logging")[1]) == 1
    until(lambda: any("message" in m.text.lower() and m.level in LEVELS for m in wb.connection("s").log.tail(99)))
