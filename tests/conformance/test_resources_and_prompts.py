"""What the official suite has no client scenario for: resources and prompts, message by message, over HTTP and stdio.

`server.py` keeps every message that our client sends; each check names the section of the specification it comes from.
"""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import server
from tests.conformance.server import LISTS, ODD, PINGING, READS, RELATIVE, REVISION, Seen, over_http
from tests.servers.script import Reply
from tests.servers.scripted import Scripted
from workbench import ConnectError, NotConnected, ServerError, Session


def over_stdio(log: Path) -> list[str]:
    return [sys.executable, str(server.__file__), str(log)]


@pytest.fixture(scope="module", params=["http", "stdio"])
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, Seen]]:
    """Connected once a transport; the tests look at what was sent and at what came of it."""
    with over_http() as checker, Session() as wb:
        if request.param == "http":
            wb.connect("c", url=checker.url)
            yield wb, checker.seen
        else:
            log = tmp_path_factory.mktemp("stdio") / "log"
            wb.connect("c", command=over_stdio(log))
            yield wb, Seen(log)


# -- the session


def test_over_http_the_handshake_comes_first_and_its_results_are_on_every_later_request() -> None:
    with over_http() as checker:
        with Session() as wb:
            wb.connect("c", url=checker.url)
            wb.read("a:1")
        seen = checker.seen.all()
        posts = [(headers, message) for verb, headers, message in seen if verb == "POST"]
        methods = [message["method"] for _, message in posts]
        assert methods[:2] == ["initialize", "notifications/initialized"], "Lifecycle, Initialization"
        assert "mcp-session-id" not in posts[0][0], "Transports, Session Management"
        sent = posts[0][1]["params"]
        assert sent["protocolVersion"] == REVISION and set(sent["clientInfo"]) >= {"name", "version"}, "Lifecycle"
        for headers, message in posts:
            assert message["jsonrpc"] == "2.0", "Messages"
            accepted = headers["accept"]
            assert "application/json" in accepted and "text/event-stream" in accepted, "Transports, Sending Messages"
        for headers, _ in posts[1:]:
            assert headers["mcp-session-id"] == checker.session, "Transports, Session Management"
            assert headers["mcp-protocol-version"] == REVISION, "Transports, Protocol Version Header"
        ids = [message["id"] for _, message in posts if "id" in message]
        assert len(set(ids)) == len(ids) and None not in ids, "Messages, Requests"
        assert seen[-1][0] == "DELETE" and seen[-1][1]["mcp-session-id"] == checker.session, "Session Management"


def test_over_stdio_the_handshake_comes_first_and_the_end_is_the_end_of_its_input(tmp_path: Path) -> None:
    seen = Seen(tmp_path / "log")
    with Session() as wb:
        wb.connect("c", command=over_stdio(tmp_path / "log"))
        wb.read(ODD)
    methods = [message["method"] for message in seen.messages()]
    assert methods[:2] == ["initialize", "notifications/initialized"], "Lifecycle, Initialization"
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == len(methods) + 1, "Transports, stdio: one message a line, and nothing else on it"
    assert lines[-1] == "null", "Lifecycle, Shutdown: the input is closed before any signal"


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-03-26"])
def test_an_older_revision_that_the_server_answers_is_spoken_from_then_on(revision: str) -> None:
    """Lifecycle, Version Negotiation; Transports, Protocol Version Header."""
    with over_http(revision) as checker, Session() as wb:
        wb.connect("c", url=checker.url)
        assert wb.read("a:1").parts[0].data == "words"
        assert wb.connections["c"].protocol == revision
        later = [headers for verb, headers, _ in checker.seen.all()[1:] if verb == "POST"]
        assert {headers["mcp-protocol-version"] for headers in later} == {revision}


def test_a_revision_that_nobody_knows_ends_the_handshake() -> None:
    """Lifecycle, Version Negotiation: a client that does not support it should disconnect."""
    with over_http("1999-01-01") as checker, Session() as wb:
        with pytest.raises(ConnectError, match="1999-01-01"):
            wb.connect("c", url=checker.url)
        assert [message["method"] for message in checker.seen.messages()] == ["initialize"]


def test_a_session_that_the_server_has_forgotten_is_begun_anew() -> None:
    """Transports, Session Management: a client that is answered 404 must initialize again, without a session id."""
    with over_http() as checker, Session() as wb:
        wb.connect("c", url=checker.url)
        checker.forget()
        assert wb.read("a:1").parts[0].data == "words"
        begun = [headers for _, headers, message in checker.seen.all() if (message or {}).get("method") == "initialize"]
        assert ["mcp-session-id" in headers for headers in begun] == [False, False]
        assert checker.seen.all()[-1][1]["mcp-session-id"] == checker.session
        (again,) = [span for span in wb.spans if span.kind == "connect" and span.actor == "host"]
        assert "begun anew" in again.detail["note"]
        checker.forget()
        assert wb.prompt("review", {"code": "x"}).messages
        assert wb.connections["c"].alive


def test_a_turn_begins_with_the_sessions_that_were_found_forgotten_begun_anew() -> None:
    """Transports, Session Management."""
    with over_http() as checker, Session() as wb:
        wb.connect("c", url=checker.url)
        checker.forget()
        with pytest.raises(NotConnected, match=r"no longer knows this session.*%mcp reconnect c"):
            wb.loop.run(wb.connections["c"].call("any", {}))  # a tool is not called again by itself
        turn = wb.ask("go", model=Scripted(replies=[Reply(text="done")]))
        assert [(span.kind, span.actor) for span in turn.spans if span.kind == "connect"] == [("connect", "host")]
        assert wb.connections["c"].alive


# -- what both transports carry


def test_all_pages_are_listed_with_each_cursor_as_it_came(done: tuple[Session, Seen]) -> None:
    """Utilities, Pagination: cursors are opaque."""
    wb, seen = done
    assert [resource.uri for resource in wb.offer.resources] == [entry["uri"] for entry in LISTS["resources/list"][1]]
    assert [template.uri for template in wb.offer.templates] == ["t:///{id}", "u:///{id}", "v:///{id}"]
    assert [prompt.name for prompt in wb.offer.prompts] == ["review", "other-0", "other-1"]
    for method in LISTS:
        assert [params.get("cursor") for params in seen.params(method)][:3] == server.CURSORS, method
        assert "cursor" not in seen.params(method)[0], "absent, not null"


def test_nothing_is_asked_for_that_was_not_declared(done: tuple[Session, Seen]) -> None:
    """Lifecycle, Capability Negotiation."""
    asked = {message["method"] for message in done[1].messages() if "method" in message}
    assert not asked & {"tools/list", "logging/setLevel"}


@pytest.mark.parametrize("uri", [uri for uri in READS if uri != PINGING])
def test_a_uri_goes_out_byte_for_byte_and_all_contents_come_back(done: tuple[Session, Seen], uri: str) -> None:
    """Resources, Reading Resources."""
    wb, seen = done
    content = wb.read(uri)
    sent = seen.params("resources/read")[-1]
    assert sent["uri"] == uri and set(sent) <= {"uri", "_meta"}
    expected = [x["text"] if "text" in x else base64.b64decode(x["blob"]) for x in READS[uri]]
    assert [part.data for part in content.parts] == expected
    assert [part.uri for part in content.parts] == [x["uri"] for x in READS[uri]]


def test_what_is_not_there_is_told_with_its_code(done: tuple[Session, Seen]) -> None:
    """Resources, Error Handling."""
    with pytest.raises(ServerError, match="Resource not found") as caught:
        done[0].read("t:///404")
    assert caught.value.code == -32002


def test_a_prompts_arguments_are_strings_and_its_contents_arrive(done: tuple[Session, Seen]) -> None:
    """Prompts, Getting a Prompt; Data Types."""
    wb, seen = done
    prompt = wb.offer.prompts[0]
    assert [(x.name, x.required) for x in prompt.arguments] == [("code", True), ("lines", False)]
    result = wb.prompt("review", {"code": "x", "lines": 3})  # type: ignore[dict-item]
    sent = seen.params("prompts/get")[-1]
    assert (sent["name"], sent["arguments"]) == ("review", {"code": "x", "lines": "3"})
    items: list[Any] = [message.items[0] for message in result.messages]
    assert [items[0].data, items[1].mime, items[2].uri] == ["plain", "image/png", "a:1"]


@pytest.mark.parametrize("uri", ["a:1", ODD, RELATIVE, "dir:///d/"])
def test_what_is_subscribed_to_is_read_again_when_the_server_says_so(done: tuple[Session, Seen], uri: str) -> None:
    """Resources, Subscriptions; schema, ResourceUpdatedNotification: it may name a sub-resource."""
    wb, seen = done
    wb.attach(uri, refresh="notify")  # the server says that it has changed while it is read
    try:
        turn = wb.ask("go", model=Scripted(replies=[Reply(text="done")]), new=True)
    finally:
        wb.detach(uri)
    assert [(span.actor, span.name) for span in turn.spans if span.kind == "read"] == [("host", uri)]
    assert [seen.params(f"resources/{verb}")[-1] for verb in ("subscribe", "unsubscribe")] == [{"uri": uri}] * 2


def test_a_completion_names_what_it_completes(done: tuple[Session, Seen]) -> None:
    """Utilities, Completion."""
    wb, seen = done
    assert wb.complete(wb.offer.templates[0], "id", "").values == ("7",)
    (sent,) = seen.params("completion/complete")
    assert sent["ref"] == {"type": "ref/resource", "uri": "t:///{id}"}
    assert sent["argument"] == {"name": "id", "value": ""}


def test_a_ping_is_answered_at_once_with_an_empty_result(done: tuple[Session, Seen]) -> None:
    """Utilities, Ping; over HTTP it comes in an event stream before the answer (Transports, Sending Messages)."""
    wb, seen = done
    assert wb.read(PINGING).parts[0].data == "after a ping"
    end = time.monotonic() + 5
    while not (pongs := [m for m in seen.messages() if m.get("id") == "ping-1"]) and time.monotonic() < end:
        time.sleep(0.01)
    assert pongs == [{"jsonrpc": "2.0", "id": "ping-1", "result": {}}]
