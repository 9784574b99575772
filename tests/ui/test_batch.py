"""Batches from the command line: what comes out, and what is said when something is wrong."""

from __future__ import annotations

import json
import os
import threading
import zipfile

import numpy as np
import pytest

import app
from tests.engine.fakes import FakeText
from tests.ui.batches import TEMPLATE, batch, check_image_folder, contents, lines, pictures, pixels
from tests.ui.world import PageText, PageWorld, is_of, mean_colour, start
from ui.batch.ledger import FAILURES, METADATA
from ui.batch.plan import request_of
from ui.batch.progress import Progress, duration
from ui.metadata import read_settings

# ---- what comes out ----


@pytest.mark.parametrize("ending", ["png", "webp"])
def test_every_prompt_variant_and_seed_is_drawn_with_its_settings(engines, tmp_path, ending):
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('"a fox 🦊"\n{"prompt": "a cat", "cfg_scale": 2, "seed": 8}\n')
    variants = "pocket-ar,pocket-ar-joint"
    out = tmp_path / "out"
    arguments = (prompts, "--out", out, "--variants", variants, "--seeds", 2, "--format", ending)
    assert batch(*arguments, "--temperature", 0.5) == 0
    found = lines(out)
    assert [(x["variant"], x["prompt"], x["seed"]) for x in found] == [
        (variant, prompt, seed)
        for variant in variants.split(",")
        for prompt, seed in (("a fox 🦊", 0), ("a fox 🦊", 1), ("a cat", 8), ("a cat", 9))
    ]
    for line in found:
        assert line["temperature"] == 0.5 and line["ar_iterations"] == 2
        settings = read_settings(out / line["file_name"])
        assert settings == {k: v for k, v in line.items() if k not in ("file_name", "weights")}
        assert is_of(mean_colour((out / line["file_name"]).read_bytes()), line["prompt"])
    assert [line["weights"] for line in found] == ["pocket"] * 4 + ["random"] * 4
    assert engines[0][0] == variants.split(",")
    check_image_folder(out)


def test_datasets_reads_the_folder_as_it_is(engines, tmp_path):
    datasets = pytest.importorskip("datasets")
    assert batch("--template", TEMPLATE, "--out", tmp_path / "out") == 0
    loaded = datasets.load_dataset(
        "imagefolder", data_dir=str(tmp_path / "out"), cache_dir=str(tmp_path / "cache")
    )["train"]
    assert loaded["prompt"][:2] == ["one red cat", "one red dog"]
    assert loaded[0]["image"].size == (128, 128)


def test_batches_are_full_and_memory_is_not(engines, tmp_path, monkeypatch):
    """Many more pictures than are in flight at any time."""
    from ui.batch.runner import Runner

    most = 0
    take = Runner._take

    def watch(self, writers):
        nonlocal most
        most = max(most, len(self._drawing) + self._writing)
        take(self, writers)

    monkeypatch.setattr(Runner, "_take", watch)
    assert batch("--template", TEMPLATE, "--seeds", 8, "--out", tmp_path / "out") == 0
    assert most == 12  # three times a batch of four
    sampler = engines[0][2].samplers["pocket-ar"]
    steps = [len(step) for step in sampler.batches[-48:]]
    assert sum(steps) / len(steps) > 3


def test_exact_draws_one_at_a_time(engines, tmp_path):
    assert batch("--template", "{a|b|c}", "--exact", "--out", tmp_path / "out") == 0
    assert engines[0][1] == 1
    assert {len(step) for step in engines[0][2].samplers["pocket-ar"].batches} == {1}


# ---- again ----


def test_a_finished_batch_draws_nothing_again(engines, tmp_path, capsys):
    out = tmp_path / "out"
    assert batch("--template", TEMPLATE, "--out", out) == 0
    before = contents(out)
    assert batch("--template", TEMPLATE, "--out", out) == 0
    assert contents(out) == before and len(engines) == 1
    assert "12 pictures" in capsys.readouterr().out


def test_only_what_is_missing_is_drawn_and_only_its_variant_loaded(engines, tmp_path):
    out = tmp_path / "out"
    arguments = ("--template", "a {fox|cat}", "--variants", "pocket-ar,pocket-ar-joint")
    assert batch(*arguments, "--out", out) == 0
    before = contents(out)
    (out / "000003.png").unlink()
    assert batch(*arguments, "--out", out) == 0
    assert contents(out) == before
    assert engines[1][0] == ["pocket-ar-joint"] and engines[1][2].samplers["pocket-ar-joint"]


def test_three_files_are_drawn_again_from_their_own_metadata(engines, tmp_path):
    out = tmp_path / "out"
    assert batch("--template", TEMPLATE, "--seed", 5, "--out", out) == 0
    with start(PageWorld(step_s=0), ["pocket-ar"]) as engine:
        for line in lines(out)[::5]:
            end = list(engine.submit(request_of(line), "me").events())[-1]
            assert np.array_equal(end.image, pixels(out / line["file_name"]))
    again = tmp_path / "again"
    assert app.main(["batch", str(out / METADATA), "--out", str(again)]) == 0
    assert contents(again) == contents(out)


# ---- when something is wrong ----


def test_what_cannot_be_drawn_is_recorded_and_the_others_are_drawn(engines, tmp_path, capsys):
    prompts = tmp_path / "p.csv"
    prompts.write_text(
        "prompt,ar_iterations,variant\na fox,,\nexplode,,\n" + "x" * 3000 + ",,\na cat,99,\n"
        "a dog,,nitro-ar-gan\nan owl,,\na bee,,nope\n"
    )
    out = tmp_path / "out"
    assert batch(prompts, "--out", out) == 1
    assert [line["prompt"] for line in lines(out)] == ["a fox", "an owl"]
    failures = [json.loads(line) for line in (out / FAILURES).read_text().splitlines()]
    words = {each["prompt"][:7]: each["error"] for each in failures}
    assert len(failures) == 5
    assert "broken" in words["explode"] and "3,000 characters" in words["xxxxxxx"]
    assert "AR iterations" in words["a cat"] and "not available" in words["a dog"]
    assert "no variant 'nope'" in words["a bee"]
    said = capsys.readouterr().err
    assert "5 could not be drawn" in said and "failed: " in said
    assert engines[0][0] == ["pocket-ar", "nitro-ar-gan"]


def test_what_failed_is_tried_again(engines, tmp_path, monkeypatch):
    out = tmp_path / "out"
    assert batch("--template", "{a fox|explode}", "--out", out) == 1
    assert [path.name for path in pictures(out)] == ["000000.png"]
    monkeypatch.setattr(PageText, "encode", FakeText.encode)
    assert batch("--template", "{a fox|explode}", "--out", out) == 0
    assert len(lines(out)) == 2 and not (out / FAILURES).exists()


def test_a_zip_with_failures_keeps_its_folder_to_try_again(engines, tmp_path):
    target = tmp_path / "cats.zip"
    assert batch("--template", "{a fox|explode}", "--zip", target) == 1
    with zipfile.ZipFile(target) as archive:
        assert {"000000.png", METADATA, FAILURES} <= set(archive.namelist())
    made = (tmp_path / "cats.zip.unfinished" / "000000.png").stat().st_mtime_ns
    assert batch("--template", "{a fox|explode}", "--zip", target) == 1
    assert (tmp_path / "cats.zip.unfinished" / "000000.png").stat().st_mtime_ns == made


def test_without_a_variant_nothing_is_begun(engines, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ("--template", "a fox", "--variants", "nitro-ar-gan", "--out", out)
    assert batch(*arguments) == 1
    assert "not available: its weights are not here" in capsys.readouterr().err
    assert not (out / FAILURES).exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--template", "{a"], "never closed"),
        (["nowhere.txt"], "cannot be read"),
        (["--template", "a", "--variants", "nope"], "no variant 'nope'"),
        (["--template", "a", "--variants", ","], "names no variant"),
        (["--template", "a", "--variants", "pocket-ar,nitro-e"], "AR iterations of Nitro-E"),
        (["--template", "a", "--cfg-scale", "99"], "CFG scale"),
        (["--template", "a", "--seed", "-1"], "Seed"),
        (["--template", "a", "--seeds", "0"], "--seeds"),
        (["--template", "{a|b}" * 15, "--seeds", "1000"], "32,768,000 pictures"),
    ],
)
def test_what_no_prompt_could_have_is_refused_before_anything_is_done(
    engines, tmp_path, capsys, arguments, words
):
    assert batch(*arguments, "--out", tmp_path / "out") == 2
    assert words in capsys.readouterr().err
    assert not engines and not (tmp_path / "out").exists()


def test_a_full_disk_stops_it_in_words_and_what_is_there_stays(
    engines, tmp_path, capsys, monkeypatch
):
    out = tmp_path / "out"
    replace, room = os.replace, threading.Semaphore(5)

    def write(source, target):
        if str(target).endswith(".png") and not room.acquire(blocking=False):
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", write)
    assert batch("--template", TEMPLATE, "--out", out) == 1
    assert "No space left" in capsys.readouterr().err and len(pictures(out)) == 5
    monkeypatch.undo()


# ---- progress ----


def test_progress_says_how_many_how_quick_and_how_long_still():
    now = [0.0]
    progress = Progress(100, before=20, clock=lambda: now[0])
    assert str(progress) == "20 of 100 (20 %)"
    for _ in range(30):
        now[0] += 0.5
        progress.add()
    now[0] += 0.5
    progress.add(failed=True)
    assert str(progress) == "50 of 100 (50 %) · 2.0 pictures/s · 24 s left · 1 failed"
    assert progress.left == 49
    for _ in range(10):
        now[0] += 100  # slower from now on: the last minute counts
        progress.add()
    assert "0.6 pictures/min" in str(progress) and "1 h" in str(progress)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (59.6, "1 min 0 s"), (3600, "1 h 0 min"), (90_000, "1 d 1 h")],
)
def test_times_are_said_in_two_units(seconds, words):
    assert duration(seconds) == words
