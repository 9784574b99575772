"""Repaint, scrub, fork and sketch in a real browser, with real pointer events."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.fakes import GRID
from tests.ui.live import PROMPT, STAGE
from tests.ui.world import is_of

pytestmark = pytest.mark.browser
MASK, SKETCH = ".nc-mask", ".nc-sketch"


def cells(live) -> np.ndarray:
    """The canvas's mean colours by token cell, [GRID, GRID, 3]."""
    side = live.evaluate("document.querySelector('.nc-picture').width")
    data = live.evaluate(
        "(() => { const c = document.querySelector('.nc-picture'); return [...c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data]; })()"
    )
    pixels = np.array(data, dtype=np.float32).reshape(side, side, 4)[:, :, :3]
    step = side // GRID
    return pixels.reshape(GRID, step, GRID, step, 3).mean((1, 3))


def centre(live, selector: str, x: float, y: float) -> tuple[float, float]:
    """The page's place of a cell's middle."""
    box = live.page.locator(selector).bounding_box()
    return box["x"] + (x + 0.5) * box["width"] / GRID, box["y"] + (y + 0.5) * box["height"] / GRID


def drag(live, selector: str, start: tuple[float, float], end: tuple[float, float]) -> None:
    live.page.mouse.move(*centre(live, selector, *start))
    live.page.mouse.down()
    live.page.mouse.move(*centre(live, selector, *end), steps=5)
    live.page.mouse.up()


def drawn(live, text: str = "a fox") -> None:
    """A finished picture under a locked seed."""
    live.evaluate("window.nitro.push({ lock: true, seed: 5 })")
    live.type(text)
    live.wait(shown=text)


def settled(live) -> None:
    live.page.wait_for_function(
        "!nitro.runs.current && nitro.stage.root.dataset.state === 'finished'"
    )


def test_strokes_redraw_their_cells_only_and_in_order(live, site):
    drawn(live)
    before, asked = cells(live), site.asked
    live.evaluate(
        "(() => { window.seen = []; const keep = nitro.onFinished;"
        "nitro.onFinished = (r) => { window.seen.push(r.settings.free); keep(r); }; })()"
    )
    live.page.keyboard.press("End")
    live.page.click("[data-choose=paint]")
    live.page.evaluate("document.querySelector('#nc-prompt textarea').value = 'an owl'")
    freed = np.zeros((GRID, GRID), dtype=bool)
    for n in range(10):  # faster than they can be drawn
        y, x = divmod(3 * n, GRID)
        drag(live, MASK, (x, y), (min(x + 1, GRID - 1), y))
        freed[y, x : x + 2] = True
    settled(live)
    after = cells(live)
    assert site.asked - asked == 10
    sizes = live.evaluate("window.seen.map((free) => free.split('1').length - 1)")
    assert len(sizes) == 10 and sizes == sorted(sizes) and len(set(sizes)) == 10
    assert sizes[-1] == freed.sum()
    changed = np.abs(after - before).max(2)
    assert changed[~freed].max() < 3
    assert all(is_of(colour, "an owl") for colour in after[freed])


def test_undo_redo_eraser_invert_lasso_keep(live):
    drawn(live)
    before = cells(live)
    live.page.click("[data-choose=paint]")
    live.page.evaluate("document.querySelector('#nc-prompt textarea').value = 'an owl'")
    drag(live, MASK, (1, 1), (4, 1))
    settled(live)
    painted = cells(live)
    assert is_of(painted[1, 2], "an owl") and np.abs(painted[5] - before[5]).max() < 3
    live.page.keyboard.press("Control+z")
    assert np.abs(cells(live) - before).max() < 3
    assert not live.evaluate("nitro.paint.any()")
    live.page.keyboard.press("Control+Shift+z")
    assert np.abs(cells(live) - painted).max() < 3
    assert live.evaluate("nitro.paint.cells.reduce((a, b) => a + b)") == 4
    live.page.keyboard.press("e")  # the eraser gives a cell back as it was
    drag(live, MASK, (1, 1), (2, 1))
    settled(live)
    assert np.abs(cells(live)[1, 1:3] - before[1, 1:3]).max() < 3
    assert is_of(cells(live)[1, 4], "an owl")
    live.page.keyboard.press("i")
    settled(live)
    assert np.abs(cells(live)[1, 4] - before[1, 4]).max() < 3 and is_of(cells(live)[6, 6], "an owl")
    live.page.keyboard.press("k")
    kept = cells(live)
    live.page.keyboard.press("b")
    live.page.keyboard.down("Shift")  # an outline of 3 x 3 cells
    live.page.mouse.move(*centre(live, MASK, 2.6, 2.6))
    live.page.mouse.down()
    for at in ((5.4, 2.6), (5.4, 5.4), (2.6, 5.4)):
        live.page.mouse.move(*centre(live, MASK, *at), steps=3)
    live.page.mouse.up()
    live.page.keyboard.up("Shift")
    settled(live)
    chosen = np.array(live.evaluate("[...nitro.paint.cells]")).reshape(GRID, GRID)
    assert chosen[3:6, 3:6].all() and chosen.sum() == 9
    live.page.keyboard.press("x")
    assert np.abs(cells(live) - kept).max() < 3


def test_cells_are_chosen_by_keyboard_and_typing_redraws_them(live):
    drawn(live)
    before = cells(live)
    live.page.click("[data-choose=paint]")
    live.page.focus(MASK)
    live.page.keyboard.press("ArrowRight")
    live.page.keyboard.press("Space")
    settled(live)
    chosen = np.array(live.evaluate("[...nitro.paint.cells]")).reshape(GRID, GRID)
    assert chosen.sum() == 1
    live.page.click(PROMPT)
    live.page.keyboard.press("Control+A")
    live.page.keyboard.type("an owl")
    live.wait(shown="an owl")
    after = cells(live)
    assert np.abs(after - before)[chosen == 0].max() < 3
    assert is_of(after[chosen == 1][0], "an owl")


def test_touch_paints_and_the_page_does_not_scroll(page, site, live):
    page.set_viewport_size({"width": 390, "height": 600})
    drawn(live)
    page.click("[data-choose=paint]")
    page.locator(MASK).scroll_into_view_if_needed()
    touch = page.context.new_cdp_session(page)
    touch.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    scrolled = page.evaluate("window.scrollY")
    before = cells(live)
    for kind, y in (("touchStart", 2), ("touchMove", 3), ("touchMove", 5), ("touchEnd", None)):
        points = [] if y is None else [dict(zip("xy", centre(live, MASK, 3, y), strict=True))]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.wait_for_function("nitro.paint.any()")
    settled(live)
    chosen = np.array(live.evaluate("[...nitro.paint.cells]")).reshape(GRID, GRID)
    assert chosen[2:6, 3].all() and chosen.sum() == 4
    assert page.evaluate("window.scrollY") == scrolled
    assert np.abs(cells(live) - before)[chosen == 0].max() < 3


def test_a_picture_the_server_forgot_is_sent_again(live):
    drawn(live)
    before = cells(live)
    live.page.click("[data-choose=paint]")
    live.evaluate("nitro.runs.result.picture = 'gone'")
    live.page.evaluate("document.querySelector('#nc-prompt textarea').value = 'an owl'")
    drag(live, MASK, (1, 1), (3, 1))
    settled(live)
    after = cells(live)
    assert is_of(after[1, 2], "an owl") and np.abs(after[5] - before[5]).max() < 6
    live.complaints = [c for c in live.complaints if "400" not in c]


def test_scrubbing_is_fluent(live):
    live.evaluate("window.nitro.push({ ar_iterations: 20 })")
    drawn(live)
    assert int(live.page.get_attribute(STAGE, "data-frames")) == 20
    live.evaluate("nitro.film.recorded")
    live.evaluate(
        "(() => { window.stamps = []; const draw = nitro.stage.draw.bind(nitro.stage);"
        "nitro.stage.draw = (s) => { draw(s); requestAnimationFrame(() =>"
        "window.stamps.push(performance.now())); }; })()"
    )
    live.page.focus(".nc-scrub")
    live.page.keyboard.press("Home")
    live.page.wait_for_timeout(100)
    assert live.page.get_attribute(STAGE, "data-at") == "1"
    assert live.overlay_pixels() > 1000  # the tokens of that step
    live.evaluate("window.stamps.length = 0; nitro.film.play()")
    live.page.wait_for_function("!nitro.film.playing && window.stamps.length > 10")
    stamps = live.evaluate("window.stamps")
    assert live.page.get_attribute(STAGE, "data-at") == "20"
    frames, seconds = len(stamps) - 1, (stamps[-1] - stamps[0]) / 1000
    assert frames / seconds >= 24


def test_fork_with_unchanged_settings_is_the_same_picture(live, site):
    drawn(live)
    original = live.evaluate("document.querySelector('.nc-picture').toDataURL()")
    live.page.click(".nc-film canvas >> nth=4")
    live.page.keyboard.press("f")
    assert "step" in live.page.inner_text(".nc-base")
    before = site.steps
    live.page.click("#nc-generate")
    settled(live)
    at = live.evaluate("nitro.runs.result.settings.fork_step")
    assert 0 < at < 24 and site.steps - before == 24 - at
    assert live.evaluate("document.querySelector('.nc-picture').toDataURL()") == original
    assert int(live.page.get_attribute(STAGE, "data-frames")) == 24  # its past came along
    live.page.click(PROMPT)
    live.page.keyboard.press("Control+A")
    live.page.keyboard.type("an owl")
    live.wait(shown="an owl")
    late = np.array(live.evaluate("nitro.runs.result.grid")) > at
    colours = cells(live)
    assert all(is_of(colour, "an owl") for colour in colours[late])
    assert all(is_of(colour, "a fox") for colour in colours[~late])
    live.page.click(".nc-unbase")
    live.page.wait_for_function("nitro.runs.result.settings.fork_of === '' && !nitro.runs.current")
    assert live.shows("an owl") and not live.page.is_visible(".nc-base")


def test_order_of_tokens_is_shown_on_request(live):
    drawn(live)
    assert live.overlay_pixels() == 0
    live.page.click(".nc-heat")
    assert live.overlay_pixels() > 10_000
    live.page.click(".nc-heat")
    assert live.overlay_pixels() == 0


def test_a_sketch_is_followed_while_it_is_drawn(live, site):
    drawn(live)
    live.page.click("[data-choose=draw]")
    asked = site.asked
    live.page.mouse.move(*centre(live, SKETCH, 1, 1))
    live.page.mouse.down()
    for n in range(12):
        live.page.mouse.move(*centre(live, SKETCH, 1 + n / 2, 2), steps=2)
        live.page.wait_for_timeout(60)
    during = site.asked - asked
    live.page.mouse.up()
    settled(live)
    live.page.wait_for_function("!nitro.pad.busy && nitro.pad.sent === nitro.pad.changed")
    assert during >= 2
    settings = live.evaluate("nitro.runs.result.settings")
    assert settings["picture"] and settings["strength"] == 0.6
    live.page.keyboard.press("Control+z")
    live.page.wait_for_function("!nitro.pad.busy && !nitro.runs.current")
    white = live.evaluate(
        "nitro.pad.pen.getImageData(0, 0, 512, 512).data.every((value) => value === 255)"
    )
    assert white
