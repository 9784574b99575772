"""The shipped files as runs, and back: training goes on from what was shipped."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from models.packed import unpack
from models.sources import Sources
from training import export
from training.loop import averaged
from training.restore import restore


def test_runs_hold_what_the_files_hold(tmp_path: Path) -> None:
    pocket = Sources().pocket
    names = restore(pocket, tmp_path)
    assert names[:2] == ["autoencoder", "pocket-ar"]
    stored = unpack(load_file(pocket / "pocket-ar.safetensors"))
    kept = averaged(tmp_path / "pocket-ar")
    assert all(torch.equal(kept[f"model.{name}"], t.float()) for name, t in stored.items())
    assert any(name.startswith("text.") for name in kept)


def test_exported_again_nothing_is_lost(tmp_path: Path) -> None:
    pocket = Sources().pocket
    restore(pocket, tmp_path / "runs")
    (tmp_path / "out").mkdir()
    export.export_variant(tmp_path / "runs/pocket-ar", tmp_path / "out")
    once = unpack(load_file(pocket / "pocket-ar.safetensors"))
    again = unpack(load_file(tmp_path / "out/pocket-ar.safetensors"))
    assert set(once) == set(again)
    for name, tensor in once.items():
        step = tensor.float().flatten(1).abs().amax() / 127 if tensor.ndim > 1 else 0
        torch.testing.assert_close(again[name].float(), tensor.float(), rtol=1e-3, atol=float(step))


def test_nothing_is_written_through_a_link(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(sys, "argv", ["export", "--runs", "x", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit):
        export.main()
    assert "is a link" in capsys.readouterr().err and not list((tmp_path / "elsewhere").iterdir())
