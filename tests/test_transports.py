"""The same server over stdio, streamable HTTP and legacy SSE; a real server from npm; and addresses that are no server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from tests.test_notices import over_http
from workbench import ConnectError, NotConnected, ServerError, Session, WorkbenchError

MATRIX = "sap-btp://sum-abap-v1"


@contextmanager
def served(option: str) -> Iterator[str]:
    """The bundled server on a free port: its origin."""
    server = subprocess.Popen([sys.executable, "-m", "workbench.demo", option, "0"], stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        for line in server.stderr:
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                yield found[0]
                return
        raise AssertionError("the server did not say where it listens")
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="module", params=["stdio", "memory", "http", "sse"])
def demo(request: pytest.FixtureRequest) -> Iterator[Session]:
    with Session() as wb:
        if request.param == "stdio":
            wb.connect("demo")
            yield wb
        elif request.param == "memory":
            from workbench.demo.server import build

            wb.connect("demo", server=build())
            yield wb
        else:
            with served(f"--{request.param}") as origin:
                path = {"http": "/mcp", "sse": "/sse"}[request.param]
                wb.connect("demo", url=origin + path, transport=request.param)
                yield wb
                wb.close()


def test_every_transport_shows_the_same_offer_and_content(demo: Session) -> None:
    assert [len(x) for x in (demo.offer.resources, demo.offer.templates, demo.offer.prompts, demo.offer.tools)] == [
        8,
        1,
        2,
        2,
    ]
    content = demo.read(MATRIX)
    assert content.size > 11_000
    assert "S/4HANA 2023" in str(content.parts[0].data)[2000:]


def test_every_transport_answers_a_whole_turn(demo: Session) -> None:
    turn = demo.ask("Which products does the SUM ABAP test matrix cover?", new=True)
    assert "S/4HANA 2023" in turn.answer
    assert turn.totals.reads == 1


def test_a_server_that_is_made_in_the_notebook_is_tried_without_a_process() -> None:
    from mcp.server.fastmcp import FastMCP

    mine = FastMCP("mine")
    mine.resource("notes://today", name="today", description="What happened today")(lambda: "It rained.")
    with Session() as wb:
        wb.connect("mine", server=mine)
        assert "It rained." in wb.ask("What happened today?").answer
        mine.resource("notes://tomorrow", name="tomorrow", description="What happens tomorrow")(lambda: "Sun.")
        assert len(wb.reconnect("mine").resources) == 2
        with pytest.raises(ConnectError, match="object is no MCP server"):
            wb.connect("odd", server=object())


def test_a_server_over_http_that_goes_away_is_told_and_the_session_stays() -> None:
    with Session() as wb:
        with served("--http") as origin:
            wb.connect("demo", url=f"{origin}/mcp", timeout=5)
        with pytest.raises(WorkbenchError) as caught:
            wb.read(MATRIX)
        assert str(caught.value)
        wb.connect("local", command=[sys.executable, "-m", "workbench.demo"])
        assert wb.read(MATRIX, "local").size > 11_000


class _Answer(BaseHTTPRequestHandler):
    status, body, seen = 200, b"", list[str]()

    def do_POST(self) -> None:
        self.seen.append(str(self.headers.get("authorization")))
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(self.status)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_GET = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, r"401.*\n.*--header 'Authorization: Bearer \$\{NAME\}'"),
        (403, "403"),
        (404, "404|not found|terminated"),
        (500, "500"),
        (200, "content type|text/html"),
    ],
)
def test_an_address_that_is_no_mcp_server_is_told_in_one_error(status: int, says: str) -> None:
    handler = type("Handler", (_Answer,), {"status": status, "body": b"<html>hello</html>", "seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        with Session() as wb, pytest.raises(ConnectError) as caught:
            wb.connect(
                "site",
                url=f"http://127.0.0.1:{server.server_port}/mcp",
                headers={"Authorization": "Bearer t0p-s3cret"},
                timeout=10,
            )
    finally:
        server.shutdown()
        server.server_close()
    assert re.search(says, str(caught.value), re.IGNORECASE)
    assert handler.seen[0] == "Bearer t0p-s3cret"  # type: ignore[attr-defined]
    assert "t0p-s3cret" not in str(caught.value) + repr(wb.spans)


ANSWERS: dict[str, tuple[int, str, bytes]] = {
    "a:page": (200, "text/html", b"<html>bad gateway</html>"),
    "a:event": (200, "text/event-stream", b"event: message\ndata: {not json}\n\n"),
    "a:silent": (200, "text/event-stream", b": nothing\n\n"),
    "a:text": (200, "application/json", b"not json"),
    "a:empty": (200, "application/json", b""),
    "a:other": (200, "application/json", b'{"oops": 1}'),
    "a:nobody": (200, "application/json", b'{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"whose?"}}'),
    "a:cut": (200, "application/json", b'{"jsonrpc":"2.0","id":1,"res'),
    "a:500": (500, "text/plain", b"Traceback"),
    "a:400": (400, "application/json", b"{}"),
    "a:429": (429, "text/plain", b"slow down"),
}
LATIN = b'{"jsonrpc":"2.0","id":@ID@,"result":{"contents":[{"uri":"a:latin","text":"caf\xe9 \\ud800"}]}}'


class Faulty(BaseHTTPRequestHandler):
    """Speaks MCP but for the reads of `ANSWERS`. "a:cut" promises more bytes than it sends; notifications are a status 500."""

    def log_message(self, *_: Any) -> None: ...

    def answer(self, status: int, kind: str, body: bytes, more: int = 0) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body) + more))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def do_GET(self) -> None:
        self.answer(405, "text/plain", b"")

    def do_DELETE(self) -> None:
        self.answer(200, "text/plain", b"")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in asked:
            return self.answer(202 if asked["method"] == "notifications/initialized" else 500, "text/plain", b"")
        uri = asked.get("params", {}).get("uri")
        if uri in ANSWERS:
            return self.answer(*ANSWERS[uri], more=100 if uri == "a:cut" else 0)
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"resources": {}},
            "serverInfo": {"name": "f", "version": "1"},
        }
        results = {
            "initialize": hello,
            "resources/list": {"resources": [{"uri": each} for each in (*ANSWERS, "a:fine", "a:latin", "a:slow")]},
            "resources/read": {"contents": [{"uri": uri, "text": "fine"}]},
        }
        if uri == "a:slow":
            time.sleep(2)
        made = {"jsonrpc": "2.0", "id": asked["id"], "result": results.get(asked["method"], {})}
        body = LATIN.replace(b"@ID@", str(asked["id"]).encode()) if uri == "a:latin" else json.dumps(made).encode()
        self.answer(200, "application/json", body)


@pytest.fixture
def faulty() -> Iterator[Session]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Faulty)
    Thread(target=server.serve_forever, daemon=True).start()
    with Session() as wb:
        wb.connect("f", url=f"http://127.0.0.1:{server.server_port}/mcp", timeout=20)
        yield wb
    server.shutdown()
    server.server_close()


def test_an_answer_over_http_that_is_none_fails_its_own_read_at_once_and_nothing_else(faulty: Session) -> None:
    says = {
        "a:page": "text/html", "a:event": "ended before", "a:silent": "ended before", "a:text": "8 bytes cannot be parsed",
        "a:empty": "0 bytes", "a:other": "no message of MCP", "a:nobody": "whose", "a:cut": "broke off", "a:500": "status 500",
        "a:400": "status 400", "a:429": "status 429",
    }  # fmt: skip
    jobs = {uri: faulty.start_read(uri, "f") for uri in (*ANSWERS, "a:fine")}
    assert jobs.pop("a:fine").future.result(10).parts[0].data == "fine"
    for uri, job in jobs.items():
        assert says[uri] in str(job.future.exception(10)), uri
        assert isinstance(job.future.exception(), ServerError)
    assert faulty.read("a:fine").parts[0].data == "fine"
    assert [span.kind for span in faulty.spans].count("connect") == 1


def test_bytes_over_http_that_the_sdk_cannot_read_are_replaced(faulty: Session) -> None:
    """P07, over HTTP."""
    assert faulty.read("a:latin").parts[0].data == "caf\ufffd \ufffd"


def test_a_server_that_refuses_to_hear_of_a_cancelled_request_keeps_its_session(faulty: Session) -> None:
    job = faulty.start_read("a:slow", "f")
    time.sleep(0.5)
    job.cancel()
    job.future.exception(10)
    time.sleep(0.5)
    assert faulty.read("a:fine").parts[0].data == "fine"
    assert [span.kind for span in faulty.spans].count("connect") == 1


def test_a_server_over_http_that_dies_in_the_middle_of_a_read_is_told_at_once() -> None:
    with Session() as wb:
        with over_http() as url:
            wb.connect("t", url=url, timeout=60)
            job = wb.start_read("slow://report", "t")
            time.sleep(0.7)
        assert isinstance(job.future.exception(10), ServerError | NotConnected)
        with pytest.raises(NotConnected, match="%mcp reconnect t"):
            wb.read("slow://report")


@pytest.mark.npm
def test_server_everything_from_npm_connects_lists_reads_and_calls(npm_server: tuple[str, str]) -> None:
    """Issue 2: 7 resources, 2 templates, 4 prompts, 13 tools; 3 more for clients that answer forms and samples."""
    with Session() as wb:
        offer = wb.connect("everything", command=[*npm_server, "stdio"])
        assert [len(x) for x in (offer.resources, offer.templates, offer.prompts, offer.tools)] == [7, 2, 4, 16]
        assert wb.read(offer.resources[0].uri).size > 0
        connection = wb.connections["everything"]
        assert connection.alive
        answer = wb.loop.run(connection.call("echo", {"message": "hello"})).value
        assert "hello" in str(answer.items[0].data)
        pid = connection.pid
        wb.disconnect("everything")
        with pytest.raises(NotConnected):
            wb.disconnect("everything")
    assert pid is not None
