"""Grid in a real browser: axes, cells that fill cheapest first, and what comes out of them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.engine import Engine
from engine.limits import EngineLimits
from models.loading import Loader
from models.sources import Sources
from tests.ui.conftest import serving
from tests.ui.live import Live
from tests.ui.world import is_of

pytestmark = pytest.mark.browser


def opened(page, site) -> Live:
    visit = Live(page, site)
    page.click(".nc-pages a >> text=Grid")
    page.wait_for_selector(".nc-grid", state="visible")
    return visit


@pytest.fixture
def grid(page, site):
    visit = opened(page, site)
    yield visit
    assert not visit.complaints


def axis(live, number: int, key: str, values: str) -> None:
    row = f".nc-axis >> nth={number}"
    live.page.select_option(f"{row} >> select", key)
    if key:
        live.page.fill(f"{row} >> input", values)


def rests(live) -> None:
    live.page.wait_for_selector(".nc-grid[data-state=resting]", timeout=60_000)


@pytest.mark.parametrize(
    ("key", "text", "values"),
    [
        ("ar_iterations", "4-20 step 4", [4, 8, 12, 16, 20]),
        ("ar_iterations", "1, 2, 5-7", [1, 2, 5, 6, 7]),
        ("cfg_scale", "1-2 step 0.25", [1, 1.25, 1.5, 1.75, 2]),
        ("cfg_scale", "3 to 5", [3, 4, 5]),
        ("seed", "4, 4, 3", [4, 3]),
        ("prompt", "a fox, red | an owl |", ["a fox, red", "an owl"]),
        ("variant", "pocket-ar, pocket-ar-joint", ["pocket-ar", "pocket-ar-joint"]),
        ("cfg_schedule", "linear", ["linear"]),
        ("ar_iterations", "", "say which values"),
        ("ar_iterations", "many", "cannot be read"),
        ("ar_iterations", "5-1", "cannot be read"),
        ("ar_iterations", "2.5", "2.5 is not possible"),
        ("cfg_scale", "1-5 step 0", "cannot be read"),
        ("temperature", "7", "7 is not possible"),
        ("variant", "gpt", "gpt is not possible"),
    ],
)
def test_what_an_axis_means(grid, key, text, values):
    script = "([key, text]) => { let said = ''; const v = nitro.axisValues(key, text, (w) => { said = w; });"
    found = grid.evaluate(script + "return v ?? said; }", [key, text])
    assert found == values if isinstance(values, list) else values in found


def test_a_grid_of_three_axes(grid, site):
    live = grid
    live.page.fill(".nc-grid-prompt", "a fox")
    axis(live, 0, "ar_iterations", "2, 6")
    axis(live, 1, "prompt", "an owl | a hen | a fox")
    axis(live, 2, "cfg_scale", "1, 3")
    asked = site.asked
    live.page.click(".nc-grid-draw")
    rests(live)
    assert site.asked - asked == 12
    assert live.evaluate("document.querySelectorAll('.nc-grid-tables table').length") == 2
    cells = live.evaluate("nitro.grid.cells.map(({ place, settings }) => [place, settings])")
    for (x, y, z), settings in cells:
        assert settings["ar_iterations"] == (2, 6)[x] and settings["cfg_scale"] == (1, 3)[z]
        assert settings["prompt"] == ("an owl", "a hen", "a fox")[y]
    with live.page.expect_download() as saved:
        live.page.click(".nc-grid-sheet")
    with Image.open(io.BytesIO(Path(saved.value.path()).read_bytes())) as image:
        sheet = np.asarray(image.convert("RGB"), dtype=float)
    left, top = 150, 48 + 34 + 34
    for y, prompt in enumerate(("an owl", "a hen", "a fox")):
        cell = sheet[top + y * 166 + 20 : top + y * 166 + 140, left + 20 : left + 140]
        assert is_of(cell.mean((0, 1)), prompt)
    live.page.click(".nc-grid-tables button >> nth=2")
    live.wait(shown="a hen")
    assert live.evaluate("nitro.settings.ar_iterations") == 2


def test_only_what_is_missing_is_drawn_and_a_stop_keeps_what_is_there(grid, site):
    live = grid
    live.page.fill(".nc-grid-prompt", "a fox")
    axis(live, 0, "seed", "0-2")
    axis(live, 1, "", "")
    live.page.click(".nc-grid-draw")
    rests(live)
    asked = site.asked
    axis(live, 0, "seed", "0-3")
    live.page.click(".nc-grid-draw")
    rests(live)
    assert site.asked == asked + 1
    axis(live, 1, "ar_iterations", "12, 60, 62, 64")
    live.page.click(".nc-grid-draw")
    live.page.wait_for_function("nitro.grid.cells.filter((c) => c.settings).length >= 4")
    live.page.keyboard.press("Escape")
    live.page.click(".nc-grid-stop") if live.page.is_enabled(".nc-grid-stop") else None
    rests(live)
    done = live.evaluate("nitro.grid.cells.filter((cell) => cell.settings).length")
    assert 4 <= done < 16 and "kept" in live.page.inner_text(".nc-grid-status")
    assert site.rests()


def test_too_many_and_twice_the_same_are_refused_in_words(grid):
    live = grid
    live.page.fill(".nc-grid-prompt", "a fox")
    axis(live, 0, "seed", "0-49")
    axis(live, 1, "cfg_scale", "1-5 step 1")
    live.page.click(".nc-grid-draw")
    assert "at most 100" in live.page.inner_text(".nc-grid-status")
    axis(live, 1, "seed", "1")
    live.page.click(".nc-grid-draw")
    assert "same" in live.page.inner_text(".nc-grid-status")


def test_twenty_five_cells_are_the_single_pictures_and_quicker(page):
    """With Pocket: pixel for pixel, in at most 0.8 of the time of one after the other."""
    loader = Loader(Sources())
    limits = EngineLimits(results_cached=0)
    engine = Engine(loader.load, ["pocket-ar"], device=loader.device, limits=limits)
    assert engine.wait_ready(60)
    with engine, serving(engine) as site:
        live = opened(page, site)
        live.page.fill(".nc-grid-prompt", "a fox on a blue background")
        axis(live, 0, "seed", "0-4")
        axis(live, 1, "cfg_scale", "1.5, 2, 3, 4, 5")
        live.page.click(".nc-grid-draw")  # the first round warms up what a batch needs
        rests(live)
        live.evaluate("nitro.grid.cells.forEach((cell) => { cell.settings = null; })")
        live.page.click(".nc-grid-draw")
        rests(live)
        together = live.evaluate("nitro.grid.took")
        alone, worst = live.evaluate(
            "(async () => { const names = []; const began = performance.now();"
            "for (const cell of nitro.grid.cells) await nitro.streamRaw([{ slot: 'one',"
            "request: cell.request }], new AbortController().signal, (header) => {"
            "if (header.event === 'finished') names.push(header.result); });"
            "const alone = performance.now() - began; let worst = 0;"
            "const pixels = async (name) => { await new Promise((go) => setTimeout(go, 110));"
            "const answer = await nitro.call("
            "`canvas/result/${name}.png`); const bitmap = await createImageBitmap(await answer.blob());"
            "const c = new OffscreenCanvas(bitmap.width, bitmap.height); const p = c.getContext('2d');"
            "p.drawImage(bitmap, 0, 0); return p.getImageData(0, 0, c.width, c.height).data; };"
            "for (const [i, cell] of nitro.grid.cells.entries()) { const b = await pixels(names[i]);"
            "(await pixels(cell.result)).forEach((value, k) => {"
            "worst = Math.max(worst, Math.abs(value - b[k])); }); } return [alone, worst]; })()"
        )
        assert worst <= 1  # sums of another order: one step of 255 at most
        assert together <= 0.8 * alone
