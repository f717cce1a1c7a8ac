"""Stored turns again, under several patterns and models: which tasks there are, and how they are run.

A task is one case under one pattern with one model, once. Its key is made of all that its result depends on, so what is in the
store already is not run again, and a run that was stopped, or killed, goes on where it was.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import asking, cases, compare, messages, models, pattern, price
from .attaching import Attaching
from .cases import Aside, Case
from .content import Offer
from .errors import ModelError, NotOffered, Stopped, UsageError
from .expect import expectation
from .gate import check
from .lookup import find_readable
from .outcome import outcome
from .pattern import Attach, Pattern, Sum
from .recorder import Clock, Recorder, describe
from .replayed import Replayed
from .servers import Lent, Servers
from .span import Span, Usage
from .store import Result, Store
from .turn import Thread, Turn

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from .gate import Approve
    from .recorded import Recording

__all__ = ["Bench", "Budget", "Progress", "Settings", "Task", "bench", "missing", "one", "plan", "prepare", "run"]


class Task(NamedTuple):
    """One case under one pattern with one model, once."""

    key: str
    case: Case
    relevant: tuple[tuple[str, str], ...]
    """Server and URI of what the case needs."""
    pattern: str | Pattern
    model: str | BaseChatModel
    repeat: int
    seed: int


@dataclass(frozen=True)
class Settings:
    """How tasks are run."""

    concurrency: int = 8
    """Turns at a time."""
    retries: int = 4
    """Times that a turn is asked again after its provider was busy or out of reach, waiting longer each time."""
    approve: Approve = "none"
    """What becomes of calls of the servers' own tools; nobody is there to be asked."""

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise UsageError(f"concurrency is {self.concurrency}; it is 1 or more")
        if self.retries < 0:
            raise UsageError(f"retries is {self.retries}; it is 0 or more")
        check(self.approve)


# -- which tasks there are


def plan(
    cases: Sequence[Case],
    patterns: str | Sequence[str | Pattern],
    chosen: Sequence[str | BaseChatModel],
    repeat: int,
    seed: int,
    offer: Offer,
) -> tuple[list[Task], list[Aside]]:
    """All tasks, the cases one after the other, and the cases that cannot be run: what they need is no longer offered.

    Every task has a seed of its own, drawn from `seed`, case, model and repeat. It is the same for each pattern: the designs
    are compared on the same draws. Raises `UsageError` and `ModelError` before anything is run.
    """
    designs = compare.plan(patterns, True)
    made = [(each if isinstance(each, str) else models.model_name(each), each) for each in chosen]
    for _, each in made:
        models.resolve(each)
    if twice := [name for n, (name, _) in enumerate(made) if name in [other for other, _ in made[:n]]]:
        raise UsageError(f"the model {twice[0]} is named twice; use repeat to run each several times")
    if repeat < 1:
        raise UsageError(f"repeat is {repeat}; it is 1 or more")
    offered, tasks, aside = _digest(asdict(offer)), list[Task](), list[Aside]()
    for case in cases:
        try:
            relevant = tuple(_found(uri, offer) for uri in case.relevant)
        except NotOffered as error:
            aside.append(Aside(f"case {case.id}", f"what it needs is not offered: {error}"))
            continue
        about = _digest(case.to_json())
        for number in range(1, repeat + 1):
            for name, model in made:
                drawn = int(_digest([seed, case.id, name, number])[:8], 16)
                tasks += [
                    Task(
                        _digest([about, _identity(each), name, drawn, offered]),
                        case,
                        relevant,
                        each,
                        model,
                        number,
                        drawn,
                    )
                    for _, each in designs
                ]
    return tasks, aside


def _found(uri: str, offer: Offer) -> tuple[str, str]:
    allowed = find_readable(uri, None, offer, {})
    return allowed.server, allowed.uri


def _identity(chosen: Pattern) -> str:
    """A pattern's name, and of a function what it says: a changed one is another design."""
    try:
        source = inspect.getsource(chosen) if inspect.isfunction(chosen) else ""
    except (OSError, TypeError):
        source = ""
    return f"{pattern.name_of(chosen)}\n{source}"


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True, default=str).encode("utf-8", "surrogatepass")).hexdigest()


# -- running them


class Bench(NamedTuple):
    """Where turns are run that leave nothing in the session whose servers they ask."""

    asking: asking.Asking
    servers: Lent


async def bench(servers: Servers, mask: Callable[[str], str], recording: Recording | None = None) -> Bench:
    """A bench with the servers as they are now, or as the recording has them."""
    heard: list[asking.Asking] = []
    recorder = Recorder(lambda span: heard[0].heard(span), Clock(), mask, "replay-")
    lent = Lent(servers, recorder, recording)
    heard.append(asking.Asking(lent, Attaching(lent, dict, recorder.clock), recorder))
    await lent.open()
    lent.need_server()
    return Bench(heard[0], lent)


@dataclass
class Progress:
    """How far a replay is."""

    total: int
    kept: int = 0
    """Of these, how many were in the store already."""
    done: int = 0
    failed: int = 0
    retried: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def rate(self) -> float | None:
        """Turns a second; `None` before the first."""
        return self.done / (time.monotonic() - self.began) if self.done else None

    @property
    def left(self) -> float | None:
        """Seconds to the end, as it goes now; `None` before the first turn."""
        return (self.total - self.kept - self.done) / self.rate if self.rate else None


class Budget:
    """Stops a replay before a provider call would exceed what it may use.

    A call's input is known before it is made (counted here), its output is held to be as long as the longest so far. What the
    provider reports takes their place when it has ended. It watches each turn, and a turn whose watcher raises has ended.
    """

    def __init__(self, most_tokens: int | None = None, most_usd: float | None = None) -> None:
        for name, most in (("most_tokens", most_tokens), ("most_usd", most_usd)):
            if most is not None and most <= 0:
                raise UsageError(f"{name}={most:g} lets nothing run")
        self.tokens, self.usd = 0, 0.0
        """Used so far: input and output as reported, else as counted here."""
        self._most_tokens, self._most_usd = most_tokens, most_usd
        self._open: dict[str, tuple[int, float]] = {}
        self._longest = 0

    def __call__(self, event: asking.Event) -> None:
        """Raises `Stopped` where the call of a `model` span that opens would be too much."""
        if not isinstance(event, Span) or event.kind != "model":
            return
        if event.seconds is None:
            if event.id not in self._open:
                self._reserve(event)
            return
        self._open.pop(event.id, None)
        usage = event.usage or Usage()
        got = event.detail.get("output_tokens_estimated", 0) if usage.output_tokens is None else usage.output_tokens
        sent = _input(event) if usage.input_tokens is None else usage.input_tokens
        self._longest = max(self._longest, got)
        self.tokens += sent + got
        self.usd += self._price(event, replace(usage, input_tokens=sent, output_tokens=got))

    def _reserve(self, span: Span) -> None:
        sent = _input(span)
        tokens, usd = sent + self._longest, self._price(span, Usage(input_tokens=sent, output_tokens=self._longest))
        all_tokens = self.tokens + tokens + sum(tokens for tokens, _ in self._open.values())
        all_usd = self.usd + usd + sum(usd for _, usd in self._open.values())
        if self._most_tokens is not None and all_tokens > self._most_tokens:
            raise Stopped(
                f"stopped at {self.tokens:,} tokens: the next call would exceed the {self._most_tokens:,} allowed"
            )
        if self._most_usd is not None and all_usd > self._most_usd:
            raise Stopped(
                f"stopped at US$ {self.usd:.4f}: the next call would exceed the US$ {self._most_usd:g} allowed"
            )
        self._open[span.id] = tokens, usd

    def _price(self, span: Span, usage: Usage) -> float:
        if self._most_usd is None:
            return 0.0
        # What is not known to have come from a cache is held to have its full price: a ceiling may be reached too early.
        usage = replace(usage, cached_tokens=usage.cached_tokens or 0)
        found = price.price(span.name, usage, span.detail.get("provider"), span.started)
        if found is None:
            raise Stopped(f"the price of {span.name} is not known, so no ceiling on money can be held: use most_tokens")
        return found.usd


def _input(span: Span) -> int:
    return sum(piece["tokens"] or 0 for piece in span.detail["composition"])


async def prepare(
    servers: Servers,
    mask: Callable[[str], str],
    turns: Any,
    patterns: str | Sequence[str | Pattern],
    chosen: Sequence[str | BaseChatModel],
    repeat: int,
    seed: int,
    store: str | Path | None,
    recording: Recording | None,
) -> tuple[Bench, list[Task], Replayed]:
    """Everything that can be wrong is found before the first turn runs; the result grows while they do."""
    found = await asyncio.to_thread(cases.load, turns)
    stand = await bench(servers, mask, recording)
    tasks, aside = plan(found.good, patterns, chosen, repeat, seed, stand.servers.offer)
    if store is None and isinstance(turns, str | Path):
        store = Path(turns).with_suffix(".replay.sqlite")
    return stand, tasks, Replayed([task.key for task in tasks], Store(store), [*found.aside, *aside])


async def run(
    bench: Bench,
    tasks: Sequence[Task],
    settings: Settings,
    replayed: Replayed,
    budget: Budget,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> None:
    """Run the tasks that are not in the store of `replayed` side by side, and put each result there as it is finished.

    A turn that fails is a result, too, and run again the next time. Cancelling it leaves what is finished.
    """
    await asyncio.to_thread(compare.warm)
    left = missing(tasks, replayed)
    progress, pending = Progress(len(tasks), len(tasks) - len(left)), iter(left)
    replayed.concurrency, replayed.kept = settings.concurrency, progress.kept
    tell(progress)

    async def work() -> None:
        while replayed.stopped is None and (task := next(pending, None)) is not None:
            try:
                result = await one(bench, task, settings, budget, progress)
                replayed.store.put(result)
            except Stopped as error:
                replayed.stopped = str(error)
                return
            progress.done += 1
            progress.failed += result.row["error"] is not None
            tell(progress)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(settings.concurrency):
                group.create_task(work())
    except asyncio.CancelledError:
        replayed.stopped = "it was stopped"
        raise


def missing(tasks: Sequence[Task], replayed: Replayed) -> list[Task]:
    """The tasks that are not in the store, or failed."""
    there = {key for key, row in replayed.store.rows(task.key for task in tasks) if row["error"] is None}
    return [task for task in tasks if task.key not in there]


async def one(bench: Bench, task: Task, settings: Settings, budget: Budget, progress: Progress) -> Result:
    """One task, asked again while its provider is busy. Raises `Stopped` where the budget lets it not be finished."""
    from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

    turns: list[Turn] = []
    why: str | None = None
    attempts = AsyncRetrying(
        retry=retry_if_exception(_is_passing), stop=stop_after_attempt(settings.retries + 1),
        wait=wait_random_exponential(multiplier=0.5, max=30), reraise=True,
    )  # fmt: skip
    try:
        chat = models.seeded(models.resolve(task.model), task.seed)
        asked = asking.asked(task.case.question, chat, _for(task.case, task.pattern), settings.approve)
        async for attempt in attempts:
            with attempt:
                progress.retried += attempt.retry_state.attempt_number > 1
                thread = Thread(messages.from_chat(task.case.messages))
                await bench.asking.turn(asked, thread, turns, budget, carried=False)
    except (asyncio.CancelledError, Stopped):
        raise
    except Exception as error:  # a provider's, a server's, or one of a pattern that the user has written
        why = describe(error).split("\n")[0]
    return Result(task.key, _row(task, turns, why), turns[-1].spans if turns else ())


def _for(case: Case, chosen: str | Pattern) -> Pattern:
    """`attach` alone puts there what the host of this case knew."""
    made = pattern.resolve(chosen)
    if isinstance(made, Sum):
        return Sum(tuple(_for(case, part) for part in made.parts))
    return Attach(case.attach) if isinstance(made, Attach) and not made.uris else made


def _row(task: Task, turns: Sequence[Turn], why: str | None) -> dict[str, Any]:
    expected = expectation(task.case.expect)
    name = pattern.name_of(pattern.resolve(task.pattern))
    row: dict[str, Any] = {
        "case": task.case.id, "pattern": name,
        "model": task.model if isinstance(task.model, str) else models.model_name(task.model),
        "repeat": task.repeat, "seed": task.seed, "question": task.case.question,
    }  # fmt: skip
    if not turns:
        return row | {
            "outcome": None,
            "hit": None,
            "cut": None,
            "correct": None,
            "attempts": 0,
            "error": why,
            "answer": None,
        }
    correct = expected(turns[-1].answer) if expected and why is None else None
    found = outcome(turns[-1].spans, task.relevant) if why is None else None
    ran = compare.Run(pattern=name, repeat=task.repeat, turn=turns[-1], error=why, correct=correct)
    return row | {
        "outcome": found and found.kind, "hit": found and found.hit, "cut": found and found.cut, **ran.row(),
        "attempts": len(turns),
    }  # fmt: skip


def _is_passing(error: BaseException) -> bool:
    """Whether asking again may help: the provider was busy, or out of reach."""
    if not isinstance(error, ModelError) or error.__cause__ is None:
        return False
    status = getattr(error.__cause__, "status_code", None)
    if isinstance(status, int):
        return status in (408, 409, 425, 429) or status >= 500
    return (
        isinstance(error.__cause__, (ConnectionError, TimeoutError)) or type(error.__cause__).__name__ in _OUT_OF_REACH
    )


_OUT_OF_REACH = {
    "APIConnectionError",
    "APITimeoutError",
    "ConnectError",
    "ConnectTimeout",
    "ReadTimeout",
    "RemoteProtocolError",
}
