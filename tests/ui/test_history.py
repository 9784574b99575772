"""What lasts in the browser: history, links, settings in PNGs, zips."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from PIL import Image

from tests.ui.live import PROMPT, STAGE
from tests.ui.world import is_of
from ui.metadata import png, read_settings

pytestmark = pytest.mark.browser


@pytest.fixture
def emptied(live):
    """No pictures of earlier tests."""
    live.evaluate("indexedDB.deleteDatabase('nitro-canvas')")
    live.open()
    live.page.wait_for_selector(f"{STAGE}[data-history]")
    return live


def draw(live, text: str) -> None:
    live.page.click(PROMPT)
    live.page.keyboard.press("Control+A")
    live.page.keyboard.type(text)
    live.wait(shown=text)


def drop(live, data: bytes, name: str, kind: str) -> None:
    live.evaluate(
        "([bytes, name, kind]) => { const files = new DataTransfer();"
        "files.items.add(new File([new Uint8Array(bytes)], name, { type: kind }));"
        "document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: files, bubbles: true }));"
        "}",
        [list(data), name, kind],
    )


def test_history_lasts_and_brings_everything_back(emptied, site):
    live = emptied
    live.evaluate("window.nitro.push({ lock: true, seed: 11, cfg_scale: 4 })")
    draw(live, "a fox")
    live.evaluate("window.nitro.push({ seed: 12, cfg_scale: 2 })")
    draw(live, "an owl")
    live.open()
    live.page.wait_for_selector(f"{STAGE}[data-history='2']")
    live.wait(shown="an owl")
    asked = site.asked
    live.page.click(".nc-shelf button[title*='a fox']")
    live.wait(shown="a fox")
    live.page.wait_for_timeout(400)
    assert live.shows("a fox") and live.page.input_value(PROMPT) == "a fox"
    settings = live.evaluate("window.nitro.settings")
    assert settings["seed"] == 11 and settings["cfg_scale"] == 4
    assert live.page.input_value("#nc-seed input") == "11"
    assert site.asked == asked  # nothing was drawn for it


def test_fifty_pictures_are_kept_once_each(emptied):
    live = emptied
    for n in range(50):
        live.evaluate(
            "(n) => { const c = new OffscreenCanvas(64, 64); c.getContext('2d').fillRect(0, 0, n, 9);"
            "return c.convertToBlob().then((blob) => nitro.keepInHistory({ blob, name: '', picture:"
            "'', settings: { prompt: `picture ${n}`, seed: n, variant: 'pocket-ar' } })); }",
            n,
        )
    draw(live, "a fox")
    live.evaluate("nitro.push({ lock: true })")
    live.open()
    live.page.wait_for_selector(f"{STAGE}[data-history='51']")
    titles = live.evaluate("[...document.querySelectorAll('.nc-shelf button')].map((b) => b.title)")
    assert len(titles) == len(set(titles)) == 51
    assert titles[0].startswith("a fox") and "picture 49 " in titles[1]
    live.page.click(".nc-forget")
    live.open()
    live.wait(shown="a fox")
    live.page.wait_for_selector(f"{STAGE}[data-history='1']")  # the one drawn again just now


def test_zip_holds_every_picture_with_its_settings(emptied):
    live = emptied
    draw(live, "a fox")
    draw(live, 'two "owls" 🦉')
    with live.page.expect_download() as saved:
        live.page.click(".nc-zip")
    with zipfile.ZipFile(Path(saved.value.path())) as archive:
        assert archive.testzip() is None
        lines = archive.read("metadata.jsonl").decode().splitlines()
        rows = [json.loads(line) for line in lines]
        assert [row["prompt"] for row in rows] == ["a fox", 'two "owls" 🦉']
        for row in rows:
            with Image.open(io.BytesIO(archive.read(row["file_name"]))) as image:
                assert is_of(np.asarray(image.convert("RGB")).mean((0, 1)), row["prompt"])


def test_link_carries_the_settings(emptied):
    live = emptied
    live.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    live.evaluate("window.nitro.push({ lock: true, seed: 99, ar_iterations: 9 })")
    draw(live, "a fox & “friends” 🦊")
    live.page.click(".nc-link")
    live.page.wait_for_function("document.querySelector('.nc-status').textContent.includes('Link')")
    link = live.evaluate("navigator.clipboard.readText()")
    query = parse_qs(urlsplit(link).query)
    assert query["seed"] == ["99"] and query["ar_iterations"] == ["9"]
    live.evaluate("window.nitro.push({ seed: 1, ar_iterations: 3 })")
    draw(live, "an owl")
    live.page.goto(link)
    live.wait(shown="a fox & “friends” 🦊")
    settings = live.evaluate("window.nitro.settings")
    assert settings["seed"] == 99 and settings["ar_iterations"] == 9
    assert "prompt" not in live.page.url  # a reload keeps what is changed from here on


def test_dropped_png_brings_its_settings_back_and_any_other_is_sketched_on(emptied):
    live = emptied
    settings = {"prompt": 'a "hen"\n🐔', "variant": "pocket-ar", "seed": 7, "ar_iterations": 6,
                "flow_steps": 2, "cfg_scale": 2.5, "cfg_schedule": "linear", "temperature": 0.5}  # fmt: skip
    pixels = np.zeros((32, 32, 3), dtype=np.uint8)
    drop(live, png(pixels, settings), "made.png", "image/png")
    live.wait(shown='a "hen" 🐔')
    now = live.evaluate("window.nitro.settings")
    carried = {key: value for key, value in settings.items() if key != "prompt"}
    assert {key: now[key] for key in carried} == carried
    assert live.page.input_value(PROMPT) == settings["prompt"]
    red = np.full((40, 80, 3), (200, 30, 30), dtype=np.uint8)
    drop(live, png(red), "red.png", "image/png")
    live.page.wait_for_function("nitro.runs.result?.settings.picture && !nitro.runs.current")
    assert live.page.get_attribute(STAGE, "data-mode") == "draw"
    colour = live.evaluate("[...nitro.pad.pen.getImageData(256, 256, 1, 1).data]")
    assert colour[:3] == [200, 30, 30]


def test_saved_picture_keeps_its_settings_when_the_server_forgot_it(emptied):
    live = emptied
    draw(live, 'a "fox" 🦊')
    live.evaluate("nitro.runs.result.name = ''")
    with live.page.expect_download() as saved:
        live.page.keyboard.press("Tab")
        live.evaluate("document.activeElement.blur()")
        live.page.keyboard.press("s")
    settings = read_settings(Path(saved.value.path()))
    assert settings == live.evaluate("nitro.runs.result.settings")
    with Image.open(Path(saved.value.path())) as image:
        assert is_of(np.asarray(image.convert("RGB")).mean((0, 1)), 'a "fox" 🦊')


def test_shortcuts_are_listed(live):
    live.evaluate("document.activeElement.blur()")
    live.page.keyboard.press("?")
    live.page.wait_for_selector(".nc-help[open]")
    assert "Undo" in live.page.inner_text(".nc-help")
    live.page.keyboard.press("Escape")
    live.page.wait_for_selector(".nc-help", state="hidden")
