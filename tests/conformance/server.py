"""A server written against the specification of 2025-11-25 that keeps every message its client sends.

Over streamable HTTP in this process (`http`), or over stdio: `python server.py LOG`. Raw JSON-RPC, of no SDK.
"""

from __future__ import annotations

import base64
import http.server
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REVISION = "2025-11-25"
ODD, RELATIVE, PINGING = "x-odd://Host/a b/ü?q={1}#%41", "users/me", "a:ping"
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
CURSORS = [None, "ü/+=? 2", "3"]

LISTS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "resources/list": (
        "resources",
        [{"uri": uri, "name": uri} for uri in ("a:1", ODD, "a:3", RELATIVE, PINGING, "dir:///d/")],
    ),
    "resources/templates/list": (
        "resourceTemplates",
        [{"uriTemplate": f"{letter}:///{{id}}", "name": letter} for letter in "tuv"],
    ),
    "prompts/list": (
        "prompts",
        [{"name": "review", "arguments": [{"name": "code", "required": True}, {"name": "lines"}]}]
        + [{"name": f"other-{number}"} for number in range(2)],
    ),
}
READS: dict[str, list[dict[str, Any]]] = {
    "a:1": [{"uri": "a:1", "mimeType": "text/plain", "text": "words"}],
    ODD: [{"uri": ODD, "text": "odd words"}],
    "a:3": [
        {"uri": "a:3/x", "mimeType": "image/png", "blob": PNG},
        {"uri": "a:3/y", "mimeType": "text/plain", "text": "beside it"},
    ],
    RELATIVE: [{"uri": RELATIVE, "text": "it is me"}],
    PINGING: [{"uri": PINGING, "text": "after a ping"}],
    "dir:///d/": [{"uri": "dir:///d/f", "text": "a file"}],
    "t:///7": [{"uri": "t:///7", "text": "seven"}],
}


def answer(method: str, params: dict[str, Any], revision: str = REVISION) -> dict[str, Any]:
    """The result of a request, or `{"error": ...}`."""
    if method == "initialize":
        offered = {"resources": {"subscribe": True, "listChanged": True}, "prompts": {}, "completions": {}}
        return {"protocolVersion": revision, "capabilities": offered, "serverInfo": {"name": "checker", "version": "1"}}
    if method in LISTS:
        return _page(*LISTS[method], params.get("cursor"))
    if method == "resources/read" and params["uri"] in READS:
        return {"contents": READS[params["uri"]]}
    if method == "resources/read":
        return {"error": {"code": -32002, "message": "Resource not found", "data": {"uri": params["uri"]}}}
    if method == "prompts/get":
        resource = {"uri": "a:1", "mimeType": "text/plain", "text": "embedded text"}
        contents: list[dict[str, Any]] = [
            {"type": "text", "text": "plain"},
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            {"type": "resource", "resource": resource},
        ]
        return {"messages": [{"role": "user", "content": content} for content in contents]}
    return {"completion": {"values": ["7"]}} if method == "completion/complete" else {}


def _page(key: str, entries: list[dict[str, Any]], cursor: str | None) -> dict[str, Any]:
    if cursor not in CURSORS:
        return {"error": {"code": -32602, "message": "invalid cursor"}}
    number = CURSORS.index(cursor)
    third = len(entries) // 3
    page: dict[str, Any] = {key: entries[number * third : (number + 1) * third]}
    return page if number == 2 else {**page, "nextCursor": CURSORS[number + 1]}


class Replies:
    """What goes back for a message, in order: what the server asks or tells first, then the answer; nothing for others."""

    def __init__(self, revision: str = REVISION) -> None:
        self.revision, self.subscribed = revision, set[str]()

    def __call__(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        if "id" not in message or "method" not in message:
            return []
        method, params = message["method"], message.get("params") or {}
        result = answer(method, params, self.revision)
        said = result if "error" in result else {"result": result}
        before = self._before(method, params.get("uri", ""))
        return [{"jsonrpc": "2.0", **each} for each in (*before, {"id": message["id"], **said})]

    def _before(self, method: str, uri: str) -> list[dict[str, Any]]:
        if method == "resources/subscribe":
            self.subscribed.add(uri)
        elif method == "resources/unsubscribe":
            self.subscribed.discard(uri)
        elif method == "resources/read" and uri in self.subscribed:  # it changes while it is read
            changed = f"{uri}f" if uri.endswith("/") else uri
            return [{"method": "notifications/resources/updated", "params": {"uri": changed}}]
        elif method == "resources/read" and uri == PINGING:
            return [{"id": "ping-1", "method": "ping"}]
        return []


class Seen:
    """What the client has sent so far: `(HTTP method or "stdio", headers in lower case, JSON message)` in order."""

    def __init__(self, log: Path | None = None) -> None:
        self.kept: list[tuple[str, dict[str, str], Any]] = []
        self._log = log

    def all(self) -> list[tuple[str, dict[str, str], Any]]:
        if self._log is None:
            return list(self.kept)
        return [("stdio", {}, json.loads(line)) for line in self._log.read_text().splitlines()]

    def messages(self) -> list[dict[str, Any]]:
        return [message for _, _, message in self.all() if message]

    def params(self, method: str) -> list[dict[str, Any]]:
        return [message.get("params") or {} for message in self.messages() if message.get("method") == method]


class Checker(http.server.ThreadingHTTPServer):
    """The HTTP half: its address, what it has seen, and the session id that it takes."""

    def __init__(self, revision: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/mcp"
        self.seen, self.replies, self.sessions = Seen(), Replies(revision), 1

    @property
    def session(self) -> str:
        return f"session-{self.sessions}"

    def forget(self) -> None:
        """The server knows its sessions no more, as after a restart."""
        self.sessions += 1


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Checker

    def _note(self) -> Any:
        length = int(self.headers.get("content-length") or 0)
        message = json.loads(self.rfile.read(length)) if length else None
        self.server.seen.kept.append((self.command, {k.lower(): v for k, v in self.headers.items()}, message))
        return message

    def _reply(self, status: int, body: bytes = b"", kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.send_header("content-type", kind)
        self.send_header("mcp-session-id", self.server.session)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        message = self._note()
        if self.headers.get("mcp-session-id") not in (None, self.server.session):
            return self._reply(404)
        if not (said := [json.dumps(each) for each in self.server.replies(message)]):
            return self._reply(202)
        if len(said) == 1:
            return self._reply(200, said[0].encode())
        events = "".join(f"event: message\ndata: {each}\n\n" for each in said)
        self._reply(200, events.encode(), "text/event-stream")

    def do_GET(self) -> None:
        self._note()
        self._reply(405)

    def do_DELETE(self) -> None:
        self._note()
        self._reply(200)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def over_http(revision: str = REVISION) -> Iterator[Checker]:
    with Checker(revision) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.shutdown()


def main(log: Path) -> None:
    """Serve on stdin and stdout; each message is a line of `log`, and the end of stdin a `null`."""
    replies = Replies()
    with log.open("a", encoding="utf-8", buffering=1) as kept:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            kept.write(json.dumps(message) + "\n")
            for each in replies(message):
                print(json.dumps(each), flush=True)
        kept.write("null\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
