"""A replay on the workers of a Dask scheduler (extra `dask`): chunks of turns go out, results come back into the same store.

A worker keeps a session with its servers connected, and runs the turns of its chunk beside each other. A chunk whose worker
died is run again on another one; a result is kept under its task's key, so nothing counts twice.
"""

from __future__ import annotations

import atexit
import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from . import replaying
from .errors import UsageError
from .recorded import Recording
from .recorder import describe
from .replaying import Progress, Settings, Task
from .store import Result, Store
from .target import Target

if TYPE_CHECKING:
    from .replayed import Replayed
    from .servers import Servers
    from .sessions import Session

__all__ = ["run"]

_Most = tuple[int | None, float | None]
"""Tokens and US$ that may be used."""
_CHUNKS = 4  # for each worker, so that a slow one holds up the end by a quarter of its share
_LARGEST = 64  # turns of a chunk: that much is run again where a worker dies
_PATIENCE = 10.0  # seconds until a scheduler has answered


@dataclass(frozen=True)
class _Stand:
    """What a worker needs before it can run a turn."""

    targets: tuple[Target, ...]
    recording: tuple[str, ...] | None
    """The lines of a recording, which answers in place of the servers."""
    session: Callable[[], Session]
    """Makes the session that a worker keeps."""

    @property
    def key(self) -> str:
        return sha256(pickle.dumps((self.targets, self.recording))).hexdigest()


def run(
    scheduler: Any,
    servers: Servers,
    recording: Recording | None,
    tasks: Sequence[Task],
    settings: Settings,
    replayed: Replayed,
    most: _Most,
    session: Callable[[], Session],
    tell: Callable[[Progress], None] = lambda progress: None,
) -> None:
    """Run the tasks that are not in the store of `replayed` on all workers of `scheduler`, an address or a `Client`.

    `most` tokens and US$ are shared out among the chunks, by their turns, so that no worker has to ask another. Raises
    `UsageError` before a turn runs where there is no scheduler, or its workers lack something: they and what they lack are
    named. `session` makes the session that a worker keeps.
    """
    stand = _stand(servers, recording, session)
    client, ours = _client(scheduler)
    try:
        workers = _checked(client, stand)
        left = replaying.missing(tasks, replayed)
        progress = Progress(len(tasks), len(tasks) - len(left))
        replayed.concurrency, replayed.kept = settings.concurrency * len(workers), progress.kept
        size = max(1, min(_LARGEST, -(-len(left) // (_CHUNKS * len(workers)))))
        chunks = [left[at : at + size] for at in range(0, len(left), size)]
        tell(progress)
        futures = [
            client.submit(_chunk, stand, chunk, settings, _part(most, len(chunk) / len(left)), pure=False)
            for chunk in chunks
        ]
        _collect(client, futures, replayed, progress, tell)
    finally:
        if ours:
            client.close()


def _part(most: _Most, share: float) -> _Most:
    tokens, usd = most
    return None if tokens is None else max(1, int(tokens * share)), None if usd is None else usd * share


def _collect(
    client: Any, futures: list[Any], replayed: Replayed, progress: Progress, tell: Callable[[Progress], None]
) -> None:
    from distributed import as_completed

    try:
        for future in as_completed(futures):
            if (error := future.exception()) is not None:
                replayed.stopped = f"a chunk of turns was given up: {describe(error)}"
                continue
            results, stopped = future.result()
            replayed.stopped = replayed.stopped or stopped
            for result in results:
                replayed.store.put(result)
                progress.done += 1
                progress.failed += result.row["error"] is not None
            future.release()
            tell(progress)
    except BaseException:
        replayed.stopped = replayed.stopped or "it was stopped"
        client.cancel(futures)
        raise


def _stand(servers: Servers, recording: Recording | None, session: Callable[[], Session]) -> _Stand:
    """Raises `UsageError` for a server that another process cannot reach as this one does."""
    if recording is not None:
        return _Stand((), tuple(recording.lines()), session)
    targets = [connection.target for connection in servers.connections.values()]
    for target in targets:
        if target.server is not None:
            raise UsageError(
                f"{target.name} is an object of this process, which workers do not have: start it as a command, or replay from "
                "a recording"
            )
        if target.secrets:
            raise UsageError(
                f"{target.name} is reached with secrets, which are not sent to workers: replay from a recording"
            )
    return _Stand(tuple(targets), None, session)


def _client(scheduler: Any) -> tuple[Any, bool]:
    """The client, and whether it was made here."""
    try:
        from distributed import Client
    except ImportError:
        raise UsageError('a scheduler needs Dask: pip install "mcp-agent-workbench[dask]"') from None
    if not isinstance(scheduler, str):
        return scheduler, False
    try:
        return Client(scheduler, timeout=_PATIENCE, set_as_default=False), True
    except (OSError, TimeoutError, ValueError) as error:
        raise UsageError(
            f"there is no Dask scheduler at {scheduler}: {describe(error)}. Start one: dask scheduler"
        ) from None


def _checked(client: Any, stand: _Stand) -> Sequence[str]:
    """The workers' addresses; raises `UsageError` naming those that cannot do it, and why."""
    if not (workers := list(client.scheduler_info(n_workers=-1)["workers"])):
        raise UsageError("the scheduler has no workers: start some with dask worker ADDRESS")
    try:
        client.get_versions(check=True)
    except ValueError as error:
        raise UsageError(f"scheduler and workers have other versions of what they need:\n{error}") from None
    try:
        found: Mapping[str, str | None] = client.run(_ready, stand)
    except Exception as error:  # most of all a worker that does not have this package
        raise UsageError(
            f"a worker cannot take part: {describe(error)}. Install mcp-agent-workbench there, too"
        ) from None
    if lacking := {worker: why for worker, why in found.items() if why}:
        told = "; ".join(f"{worker}: {why}" for worker, why in lacking.items())
        raise UsageError(f"{len(lacking)} of {len(found)} workers cannot take part: {told}")
    return workers


# -- on a worker


_held: dict[str, tuple[Session, replaying.Bench]] = {}
_one = threading.Lock()


def _ready(stand: _Stand) -> str | None:
    """Why this worker cannot run turns; `None` where it can."""
    try:
        _bench(stand)
    except Exception as error:
        return describe(error).split("\n")[0]
    return None


def _bench(stand: _Stand) -> tuple[Session, replaying.Bench]:
    """A session that stays, with its servers connected."""
    with _one:
        if stand.key not in _held:
            session = stand.session()
            atexit.register(session.close)
            for error in session.loop.run(session.servers.connect_all(stand.targets)).values():
                session.close()
                raise error
            recording = Recording.of(stand.recording) if stand.recording is not None else None
            _held[stand.key] = session, session.loop.run(replaying.bench(session.servers, session.mask, recording))
        return _held[stand.key]


def _chunk(stand: _Stand, tasks: Sequence[Task], settings: Settings, most: _Most) -> tuple[list[Result], str | None]:
    """The results of some tasks, and why it stopped before the last one."""
    from .replayed import Replayed

    session, bench = _bench(stand)
    done = Replayed([task.key for task in tasks], store := Store())
    session.loop.run(replaying.run(bench, tasks, settings, done, replaying.Budget(*most)))
    return [Result(key, row, store.spans(key)) for key, row in store.rows(done.keys)], done.stopped
