"""Compare in a real browser: panes of one prompt and seed, streaming side by side."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.ui.live import Live
from tests.ui.world import is_of

pytestmark = pytest.mark.browser
PROMPT = ".nc-compare-prompt"


@pytest.fixture
def compare(page, site):
    visit = Live(page, site)
    visit.evaluate("nitro.remember({ prompt: '' })")
    page.click(".nc-pages a >> text=Compare")
    page.wait_for_selector(".nc-compare", state="visible")
    yield visit
    assert not visit.complaints


def rests(live) -> None:
    live.page.wait_for_selector(".nc-compare[data-state=resting]", timeout=20_000)


def panes(live) -> list[dict]:
    """State, seed, frames and mean colour of every pane."""
    return live.evaluate(
        "nitro.compare.panes.map((pane) => { const c = pane.canvas;"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "const sum = [0, 0, 0]; d.forEach((v, i) => { if (i % 4 < 3) sum[i % 4] += v; });"
        "return { ...pane.element.dataset, colour: sum.map((v) => 4 * v / d.length),"
        "settings: pane.result?.settings, measured: pane.result?.measured }; })"
    )


def add_to_four(live) -> None:
    while live.evaluate("nitro.compare.panes.length") < 4:
        live.page.click(".nc-pane >> nth=0 >> [aria-label=Duplicate]")
    for n in range(4):
        live.page.fill(f".nc-pane >> nth={n} >> .nc-pane-numbers input >> nth=0", str(6 + 2 * n))
        live.page.keyboard.press("Tab")


def test_four_panes_stream_side_by_side(compare):
    live = compare
    live.page.select_option(".nc-pane >> nth=1 >> select", "pocket-ar")
    add_to_four(live)
    live.page.fill(".nc-compare-seed", "21")
    live.page.click(PROMPT)
    live.page.keyboard.type("an owl", delay=10)
    live.page.keyboard.press("Enter")
    rests(live)
    shown = panes(live)
    assert [pane["settings"]["ar_iterations"] for pane in shown] == [6, 8, 10, 12]
    assert all(pane["seed"] == "21" and is_of(pane["colour"], "an owl") for pane in shown)
    assert all(int(pane["frames"]) > 2 for pane in shown)
    firsts = [pane["measured"]["first_frame_ms"] for pane in shown]
    totals = [pane["measured"]["total_ms"] for pane in shown]
    assert max(firsts) < min(totals)  # nobody waited for another's end
    assert "12" in live.page.inner_text(".nc-pane >> nth=3 >> .nc-pane-facts")


def test_only_what_changed_is_drawn_again(compare, site):
    live = compare
    live.page.fill(PROMPT, "a fox")
    rests(live)
    live.page.wait_for_function("nitro.compare.panes.every((pane) => pane.result)")
    asked = site.asked
    live.page.fill(".nc-pane >> nth=0 >> .nc-pane-numbers input >> nth=0", "5")
    live.page.keyboard.press("Tab")
    live.page.wait_for_function("nitro.compare.panes[0].result.settings.ar_iterations === 5")
    assert site.asked == asked + 1


def test_panes_are_added_moved_removed_and_kept(compare):
    live = compare
    assert live.page.is_disabled(".nc-pane >> nth=0 >> [aria-label='Remove this pane']")
    live.page.click(".nc-pane >> nth=0 >> [aria-label=Duplicate]")
    live.page.fill(".nc-pane >> nth=0 >> .nc-pane-numbers input >> nth=0", "7")
    live.page.keyboard.press("Tab")
    live.page.click(".nc-pane >> nth=0 >> [aria-label='Move right']")
    order = (
        "nitro.compare.panes.map((pane) => [pane.settings.variant, pane.settings.ar_iterations])"
    )
    expected = [["pocket-ar", 24], ["pocket-ar", 7], ["pocket-ar-joint", 1]]
    assert live.evaluate(order) == expected
    live.page.reload()
    live.page.wait_for_selector(".nc-compare", state="visible", timeout=20_000)
    assert live.evaluate(order) == expected
    live.page.click(".nc-pane >> nth=0 >> [aria-label='Remove this pane']")
    assert live.evaluate(order) == expected[1:]
    for _ in range(6):
        if live.page.is_enabled(".nc-pane-add"):
            live.page.click(".nc-pane-add")
    assert live.evaluate("nitro.compare.panes.length") == 6


def test_two_over_each_other_and_the_exports(compare):
    live = compare
    live.page.fill(PROMPT, "a fox")
    live.page.wait_for_selector(".nc-versus", state="visible")
    assert "Distance" in live.page.inner_text(".nc-distance")
    live.page.select_option(".nc-first", index=0)
    live.page.select_option(".nc-second", index=0)
    live.page.select_option(".nc-how", "difference")
    over = "[...document.querySelector('.nc-over').getContext('2d').getImageData(9, 9, 1, 1).data]"
    assert live.evaluate(over)[:3] == [0, 0, 0]  # a picture does not differ from itself
    with live.page.expect_download() as saved:
        live.page.click(".nc-sheet")
    with Image.open(io.BytesIO(Path(saved.value.path()).read_bytes())) as sheet:
        pixels = np.asarray(sheet.convert("RGB"))
    assert is_of(pixels[100:300, 60:300].mean((0, 1)), "a fox")
    with live.page.expect_download() as saved:
        live.page.click(".nc-json")
    report = json.loads(Path(saved.value.path()).read_text())
    assert report["prompt"] == "a fox" and len(report["panes"]) == 2
    assert {pane["settings"]["seed"] for pane in report["panes"]} == {report["seed"]}
    assert all(pane["measured"]["steps"] for pane in report["panes"])


def test_zoom_is_the_same_everywhere_and_goes_back(compare):
    live = compare
    live.page.fill(PROMPT, "a fox")
    rests(live)
    live.page.hover(".nc-pane-frame >> nth=0")
    live.page.mouse.wheel(0, -600)
    live.page.wait_for_function("nitro.compare.view.scale > 1.5")
    moves = live.evaluate("nitro.compare.panes.map((pane) => pane.canvas.style.transform)")
    assert len(set(moves)) == 1 and "scale" in moves[0]
    live.page.click(".nc-zoom-out")
    assert live.evaluate("nitro.compare.view.scale") == 1


def test_a_failing_pane_hurts_no_other(compare):
    live = compare
    live.page.select_option(".nc-pane >> nth=1 >> select", "nitro-ar-gan")
    live.page.fill(PROMPT, "a fox")
    live.page.wait_for_selector(".nc-pane-words[data-kind=error]")
    rests(live)
    assert "weights" in live.page.inner_text(".nc-pane >> nth=1")
    assert is_of(panes(live)[0]["colour"], "a fox")


def test_escape_stops_all(compare, site):
    live = compare
    live.page.fill(".nc-pane >> nth=0 >> .nc-pane-numbers input >> nth=0", "60")
    live.page.click(PROMPT)
    live.page.keyboard.type("a fox")
    live.page.wait_for_selector(".nc-compare[data-state=running]")
    live.page.keyboard.press("Escape")
    rests(live)
    assert "Stopped" in live.page.inner_text(".nc-compare-status")
    assert site.rests()
