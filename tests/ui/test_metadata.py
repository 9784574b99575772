"""Settings survive the way into a PNG and back, whatever the prompt holds."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from engine.requests import GenerationRequest
from ui.metadata import NoSettings, png, read_settings

PIXELS = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(), json_values, max_size=6))
def test_anything_json_can_hold_comes_back(values):
    assert read_settings(png(PIXELS, values)) == values


@pytest.mark.parametrize(
    "prompt",
    [
        "plain",
        "with \"quotes\" and \\backslashes\\ and 'apostrophes'",
        "two\nlines\r\nand a\ttab",
        "🦊 on a 🟦, family 👨‍👩‍👧‍👦, flag 🇩🇪",
        "ثعلب على خلفية زرقاء",
        "\u202eright to left\u202c",
        "null \x00 inside",
        "lone surrogate \ud800",
        "long " * 20_000,
    ],
)
def test_prompt_comes_back_as_it_was(prompt):
    request = GenerationRequest(prompt=prompt, seed=2**32 - 1, cfg_scale=3.3)
    values = read_settings(png(PIXELS, request.to_dict()))
    assert GenerationRequest.from_dict(values) == request


def test_pixels_are_untouched():
    with Image.open(io.BytesIO(png(PIXELS, {"prompt": "x"}))) as image:
        assert np.array_equal(np.asarray(image), PIXELS)


def test_foreign_pictures_are_refused_in_words():
    out = io.BytesIO()
    Image.fromarray(PIXELS).save(out, "PNG")
    with pytest.raises(NoSettings, match="no Nitro Canvas settings"):
        read_settings(out.getvalue())
    with pytest.raises(NoSettings, match="cannot be|not a picture"):
        read_settings(b"not a picture")
