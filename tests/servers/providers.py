"""Stand-ins for OpenAI and Anthropic on this machine: scripted replies over the real wire protocol.

    asks = Reply(calls=(Call(id="call_1", name="read_resource", args={"uri": "a://b"}),))
    openai_stand_in.script(asks, Reply(text="Done."))
    model = ChatOpenAI(base_url=openai_stand_in.url, api_key="x", model="gpt-4o", max_retries=0)

Each request takes the next entry of the script; what it sent is kept in `requests`. Requests that the real service
would refuse get its 400 and take nothing from the script.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import ModuleType
from typing import Any

import pytest

from tests.servers import anthropic_messages, openai_chat
from tests.servers.script import Call, Failure, Refused, Reply, Tokens

__all__ = ["Call", "Failure", "Reply", "StandIn", "Tokens", "anthropic_stand_in", "openai_stand_in", "stand_in"]


class StandIn:
    """One provider: where it listens, what it will answer, what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        """For the chat model's `base_url`."""
        self.pending: deque[Reply | Failure] = deque()
        """What of the script is still to come."""
        self.requests: list[dict[str, Any]] = []
        """The JSON body of every request, refused ones too, in order of arrival."""

    def script(self, *replies: Reply | Failure) -> None:
        """Answer the next requests with these, after those that are still pending."""
        self.pending.extend(replies)


@contextmanager
def stand_in(protocol: ModuleType, base: str) -> Iterator[StandIn]:
    """Listen on a free port of the loopback, and answer in the words of `protocol`, a module of this folder.

    `base` is the part of the protocol's path that its client library expects in `base_url`.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"protocol": protocol}))
    standing = StandIn(f"http://127.0.0.1:{server.server_port}{base}")
    server.RequestHandlerClass.standing = standing  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="stand-in", daemon=True)
    thread.start()
    try:
        yield standing
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol: ModuleType
    standing: StandIn

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.partition("?")[0] != self.protocol.PATH:
            self._send(404, {"error": {"message": f"this stand-in only has {self.protocol.PATH}, not {self.path}"}})
            return
        self.standing.requests.append(body)
        try:
            self.protocol.check(body)
        except Refused as refused:
            self._send(400, self.protocol.error(refused))
            return
        self._answer(self._next(), body)

    def _next(self) -> Reply | Failure:
        try:
            return self.standing.pending.popleft()
        except IndexError:
            return Failure(status=500, message="the stand-in's script is at its end: script() one more reply")

    def _answer(self, reply: Reply | Failure, body: dict[str, Any]) -> None:
        if isinstance(reply, Failure):
            self._send(reply.status, self.protocol.error(reply))
        elif not body.get("stream"):
            self._send(200, self.protocol.whole(reply, body))
        else:
            self._head(200, "text/event-stream")
            with suppress(ConnectionError):  # a client that was stopped hangs up
                for event in self.protocol.stream(reply, body):
                    self.wfile.write(event)
                    self.wfile.flush()

    def _send(self, status: int, data: dict[str, Any]) -> None:
        self._head(status, "application/json")
        self.wfile.write(json.dumps(data).encode())

    def _head(self, status: int, mime: str) -> None:
        self.send_response(status)
        self.send_header("content-type", mime)
        if status in (429, 529):
            self.send_header("retry-after", "1")
        self.end_headers()  # no length and HTTP/1.0: the answer ends when we hang up

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the requests are kept, and tests print what they need."""


@pytest.fixture
def openai_stand_in() -> Iterator[StandIn]:
    """OpenAI's chat completions; `ChatOpenAI(base_url=openai_stand_in.url, api_key="x", model=..., max_retries=0)`."""
    with stand_in(openai_chat, "/v1") as standing:
        yield standing


@pytest.fixture
def anthropic_stand_in() -> Iterator[StandIn]:
    """Anthropic's messages; `ChatAnthropic(base_url=anthropic_stand_in.url, api_key="x", model=..., max_retries=0)`."""
    with stand_in(anthropic_messages, "") as standing:
        yield standing
