"""Faults that people met in public with connections, URIs and listings (shared/cases, sections A, B and D), and their kin.

Each test's docstring names the case; the servers are real processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import awkward, raw
from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from workbench import (
    ConnectError,
    NotConnected,
    NotOffered,
    RequestTimeout,
    ServerError,
    Session,
    UsageError,
    stdio,
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Session]:
    """A session with the default awkward server, for tests that leave it as it was."""
    with Session() as wb:
        wb.connect("awkward", command=awkward())
        yield wb


@pytest.fixture
def wb() -> Iterator[Session]:
    with Session() as made:
        yield made


def gone(pid: int, seconds: float = 2.0) -> bool:
    """Whether the process ends within that time (a zombie counts as ended)."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        threading.Event().wait(0.02)
    return False


def pid_of(wb: Session, name: str) -> int:
    pid = wb.connections[name].pid
    assert pid is not None
    return pid


# -- A. the loop and the server process


def test_a_server_that_dies_at_start_is_told_with_its_status_and_last_stderr_lines(wb: Session) -> None:
    """P01."""
    with pytest.raises(ConnectError) as caught:
        wb.connect("broken", command=awkward("--case", "die-on-start"))
    assert "status 3" in str(caught.value)
    assert "No module named 'acme_db'" in str(caught.value)
    assert wb.connections == {}


def test_a_session_is_opened_used_and_closed_from_different_threads(wb: Session) -> None:
    """P02: cells are tasks of their own; one owner task opens and closes."""
    steps: list[Callable[[], Any]] = [
        lambda: wb.connect("a", command=awkward()),
        lambda: wb.read("urn:isbn:123"),
        lambda: wb.disconnect("a"),
    ]
    failures: list[BaseException] = []

    def step(do: Callable[[], Any]) -> None:
        try:
            do()
        except BaseException as error:
            failures.append(error)

    for do in steps:
        thread = threading.Thread(target=step, args=(do,))
        thread.start()
        thread.join()
    assert failures == []


def test_an_interrupt_ends_a_read_at_once_and_the_session_goes_on(wb: Session) -> None:
    """P04."""
    wb.connect("awkward", command=awkward("--slow", "60"))
    record = wb.recorder._emit

    def interrupt_when_reading(span: Any) -> None:
        record(span)
        if span.kind == "read" and span.status == "open":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    wb.recorder._emit = interrupt_when_reading
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        wb.read("res://files/slow")
    assert time.monotonic() - begun < 20  # it would have been 60
    wb.recorder._emit = record
    assert wb.spans[-1].status == "cancelled"
    assert wb.read("urn:isbn:123").parts[0].data == "a book"


@pytest.mark.parametrize("case", ["default", "stubborn"])
def test_no_process_is_left_after_disconnect(wb: Session, case: str) -> None:
    """P05."""
    wb.connect("s", command=awkward("--case", case))
    pid = pid_of(wb, "s")
    wb.disconnect("s")
    assert gone(pid)


def test_no_process_is_left_after_reconnecting_under_the_same_name(wb: Session) -> None:
    """P05."""
    wb.connect("s", command=awkward("--case", "stubborn"))
    pid = pid_of(wb, "s")
    wb.connect("s", command=awkward())
    assert gone(pid)
    assert wb.read("urn:isbn:123").parts[0].data == "a book"


def test_an_interrupt_during_the_handshake_leaves_no_process(wb: Session) -> None:
    """P04, P05."""
    started: list[int] = []
    start = stdio.Server.start.__func__  # type: ignore[attr-defined]

    async def noted(cls: Any, *arguments: Any) -> stdio.Server:
        server: stdio.Server = await start(cls, *arguments)
        started.append(server.pid)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return server

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(stdio.Server, "start", classmethod(noted))
        wb.connect("mute", command=[sys.executable, "-c", "import sys; sys.stdin.read()"])
    assert gone(started[0])
    assert wb.connections == {}
    assert [span.status for span in wb.spans] == ["cancelled"]


_KERNEL = """
import sys, workbench
wb = workbench.Session()
wb.connect("s", command=sys.argv[1:])
print(wb.connections["s"].pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("end", ["exit", "kill"])
@pytest.mark.parametrize("wrapped", [False, True], ids=["direct", "behind a shell"])
def test_no_process_is_left_after_the_kernel_has_ended(end: str, wrapped: bool) -> None:
    """P05: a plain exit, and SIGKILL; also where a launcher such as npx stands between."""
    command = awkward("--case", "stubborn")
    if wrapped:
        command = ["sh", "-c", f"{' '.join(command)}; true"]
    kernel = subprocess.Popen([sys.executable, "-c", _KERNEL, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert kernel.stdin and kernel.stdout
    pid = int(kernel.stdout.readline())
    servers = [pid, *_children(pid)]
    assert len(servers) == 2 if wrapped else 1
    if end == "kill":
        kernel.kill()
    else:
        kernel.stdin.close()
    kernel.wait(20)
    assert [server for server in servers if not gone(server)] == []


def _children(pid: int) -> list[int]:
    return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_server_that_dies_during_a_read_is_told_in_words_now_and_later(wb: Session) -> None:
    """P06."""
    wb.connect("awkward", command=awkward())
    with pytest.raises(NotConnected) as caught:
        wb.read("res://files/die")
    assert "status 7" in str(caught.value)
    assert "fatal: simulated crash" in str(caught.value)
    assert not wb.connections["awkward"].alive


def test_a_dead_stdio_server_is_started_again_once_when_a_read_needs_it(wb: Session) -> None:
    wb.connect("awkward", command=awkward())
    first = wb.connections["awkward"].pid
    for _ in range(2):
        with pytest.raises(NotConnected):
            wb.read("res://files/die")
        if wb.connections["awkward"].pid == first:
            assert wb.read("urn:isbn:123").parts[0].data == "a book"
    assert wb.connections["awkward"].pid != first
    again = [span for span in wb.spans if span.kind == "connect" and span.actor == "host"]
    assert [span.detail["note"] for span in again] == ["it had ended, and is started again once by itself"]
    with pytest.raises(NotConnected, match=r"has ended, again(.|\n)*simulated crash(.|\n)*%mcp reconnect awkward"):
        wb.read("urn:isbn:123")
    wb.reconnect("awkward")
    with pytest.raises(NotConnected):
        wb.read("res://files/die")
    assert wb.read("urn:isbn:123").parts[0].data == "a book", "a person has connected it: once more by itself"


def test_two_reads_of_one_step_start_a_dead_server_once() -> None:
    with Session() as wb:
        wb.connect("a", command=awkward())
        with pytest.raises(NotConnected):
            wb.read("res://files/die")
        calls = [Call(id=f"c{n}", name="read_resource", args={"uri": "urn:isbn:123"}) for n in range(2)]
        turn = wb.ask("go", model=Scripted(replies=[Reply(calls=tuple(calls)), Reply(text="done")]))
    assert [s.status for s in turn.spans if s.kind == "connect"] == ["ok"], "and the trace of the turn shows it"
    assert [s.status for s in turn.spans if s.kind == "read"] == ["ok", "ok"]


def test_a_byte_that_is_not_utf8_is_replaced_noted_and_ends_nothing(shared: Session) -> None:
    """P07."""
    content = shared.read("res://files/badwire")
    assert content.parts[0].data == "caf\ufffd"
    assert content.repaired
    assert "not UTF-8" in shared.spans[-1].detail["note"]
    assert shared.read("urn:isbn:123").parts[0].data == "a book"


def test_chatter_on_stdout_stays_with_the_connection(wb: Session, capfd: pytest.CaptureFixture[str]) -> None:
    """P08."""
    wb.connect("noisy", command=awkward("--case", "noise"))
    assert wb.read("urn:isbn:123").parts[0].data == "a book"
    assert capfd.readouterr() == ("", "")
    assert "INFO got resources/read" in wb.connections["noisy"].stray(20)


def test_a_server_sees_the_variables_that_are_named_and_no_other(wb: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """P09, P35: passed by name, never echoed."""
    monkeypatch.setenv("AWKWARD_TOKEN", "s3cret-value")
    with pytest.raises(ConnectError, match="AWKWARD_TOKEN=unset"):
        wb.connect("a", command=awkward("--case", "die-on-start"))
    with pytest.raises(ConnectError) as caught:
        wb.connect("a", command=awkward("--case", "die-on-start"), env=["AWKWARD_TOKEN"])
    assert "AWKWARD_TOKEN=••••" in str(caught.value)
    assert "s3cret" not in str(caught.value) + repr(wb.spans)


def test_a_variable_that_is_not_set_is_an_error_before_anything_starts(wb: Session) -> None:
    """P09."""
    with pytest.raises(UsageError, match="NOT_SET_ANYWHERE"):
        wb.connect("a", command=awkward(), env=["NOT_SET_ANYWHERE"])
    with pytest.raises(UsageError, match="NOT_SET_ANYWHERE"):
        wb.connect("a", url="http://127.0.0.1:1/mcp", headers={"Authorization": "Bearer ${NOT_SET_ANYWHERE}"})
    assert wb.spans == ()


def test_python_is_the_one_of_this_process_whatever_the_path_says(wb: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    wb.connect("a", command=["python", *awkward()[1:]])
    assert wb.read("urn:isbn:123").parts[0].data == "a book"


# -- B. URIs


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("https://Docs.Example.com", "front page"),
        ("HTTP://docs.example/Ab", "scheme kept"),
        ("file:///repo/My Docs/plan v2.md", "# plan v2"),
        ("docs://münchen/straße", "grüß gott"),
        ("file:///C:/x", "on drive C"),
        ("urn:isbn:123", "a book"),
    ],
)
def test_what_was_listed_is_read_as_the_server_spelled_it(shared: Session, uri: str, text: str) -> None:
    """P12, P13."""
    assert uri in [resource.uri for resource in shared.offer.resources]
    content = shared.read(uri)
    assert (content.uri, content.parts[0].data) == (uri, text)
    assert shared.spans[-1].detail["uri"] == uri


@pytest.mark.parametrize(
    ("encoded", "listed"),
    [
        ("file:///repo/My%20Docs/plan%20v2.md", "file:///repo/My Docs/plan v2.md"),
        ("docs://m%C3%BCnchen/stra%C3%9Fe", "docs://münchen/straße"),
    ],
)
def test_an_encoded_spelling_of_a_listed_uri_reads_the_listed_one(shared: Session, encoded: str, listed: str) -> None:
    """P13."""
    assert shared.read(encoded).uri == listed


def test_no_type_of_the_sdk_leaves_the_connection(shared: Session) -> None:
    """P14: what is listed, read and traced is plain data, so it is JSON."""
    shared.read("urn:isbn:123")
    json.dumps([span.to_json() for span in shared.spans])
    for entry in (*shared.offer.resources, *shared.offer.templates, *shared.offer.tools):
        assert type(entry).__module__ == "workbench.content"
        assert all(type(value).__module__ in ("builtins",) for value in vars(entry).values())


def test_a_relative_uri_neither_empties_the_catalog_nor_is_rewritten(wb: Session) -> None:
    """P15."""
    assert len(wb.connect("a", command=awkward("--case", "relative-uri")).resources) == 19
    assert wb.read("users/me").parts[0].data == "it is me"


def test_a_template_is_refused_until_its_placeholders_are_filled(shared: Session) -> None:
    """P16."""
    assert "crm://customer/{id}/subscription" in [template.uri for template in shared.offer.templates]
    with pytest.raises(NotOffered, match="fill in id"):
        shared.read("crm://customer/{id}/subscription")
    assert '"customer": "9"' in str(shared.read("crm://customer/9/subscription").parts[0].data)


# -- D. listings


def test_all_pages_of_all_lists_are_in_the_offer(shared: Session) -> None:
    """P22."""
    offer = shared.offer
    assert [len(x) for x in (offer.resources, offer.templates, offer.prompts, offer.tools)] == [18, 2, 4, 9]
    assert offer.problems == ()


@pytest.mark.parametrize("case", ["tools-only", "liar"])
def test_missing_and_lying_capabilities_leave_the_tools(wb: Session, case: str) -> None:
    """P23."""
    offer = wb.connect("a", command=awkward("--case", case))
    assert (len(offer.resources), len(offer.prompts), len(offer.tools)) == (0, 0, 9)
    assert offer.problems == ()


def test_connecting_reads_no_content_and_each_read_stands_alone(wb: Session) -> None:
    """P24."""
    wb.connect("awkward", command=awkward())
    assert [span.kind for span in wb.spans] == ["connect"]
    with pytest.raises(ServerError, match="store offline"):
        wb.read("res://files/boom")
    assert wb.read("urn:isbn:123").parts[0].data == "a book"


# -- their kin: replies that no SDK would write


@pytest.fixture
def answering(wb: Session, tmp_path: Path) -> Callable[..., Session]:
    """Connect to a server that sends exactly these replies."""

    def connect(replies: dict[str, Any], **options: Any) -> Session:
        (file := tmp_path / "replies.json").write_text(json.dumps(replies))
        wb.connect("raw", command=raw(file), **options)
        return wb

    return connect


def test_a_bad_entry_costs_one_entry(answering: Callable[..., Session]) -> None:
    entries = [
        {"uri": "a:1", "name": "one"},
        {"name": "no uri"},
        "text",
        None,
        {"uri": 5},
        {"uri": "a:2", "size": "big"},
    ]
    wb = answering(
        {"resources/list": [{"resources": entries}], "tools/list": [{"tools": [{"name": "t", "inputSchema": 3}]}]}
    )
    assert [resource.uri for resource in wb.offer.resources] == ["a:1", "a:2"]
    assert wb.offer.resources[1].size is None
    assert len(wb.offer.problems) == 4
    assert [tool.name for tool in wb.offer.tools] == ["t"]


def test_fifty_thousand_bad_entries_are_a_few_sentences_and_a_number(answering: Callable[..., Session]) -> None:
    broken = '{"jsonrpc": "2.0", "id": @ID@, "error": {"code": 1, "message": "page two is lost"}}'
    pages = [{"resources": [{}] * 50_000 + [{"uri": "a:1"}], "nextCursor": "2"}, broken]
    wb = answering({"resources/list": pages, "tools/list": [{"tools": [{}]}]})
    assert [resource.uri for resource in wb.offer.resources] == ["a:1"]
    assert len(wb.offer.problems) < 30
    assert "resources/list has 49,981 more" in str(wb.offer.problems)
    assert "page two is lost" in str(wb.offer.problems)
    assert "tools/list" in wb.offer.problems[-1]


def test_a_server_that_names_itself_by_a_secret_is_masked(
    tmp_path: Path, wb: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWKWARD_TOKEN", secret := "hunter2-and-more-of-it")
    entry = {"uri": "a:" + "x" * 190 + secret, "name": "n"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {"resources": {}}}
    replies = {
        "initialize": [{**hello, "serverInfo": {"name": f"raw {secret}", "version": "1"}}],
        "resources/list": [{"resources": [entry, entry]}],
    }
    (file := tmp_path / "replies.json").write_text(json.dumps(replies))
    wb.connect("raw", command=raw(file), env=["AWKWARD_TOKEN"])
    said = f"{wb.connections['raw'].server_info} {wb.offer.problems} {wb.spans}"
    assert "twice" in said and secret[:8] not in said


@pytest.mark.parametrize("cursor", ["", "again"])
def test_an_empty_or_repeated_cursor_ends_a_list(answering: Callable[..., Session], cursor: str) -> None:
    wb = answering({"resources/list": [{"resources": [{"uri": "a:1"}], "nextCursor": cursor}]})
    assert [resource.uri for resource in wb.offer.resources] == ["a:1"]


def test_a_reply_that_cannot_be_parsed_is_an_error_at_once(answering: Callable[..., Session]) -> None:
    listed = {"resources": [{"uri": "a:1"}]}
    broken = '{"jsonrpc": "2.0", "id": @ID@, "result": {"contents": [}}'
    wb = answering(
        {"resources/list": [listed], "resources/read": [broken, {"contents": [{"uri": "a:1", "text": "fine"}]}]}
    )
    with pytest.raises(ServerError, match="cannot be parsed"):
        wb.read("a:1")
    assert wb.read("a:1").parts[0].data == "fine"


def test_a_server_that_never_answers_the_handshake_is_given_up(wb: Session) -> None:
    with pytest.raises(ConnectError, match=r"no answer to the handshake within 0\.5 s"):
        wb.connect("mute", command=[sys.executable, "-c", "import sys; sys.stdin.read()"], timeout=0.5)


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ({}, "it answered the handshake with {}, which is no valid answer of MCP"),
        ({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": "hunter2-is-secret" + "x" * 500},
         'it answered the handshake with serverInfo "••••' + "x" * 184 + "… (+317 characters), which is no valid answer"),
        ('{"jsonrpc": "2.0", "id": @ID@, "result": [1]}',
         'its reply of 42 characters is no valid message of MCP.*on stdout:\n    {"jsonrpc": "2.0", "id": 0, "result": [1]}\n'),
    ],
)  # fmt: skip
def test_a_handshake_that_is_none_is_told_by_what_was_sent(
    answering: Callable[..., Session], monkeypatch: pytest.MonkeyPatch, reply: Any, shown: str
) -> None:
    monkeypatch.setenv("AWKWARD_TOKEN", "hunter2-is-secret")
    with pytest.raises(ConnectError) as caught:
        answering({"initialize": [reply]}, env=["AWKWARD_TOKEN"])
    said = str(caught.value)
    assert all(part in said for part in shown.split(".*"))
    assert "pydantic" not in said and "validation error" not in said and "hunter2" not in said


def test_a_request_that_is_not_answered_times_out_and_the_next_one_works(answering: Callable[..., Session]) -> None:
    replies = {
        "resources/list": [{"resources": [{"uri": "a:1"}]}],
        "resources/read": [None, {"contents": [{"uri": "a:1", "text": "fine"}]}],
    }
    wb = answering(replies, timeout=1)
    with pytest.raises(RequestTimeout, match=r"within 1 s"):
        wb.read("a:1")
    assert wb.read("a:1").parts[0].data == "fine"


def test_a_read_with_no_or_odd_contents_is_no_crash(answering: Callable[..., Session]) -> None:
    odd = [{}, {"contents": []}, {"contents": "x"}, {"contents": [3, {"text": 5}, {"uri": 7, "text": "kept"}]}]
    wb = answering({"resources/list": [{"resources": [{"uri": "a:1"}]}], "resources/read": odd})
    parts = [[part.data for part in wb.read("a:1").parts] for _ in odd]
    assert parts == [[], [], [], ["[This part holds neither text nor data.]", "kept"]]


# -- bad input


def test_an_unknown_command_is_told(wb: Session) -> None:
    with pytest.raises(ConnectError, match="no command 'no-such-command' on the PATH"):
        wb.connect("a", command=["no-such-command"])


def test_an_address_where_nobody_listens_is_told(wb: Session) -> None:
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1:9/mcp.*could not be connected"):
        wb.connect("a", url="http://127.0.0.1:9/mcp", timeout=10)


@pytest.mark.parametrize(
    "options", [{}, {"command": ["x"], "url": "http://h"}, {"url": "ftp://h"}, {"command": ["x"], "timeout": 0}]
)
def test_a_target_that_is_none_is_refused_before_anything_starts(wb: Session, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        wb.connect("a", **options)
    assert wb.spans == ()


def test_a_failed_connect_leaves_the_connection_of_that_name(wb: Session) -> None:
    wb.connect("a", command=awkward())
    with pytest.raises(ConnectError):
        wb.connect("a", command=awkward("--case", "die-on-start"))
    assert wb.read("urn:isbn:123").parts[0].data == "a book"


def test_an_unknown_connection_names_those_there_are(shared: Session) -> None:
    with pytest.raises(NotConnected, match="connected are: awkward"):
        shared.disconnect("other")


def test_a_uri_that_nobody_offers_lists_near_ones(shared: Session) -> None:
    with pytest.raises(NotOffered, match="sap-btp://sum-abap-v1"):
        shared.read("sap-btp://sum-abap")


def test_the_reaper_ends_what_is_on_its_list_when_its_input_ends() -> None:
    server = subprocess.Popen(["sleep", "100"], start_new_session=True)
    reaper = Path(sys.modules["workbench"].__file__ or "").with_name("reaper.py")
    lines = f"+{server.pid}\n+{os.getpid() + 10_000_000}\n-{os.getpid() + 10_000_000}\n"
    subprocess.run([sys.executable, "-I", "-S", str(reaper)], input=lines.encode(), check=True, timeout=20)
    assert server.wait(5) == -signal.SIGTERM
