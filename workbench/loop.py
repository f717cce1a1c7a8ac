"""The background event loop: one daemon thread for all connections, and the two ways to wait for it.

`run` blocks in short slices, because a bare wait on a lock sleeps through an interrupt; `arun` awaits with a heartbeat,
because an awaiting cell sees an interrupt only when something wakes its loop (shared/examples, ipykernel 7.4).
Either way an interrupt cancels the work, waits until it has closed its spans, and then goes on to the caller.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent import futures
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Generic, TypeVar, cast

from .errors import UsageError

__all__ = ["Job", "Loop", "apart", "in_main_thread"]

A = TypeVar("A")
T = TypeVar("T")
SLICE = 0.2
"""Seconds a wait lasts at most before Python can deliver an interrupt."""
GRACE = 5.0
"""Seconds that cancelled work has to close its spans."""


def in_main_thread() -> bool:
    """Whether this is the thread that Python delivers interrupts to, and a cell runs in."""
    return threading.current_thread() is threading.main_thread()


class Job(Generic[T]):
    """One coroutine on the background loop. Its `future` ends only when the coroutine has ended, cancelled or not."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> None:
        self.future: futures.Future[T] = futures.Future()
        self.future.set_running_or_notify_cancel()  # so that nobody's cancel() can end it before the work has ended
        self._loop, self._work = loop, work
        self._task: asyncio.Task[T] | None = None

    def start(self) -> Job[T]:
        """Let it run; itself, for chaining."""
        self._loop.call_soon_threadsafe(self._begin)
        return self

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.future.set_exception(futures.CancelledError())
        elif (error := task.exception()) is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(task.result())

    def cancel(self) -> None:
        """Ask the work to stop; `future` tells when it has."""
        self._loop.call_soon_threadsafe(lambda: self._task and self._task.cancel())


class Loop:
    """An event loop on a thread of its own. The thread is a daemon and starts with the first piece of work."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.idle: Callable[[], None] = lambda: None
        """Called between two slices while `run` blocks the main thread, which alone can read what a person types."""
        self.blocking = False
        """Whether `run` blocks the main thread just now."""

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                # The platform's own class, whatever policy the kernel has set: on Windows a selector loop starts no process.
                self._loop = _new_loop()
                self._thread = threading.Thread(target=self._serve, args=(self._loop,), name="workbench", daemon=True)
                self._thread.start()
            return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        loop.close()

    def submit(self, work: Coroutine[Any, Any, T]) -> Job[T]:
        """Start `work` without waiting for it."""
        return Job(self._running(), work).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for `work` on this thread and give its result; `KeyboardInterrupt` cancels it first.

        Raises `UsageError` on the loop's own thread, which would wait for itself.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise UsageError("this would wait for itself: inside a pattern use the `read` it was given, and await it")
        job = Job(self._running(), work)
        main = in_main_thread()
        try:
            self.blocking = self.blocking or main
            job.start()  # inside the try: an interrupt may arrive before this line is over
            while not job.future.done():
                futures.wait([job.future], SLICE)
                if main and not job.future.done():
                    self.idle()
        except BaseException:  # an interrupt, or what `idle` raised
            job.cancel()
            futures.wait([job.future], GRACE)
            raise
        finally:
            self.blocking = self.blocking and not main
        return job.future.result()

    async def arun(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for a cell that awaits; cancelling it cancels the work."""
        job = self.submit(work)
        beat = asyncio.ensure_future(_heartbeat())
        try:
            return await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            job.cancel()
            ended = asyncio.wrap_future(job.future)
            await asyncio.wait([ended], timeout=GRACE)
            if ended.done() and not ended.cancelled():
                ended.exception()  # looked at, or asyncio would log it
            raise
        finally:
            beat.cancel()

    def stop(self) -> None:
        """Cancel what still runs, let it end, and end the loop and its thread; the next piece of work starts a new one."""
        with self._lock:
            loop, self._loop = self._loop, None
            thread, self._thread = self._thread, None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(lambda: loop.create_task(_drain(loop)))
        if thread is not threading.current_thread():
            thread.join(2 * GRACE)


async def apart(function: Callable[[A], T], argument: A) -> T:
    """What a function gives that may wait for a person, on a thread of its own.

    Not `asyncio.to_thread`: its few threads also count tokens and render what is read, and a function that waits, perhaps for
    a request that its server has long withdrawn, would hold one for as long.
    """
    loop = asyncio.get_running_loop()
    given: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: Exception | None) -> None:
        if given.done():
            return
        if error is not None:
            given.set_exception(error)
        else:
            given.set_result(cast("T", value))

    def run() -> None:
        value: T | None = None
        failed: Exception | None = None
        try:
            value = function(argument)
        except BaseException as error:  # a StopIteration cannot be put into a future, and a SystemExit is not ours
            ours = isinstance(error, Exception) and not isinstance(error, StopIteration)
            failed = cast("Exception", error) if ours else RuntimeError(repr(error))
        with suppress(RuntimeError):  # the loop has ended, and whoever waited with it
            loop.call_soon_threadsafe(settle, value, failed)

    threading.Thread(target=copy_context().run, args=(run,), name="workbench-apart", daemon=True).start()
    return await given


def _new_loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":
        return asyncio.ProactorEventLoop()
    return asyncio.SelectorEventLoop()


async def _drain(loop: asyncio.AbstractEventLoop) -> None:
    """Whoever waits for a piece of work is told that it has ended before the loop does."""
    running = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=GRACE)
    loop.stop()


async def _heartbeat() -> None:
    while True:  # noqa: ASYNC110 - it waits for nothing; it wakes the loop so that an interrupt can reach it
        await asyncio.sleep(0.1)
