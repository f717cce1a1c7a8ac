"""The workbench itself: connections, attachments, the thread and its turns. Works in a script as in a notebook.

What takes more than one step happens on the background loop, so no lock is needed; the plain methods hand a coroutine to
it and wait. `aask` is `ask` for code that awaits (the notebook's `%%agent`).
"""

from __future__ import annotations

import asyncio
import atexit
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from . import asking, compare, policy
from .asked import Desk, OnRequest
from .asking import Asked, Asking, Event, Live
from .attaching import Attaching
from .cases import Turns
from .compare import Comparison
from .connection import Connection
from .content import Completion, Content, Offer, Part, Prompt, PromptResult, Template
from .errors import NotOffered, UsageError, WorkbenchError
from .expect import expectation
from .forms import Action, Answer, Request
from .log import FOLDER, Log
from .loop import Job, Loop
from .recorder import Clock, Recorder
from .secret import Secret, mask
from .servers import Servers
from .span import Span, fold
from .target import target
from .turn import Attachment, Preview, Refresh, Thread, Turn

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from .gate import Approve
    from .pattern import Pattern
    from .recorded import Recording
    from .replayed import Replayed
    from .replaying import Progress

__all__ = ["Session"]

_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for session in list(_sessions):
        session.close()


class Session:
    """Connections to MCP servers, what is attached, and one thread of turns.

    Example:
        >>> wb = Session(model="demo")
        >>> wb.connect("demo")
        >>> turn = wb.ask("Which products does the SUM ABAP test matrix cover?")
        >>> print(turn.answer)
    """

    def __init__(
        self,
        model: str | BaseChatModel = "demo",
        *,
        on_request: OnRequest | None = None,
        clock: Clock | None = None,
        audit: str | Path | None = None,
    ) -> None:
        self.model = model
        self.log: Log | None = None
        """The audit log, where one is written; see `audit`."""
        self.turns = Turns()
        """Finished turns, failed and cancelled ones included."""
        self.comparisons: list[Comparison] = []
        self.replays: list[Replayed] = []
        self.loop = Loop()
        self._thread = Thread()
        self._snapshots: list[Span] = []
        self._open: dict[str, int] = {}
        self._secrets: set[Secret] = set()
        self._answers: dict[tuple[str, str], Secret] = {}
        self._one_turn = asyncio.Lock()
        self.recorder = Recorder(self._record, clock, self.mask, keep=self._keep)
        self._desk = Desk(self.recorder, self._tell, self._span, self._sampled_by, on_request)
        self.servers = Servers(
            self.recorder, self._secrets, self._desk.handle, lambda *pair: self._attaching.ask_again(*pair)
        )
        self._attaching = Attaching(self.servers, lambda: self._thread.links, self.recorder.clock)
        self._asking = Asking(self.servers, self._attaching, self.recorder)
        self.attachments = self._attaching.held
        """By (server, URI), in the order in which they were attached."""
        self.connections = self.servers.connections
        self.listeners = self.servers.listeners
        """Called on the background loop when a server has changed what it offers, or tells that an attachment has changed."""
        _sessions.add(self)
        if audit is not None:
            self.audit(audit)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Session({', '.join(self.connections) or 'no server connected'}; {len(self.turns)} turns)"

    def mask(self, text: str) -> str:
        """`text` without the secrets that were given to servers."""
        return mask(text, self._secrets)

    @property
    def spans(self) -> tuple[Span, ...]:
        """Everything that has happened, the open spans included."""
        return fold(self._snapshots)

    def _record(self, span: Span) -> None:
        if span.id in self._open and span.seconds is None:
            # Shown again: ten times a second while its server tells of progress.
            self._snapshots[self._open[span.id]] = span
        else:
            self._open[span.id] = len(self._snapshots)
            self._snapshots.append(span)
        if span.seconds is not None:
            del self._open[span.id]
        self._asking.heard(span)
        if self.log is not None:
            self.log.write(span)
        if span.status == "cancelled" and span.seconds is not None:
            self._desk.ended(span.id)

    def _keep(self, identity: str, parts: Sequence[Part]) -> None:
        if self.log is not None:
            self.log.keep(identity, parts)

    def audit(
        self, folder: str | Path | None = FOLDER, *, content: bool = True, most_bytes: int | None = None
    ) -> Log | None:
        """Write an audit log to `folder`: a line for all that has happened and happens from now on, and content by its hash.

        `None` ends the log that is written. Without `content` only hashes are kept. Beyond `most_bytes` the folder's oldest
        finished files are removed, which the log says. See `workbench.log` for reading and verifying it. Raises `UsageError`
        where nothing can be written there; the log that is written goes on then.
        """
        opened = None if folder is None else Log(folder, content=content, most_bytes=most_bytes, mask=self.mask)

        async def take_over() -> None:
            if self.log is not None:
                self.log.close()
            if opened is not None:
                for span in self.spans:
                    opened.write(span)
            self.log = opened

        self.loop.run(take_over())  # where spans come from, so that none is missed and none is written twice
        return opened

    @property
    def progressing(self) -> Span | None:
        """A request outside a turn whose server has told of progress, and that is still open."""
        still = [self._snapshots[at] for at in list(self._open.values())]
        return next((span for span in still if span.turn is None and "progress" in span.detail), None)

    # -- what servers ask

    @property
    def on_request(self) -> OnRequest | None:
        """Who answers when a server asks for a form, a page to open or a model's answer: a function that gets the
        `Request`, called on a thread of its own or awaited on the background loop.

        It gives a mapping of values or `True` (accept), `False` (decline), an `Answer`, or "wait": then the request stays in
        `pending` for `answer`. With none, as in a batch run, every request is declined and the trace says why.
        """
        return self._desk.on_request

    @on_request.setter
    def on_request(self, function: OnRequest | None) -> None:
        self._desk.on_request = function

    @property
    def pending(self) -> list[Request]:
        """The requests of servers that wait for an answer, the oldest first."""
        return self._desk.pending

    def answer(
        self, request: str, values: Mapping[str, Any] | None = None, *, action: Action = "accept", reason: str = ""
    ) -> None:
        """Answer a request of `pending` by its id, from any thread.

        `values` is by field; strings are turned into what the form wants, and what is not named has the form's default. Raises
        `UsageError`, and the request waits on, when there is no such request or the form does not take the values.
        """
        self._desk.answer(request, Answer(action=action, values=values or {}, reason=reason))

    @property
    def watched(self) -> int | None:
        """The turn that a live view is showing just now."""
        return next(iter(self._asking.views), None)

    def _tell(self, request: Request) -> None:
        if request.turn is not None and (view := self._asking.views.get(request.turn)) is not None:
            view(request)

    def _span(self, identity: str) -> Span | None:
        return next((span for span in reversed(self._snapshots) if span.id == identity), None)

    def _sampled_by(self, turn: int | None) -> tuple[BaseChatModel, int | None]:
        from . import models

        if turn is None or turn not in self._asking.running:
            return models.resolve(self.model), None
        model, calls = self._asking.running[turn]
        return model, next(calls)

    # -- connecting

    def connect(
        self,
        name: str,
        *,
        command: Sequence[str] = (),
        env: Mapping[str, str] | Sequence[str] = (),
        cwd: str | None = None,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        transport: Literal["http", "sse"] = "http",
        server: Any = None,
        timeout: float = 60.0,
        bridge: bool = False,
        roots: Sequence[str | Path] = (),
    ) -> Offer:
        """Connect to a server and give what it offers. No content is read.

        `connect("demo")` starts the bundled server; otherwise give a `command` (stdio), a `url`, or as `server` an object of
        the SDK that was made in this process (`FastMCP` or the low-level `Server`; it runs on the background loop).
        `env` maps names to values, or lists names to pass on from this process. `${NAME}` in `headers`, `env` values, the
        command and the URL is replaced from the environment. `timeout` (seconds) is for the handshake and each request.
        `roots` are folders that the server is told of when it asks.
        `bridge` reaches a server that speaks only a newer revision of MCP than we do (extra `bridge`).

        Raises `UsageError` before anything is started, `ConnectError` after; a connection of the same name stays then.
        """
        where = target(
            name, command, env, cwd, url, headers or {}, transport, timeout, server, bridge=bridge, roots=roots
        )
        return self.loop.run(self.servers.connect(where))

    def connect_config(self, path: str | Path, names: Sequence[str] = (), *, timeout: float = 60.0) -> Offer:
        """Connect to the servers that another host's configuration file names, and give what they offer together.

        `path` is a `.mcp.json`, `.vscode/mcp.json`, `claude_desktop_config.json`, `.cursor/mcp.json` or
        `cline_mcp_settings.json`; `names` are some of its servers, by default all that are not disabled. An `${input:ID}` is
        asked once a session, or answered by the environment variable `MCP_INPUT_ID`. `timeout` (seconds) is for entries
        without one.

        Raises `UsageError` before anything is started where the file or a name is wrong. One server that fails stops no
        other: what stands stays connected, and one error at the end says which failed and why.
        """
        from . import config, entry

        file = config.load(path)
        chosen = config.choose(file, [names] if isinstance(names, str) else names)
        targets, failed = entry.targets(file, chosen, self._answers, timeout)
        failed |= (refused := self.loop.run(self.servers.connect_all(targets)))
        entry.forget(file, list(refused), self._answers)
        if failed:
            raise config.failure(file, failed, targets)
        return reduce(Offer.__add__, (self.offer.only(each.name) for each in targets), Offer())

    def disconnect(self, name: str) -> None:
        """Close a connection; its server's process is gone when this returns. What was attached stays attached."""
        self.connection(name)
        self.loop.run(self.servers.disconnect(name))

    def reconnect(self, name: str) -> Offer:
        """Open a new session with the same server; the old one is closed when the new one stands."""
        return self.loop.run(self.servers.connect(self.connection(name).target))

    def close(self) -> None:
        """Close every connection, stop what still runs and end the background loop. The session can be used again."""
        try:
            if self.connections:
                self.loop.run(self.servers.close())
        finally:  # also after an interrupt: what the loop still holds is ended with it
            self.loop.stop()
            if self.log is not None:
                self.log.close()  # and goes on in another file, should the session be used again
            self._one_turn = asyncio.Lock()  # a lock belongs to the loop it was waited on

    def connection(self, name: str) -> Connection:
        """The connection of that name; raises `NotConnected` naming those that there are."""
        return self.servers.connection(name)

    @property
    def offer(self) -> Offer:
        """What all connected servers offer together, as last listed: when they were connected, or said it had changed."""
        return self.servers.offer

    # -- reading and attaching

    def read(self, uri: str, server: str | None = None) -> Content:
        """Read a resource for yourself: a span with actor `user`, nothing goes to a model."""
        return self.loop.run(self.servers.read(uri, server, "user", self._thread.links))

    def prompt(self, name: str, arguments: Mapping[str, str] | None = None, server: str | None = None) -> PromptResult:
        """What a prompt expands to, for yourself: a span with actor `user`, nothing goes to a model.

        Raises `NotOffered` where nobody has it or a required argument is missing; nothing is sent then.
        """
        return self.loop.run(self._prompt(name, arguments or {}, server))

    def complete(
        self,
        entry: Template | Prompt,
        argument: str,
        value: str = "",
        given: Mapping[str, str] | None = None,
        *,
        seconds: float = 5.0,
    ) -> Completion:
        """What the entry's server suggests for one of its variables or arguments that begins with `value`.

        Waits at most `seconds`, and suggests nothing then, or where the server is gone or completes nothing.
        """
        return self.loop.run(self._complete(entry, argument, value, given or {}, seconds))

    async def _complete(
        self, entry: Template | Prompt, argument: str, value: str, given: Mapping[str, str], seconds: float
    ) -> Completion:
        connection = self.connections.get(entry.server)
        if connection is None or not connection.alive:
            return Completion()
        kind: Literal["resource", "prompt"] = "resource" if isinstance(entry, Template) else "prompt"
        name = entry.uri if isinstance(entry, Template) else entry.name
        with suppress(TimeoutError, WorkbenchError):
            async with asyncio.timeout(seconds):
                return await connection.complete(kind, name, argument, value, given)
        return Completion()

    def start_complete(
        self, entry: Template | Prompt, argument: str, value: str, given: Mapping[str, str], *, seconds: float = 5.0
    ) -> Job[Completion]:
        """`complete` without waiting, for callbacks that must not block."""
        return self.loop.submit(self._complete(entry, argument, value, given, seconds))

    async def _prompt(self, name: str, arguments: Mapping[str, str], server: str | None) -> PromptResult:
        from . import lookup

        self.servers.need_server()
        found = lookup.find_prompt(name, server, self.offer)
        values = lookup.prompt_arguments(found, arguments)
        with self.recorder.span("prompt", found.name, "user", server=found.server, arguments=values) as span:
            timed = await self.servers.using(found.server, lambda c: c.prompt(found.name, values))
            result: PromptResult = timed.value
            span.note(wait_seconds=timed.waited, decode_seconds=timed.decoded)
            await asyncio.to_thread(span.brought, result.parts)
        return result

    def attach(
        self, uri: str, server: str | None = None, *, refresh: Refresh = "once", actor: Literal["user", "host"] = "user"
    ) -> Attachment:
        """Put a resource into the context of every following turn, before the model is called.

        It is read now (`refresh="once"`), or now and again at the start of each turn (`"turn"`), or of each turn before
        which the server has told of a change (`"notify"`). Raises when it cannot be read; what was attached before stays.
        """
        return self.loop.run(self._attaching.attach(uri, server, refresh, actor))

    @property
    def stale(self) -> set[tuple[str, str]]:
        """Those of `attachments` that have changed since they were read, as their server tells, or may have: read again at
        the start of the next turn."""
        return self.servers.stale

    def set_log_level(self, server: str, level: str) -> None:
        """Have a server send its log messages from this level on (`debug` ... `emergency`), after reconnecting, too; they are
        in `connection(server).log`. Raises `UsageError` where it has no levels."""
        self.loop.run(self.connection(server).set_level(level))

    def start_read(self, uri: str, server: str) -> Job[Content]:
        """`read` without waiting, for callbacks that must not block."""
        return self.loop.submit(self.servers.read(uri, server, "user", self._thread.links))

    def start_prompt(self, name: str, arguments: Mapping[str, str], server: str) -> Job[PromptResult]:
        """`prompt` without waiting, for callbacks that must not block."""
        return self.loop.submit(self._prompt(name, arguments, server))

    def start_attach(self, uri: str, server: str) -> Job[Attachment]:
        """`attach` without waiting, for callbacks that must not block."""
        return self.loop.submit(self._attaching.attach(uri, server, "once", "user"))

    @property
    def policies(self) -> list[policy.Rule]:
        """What every turn carries."""
        return self._attaching.rules

    def policy(self, *rules: str | policy.Rule) -> None:
        """From now on every turn carries these: `policy("docs://style-guide")`, `policy("engineering sessions carry style-*")`.

        They are read at the start of the next turn, and attached; what cannot be read is said in its trace.
        """
        made = [each for rule in rules for each in (policy.parse(rule) if isinstance(rule, str) else [rule])]
        self._attaching.rules += [rule for rule in made if rule not in self._attaching.rules]

    def drop_policy(self, carry: str) -> None:
        """No longer carry what a rule says; what it has attached stays until it is detached."""
        left = [rule for rule in self.policies if rule.carry != carry]
        if len(left) == len(self.policies):
            raise NotOffered(
                f"no rule carries {carry!r}; there are: {', '.join(rule.carry for rule in self.policies) or 'none'}"
            )
        self._attaching.rules[:] = left

    def detach(self, uri: str, server: str | None = None) -> None:
        """Take a resource out of the following turns' context."""
        for key in self._attaching.detach(uri, server):
            self.loop.run(self._attaching.unsubscribe(*key))

    # -- asking

    def ask(
        self,
        question: str,
        *,
        model: str | BaseChatModel | None = None,
        pattern: str | Pattern = "catalog",
        approve: Approve = "none",
        new: bool = False,
    ) -> Turn:
        """Ask the agent and give the finished turn.

        `approve` decides on the servers' own tools: `all`, `none`, or a function that gets the `Call`. It says nothing about
        what a server asks for while its tool runs, forms and samples: that is for `on_request`. `new` starts a new
        thread; otherwise the model also gets the turns before. Raises `ModelError` when the provider fails; the failed
        turn is the last of `turns`.
        """
        return self.loop.run(self._ask(self._asked(question, model, pattern, approve), new, None))

    async def aask(
        self,
        question: str,
        *,
        model: str | BaseChatModel | None = None,
        pattern: str | Pattern = "catalog",
        approve: Approve = "none",
        new: bool = False,
        live: Live | None = None,
    ) -> Turn:
        """`ask` for code that awaits. `live` gets every event of the turn, on this coroutine's own loop."""
        here = asyncio.get_running_loop()

        def cross(event: Event) -> None:
            if live is not None:
                here.call_soon_threadsafe(live, event)

        return await self.loop.arun(self._ask(self._asked(question, model, pattern, approve), new, cross))

    def context(
        self, question: str = "", *, pattern: str | Pattern = "catalog", model: str | BaseChatModel | None = None
    ) -> Preview:
        """What the next provider call of the thread would be made of, counted before it is made. Nothing goes to a model; what
        the pattern reads is read."""
        return self.loop.run(self._preview(question, pattern, model))

    async def _preview(self, question: str, pattern: str | Pattern, model: str | BaseChatModel | None) -> Preview:
        asked = self._asked(question or "?", model, pattern, "none")._replace(question=question)
        async with self._one_turn:
            return await self._asking.preview(asked, self._thread)

    def _asked(
        self, question: str, model: str | BaseChatModel | None, pattern: str | Pattern, approve: Approve
    ) -> Asked:
        self.servers.need_server()
        return asking.asked(question, model or self.model, pattern, approve)

    def compare(
        self,
        question: str,
        patterns: str | Sequence[str | Pattern] | None = None,
        *,
        model: str | BaseChatModel | None = None,
        repeat: int = 1,
        expect: str | None = None,
        approve: Approve = "none",
    ) -> Comparison:
        """Ask the same question under each pattern, each in a turn without history, and give what each costs and loses.

        Left out, they are dump, truncate, catalog, companion, and attach where something is attached, which takes part in that
        one only. `expect` is a text that a right answer holds, or `/a regular expression/`. The thread stays as it is. When it
        is stopped, what is finished is the last of `comparisons`.
        """
        return self.loop.run(self._compare(question, patterns, model, repeat, expect, approve, None))

    async def acompare(
        self,
        question: str,
        patterns: str | Sequence[str | Pattern] | None = None,
        *,
        model: str | BaseChatModel | None = None,
        repeat: int = 1,
        expect: str | None = None,
        approve: Approve = "none",
        live: Callable[[Comparison], None] | None = None,
    ) -> Comparison:
        """`compare` for code that awaits. `live` gets the comparison before and after each run, on
        this coroutine's own loop."""
        here = asyncio.get_running_loop()

        def cross(comparison: Comparison) -> None:
            if live is not None:
                here.call_soon_threadsafe(live, comparison)

        return await self.loop.arun(self._compare(question, patterns, model, repeat, expect, approve, cross))

    async def _compare(
        self,
        question: str,
        patterns: str | Sequence[str | Pattern] | None,
        model: str | BaseChatModel | None,
        repeat: int,
        expect: str | None,
        approve: Approve,
        live: Callable[[Comparison], None] | None,
    ) -> Comparison:
        chosen = compare.plan(patterns, bool(self.attachments or self._attaching.rules))
        expectation(expect)
        if repeat < 1:
            raise UsageError(f"repeat is {repeat}; it is 1 or more")
        asked = self._asked(question, model, "catalog", approve)
        comparison = Comparison(question, expect)
        self.comparisons.append(comparison)

        async def ask(pattern: Pattern, turns: list[Turn]) -> Turn:
            async with self._one_turn:
                one = asked._replace(pattern=pattern)
                return await self._asking.turn(one, Thread(), turns, carried=compare.carries(pattern))

        await asyncio.to_thread(compare.warm)
        await compare.run(comparison, chosen, repeat, ask, lambda: live(comparison) if live else None)
        return comparison

    def replay(
        self,
        turns: Any,
        patterns: str | Sequence[str | Pattern] = "catalog,attach",
        models: str | BaseChatModel | Sequence[str | BaseChatModel] | None = None,
        *,
        repeat: int = 1,
        concurrency: int = 8,
        store: str | Path | None = None,
        seed: int = 0,
        recording: str | Path | Recording | None = None,
        most_tokens: int | None = None,
        most_usd: float | None = None,
        retries: int = 4,
        approve: Approve = "none",
        scheduler: Any = None,
        live: Callable[[Progress], None] | None = None,
    ) -> Replayed:
        """Run many stored turns again, each under each pattern with each model, and give rates, tokens and seconds.

        `turns` is a file of JSON lines, a DataFrame, cases, or `wb.turns` (`cases.py`). Results are kept in the SQLite file
        `store` as they finish (None: beside a file of turns, `NAME.replay.sqlite`, else in memory); what is there is not run
        again. `models` are names separated by commas, or a list (None: the session's). `concurrency` is how many turns run at a
        time; `retries` how often a turn is asked again whose provider was busy. `recording` is a file from which servers'
        answers are taken, and to which new ones are added; with it no server has to be connected. `most_tokens` and `most_usd`
        stop it before a call would exceed them. `scheduler` is the address of a Dask scheduler, or its `Client`, whose workers
        run the turns (extra `dask`). `live` gets the progress, on a thread of its own. Nothing of it enters the thread or
        `turns`.

        Raises `UsageError` before anything runs. When it is stopped, what is finished is the last of `replays`.
        """
        from . import replaying, scattered
        from .recorded import Recording

        chosen = self.model if models is None else models
        named = chosen.split(",") if isinstance(chosen, str) else chosen if isinstance(chosen, Sequence) else [chosen]
        settings = replaying.Settings(concurrency=concurrency, retries=retries, approve=approve)
        budget, tell = replaying.Budget(most_tokens, most_usd), live or (lambda progress: None)
        kept = Recording(recording, self.mask) if isinstance(recording, str | Path) else recording
        bench, tasks, done = self.loop.run(
            replaying.prepare(self.servers, self.mask, turns, patterns, named, repeat, seed, store, kept)
        )
        self.replays.append(done)
        if scheduler is None:
            self.loop.run(replaying.run(bench, tasks, settings, done, budget, tell))
        else:
            scattered.run(scheduler, self.servers, kept, tasks, settings, done, (most_tokens, most_usd), Session, tell)
        return done

    async def _ask(self, asked: Asked, new: bool, live: Live | None) -> Turn:
        async with self._one_turn:
            if new:
                self._thread = Thread()
            return await self._asking.turn(asked, self._thread, self.turns, live)
