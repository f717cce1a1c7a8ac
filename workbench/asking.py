"""Turns: a question becomes a brief, a context and an agent's run, and what came of it a `Turn`. On the background loop.

Nothing here belongs to one thread of conversation, so turns of different threads may run beside each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from . import ledger, lookup, messages, models
from . import pattern as patterns
from .attaching import Attaching
from .content import Content
from .errors import UsageError, WorkbenchError
from .forms import Request
from .gate import check, gate
from .loop import apart
from .recorder import Open, Recorder, under
from .servers import Servers
from .span import Actor, Span
from .turn import Attachment, Preview, Status, Thread, Turn

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from .gate import Approve
    from .graph import Agent
    from .pattern import Pattern

__all__ = ["Asked", "Asking", "Event", "Live"]

Event = Span | str | Request
"""What a live view gets while a turn runs: a span's snapshot, a piece of the answer's text, or a server's request when it
begins to wait for `Session.answer` and again when it has ended."""
Live = Callable[[Event], None]


class Asked(NamedTuple):
    """A question, and how it is to be answered."""

    question: str
    model: BaseChatModel
    pattern: Pattern
    approve: Approve


def asked(question: str, model: str | BaseChatModel, pattern: str | Pattern, approve: Approve) -> Asked:
    """What can be wrong with a question is found before a turn begins: raises `UsageError` or `ModelError`."""
    if not question.strip():
        raise UsageError("the question is empty; write it below %%agent")
    check(approve)
    return Asked(question, models.resolve(model), patterns.resolve(pattern), approve)


class Asking:
    """Runs turns with the servers and attachments of a session. `heard` is to be told of every span that the recorder makes."""

    def __init__(self, servers: Servers, attaching: Attaching, recorder: Recorder) -> None:
        self.views: dict[int, Live] = {}
        """By turn, who watches it while it runs."""
        self.running: dict[int, tuple[BaseChatModel, Iterator[int]]] = {}
        """By turn, its model, and the numbers of its provider calls; a server's sampling makes some, too."""
        self._servers, self._attaching, self._recorder = servers, attaching, recorder
        self._numbers = count(1)
        self._spans: dict[int, dict[str, Span]] = {}
        self._indexing: asyncio.Task[Any] | None = None  # a task that nobody holds may vanish

    def heard(self, span: Span) -> None:
        """A span, each time that it is shown: kept with its turn while that runs, and handed to whoever watches it."""
        if span.turn is None or span.turn not in self._spans:
            return
        self._spans[span.turn][span.id] = span
        if (view := self.views.get(span.turn)) is not None:
            view(span)

    async def turn(
        self, asked: Asked, thread: Thread, turns: list[Turn], live: Live | None = None, carried: bool = True
    ) -> Turn:
        """One turn on a thread, which it continues; the turn is the last of `turns` whatever comes of it.

        Without `carried` what is attached to the session stays out.
        """
        number, history = next(self._numbers), tuple(thread.messages)
        spans = self._spans[number] = {}
        self.running[number] = asked.model, count(1)
        if live is not None:
            self.views[number] = live
        status: Status = "error"
        agents: list[Agent] = []
        answer, added = "", list[Any]()
        try:
            with self._recorder.span("turn", asked.question, "user", turn=number) as span:
                span.note(model=models.model_name(asked.model), pattern=patterns.name_of(asked.pattern))
                agent = await self._agent(asked, thread, carried, span, self._recorder, number)
                agents.append(agent)
                answer = await agent.run()
                span.note(unused=agent.context.unused(answer, agent.messages))
            status, added = "ok", messages.in_order(agent.messages, "it was never called")
        except asyncio.CancelledError:
            status = "cancelled"
            added = messages.in_order(agents[0].messages, "the turn was stopped by the user") if agents else []
            raise
        finally:
            self.views.pop(number, None)
            del self.running[number], self._spans[number]
            thread.messages = [*thread.messages, *added]
            done = Turn(
                number=number, question=asked.question, answer=answer, status=status, spans=tuple(spans.values()),
                messages=tuple(added), history=history,
                for_people=tuple(item for agent in agents for item in agent.calls.for_people),
            )  # fmt: skip
            turns.append(done)
        return done

    async def preview(self, asked: Asked, thread: Thread) -> Preview:
        """What the next provider call of the thread would be made of. Nothing goes to a model, and of a turn nothing is traced:
        a read that the pattern needs is one by itself."""
        quiet = Recorder(lambda span: None, self._recorder.clock, self._recorder.mask)
        with quiet.span("turn", asked.question, "user") as span, under(None):
            agent = await self._agent(asked, thread, True, span, quiet, 0)
        made_of = await asyncio.to_thread(ledger.counted, agent.context.pieces(()))
        return Preview(models.model_name(asked.model), tuple(made_of), agent.window.able.window, agent.counter)

    async def _agent(
        self, asked: Asked, thread: Thread, carried: bool, span: Open, recorder: Recorder, number: int
    ) -> Agent:
        """All that a turn needs: the brief, the attachments as they are now, and the thread so far."""
        from . import graph, search
        from .calls import Calls
        from .context import Context
        from .tools import FIND_RESOURCES
        from .window import Window

        for name in [name for name, connection in self._servers.connections.items() if connection.forgotten]:
            with suppress(WorkbenchError):  # else its tools would be missing
                await self._servers.living(name)
        offer, window = self._servers.offer, Window(models.abilities(asked.model))

        async def read(uri: str, server: str | None = None) -> Content:
            return await self._servers.read(uri, server, "host", thread.links)

        brief = await asked.pattern(offer, read)
        span.note(**brief.facts)
        if FIND_RESOURCES in brief.synthetic:  # while the model is called for the first time
            self._indexing = asyncio.create_task(apart(search.prepare, offer))
        attached, problems = await self._attached(asked.question, brief, thread.links, carried)
        there = {(each.server, each.uri) for each, _ in attached}
        left = [x for x in brief.included if (x.content.server, x.content.uri) not in there]  # else it is sent twice
        brief = replace(brief, included=tuple(left))
        approval = gate(asked.approve, recorder)
        calls = Calls(
            brief, offer, self._servers.connections, self._servers.using, approval, recorder, window, thread.links
        )
        if problems := [*problems, *await calls.load()]:
            span.note(left_out=problems)
        context = Context(brief, asked.question, thread.messages, attached, window, recorder, calls.schemas)
        await context.gather()
        seen = {call["id"] for message in thread.messages for call in messages.calls_of(message)}
        numbers = self.running[number][1] if number in self.running else count(1)
        on_text = self.views.get(number, lambda text: None)
        return graph.Agent(asked.model, context, calls, window, recorder, numbers, seen, on_text)

    async def _attached(
        self, question: str, brief: patterns.Brief, links: Mapping[tuple[str, str], str], carried: bool
    ) -> tuple[list[tuple[Attachment, str | None]], list[str]]:
        """What stands before the question, each once: of the session, of the question itself, of the pattern; with what is to
        be said of it, and in words what is missing."""
        found: dict[tuple[str, str], tuple[Attachment, str | None]] = {}
        problems: list[str] = []
        if carried:
            problems += await self._attaching.carry()
            found |= {key: await self._attaching.refreshed(key) for key in list(self._attaching.held)}
        for server, uri in lookup.mentions(question, self._servers.offer):
            if (server, uri) not in found:
                content = await self._servers.read(uri, server, "user", links, attach=True)
                found[content.server, content.uri] = self._once(content, "user", "mentioned"), None
        for content in brief.attached:
            found.setdefault((content.server, content.uri), (self._once(content, "host", "pattern"), None))
        return list(found.values()), problems

    def _once(self, content: Content, actor: Actor, rule: str) -> Attachment:
        now = self._recorder.clock.now()
        return Attachment(content=content, actor=actor, refresh="once", read_at=now, rule=rule)
