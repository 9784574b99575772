"""A batch drawn with Pocket, and its files drawn again from what they say about themselves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import app
from ui.batch.ledger import METADATA
from ui.metadata import read_settings

TEMPLATE = "a {red|blue} {cat|dog} on a green background"


def batch(out: Path, *arguments: str) -> list[dict]:
    assert app.main(["batch", "--template", TEMPLATE, "--out", str(out), *arguments]) == 0
    return [json.loads(line) for line in (out / METADATA).read_text().splitlines()]


def generate(settings: dict, out: Path) -> None:
    names = ("variant", "seed", "ar_iterations", "flow_steps", "cfg_scale", "cfg_schedule")
    options = [f"--{n.replace('_', '-')}={settings[n]}" for n in (*names, "temperature")]
    assert app.main(["generate", settings["prompt"], "--out", str(out), *options]) == 0


def pixels(path: Path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(int)


@pytest.mark.parametrize("ending", ["png", "webp"])
def test_exact_files_are_drawn_again_bit_for_bit_from_their_own_settings(tmp_path, ending):
    out = tmp_path / "out"
    made = batch(out, "--exact", "--seed", "4", "--format", ending)
    for line in made[1:]:
        again = tmp_path / "again.png"
        generate(read_settings(out / line["file_name"]), again)
        assert np.array_equal(pixels(out / line["file_name"]), pixels(again))


def test_files_drawn_together_differ_by_one_of_255_at_most(tmp_path):
    out = tmp_path / "out"
    made = batch(out, "--seeds", "4", "--variants", "pocket-ar,pocket-ar-joint")
    assert len(made) == 32 and {line["weights"] for line in made} == {"pocket"}
    for line in made[::11]:
        again = tmp_path / "again.png"
        generate(read_settings(out / line["file_name"]), again)
        difference = np.abs(pixels(out / line["file_name"]) - pixels(again))
        assert difference.max() <= 1 and (difference > 0).mean() < 0.01
