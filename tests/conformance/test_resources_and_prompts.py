"""What the official suite has no client scenario for: resources and prompts, message by message, over streamable HTTP.

A server of our own, written against the specification of 2025-11-25, keeps every message that the client sends; each check
names the section it comes from.
"""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from workbench import ServerError, Session

REVISION, SESSION = "2025-11-25", "session-7f3a"
ODD = "x-odd://Host/a b/ü?q={1}#%41"
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
PAGES: dict[str | None, dict[str, Any]] = {
    None: {"resources": [{"uri": "a:1", "name": "one"}], "nextCursor": "ü/+=? 2"},
    "ü/+=? 2": {"resources": [{"uri": ODD, "name": "odd"}], "nextCursor": "3"},
    "3": {"resources": [{"uri": "a:3", "name": "three"}]},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a request, or `{"error": ...}`."""
    if method == "initialize":
        offered = {"resources": {"subscribe": True, "listChanged": True}, "prompts": {}, "completions": {}}
        info = {"name": "checker", "version": "1"}
        return {"protocolVersion": REVISION, "capabilities": offered, "serverInfo": info}
    if method == "resources/list":
        return PAGES.get(params.get("cursor"), {"error": {"code": -32602, "message": "invalid cursor"}})
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": "t:///{id}", "name": "t"}]}
    if method == "resources/read":
        return READS.get(params["uri"], {"error": {"code": -32002, "message": "Resource not found"}})
    if method == "prompts/list":
        arguments = [{"name": "code", "required": True}, {"name": "lines"}]
        return {"prompts": [{"name": "review", "arguments": arguments}]}
    if method == "prompts/get":
        resource = {"uri": "a:1", "mimeType": "text/plain", "text": "embedded text"}
        contents: list[dict[str, Any]] = [
            {"type": "text", "text": "plain"},
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            {"type": "resource", "resource": resource},
        ]
        return {"messages": [{"role": "user", "content": content} for content in contents]}
    return {"completion": {"values": ["7"]}} if method == "completion/complete" else {}


READS: dict[str, dict[str, Any]] = {
    "a:1": {"contents": [{"uri": "a:1", "mimeType": "text/plain", "text": "words"}]},
    ODD: {"contents": [{"uri": ODD, "text": "odd words"}]},
    "a:3": {
        "contents": [
            {"uri": "a:3/x", "mimeType": "image/png", "blob": PNG},
            {"uri": "a:3/y", "mimeType": "text/plain", "text": "beside it"},
        ]
    },
    "t:///7": {"contents": [{"uri": "t:///7", "text": "seven"}]},
}


class Seen(list[tuple[str, dict[str, str], dict[str, Any]]]):
    """HTTP method, headers in lower case, and JSON message, of every request in order."""

    def params(self, method: str) -> list[dict[str, Any]]:
        return [message.get("params") or {} for _, _, message in self if message.get("method") == method]


@contextmanager
def checker() -> Iterator[tuple[str, Seen]]:
    seen = Seen()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _note(self) -> dict[str, Any]:
            length = int(self.headers.get("content-length") or 0)
            message = json.loads(self.rfile.read(length)) if length else {}
            seen.append((self.command, {k.lower(): v for k, v in self.headers.items()}, message))
            return message

        def _reply(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.send_header("content-type", "application/json")
            self.send_header("mcp-session-id", SESSION)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            message = self._note()
            if "id" not in message:
                return self._reply(202)
            result = answer(message["method"], message.get("params") or {})
            said = result if "error" in result else {"result": result}
            self._reply(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}).encode())

        def do_GET(self) -> None:
            self._note()
            self._reply(405)

        def do_DELETE(self) -> None:
            self._note()
            self._reply(200)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/mcp", seen
        server.shutdown()


@pytest.fixture(scope="module")
def done() -> Iterator[tuple[Session, Seen]]:
    """All of it once; the tests look at what was sent and at what came of it."""
    with checker() as (url, seen), Session() as wb:
        wb.connect("c", url=url)
        yield wb, seen


def test_the_handshake_comes_first_and_its_results_are_on_every_later_request() -> None:
    with checker() as (url, seen):
        with Session() as wb:
            wb.connect("c", url=url)
            wb.read("a:1")
        posts = [(headers, message) for method, headers, message in seen if method == "POST"]
        methods = [message["method"] for _, message in posts]
        assert methods[:2] == ["initialize", "notifications/initialized"], "Lifecycle, Initialization"
        sent = posts[0][1]["params"]
        assert sent["protocolVersion"] == REVISION and set(sent["clientInfo"]) >= {"name", "version"}, "Lifecycle"
        for headers, message in posts:
            assert message["jsonrpc"] == "2.0", "Messages"
            accepted = headers["accept"]
            assert "application/json" in accepted and "text/event-stream" in accepted, "Transports, Sending Messages"
        for headers, _ in posts[1:]:
            assert headers["mcp-session-id"] == SESSION, "Transports, Session Management"
            assert headers["mcp-protocol-version"] == REVISION, "Transports, Protocol Version Header"
        ids = [message["id"] for _, message in posts if "id" in message]
        assert len(set(ids)) == len(ids) and None not in ids, "Messages, Requests"
        assert seen[-1][0] == "DELETE" and seen[-1][1]["mcp-session-id"] == SESSION, "Transports, Session Management"


def test_all_pages_are_listed_with_each_cursor_as_it_came(done: tuple[Session, Seen]) -> None:
    """Utilities, Pagination: cursors are opaque."""
    wb, seen = done
    assert [resource.uri for resource in wb.offer.resources] == ["a:1", ODD, "a:3"]
    assert [params.get("cursor") for params in seen.params("resources/list")][:3] == [None, "ü/+=? 2", "3"]
    assert [template.uri for template in wb.offer.templates] == ["t:///{id}"]


def test_nothing_is_asked_for_that_was_not_declared(done: tuple[Session, Seen]) -> None:
    """Lifecycle, Capability Negotiation."""
    assert not done[1].params("tools/list")


@pytest.mark.parametrize("uri", ["a:1", ODD, "a:3", "t:///7"])
def test_a_uri_goes_out_byte_for_byte_and_all_contents_come_back(done: tuple[Session, Seen], uri: str) -> None:
    """Resources, Reading Resources."""
    wb, seen = done
    content = wb.read(uri)
    sent = seen.params("resources/read")[-1]
    assert sent["uri"] == uri and set(sent) <= {"uri", "_meta"}
    expected = [x["text"] if "text" in x else base64.b64decode(x["blob"]) for x in READS[uri]["contents"]]
    assert [part.data for part in content.parts] == expected
    assert [part.uri for part in content.parts] == [x["uri"] for x in READS[uri]["contents"]]


def test_what_is_not_there_is_told_with_its_code(done: tuple[Session, Seen]) -> None:
    """Resources, Error Handling."""
    with pytest.raises(ServerError, match="Resource not found") as caught:
        done[0].read("t:///404")
    assert caught.value.code == -32002


def test_a_prompts_arguments_are_strings_and_its_contents_arrive(done: tuple[Session, Seen]) -> None:
    """Prompts, Getting a Prompt; Data Types."""
    wb, seen = done
    (prompt,) = wb.offer.prompts
    assert [(x.name, x.required) for x in prompt.arguments] == [("code", True), ("lines", False)]
    result = wb.prompt("review", {"code": "x", "lines": 3})  # type: ignore[dict-item]
    sent = seen.params("prompts/get")[-1]
    assert (sent["name"], sent["arguments"]) == ("review", {"code": "x", "lines": "3"})
    items: list[Any] = [message.items[0] for message in result.messages]
    assert [items[0].data, items[1].mime, items[2].uri] == ["plain", "image/png", "a:1"]


def test_subscribing_and_completing_have_the_shapes_of_the_specification(done: tuple[Session, Seen]) -> None:
    """Resources, Subscriptions; Utilities, Completion."""
    wb, seen = done
    wb.attach("a:1", refresh="notify")
    wb.detach("a:1")
    assert [seen.params(f"resources/{verb}") for verb in ("subscribe", "unsubscribe")] == [[{"uri": "a:1"}]] * 2
    assert wb.complete(wb.offer.templates[0], "id", "").values == ("7",)
    (sent,) = seen.params("completion/complete")
    assert sent["ref"] == {"type": "ref/resource", "uri": "t:///{id}"}
    assert sent["argument"] == {"name": "id", "value": ""}
