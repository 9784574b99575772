"""Weights in 8 bits: what rounding costs, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from models.packed import SCALE, pack, read_packed, tables_of, unpack
from models.weights import WeightsError, shapes_of
from training.families import families


def matrix(rows: int = 64, columns: int = 96, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


@given(st.integers(0, 2**31), st.floats(1e-4, 1e3))
def test_a_weight_moves_by_half_a_level_at_most(seed: int, size: float) -> None:
    weight = matrix(seed=seed) * size
    packed = pack({"w": weight})
    level = packed["w" + SCALE].float()
    moved = (unpack(packed)["w"] - weight).abs().amax(1)
    assert (moved <= 0.5001 * level).all()


def test_small_tensors_and_rows_of_zeros_come_back() -> None:
    kept = {"bias": torch.arange(5.0), "token": torch.ones(1, 1, 32), "w": torch.zeros(64, 64)}
    back = unpack(pack(kept))
    assert all(torch.equal(back[name].float(), tensor) for name, tensor in kept.items())


def test_convolutions_keep_their_shape() -> None:
    weight = matrix(32, 16 * 9).view(32, 16, 3, 3)
    assert unpack(pack({"w": weight}))["w"].shape == weight.shape


def test_packing_what_was_packed_changes_nothing() -> None:
    once = pack({"w": matrix()})
    twice = pack(unpack(once))
    assert torch.equal(once["w"], twice["w"]) and torch.equal(once["w" + SCALE], twice["w" + SCALE])


@pytest.mark.parametrize("name", families())
def test_every_variant_halves(name: str, tmp_path: Path) -> None:
    model = families()[name].build()
    save_file(pack(model.state_dict()), tmp_path / "a.safetensors")
    values = sum(tensor.numel() for tensor in model.state_dict().values())
    assert (tmp_path / "a.safetensors").stat().st_size < 1.1 * values
    back = read_packed(tmp_path / "a.safetensors", shapes_of(model))
    assert set(back) == set(model.state_dict())


def test_computed_tables_need_not_be_in_the_file(tmp_path: Path) -> None:
    build = families()["pocket-e"].build
    tensors = build().state_dict()
    tables = tables_of(build())
    assert tables and all(torch.equal(tensors.pop(name), table) for name, table in tables.items())
    save_file(pack(tensors), tmp_path / "a.safetensors")
    with torch.device("meta"):
        model = build()
    back = read_packed(tmp_path / "a.safetensors", shapes_of(model), tables_of(model))
    assert all(torch.equal(back[name], table) for name, table in tables.items())
    with pytest.raises(WeightsError, match="missing"):
        read_packed(tmp_path / "a.safetensors", shapes_of(model))


def test_plain_floats_are_read_too(tmp_path: Path) -> None:
    save_file({"w": matrix().half()}, tmp_path / "a.safetensors")
    assert torch.equal(
        read_packed(tmp_path / "a.safetensors", {"w": (64, 96)})["w"], matrix().half()
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.pop("w" + SCALE), "8-bit matrices alone have a scale"),
        (lambda t: t.pop("w"), "a matrix that is not there"),
        (lambda t: t.update({"w" + SCALE: torch.ones(63)}), "has a scale of"),
        (lambda t: t.update({"more": torch.ones(1)}), "1 unknown, the first 'more'"),
        (lambda t: t.update({"w": torch.zeros(64, 95, dtype=torch.int8)}), "shape \\[64, 95\\]"),
        (lambda t: t.update({"bias": torch.zeros(3, dtype=torch.int32)}), "bias is int32"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(change, words: str, tmp_path: Path) -> None:
    tensors = pack({"w": matrix(), "bias": torch.zeros(3)})
    change(tensors)
    save_file(tensors, tmp_path / "a.safetensors")
    with pytest.raises(WeightsError, match=words):
        read_packed(tmp_path / "a.safetensors", {"w": (64, 96), "bias": (3,)})


def test_values_that_are_no_numbers_are_not_packed() -> None:
    with pytest.raises(ValueError, match="not numbers"):
        pack({"w": torch.full((64, 96), torch.nan)})
