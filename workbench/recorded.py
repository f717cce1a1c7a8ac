"""A connection that answers from a recording: two designs see the same bytes, and no server is needed.

A recording is a file of JSON lines, one for each request and its answer as they went over the wire, and one for what a server
said of itself. What is not in it is asked of the live server, where there is one, and added.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from .connection import Connection
from .errors import NotConnected, ServerError, UsageError
from .recorder import opened
from .target import Target

__all__ = ["Recorded", "Recording"]


class Recording:
    """Requests and answers of one or several servers, kept in a file or, without one, in memory."""

    def __init__(self, path: str | Path | None = None, mask: Callable[[str], str] = str) -> None:
        self.path = Path(path).expanduser() if path is not None else None
        self._mask = mask
        self._answers: dict[str, dict[str, Any]] = {}
        self.servers: dict[str, dict[str, Any]] = {}
        """By name, what each said of itself: `server`, `protocol`, `capabilities`."""
        if self.path is not None and self.path.exists():
            for number, line in enumerate(self.path.read_text(encoding="utf-8").splitlines(), 1):
                self._take(line, f"{self.path}, line {number}")

    @classmethod
    def of(cls, lines: Iterable[str]) -> Recording:
        """One in memory, from the `lines` of another."""
        made = cls()
        for number, line in enumerate(lines, 1):
            made._take(line, f"line {number}")
        return made

    def lines(self) -> list[str]:
        """What stands in its file."""
        return [self._line(each) for each in (*self.servers.values(), *self._answers.values())]

    def _line(self, found: Mapping[str, Any]) -> str:
        return self._mask(json.dumps(found, ensure_ascii=False))

    def _take(self, line: str, where: str) -> None:
        try:
            found = json.loads(line)
            if "method" in found:
                self._answers[_key(found["server"], found["method"], found["params"])] = found
            else:
                self.servers[found["server"]] = found
        except (ValueError, KeyError, TypeError):
            raise UsageError(f"{where} is none of a recording; it may have been torn: take it out") from None

    def answer(self, server: str, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """The line of a request; `None` where it is not there."""
        return self._answers.get(_key(server, method, params))

    def introduce(self, connection: Connection) -> None:
        """Keep what a server says of itself."""
        found = {
            "server": connection.name, "info": connection.server_info, "protocol": connection.protocol,
            "capabilities": dict(connection.capabilities),
        }  # fmt: skip
        if self.servers.get(connection.name) != found:
            self.servers[connection.name] = found
            self._write(found)

    def add(self, server: str, method: str, params: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Keep an answer: `result`, or `error` and `code`."""
        found = {"server": server, "method": method, "params": dict(params), **answer}
        self._answers[_key(server, method, params)] = found
        self._write(found)

    def _write(self, found: Mapping[str, Any]) -> None:
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(self._line(found) + "\n")


def _key(server: str, method: str, params: Mapping[str, Any]) -> str:
    return json.dumps([server, method, params], sort_keys=True)


class Recorded(Connection):
    """A connection that asks its `live` one only for what is not recorded yet. Without one, nothing else can be had."""

    def __init__(self, recording: Recording, name: str, live: Connection | None = None) -> None:
        super().__init__(live.target if live else Target(name=name, url="recorded:"))
        self._recording, self._live = recording, live
        self._asking: dict[str, asyncio.Lock] = {}
        if live is not None:
            recording.introduce(live)
        about = recording.servers[name]
        self.server_info, self.protocol = about["info"], about["protocol"]
        self.capabilities = about["capabilities"]

    @property
    def alive(self) -> bool:
        return True

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, follow: bool = False
    ) -> dict[str, Any]:
        """The recorded answer, errors of the server included. Raises `NotConnected` where there is none and no live server."""
        params, key = params or {}, _key(self.name, method, params or {})
        # Several turns ask for the same at once, and the server is asked once.
        async with self._asking.setdefault(key, asyncio.Lock()):
            found = self._recording.answer(self.name, method, params)
            if (span := opened()) is not None:
                span.note(recorded=found is not None)
            if found is None:
                found = await self._fetch(method, params, follow)
        if "result" not in found:
            raise ServerError(found["error"], found["code"])
        return dict(found["result"])

    async def _fetch(self, method: str, params: Mapping[str, Any], follow: bool) -> dict[str, Any]:
        if self._live is None:
            asked = ", ".join(map(str, params.values()))[:200]
            raise NotConnected(f"{method} of {asked} is not recorded, and {self.name} is not connected to ask it")
        answer: dict[str, Any]
        try:
            answer = {"result": await self._live.request(method, params, follow)}
        except ServerError as error:
            answer = {"error": str(error), "code": error.code}
        self._recording.add(self.name, method, params, answer)
        return answer

    async def close(self) -> None:
        """The live one is not ours to close."""
