"""Batches of many visitors at once: how many may run, how long they are kept, what races do."""

from __future__ import annotations

import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.requests import GenerationRequest
from tests.ui.batches import VARIANTS, order
from tests.ui.world import PageWorld, start
from ui.batch.desk import BatchDesk, BatchLimit
from ui.batch.order import read_order
from ui.batch.plan import Plan


def test_old_batches_make_room_and_their_files_go(tmp_path: Path) -> None:
    with start(PageWorld(step_s=0.002), VARIANTS) as engine:
        desk = BatchDesk(engine, tmp_path / "runs", kept=2)
        runs = []
        for n in range(4):
            run = desk.start(f"owner {n}", read_order(order(variants=["pocket-ar-joint"]), 40))
            assert run.thread is not None
            run.thread.join(30)
            assert run.state == "done", run.message
            desk.zip(run)
            runs.append(run)
        assert [desk.get(run.name) is not None for run in runs] == [False, False, True, True]
        assert not runs[0].folder.exists() and not runs[0].folder.with_suffix(".zip").exists()
        desk.close()
        assert not (tmp_path / "runs").exists()


def long_order(seeds: int = 10) -> Plan:
    settings = {"ar_iterations": 64}
    values = order(variants=["pocket-ar"], prompts="a fox", seeds=seeds, settings=settings)
    return read_order(values, 40)


def test_one_address_cannot_take_every_place(tmp_path: Path) -> None:
    with start(PageWorld(step_s=0.01), VARIANTS) as engine:
        desk = BatchDesk(engine, tmp_path / "runs", at_once=3)
        for page in ("page 1", "page 2"):
            desk.start(page, long_order(), "1.2.3.4")
        with pytest.raises(BatchLimit, match="your network"):
            desk.start("page 3", long_order(), "1.2.3.4")
        desk.start("page 4", long_order(), "5.6.7.8")
        with pytest.raises(BatchLimit, match="all there is room for"):
            desk.start("page 5", long_order(), "9.9.9.9")
        desk.close()


def test_going_on_twice_at_once_is_going_on_once(tmp_path: Path) -> None:
    """The second one met the folder's lock, and the run counted as failed while it was drawn."""
    with start(PageWorld(step_s=0.003), VARIANTS) as engine:
        desk = BatchDesk(engine, tmp_path / "runs")
        run = desk.start("me", long_order(4))
        desk.stop(run)
        assert run.thread is not None
        run.thread.join(20)
        assert run.state == "stopped"
        clicks = [threading.Thread(target=desk.go_on, args=[run]) for _ in range(8)]
        for click in clicks:
            click.start()
        for click in clicks:
            click.join()
        run.thread.join(30)
        assert (run.state, run.done, run.message) == ("done", 4, "")
        desk.close()


def test_a_full_queue_is_waited_for(tmp_path: Path) -> None:
    """Others fill it; the batch is in no hurry."""
    with start(PageWorld(step_s=0.01), VARIANTS, queue_size=4, queue_per_owner=4) as engine:
        others = [engine.submit(GenerationRequest("x", seed=n), "other", str(n)) for n in range(4)]
        desk = BatchDesk(engine, tmp_path / "runs")
        run = desk.start("me", read_order(order(variants=["pocket-ar"]), 40))
        assert run.thread is not None
        run.thread.join(60)
        assert (run.state, run.done) == ("done", 4)
        assert all(job.done for job in others)
        desk.close()


def test_two_who_fetch_at_once_both_get_a_whole_zip(tmp_path: Path) -> None:
    with start(PageWorld(step_s=0), VARIANTS) as engine:
        desk = BatchDesk(engine, tmp_path / "runs")
        run = desk.start("me", read_order(order(seeds=5), 40))
        assert run.thread is not None
        run.thread.join(30)
        with ThreadPoolExecutor(8) as pool:
            for target in pool.map(lambda _: desk.zip(run), range(16)):
                with zipfile.ZipFile(target) as archive:
                    assert archive.testzip() is None and len(archive.namelist()) >= 41
        desk.close()
