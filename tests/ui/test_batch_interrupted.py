"""Batches that are killed, stopped and packed: nothing is lost and nothing drawn twice."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

import app
from tests.ui.batches import TEMPLATE, batch, check_image_folder, contents, lines, pictures, pixels

ROOT = Path(__file__).resolve().parents[2]


# ---- interruptions ----


def child(*arguments, step_s: float = 0.03) -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.ui.batch_child", str(step_s), "batch", *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def interrupt(out: Path, more: int, how: int, *arguments) -> tuple[int, str]:
    """Run until `more` pictures are there, then send the signal. Exit code and what was said."""
    there = len(pictures(out)) if out.is_dir() else 0
    process = child(*arguments)
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        if out.is_dir() and len(pictures(out)) >= there + more:
            process.send_signal(how)
            break
        time.sleep(0.002)
    _, said = process.communicate(timeout=60)
    return process.returncode, said


def survive(tmp_path: Path, prompts: list[str], kills: int, every: int) -> None:
    """Killed again and again, then finished: the same files as of a run that was left alone."""
    source = tmp_path / "prompts.txt"
    source.write_text("\n".join(prompts))
    out, alone = tmp_path / "out", tmp_path / "alone"
    settings = (str(source), "--ar-iterations", "2", "--seed", "3")
    for _ in range(kills):
        before = (
            {path.name: path.stat().st_mtime_ns for path in pictures(out)} if out.is_dir() else {}
        )
        code, said = interrupt(out, every, signal.SIGKILL, *settings, "--out", str(out))
        assert code == -signal.SIGKILL, said
        after = {path.name: path.stat().st_mtime_ns for path in pictures(out)}
        assert len(after) >= len(before) + every
        assert {name: after[name] for name in before} == before, "drawn once, never again"
        for path in pictures(out):
            pixels(path)  # whole
    finish = child(*settings, "--out", str(out), step_s=0)
    assert finish.wait(120) == 0
    assert app.main(["batch", *settings, "--out", str(alone)]) == 0
    assert contents(out) == contents(alone)
    assert [line["prompt"] for line in lines(out)] == prompts
    check_image_folder(out)


def test_killed_three_times_it_ends_as_if_it_had_been_left_alone(engines, tmp_path):
    survive(tmp_path, [f"prompt {n}" for n in range(12)], kills=3, every=2)


@pytest.mark.slow
def test_five_hundred_prompts_survive_twelve_kills(engines, tmp_path):
    survive(tmp_path, [f"prompt {n}" for n in range(500)], kills=12, every=23)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_a_signal_it_says_how_to_go_on(engines, tmp_path, how):
    out = tmp_path / "out"
    arguments = ("--template", TEMPLATE, "--ar-iterations", "2", "--out", str(out))
    code, said = interrupt(out, 3, how, *arguments)
    assert code == 128 + how, said
    there = len(pictures(out))
    assert f"Stopped; {there} of 12 pictures are there" in said and "goes on from here" in said
    assert 3 <= there < 12 and len(lines(out)) == there
    assert not [path for path in out.iterdir() if path.suffix == ".part"]
    assert app.main(["batch", *arguments]) == 0
    assert len(lines(out)) == 12


# ---- zip ----


def test_a_zip_holds_what_the_folder_would(engines, tmp_path, capsys):
    target, out = tmp_path / "new" / "cats.zip", tmp_path / "out"
    assert batch("--template", TEMPLATE, "--zip", target) == 0
    assert batch("--template", TEMPLATE, "--out", out) == 0
    with zipfile.ZipFile(target) as archive:
        assert archive.testzip() is None
        for name, data in contents(out).items():
            assert archive.read(name) == data
    assert [path.name for path in target.parent.iterdir()] == ["cats.zip"]
    made = target.stat().st_mtime_ns
    assert batch("--template", TEMPLATE, "--zip", target) == 0
    assert target.stat().st_mtime_ns == made and len(engines) == 2
    assert "nothing to draw" in capsys.readouterr().out


def test_an_interrupted_zip_goes_on_and_an_interrupted_tidying_too(engines, tmp_path):
    target = tmp_path / "cats.zip"
    folder = tmp_path / "cats.zip.unfinished"
    arguments = ("--template", TEMPLATE, "--ar-iterations", "2", "--zip", str(target))
    code, said = interrupt(folder, 3, signal.SIGKILL, *arguments)
    assert code == -signal.SIGKILL and not target.exists(), said
    first = pictures(folder)[0].read_bytes()
    assert app.main(["batch", *arguments]) == 0
    assert target.exists() and not folder.exists()
    folder.mkdir()  # as if the run had been killed while it removed the folder
    (folder / "000001.png").write_bytes(first)
    assert app.main(["batch", *arguments]) == 0
    assert not folder.exists()


def test_what_is_not_ours_is_left_alone(engines, tmp_path, capsys):
    target = tmp_path / "cats.zip"
    target.write_bytes(b"my own")
    assert batch("--template", TEMPLATE, "--zip", target) == 2
    assert "no batch's" in capsys.readouterr().err and target.read_bytes() == b"my own"
    target.unlink()
    assert batch("--template", "a cat", "--zip", target) == 0
    assert batch("--template", "a dog", "--zip", target) == 2
    assert "the prompts are not the same" in capsys.readouterr().err
