"""Settings -> PNG -> settings is the identity, also between the server and the page's own script."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ui.metadata import png, read_settings, webp

PIXELS = np.zeros((8, 8, 3), np.uint8)
NASTY = [
    "quotes \" and \\ and ' and `",
    "new\nlines\r\nand\ttabs",
    "🦊 👨‍👩‍👧‍👦 🇩🇪 e\u0301",
    "ثعلب على خلفية زرقاء",
    "\u202eright to left\u202c \u2028 \u2029",
    "null \x00 and \x7f",
    "</script><!-- {{x}} %s ${y}",
    "iTXtnitro-canvas\0\0\0",
    "",
    "x" * 10_000,
    "🦊" * 5_000,
]
# The page's strings are UTF-16: a lone half of a pair comes back through JSON as well.
prompts = st.one_of(st.sampled_from(NASTY), st.text(max_size=200), st.text(min_size=1, max_size=3))
values = st.fixed_dictionaries(
    {
        "prompt": prompts,
        "seed": st.integers(0, 2**32 - 1),
        "cfg_scale": st.floats(1, 15, allow_nan=False),
        "cfg_schedule": st.sampled_from(["constant", "linear"]),
        "strength": st.none() | st.floats(0.01, 1),
    }
)


@settings(max_examples=150, deadline=None)
@given(values)
def test_server_to_server(made: dict) -> None:
    assert read_settings(png(PIXELS, made)) == made
    assert read_settings(webp(PIXELS, made)) == made


@pytest.mark.browser
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(made=values)
def test_server_to_page_and_page_to_server(live, made: dict) -> None:
    """The page reads what the server wrote, writes it itself, and the server reads that."""
    file = base64.b64encode(png(PIXELS, made)).decode()
    plain = base64.b64encode(png(PIXELS)).decode()
    found, written = live.page.evaluate(
        """async ([file, plain]) => {
          const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
          const found = await window.nitro.settingsIn(new Blob([bytes(file)]));
          const own = await window.nitro.withSettings(new Blob([bytes(plain)]), found);
          const out = new Uint8Array(await own.arrayBuffer());
          let text = "";
          for (const byte of out) text += String.fromCharCode(byte);
          return [JSON.stringify(found), btoa(text)];
        }""",
        [file, plain],
    )
    assert json.loads(found) == made
    assert read_settings(base64.b64decode(written)) == made
