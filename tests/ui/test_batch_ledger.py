"""A batch's folder comes back whole, whatever an interruption has left of it."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ui.batch.ledger import FAILURES, METADATA, PLAN_FILE, BatchRefused, Ledger
from ui.batch.plan import Plan
from ui.batch.prompts import Entry
from ui.metadata import png

PIXELS = np.zeros((4, 4, 3), np.uint8)
PLAN = Plan(tuple(Entry(f"prompt {n}") for n in range(5)))


def draw(folder, indices, plan=PLAN) -> None:
    """A run that draws these and ends well."""
    ledger = Ledger(folder, plan)
    ledger.pin_weights("pocket-ar", "pocket")
    for task in plan.tasks():
        if task.index in indices and not ledger.done(task.index):
            request = task.request()
            ledger.write(task, png(PIXELS, request.to_dict()))
            ledger.record(task, task.line(request, "pocket"))
    ledger.close()


def lines(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / METADATA).read_bytes().splitlines()]


def names(folder) -> list[str]:
    return [line["file_name"] for line in lines(folder)]


def left(folder, plan=PLAN) -> list[int]:
    """What a new run finds to be drawn, after it has repaired the folder."""
    ledger = Ledger(folder, plan)
    indices = [task.index for task in ledger.open_tasks()]
    assert ledger.count == len(plan) - len(indices)
    ledger.close()
    return indices


def test_nothing_is_there_at_first_and_everything_in_the_end(tmp_path):
    folder = tmp_path / "new" / "folder"
    assert left(folder) == [0, 1, 2, 3, 4]
    draw(folder, range(5))
    assert left(folder) == [] and len(names(folder)) == 5


def test_lines_are_in_order_at_the_end_whatever_order_they_came_in(tmp_path):
    for indices in ([3], [0, 4], [1, 2]):
        draw(tmp_path, indices)
    assert names(tmp_path) == [PLAN.file_name(n) for n in range(5)]


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_a_torn_last_line_is_written_again_not_its_picture(tmp_path, cut):
    draw(tmp_path, [0, 1, 2])
    whole = lines(tmp_path)
    before = (tmp_path / "000002.png").stat().st_mtime_ns
    path = tmp_path / METADATA
    path.write_bytes(path.read_bytes()[:-cut])
    assert left(tmp_path) == [3, 4]
    assert lines(tmp_path) == whole
    assert (tmp_path / "000002.png").stat().st_mtime_ns == before


def test_a_picture_without_its_line_gets_it_from_the_plan(tmp_path):
    draw(tmp_path, [0, 1, 2])
    whole = lines(tmp_path)
    (tmp_path / METADATA).write_text(json.dumps(whole[1]) + "\n")
    assert left(tmp_path) == [3, 4]
    assert sorted(lines(tmp_path), key=lambda line: line["file_name"]) == whole
    (tmp_path / METADATA).unlink()
    assert left(tmp_path) == [3, 4] and lines(tmp_path) == whole


def test_a_line_without_its_picture_goes_and_the_picture_is_drawn(tmp_path):
    draw(tmp_path, [0, 1, 2])
    (tmp_path / "000000.png").unlink()
    (tmp_path / "000002.png").write_bytes(b"")
    assert left(tmp_path) == [0, 2, 3, 4]
    assert names(tmp_path) == ["000001.png"]


def test_half_a_picture_goes(tmp_path):
    draw(tmp_path, [0])
    (tmp_path / ".000001.png.part").write_bytes(b"\x89PNG")
    assert left(tmp_path) == [1, 2, 3, 4]
    assert not (tmp_path / ".000001.png.part").exists()


def test_the_same_line_twice_and_nonsense_go_and_what_somebody_added_stays(tmp_path):
    draw(tmp_path, [0, 1])
    mine = {"file_name": "mine.png", "prompt": "mine"}
    (tmp_path / "mine.png").write_bytes(png(PIXELS))
    with (tmp_path / METADATA).open("ab") as file:
        file.write(json.dumps(lines(tmp_path)[0]).encode() + b'\n[1]\n\xff\n{"a": 1}\n7\n\n')
        file.write(f"{json.dumps(mine)}\n".encode() * 2)
        file.write(b'{"file_name": "gone.png"}\n{"file_name": 5}\n')
    assert left(tmp_path) == [2, 3, 4]
    assert names(tmp_path) == ["000000.png", "000001.png", "mine.png"]
    draw(tmp_path, range(5))
    assert len(names(tmp_path)) == 6 and lines(tmp_path)[-1] == mine


@given(st.data())
def test_wherever_a_run_was_cut_off_nothing_is_lost_or_drawn_twice(tmp_path_factory, data):
    """Pictures are written in any order, their lines lag behind, the last line is cut anywhere."""
    folder = tmp_path_factory.mktemp("cut")
    drawn = data.draw(st.lists(st.sampled_from(range(5)), unique=True))
    draw(folder, drawn)
    path = folder / METADATA
    cut = data.draw(st.integers(0, path.stat().st_size))
    path.write_bytes(path.read_bytes()[:cut])
    assert left(folder) == [n for n in range(5) if n not in drawn]
    draw(folder, range(5))
    tasks = [task.line(task.request(), "pocket") for task in PLAN.tasks()]
    assert lines(folder) == tasks


def test_failures_are_kept_until_they_are_tried_again(tmp_path):
    ledger = Ledger(tmp_path, PLAN)
    ledger.fail(next(PLAN.tasks()), "It did not work.")
    ledger.close()
    (failure,) = map(json.loads, (tmp_path / FAILURES).read_text().splitlines())
    assert failure["error"] == "It did not work." and failure["prompt"] == "prompt 0"
    assert left(tmp_path) == [0, 1, 2, 3, 4] and not (tmp_path / FAILURES).exists()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (Plan(PLAN.entries, seeds=2), "seeds 1 there, 2 here"),
        (Plan(PLAN.entries, settings={"cfg_scale": 2.0}), 'settings {} there, {"cfg_scale": 2.0}'),
        (Plan((*PLAN.entries[:-1], Entry("another"))), "the prompts are not the same"),
    ],
)
def test_another_plan_is_refused_and_changes_nothing(tmp_path, other, words):
    draw(tmp_path, [0, 1])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(BatchRefused, match="another batch") as refused:
        Ledger(tmp_path, other)
    assert words in str(refused.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "holiday.jpg").write_bytes(b"x")
    with pytest.raises(BatchRefused, match=r"holiday\.jpg"):
        Ledger(tmp_path, PLAN)
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]


def test_a_damaged_plan_file_is_refused(tmp_path):
    (tmp_path / PLAN_FILE).write_text("{}")
    with pytest.raises(BatchRefused, match="cannot read"):
        Ledger(tmp_path, PLAN)


def test_other_weights_are_refused(tmp_path):
    draw(tmp_path, [0])
    ledger = Ledger(tmp_path, PLAN)
    with pytest.raises(BatchRefused, match="pocket weights of pocket-ar; now they are random"):
        ledger.pin_weights("pocket-ar", "random")
    ledger.pin_weights("pocket-ar-joint", "random")
    ledger.close()


def test_two_runs_cannot_have_the_same_folder(tmp_path):
    pytest.importorskip("fcntl")
    ledger = Ledger(tmp_path, PLAN)
    with pytest.raises(BatchRefused, match="Another run"):
        Ledger(tmp_path, PLAN)
    ledger.close()
    Ledger(tmp_path, PLAN).close()


def test_a_picture_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path, PLAN)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        ledger.write(next(PLAN.tasks()), b"picture")
    monkeypatch.undo()
    ledger.close()
    assert not [path for path in tmp_path.iterdir() if "000000" in path.name]
