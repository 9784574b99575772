"""The command line: the same requests and the same engine as the page."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

import app
from engine.requests import find_variant
from tests.ui.world import PageWorld, is_of, start
from ui.commands import check, serve, variants
from ui.metadata import read_settings


@pytest.fixture
def asked(monkeypatch):
    """Answers `app.make_engine`; holds what was asked of it."""
    calls: list[tuple] = []

    def make(variant_ids=None, every_preview=False):
        calls.append((variant_ids, every_preview))
        return start(PageWorld(), variant_ids, wait=False)

    monkeypatch.setattr(app, "make_engine", make)
    return calls


def test_generate_writes_the_picture_with_its_settings(asked, tmp_path, capsys):
    out = tmp_path / "new folder" / "fox.png"
    arguments = ["generate", "a fox 🦊", "--seed", "5", "--ar-iterations", "4", "--out", str(out)]
    assert app.main([*arguments, "--temperature", "0.5", "--cfg-schedule", "linear"]) == 0
    settings = read_settings(out)
    assert settings["prompt"] == "a fox 🦊" and settings["seed"] == 5
    assert (
        settings["ar_iterations"] == 4
        and settings["cfg_scale"] == find_variant("pocket-ar").cfg_scale
    )
    assert settings["temperature"] == 0.5 and settings["cfg_schedule"] == "linear"
    assert asked == [(["pocket-ar"], False)]
    assert "seed 5" in capsys.readouterr().out


def test_generate_writes_every_steps_frame(asked, tmp_path):
    steps = tmp_path / "steps"
    out = str(tmp_path / "fox.png")
    arguments = ["generate", "a fox", "--ar-iterations", "6", "--out", out]
    assert app.main([*arguments, "--steps-out", str(steps)]) == 0
    assert sorted(path.name for path in steps.iterdir()) == [
        f"step-{n:03d}.png" for n in range(1, 7)
    ]
    assert read_settings(steps / "step-002.png")["step"] == 2
    assert asked == [(["pocket-ar"], True)]


def test_generate_writes_many_pictures_by_seed(asked, tmp_path, capsys):
    out = str(tmp_path / "fox.png")
    assert app.main(["generate", "a fox", "--count", "3", "--seed", "7", "--out", out]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"fox-{seed}.png" for seed in (7, 8, 9)
    ]
    assert read_settings(tmp_path / "fox-9.png")["seed"] == 9


def test_generate_starts_from_a_picture_and_changes_what_is_white(asked, tmp_path):
    red, half = np.zeros((128, 128, 3), np.uint8), np.zeros((64, 64), np.uint8)
    red[:, :, 0], half[:, 32:] = 250, 255
    Image.fromarray(red).save(tmp_path / "red.jpg")
    Image.fromarray(half).save(tmp_path / "mask.png")
    arguments = ["generate", "an owl", "--image", str(tmp_path / "red.jpg")]
    out = tmp_path / "out.png"
    assert app.main([*arguments, "--mask", str(tmp_path / "mask.png"), "--out", str(out)]) == 0
    pixels = np.asarray(Image.open(out), dtype=float)
    assert np.abs(pixels[:, :64].mean((0, 1)) - (250, 0, 0)).max() < 6
    assert is_of(pixels[:, 64:].mean((0, 1)), "an owl")
    assert read_settings(out)["free"] == "00001111" * 8


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["x", "--mask", "a.png"], "--image"),
        (["x", "--image", "/nowhere/a.png"], "could not be read"),
        (["x", "--image", __file__], "not a picture"),
        (["x", "--strength", "0.5"], "change a picture"),
        (["x", "--count", "65"], "Count"),
        (["x", "--count", "2", "--steps-out", "a"], "one picture"),
        ([""], "empty"),
        (["x" * 100_000], "characters"),
        (["a fox", "--variant", "nope"], "no variant"),
        (["a fox", "--seed", "-1"], "Seed"),
        (["a fox", "--ar-iterations", "0"], "AR iterations"),
        (["a fox", "--flow-steps", "1000000000"], "Flow steps"),
        (["explode"], "broken"),
    ],
)
def test_generate_refuses_in_words(asked, tmp_path, capsys, arguments, words):
    assert app.main(["generate", *arguments, "--out", str(tmp_path / "x.png")]) == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "x.png").exists()


def test_variants_as_json_and_as_words(capsys):
    assert app.main(["variants", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["variants"]
    assert listed[0]["id"] == "pocket-ar" and listed[0]["weights"]
    assert app.main(["variants"]) == 0
    assert "nitro-ar-gan" in capsys.readouterr().out


def test_check_answers_with_its_report(capsys):
    class Report:
        ok, picture = False, None

        def __str__(self) -> str:
            return "WRONG a.safetensors: truncated"

    options = _options(check, "--variant", "nitro-ar-gan", "--weights", "/nowhere")
    assert check.run(options, lambda variant, folder, progress: Report()) == 1
    assert "truncated" in capsys.readouterr().out


def test_check_names_an_unknown_variant(capsys):
    assert app.main(["check", "--variant", "nope", "--weights", "."]) == 2
    assert "no variant 'nope'" in capsys.readouterr().out


def test_where_it_listens():
    assert serve.where(None, None, {})[1] == 7860
    assert serve.where(None, None, {"SPACE_ID": "x/y"}) == ("0.0.0.0", 7860)
    assert serve.where(None, None, {"NITRO_HOST": "::1", "NITRO_PORT": "80"}) == ("::1", 80)
    assert serve.where("localhost", 0, {"NITRO_HOST": "::1", "NITRO_PORT": "80"})[1] == 0
    with pytest.raises(SystemExit, match="NITRO_PORT"):
        serve.where(None, None, {"NITRO_PORT": "web"})


def test_how_many_proxies_are_believed():
    assert serve.proxies({}) == 0 and serve.proxies({"SPACE_ID": "x/y"}) == 1
    assert serve.proxies({"SPACE_ID": "x/y", "NITRO_PROXIES": "2"}) == 2
    with pytest.raises(SystemExit, match="NITRO_PROXIES"):
        serve.proxies({"NITRO_PROXIES": "-1"})


def test_variants_command_asks_about_each(capsys):
    from models.catalogue import CATALOGUE

    assert variants.run(_options(variants, "--json"), CATALOGUE, lambda v: f"of {v.id}") == 0
    listed = json.loads(capsys.readouterr().out)["variants"]
    assert [entry["weights"] for entry in listed] == [f"of {v.id}" for v in CATALOGUE]


def _options(command, *arguments):
    import argparse

    parser = argparse.ArgumentParser()
    command.add_options(parser)
    return parser.parse_args(arguments)
