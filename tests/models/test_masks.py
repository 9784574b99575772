"""Masks of token cells, as they are painted, sent and widened."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from models.masks import from_picture, grown, mask_text, outside, parse_mask

masks = st.integers(1, 16).flatmap(lambda side: arrays(bool, (side, side)))


@given(masks)
def test_text_brings_a_mask_back(mask: np.ndarray) -> None:
    assert np.array_equal(parse_mask(mask_text(mask), *mask.shape), mask)


def test_no_text_frees_all() -> None:
    assert parse_mask("", 8, 8).all()


@pytest.mark.parametrize("text", ["1", "0" * 63, "2" * 64, "0" * 63 + "x", "٠" * 64])
def test_other_text_is_refused_with_what_is_wanted(text: str) -> None:
    with pytest.raises(ValueError, match="64 characters"):
        parse_mask(text, 8, 8)


@given(masks, st.integers(0, 4))
def test_context_reaches_as_far_as_it_says(mask: np.ndarray, cells: int) -> None:
    wide = grown(mask, cells)
    freed = np.argwhere(mask)
    for place in np.argwhere(np.ones_like(mask)):
        near = bool(len(freed)) and np.abs(freed - place).max(1).min() <= cells
        assert wide[tuple(place)] == near


def test_outpainting_frees_the_border_and_every_cell_it_touches() -> None:
    assert np.array_equal(outside((0.25, 0.25, 0.75, 0.75), 4), ~np.pad(np.ones((2, 2), bool), 1))
    assert outside((0.0, 0.0, 1.0, 1.0), 8).sum() == 0
    assert outside((0.0, 0.1, 1.0, 1.0), 8).sum() == 8, "a cell that is cut is free"


@given(arrays(bool, (4, 4)), st.integers(4, 37))
def test_a_painted_mask_frees_every_cell_it_touches(cells: np.ndarray, side: int) -> None:
    painted = np.kron(cells, np.ones((8, 8))).astype(np.float32)
    assert np.array_equal(from_picture(painted, 4), cells)
    assert np.array_equal(from_picture((painted * 255).astype(np.uint8), 4), cells)
    dot = np.zeros((side, side), np.uint8)
    dot[side // 2, side // 2] = 255
    assert from_picture(dot, 4)[2, 2]
