"""The servers of a session: their connections by name, and what they offer.

Everything here happens on the background loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any, TypeVar

from .connection import Asked, Connection
from .content import Content, Offer
from .errors import ConnectError, NotConnected, WorkbenchError
from .forms import Refusal
from .recorded import Recorded, Recording
from .recorder import Recorder, under
from .secret import Secret
from .span import Actor
from .target import Target

__all__ = ["Lent", "Servers"]

T = TypeVar("T")
_SETTLE = 0.1  # seconds to asking for lists that have changed: servers tell of each of them, and of each entry
_SELDOM = 1.0  # seconds between two such askings: some servers tell it again when they are asked


class Servers:
    """Connections, kept alive, and offers, kept up to date."""

    def __init__(
        self,
        recorder: Recorder,
        secrets: set[Secret],
        asked: Asked,
        again: Callable[[Connection | None, Connection], Awaitable[list[str]]],
    ) -> None:
        self.connections: dict[str, Connection] = {}
        self.listeners: list[Callable[[], None]] = []
        self._recorder, self._secrets, self._asked, self._again = recorder, secrets, asked, again
        self._offers: dict[str, Offer] = {}
        self._listing: dict[str, asyncio.Task[None]] = {}
        self._listed: dict[str, float] = {}
        self._together: tuple[tuple[Offer, ...], Offer] = (), Offer()
        self._reviving = asyncio.Lock()

    @property
    def offer(self) -> Offer:
        """What all offer together, as last listed: when they were connected, or said it had changed."""
        now = tuple(self._offers.values())
        before, together = self._together
        if len(now) != len(before) or any(new is not old for new, old in zip(now, before, strict=True)):
            together = reduce(Offer.__add__, now, Offer())
            self._together = now, together
        return together  # the same object until something changes: what is indexed of it stays so

    def connection(self, name: str) -> Connection:
        """The connection of that name; raises `NotConnected` naming those that there are."""
        if name not in self.connections:
            found = ", ".join(self.connections) or "none"
            raise NotConnected(
                f"there is no connection {name!r}; connected are: {found}. Connect: %mcp connect {name} ..."
            )
        return self.connections[name]

    async def connect_all(self, targets: Sequence[Target]) -> dict[str, WorkbenchError]:
        """Connect to all at once; by name why some could not be."""
        failed: dict[str, WorkbenchError] = {}

        async def one(target: Target) -> None:
            try:
                await self.connect(target)
            except WorkbenchError as error:
                failed[target.name] = error

        await asyncio.gather(*map(one, targets))
        stand = [each.name for each in targets if each.name in self.connections and each.name not in failed]
        for name in stand:  # in the file's order, not the fastest first
            self.connections[name] = self.connections.pop(name)
            self._offers[name] = self._offers.pop(name)
        return failed

    async def connect(
        self, target: Target, actor: Actor = "user", note: str | None = None, replaced: Connection | None = None
    ) -> Offer:
        """Open a connection and list what is offered. With `replaced` it is given up where that one has meanwhile gone."""
        self._secrets.update(target.secrets)
        with self._recorder.span("connect", target.name, actor, transport=target.transport, where=target.where) as span:
            span.note(note=note)
            connection = Connection(target, revived=actor == "host")
            early = set[str]()  # a list may change while the next one is asked for
            connection.notices.relisted = lambda: early.add(connection.name)
            connection.notices.changed = self._tell
            connection.asked = self._asked
            await connection.open()
            try:
                offer = await connection.offer()
            except BaseException as error:
                await connection.close()
                if isinstance(error, NotConnected):
                    raise ConnectError(connection.refusal(error)) from None
                raise
            if replaced is not None and self.connections.get(target.name) is not replaced:
                await connection.close()
                raise NotConnected(f"{target.name} was disconnected while it was started again")
            # No await between these two: an interrupt finds the old connection registered, or the new one.
            before = self.connections.get(target.name)
            self.connections[target.name], self._offers[target.name] = connection, offer
            connection.notices.relisted = lambda: self._list_again(connection)
            if early:
                self._list_again(connection)
            if before is not None:
                await before.close()
            problems = [*offer.problems, *await self._again(before, connection)]
            span.note(
                server=connection.server_info, protocol=connection.protocol, resources=len(offer.resources),
                templates=len(offer.templates), prompts=len(offer.prompts), tools=len(offer.tools),
                problems=problems,
            )  # fmt: skip
        return offer

    async def living(self, name: str) -> Connection:
        """The connection for a read or a prompt. A stdio server that has ended is started again for it, once.

        Once after each connecting by a person: what ends again would end again. Raises `ConnectError` where it does not start.
        A session that a server over HTTP has forgotten is begun anew each time, as the specification demands.
        """
        connection = self.connection(name)
        if connection.alive or (not connection.forgotten and (connection.revived or connection.pid is None)):
            return connection
        note = "it had ended, and is started again once by itself"
        async with self._reviving:  # two reads of one step need one server
            if self.connections.get(name) is connection:
                anew = "it had forgotten the session, which is begun anew" if connection.forgotten else note
                try:
                    await self.connect(connection.target, "host", anew, connection)
                except WorkbenchError:
                    # Else each read would try again, and wait for the whole timeout.
                    connection.revived = connection.revived or not connection.forgotten
                    raise
        return self.connection(name)

    async def using(self, name: str, do: Callable[[Connection], Awaitable[T]]) -> T:
        """What `do` gives with a living connection; with a new one, should it turn out that the session was forgotten."""
        connection = await self.living(name)
        try:
            return await do(connection)
        except NotConnected:
            if not connection.forgotten:
                raise
            return await do(await self.living(name))

    async def read(
        self, uri: str, server: str | None, actor: Actor, links: Mapping[tuple[str, str], str], attach: bool = False
    ) -> Content:
        """Read for a person or the host what is offered, or what one of the thread's `links` leads to, in a span of its own.

        What is for people only is refused where the host reads it, or it is to `attach`.
        """
        from . import calls, lookup, tokens

        self.need_server()
        allowed = lookup.find_readable(uri, server, self.offer, links)
        if actor == "host" or attach:
            lookup.refuse_people_only(allowed, self.offer)
        with self._recorder.span(
            "read", allowed.uri, actor, uri=allowed.uri, server=allowed.server, rule=allowed.rule
        ) as span:
            content, made = await self.using(allowed.server, lambda c: calls.read_into(span, c, allowed.uri))
            span.note(tokens=await asyncio.to_thread(tokens.count, made.text), counter=tokens.counter().name)
        return content

    def _list_again(self, connection: Connection) -> None:
        """A server says that its lists have changed: ask for them, once however often it says so, and once a second at most.

        A running turn keeps the offer that it began with.
        """
        if connection.name in self._listing or self.connections.get(connection.name) is not connection:
            return

        async def again() -> None:
            now, last = asyncio.get_running_loop().time, self._listed.get(connection.name, 0.0)
            await asyncio.sleep(max(_SETTLE, last + _SELDOM - now()))
            self._listing.pop(connection.name, None)
            self._listed[connection.name] = now()
            # Below no span: the task has the context of whatever the server told it in. It may have ended since.
            with suppress(WorkbenchError), under(None):
                offer = await connection.offer()
                if self.connections.get(connection.name) is connection:
                    self._offers[connection.name] = offer
                    self._tell()

        self._listing[connection.name] = asyncio.get_running_loop().create_task(again())

    def _tell(self) -> None:
        for listener in list(self.listeners):
            listener()

    async def disconnect(self, name: str) -> None:
        connection = self.connections.pop(name)
        self._offers.pop(name, None)
        await connection.close()

    async def close(self) -> None:
        connections = list(self.connections.values())
        self.connections.clear()
        self._offers.clear()
        self._reviving = asyncio.Lock()  # a lock belongs to the loop it was waited on
        await asyncio.gather(*(connection.close() for connection in connections))

    @property
    def stale(self) -> set[tuple[str, str]]:
        """By (server, URI) what was subscribed to and has changed since it was read, as its server tells, or may have."""
        every = [(name, connection.notices.subscribed) for name, connection in list(self.connections.items())]
        return {(name, uri) for name, subscribed in every for uri, changed in list(subscribed.items()) if changed}

    def need_server(self) -> None:
        """Raise `NotConnected` when no server is connected."""
        if not self.connections:
            raise NotConnected(
                "no server is connected. Connect one first: %mcp connect demo (in a script: connect('demo'))"
            )


class Lent(Servers):
    """The servers of a session, for turns that leave nothing in it: with what they offer now, whatever they tell later.

    With a `recording` they are asked only for what is not in it, and those that it alone knows are there, too.
    """

    def __init__(self, owner: Servers, recorder: Recorder, recording: Recording | None = None) -> None:
        super().__init__(recorder, set(), _refused, _nothing)
        self._owner, self._recording = owner, recording
        self.connections.update(owner.connections)
        self._offers.update(owner._offers)

    async def open(self) -> None:
        """Have all that the recording knows answer from it."""
        if self._recording is None:
            return
        for name in dict.fromkeys([*self._recording.servers, *self.connections]):
            recorded = Recorded(self._recording, name, self.connections.get(name))
            self.connections[name], self._offers[name] = recorded, await recorded.offer()

    async def living(self, name: str) -> Connection:
        """That of the session, started again where it has ended."""
        if isinstance(connection := self.connection(name), Recorded):
            return connection
        with under(None):  # it is the session that starts it again
            self.connections[name] = await self._owner.living(name)
        return self.connections[name]

    async def close(self) -> None:
        """They are not ours to close."""


async def _refused(connection: Connection, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    raise Refusal(f"nobody answers {method} here")


async def _nothing(before: Connection | None, now: Connection) -> list[str]:
    return []
