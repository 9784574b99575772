"""Drawing what is left: the engine's queue kept filled, encoding and writing beside it.

At most `window` pictures are between being asked for and being recorded, so memory stays the same
however long the batch is; and the engine has more than one full batch of them at any time, so it
never waits. Everything that decides happens in the caller's thread, which sleeps on one inbox.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from engine.engine import EngineClosed, QueueFull
from engine.events import Failed, Finished, Started
from engine.requests import InvalidRequest
from ui.batch.ledger import Ledger
from ui.batch.plan import Task
from ui.batch.progress import Progress

OWNER = "batch"
_BATCHES = 3  # in flight: one on the device, one waiting for it, one being written
_MOST = 120  # what an engine holds for one owner, and a little less
_LOOK_S = 2.0

Encode = Callable[[Any, dict[str, Any]], bytes]  # pixels and settings to a file's bytes


class BatchBroken(RuntimeError):
    """The batch cannot go on. What is done is kept; the message says what happened."""


class _Over(NamedTuple):
    index: int


class _Written(NamedTuple):
    task: Task
    line: dict[str, Any]
    error: OSError | None


class _Stop(NamedTuple):
    pass


class Runner:
    """One run. `stop` may be called from anywhere, a signal handler included."""

    def __init__(
        self,
        engine: Any,
        ledger: Ledger,
        encode: Encode,
        progress: Progress,
        tell: Callable[[Task | None, str], None],
        owner: str = OWNER,
        patient: bool = False,
    ) -> None:
        """`tell` hears of every failure (its task, the words) and of progress (no task).

        `owner`: whose pictures these are to the engine. `patient`: where others use the engine
        too, room in its queue is waited for.
        """
        self._owner, self._patient = owner, patient
        self._engine, self._ledger, self._encode = engine, ledger, encode
        self._progress, self._tell = progress, tell
        self._inbox: queue.SimpleQueue[_Over | _Written | _Stop] = queue.SimpleQueue()
        self._drawing: dict[int, tuple[Task, Any]] = {}
        self._writing = 0
        self._held: Task | None = None  # did not fit into the engine's queue
        self._window = min(_MOST, _BATCHES * engine.status().max_batch)
        self.stopped = False

    def stop(self) -> None:
        """Draw nothing more. Finished pictures are still written."""
        self.stopped = True
        self._inbox.put(_Stop())  # re-entrant, hence fit for signal handlers

    def run(self) -> None:
        """Until every picture is drawn or has failed, or `stop`.

        Raises `BatchBroken` when nothing more can be drawn or written, `BatchRefused` when the
        weights are not those of earlier pictures.
        """
        tasks = self._ledger.open_tasks()
        writers = ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="picture")
        try:
            while True:
                self._fill(tasks)
                waits = self._held is not None and not self.stopped
                if not self._drawing and not self._writing and not waits:
                    break
                self._take(writers)
        finally:
            for _, job in self._drawing.values():
                self._engine.cancel(job)
            writers.shutdown()

    # ---- asking ----

    def _fill(self, tasks: Iterator[Task]) -> None:
        while not self.stopped and len(self._drawing) + self._writing < self._window:
            task = self._held or next(tasks, None)
            self._held = None
            if task is None:
                return
            try:
                job = self._engine.submit(task.request(), self._owner, str(task.index))
            except InvalidRequest as error:
                self._failed(task, str(error))
            except QueueFull as error:
                if not self._patient and not self._drawing and not self._writing:
                    raise BatchBroken(str(error)) from None
                self._held = task
                return
            except EngineClosed as error:
                raise BatchBroken(str(error)) from None
            else:
                self._follow(task, job)

    def _follow(self, task: Task, job: Any) -> None:
        self._drawing[task.index] = task, job

        def ring() -> None:
            if job.done:
                self._inbox.put(_Over(task.index))

        job.channel.listen(ring)
        ring()  # it may have ended before anybody listened; hearing of it twice does no harm

    # ---- hearing ----

    def _take(self, writers: ThreadPoolExecutor) -> None:
        try:
            message = self._inbox.get(timeout=_LOOK_S)
        except queue.Empty:
            if not self._engine.alive:
                raise BatchBroken("The engine has stopped unexpectedly.") from None
            return
        match message:
            case _Stop():
                for _, job in list(self._drawing.values()):
                    self._engine.cancel(job)
            case _Over(index):
                task, job = self._drawing.pop(index, (None, None))
                if task is not None:
                    self._ended(task, job, writers)
            case _Written(task, line, error):
                self._writing -= 1
                if error is not None:
                    raise BatchBroken(f"{task.file_name} could not be written: {error}.")
                self._record(task, line)

    def _ended(self, task: Task, job: Any, writers: ThreadPoolExecutor) -> None:
        weights = ""
        while (event := job.channel.poll()) is not None:
            if isinstance(event, Started):
                weights = event.weights
            elif isinstance(event, Finished):
                self._pin(job.request.variant, weights)
                line = task.line(job.request, weights)
                self._writing += 1
                writers.submit(self._write, task, event, line)
            elif isinstance(event, Failed):
                self._failed(task, event.message)
        # else it was cancelled: it stays open

    def _write(self, task: Task, end: Finished, line: dict[str, Any]) -> None:
        """In a writer's thread."""
        error: OSError | None = None
        try:
            self._ledger.write(task, self._encode(end.image, end.settings))
        except OSError as caught:
            error = caught
        except Exception as caught:
            error = OSError(f"{type(caught).__name__}: {caught}")
        self._inbox.put(_Written(task, line, error))

    # ---- noting ----

    def _pin(self, variant: str, weights: str) -> None:
        try:
            self._ledger.pin_weights(variant, weights)
        except OSError as error:
            raise BatchBroken(f"The folder cannot be written to: {error}.") from None

    def _record(self, task: Task, line: dict[str, Any]) -> None:
        try:
            self._ledger.record(task, line)
        except OSError as error:
            raise BatchBroken(f"The folder cannot be written to: {error}.") from None
        self._progress.add()
        self._tell(None, str(self._progress))

    def _failed(self, task: Task, message: str) -> None:
        try:
            self._ledger.fail(task, message)
        except OSError as error:
            raise BatchBroken(f"The folder cannot be written to: {error}.") from None
        self._progress.add(failed=True)
        self._tell(task, message)
