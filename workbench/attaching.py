"""What is attached to a session: read now, again when that is asked for, told of changes. On the background loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime

from . import lookup, policy
from .connection import Connection
from .content import visible
from .errors import NotOffered, UsageError, WorkbenchError
from .recorder import Clock
from .servers import Servers
from .span import Actor
from .turn import Attachment, Refresh

__all__ = ["Attaching"]

_UNSUBSCRIBE = 1.0  # seconds


class Attaching:
    """`held` is what is attached, by (server, URI), in the order in which it was."""

    def __init__(
        self,
        servers: Servers,
        links: Callable[[], Mapping[tuple[str, str], str]],
        clock: Clock,
    ) -> None:
        self.held: dict[tuple[str, str], Attachment] = {}
        self.rules: list[policy.Rule] = []
        """What every turn carries."""
        self._declined: set[tuple[str, str]] = set()  # taken out by a person, so not carried by a rule again
        self._servers, self._links, self._clock = servers, links, clock

    async def attach(
        self, uri: str, server: str | None, refresh: Refresh, actor: Actor, rule: str | None = None
    ) -> Attachment:
        if refresh not in ("once", "turn", "notify"):
            raise UsageError(
                f"refresh={refresh!r} is not known; it is once (read now), turn (again at each turn's start) or notify "
                "(again when the server says that it has changed)"
            )
        async with self._subscribing(uri, server) if refresh == "notify" else nullcontext():
            content = await self._servers.read(uri, server, actor, self._links(), attach=True)
        attachment = Attachment(content=content, actor=actor, refresh=refresh, read_at=self._clock.now(), rule=rule)
        self.held[content.server, content.uri] = attachment
        self._declined.discard((content.server, content.uri))
        await self.unsubscribe(content.server, content.uri)
        return attachment

    async def carry(self) -> list[str]:
        """Attach what the rules say and is not there yet; says in words what could not be read."""
        problems = []
        for rule, server, uri in policy.matching(self.rules, self._servers.offer):
            if (server, uri) in self.held or (server, uri) in self._declined:
                continue
            try:
                await self.attach(uri, server, rule.refresh, "host", f"policy: {rule}")
            except WorkbenchError as error:
                problems.append(f"{visible(uri)} is carried by a policy, and is missing: {str(error).splitlines()[0]}")
        return problems

    def detach(self, uri: str, server: str | None) -> list[tuple[str, str]]:
        """Take it out; gives those of which the server tells changes for nobody now."""
        keys = [key for key in self.held if key[1] == uri and server in (None, key[0])]
        if not keys:
            found = ", ".join(key[1] for key in self.held) or "nothing"
            raise NotOffered(f"{uri!r} is not attached; attached is: {found}.")
        self._declined.update(keys)
        return [key for key in keys if self.held.pop(key).refresh == "notify"]

    @asynccontextmanager
    async def _subscribing(self, uri: str, server: str | None) -> AsyncIterator[None]:
        """Around the read of what is about to be attached: what changes meanwhile is told, too."""
        self._servers.need_server()
        allowed = lookup.find_readable(uri, server, self._servers.offer, self._links())
        await self._servers.using(allowed.server, lambda c: c.subscribe(allowed.uri))
        connection = self._servers.connection(allowed.server)
        try:
            with connection.notices.reading(allowed.uri):
                yield
        except BaseException:
            await self.unsubscribe(allowed.server, allowed.uri)
            raise

    async def unsubscribe(self, server: str, uri: str) -> None:
        """Where no attachment needs to be told of changes."""
        attachment, connection = self.held.get((server, uri)), self._servers.connections.get(server)
        needed = attachment is not None and attachment.refresh == "notify"
        if connection is not None and connection.alive and not needed:
            # Nobody waits for a server that does not answer: a click does this, too.
            with suppress(WorkbenchError, TimeoutError):
                async with asyncio.timeout(_UNSUBSCRIBE):
                    await connection.unsubscribe(uri)

    async def ask_again(self, before: Connection | None, connection: Connection) -> list[str]:
        """A new session knows of no subscription and of no level: ask for them, and say in words what it does not do."""
        problems: list[str] = []

        async def one(asking: Awaitable[None], otherwise: str) -> None:
            try:
                await asking
            except WorkbenchError as error:
                problems.append(f"{otherwise}: {str(error).splitlines()[0]}")

        async def subscribe(uri: str) -> None:
            await connection.subscribe(uri)
            connection.notices.subscribed[uri] = True  # what happened meanwhile nobody has told

        uris = [a.uri for a in self.held.values() if a.server == connection.name and a.refresh == "notify"]
        asked = [one(subscribe(uri), f"{visible(uri)} is read at each turn's start from now on") for uri in uris]
        if before is not None and before.level is not None:
            asked.append(one(connection.set_level(before.level), f"no log messages from {before.level} on"))
        await asyncio.gather(*asked)
        return problems

    def _is_current(self, attachment: Attachment) -> bool:
        """Whether what was read is what to use: its server would have told of a change."""
        connection = self._servers.connections.get(attachment.server)
        if attachment.refresh != "notify" or connection is None or not connection.alive:
            return attachment.refresh == "once"
        return connection.notices.subscribed.get(attachment.uri) is False

    async def refreshed(self, key: tuple[str, str]) -> tuple[Attachment, str | None]:
        """The attachment, read again where it asks for that; where it cannot be, as it was, and a sentence that says so."""
        attachment = self.held[key]
        if self._is_current(attachment):
            return attachment, None
        try:
            with (await self._servers.living(attachment.server)).notices.reading(attachment.uri):
                content = await self._servers.read(attachment.uri, attachment.server, "host", self._links())
        except WorkbenchError as error:
            at = datetime.fromtimestamp(attachment.read_at, UTC).strftime("%H:%M:%SZ")
            return attachment, f"could not be read again, so this is the content of {at}: {str(error).splitlines()[0]}"
        attachment = replace(attachment, content=content, read_at=self._clock.now())
        if key in self.held:  # it may have been detached meanwhile
            self.held[key] = attachment
        return attachment, None
