"""Batches that pages and programs start: each in a folder and a thread of its own, by an
unguessable name. Who knows the name may look, stop, go on and fetch; nobody else can."""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ui.batch.archive import pack
from ui.batch.ledger import BatchRefused, Ledger
from ui.batch.plan import Plan, Task
from ui.batch.progress import Progress
from ui.batch.runner import BatchBroken, Runner
from ui.metadata import png, webp

State = Literal["running", "done", "stopped", "failed"]
_NEWEST = 12  # files a page shows while a batch is drawn
_FAULTS = 5


class BatchLimit(ValueError):
    """Too much at once. The message is for a person."""


@dataclass
class Run:
    """One batch. Its thread writes, everybody reads."""

    name: str
    owner: str
    plan: Plan
    folder: Path
    state: State = "running"
    message: str = ""
    done: int = 0
    failed: int = 0
    rate: float | None = None  # pictures a second
    newest: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    touched: float = field(default_factory=time.monotonic)
    stopping: bool = False
    runner: Runner | None = None
    thread: threading.Thread | None = None
    place: str = ""  # the address it was asked from, if that is known
    packed: int = -1  # pictures in its zip, if there is one
    packing: threading.Lock = field(default_factory=threading.Lock)

    def status(self) -> dict[str, Any]:
        """For a page, as plain JSON."""
        left = len(self.plan) - self.done - self.failed
        running = self.state == "running"
        return {
            "run": self.name,
            "state": self.state,
            "message": self.message,
            "total": len(self.plan),
            "done": self.done,
            "failed": self.failed,
            "faults": list(self.faults),
            "rate": self.rate,
            "left_s": left / self.rate if self.rate and running else None,
            "newest": list(self.newest),
            "format": self.plan.format,
        }


class BatchDesk:
    """Thread-safe. Bounded: pictures of a run, runs at work in all and of one owner, runs kept."""

    def __init__(
        self,
        engine: Any,
        root: Path,
        most_pictures: int = 500,
        at_once: int = 4,
        kept: int = 16,
        per_place: int = 2,
    ) -> None:
        self._engine, self._root = engine, root
        self.most_pictures, self._at_once, self._keep = most_pictures, at_once, kept
        self._per_place = per_place
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False

    def check(self, plan: Plan) -> None:
        """Raises `BatchLimit` for more pictures than this server draws in a run."""
        if len(plan) > self.most_pictures:
            raise BatchLimit(
                f"That makes {len(plan):,} pictures; at most {self.most_pictures:,} are drawn in one "
                "batch here. Make it smaller, or use `python app.py batch` on a machine of yours."
            )

    def start(self, owner: str, plan: Plan, place: str = "") -> Run:
        """Raises `BatchLimit` where it is too large or too many are at work, here or for one
        `place`, an address whose pages are each an owner."""
        self.check(plan)
        name = secrets.token_urlsafe(18)
        run = Run(name, owner, plan, self._root / name, place=place)
        self._launch(run)
        return run

    def go_on(self, run: Run) -> None:
        """Draw what is left of a run that was stopped or failed. One at work is left alone."""
        self._launch(run)

    def get(self, name: str) -> Run | None:
        with self._lock:
            run = self._runs.get(name)
            if run is not None:
                run.touched = time.monotonic()
                self._runs.move_to_end(name)
        return run

    def stop(self, run: Run) -> None:
        """What is drawn is kept. Returns at once."""
        run.stopping = True
        if run.runner is not None:
            run.runner.stop()

    def zip(self, run: Run) -> Path:
        """The pictures there are, packed. Raises `OSError`."""
        target = run.folder.with_suffix(".zip")
        with run.packing:  # whoever else asks meanwhile gets the same
            if run.packed != run.done or not target.is_file():
                pack(run.folder, target, run.plan)
                run.packed = run.done
        return target

    def close(self) -> None:
        """Stop everything and remove what was drawn."""
        with self._lock:
            self._closed, runs = True, list(self._runs.values())
        for run in runs:
            self.stop(run)
        for run in runs:
            if run.thread is not None:
                run.thread.join(10)
        shutil.rmtree(self._root, ignore_errors=True)

    def _launch(self, run: Run) -> None:
        with self._lock:
            if run.thread is not None and run.state == "running":
                return
            working = [other for other in self._runs.values() if other.state == "running"]
            working = [other for other in working if other is not run]
            if self._closed:
                raise BatchLimit("The server is shutting down. Please try again in a minute.")
            if any(other.owner == run.owner for other in working):
                raise BatchLimit("A batch of yours is being drawn. Stop it or wait for its end.")
            if run.place and [r.place for r in working].count(run.place) >= self._per_place:
                raise BatchLimit(
                    f"{self._per_place} batches are being drawn for your network, which is all it "
                    "may have at once. Try again when one of them is done."
                )
            if len(working) >= self._at_once:
                raise BatchLimit(
                    f"{len(working)} batches are being drawn here, which is all there is room for. "
                    "Try again in a few minutes."
                )
            run.state, run.message, run.stopping, run.failed = "running", "", False, 0
            run.faults.clear()
            self._runs[run.name] = run
            idle = [each for each in self._runs.values() if each.state != "running"]
            for old in idle[: max(0, len(self._runs) - self._keep)]:
                del self._runs[old.name]
                shutil.rmtree(old.folder, ignore_errors=True)
                old.folder.with_suffix(".zip").unlink(missing_ok=True)
            run.thread = threading.Thread(target=self._draw, args=[run], name="batch", daemon=True)
            run.thread.start()

    def _draw(self, run: Run) -> None:
        """In the run's thread."""
        ledger: Ledger | None = None
        end: State = "failed"
        try:
            ledger = Ledger(run.folder, run.plan)
            run.done = ledger.count
            progress = Progress(len(run.plan), ledger.count)

            def tell(task: Task | None, words: str) -> None:
                run.done, run.failed = progress.before + progress.drawn, progress.failed
                run.rate = progress.rate
                if task is not None:
                    run.faults = [*run.faults, f"{task.file_name}: {words}"][-_FAULTS:]

            encode = webp if run.plan.format == "webp" else png
            watched = _Watched(ledger, run)
            run.runner = Runner(
                self._engine,
                watched,  # type: ignore[arg-type]
                encode,
                progress,
                tell,
                owner=f"batch:{run.name}",
                patient=True,
            )
            if run.stopping:
                run.runner.stop()
            run.runner.run()
            end = "stopped" if run.runner.stopped else "done"
            if end == "done" and run.failed:
                run.message = f"{run.failed} could not be drawn; go on to try them again."
        except (BatchBroken, BatchRefused) as error:
            run.message = str(error)
        except OSError as error:
            run.message = f"The pictures could not be written: {error.strerror}."
        finally:
            if ledger is not None:
                ledger.close()
            run.runner, run.state = None, end


class _Watched:
    """A ledger that tells its run of the newest files."""

    def __init__(self, ledger: Ledger, run: Run) -> None:
        self._ledger, self._run = ledger, run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def record(self, task: Task, line: dict[str, Any]) -> None:
        self._ledger.record(task, line)
        self._run.newest = [task.file_name, *self._run.newest][:_NEWEST]
