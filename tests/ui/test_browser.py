"""The Live page in a real browser, with real keys. Pictures are plain colours."""

from __future__ import annotations

import re
import time

import pytest

from tests.ui.live import PROMPT, STAGE, Live

pytestmark = pytest.mark.browser


def test_burst_of_keys_draws_the_last_prompt_once(live, site):
    text = "a fox on a blue"
    assert len(text) == 15
    before = site.steps
    live.page.click(PROMPT)
    live.time_the_last_key(text)
    live.page.keyboard.type(text, delay=60)
    live.wait(shown=text)
    assert live.shows(text)
    assert site.steps - before <= 2 * 16  # once, and once more where keys come late
    assert 0 < live.last_key_to_first_frame() < 2000  # target: 500 on an idle machine


def test_every_change_counts_and_spaces_do_not(live, site):
    live.type("a fox")
    live.wait(shown="a fox")
    count = site.asked
    live.page.keyboard.type(" ")
    live.page.wait_for_timeout(400)
    assert site.asked == count
    live.page.keyboard.press("Backspace")
    live.page.keyboard.press("Backspace")
    live.wait(shown="a fo")
    assert live.shows("a fo")


def test_paste_and_undo_count(live):
    live.type("a fox")
    live.page.keyboard.press("Control+A")
    live.page.keyboard.press("Control+C")
    live.page.keyboard.press("End")
    live.page.keyboard.press("Control+V")
    live.wait(shown="a foxa fox")
    live.page.keyboard.press("Control+Z")
    live.wait(shown="a fox")
    assert live.shows("a fox")


def test_composition_is_drawn_when_it_ends(live, site):
    count = site.asked
    live.page.click(PROMPT)
    client = live.page.context.new_cdp_session(live.page)
    for text in ("k", "ki", "きつ"):
        client.send(
            "Input.imeSetComposition",
            {"text": text, "selectionStart": len(text), "selectionEnd": len(text)},
        )
        live.page.wait_for_timeout(170)
    assert site.asked == count
    client.send("Input.insertText", {"text": "きつね"})
    live.wait(shown="きつね")


def test_enter_rolls_the_seed_first_and_lock_keeps_it(live):
    live.type("a fox")
    live.wait(shown="a fox")
    first = live.page.inner_text("[data-fact=seed]")
    live.page.keyboard.press("Enter")
    live.page.wait_for_function(
        f"document.querySelector('[data-fact=seed]').textContent !== '{first}'"
        f" && document.querySelector('{STAGE}').dataset.state === 'finished'"
    )
    seed = live.page.inner_text("[data-fact=seed]")
    assert live.page.input_value("#nc-seed input") == seed
    assert live.page.input_value(PROMPT) == "a fox"
    live.page.check("#nc-lock input")
    live.page.click(PROMPT)
    live.page.keyboard.press("Control+Enter")
    live.page.wait_for_timeout(200)
    assert live.page.inner_text("[data-fact=seed]") == seed
    assert "already shown" in live.status()


def test_typing_keeps_the_seed_and_the_switch_stops_it(live, site):
    live.type("a fox")
    live.wait(shown="a fox")
    seed = live.page.inner_text("[data-fact=seed]")
    live.page.keyboard.type(" b")
    live.wait(shown="a fox b")
    assert live.page.inner_text("[data-fact=seed]") == seed
    live.page.uncheck("#nc-auto input")
    count = site.asked
    live.type("c")
    live.page.wait_for_timeout(350)
    assert site.asked == count
    live.page.click("#nc-generate")
    live.wait(shown="a fox bc")


def test_escape_stops_and_brings_the_finished_picture_back(live, site):
    live.type("a fox")
    live.wait(shown="a fox")
    before = site.steps
    live.set_slow()
    live.wait("running")
    live.page.wait_for_timeout(200)
    live.page.keyboard.press("Escape")
    live.wait("finished")
    assert "Stopped at step" in live.status() and live.shows("a fox")
    assert site.rests() and site.steps - before < 60


def test_overlay_shows_the_grid_and_can_be_switched_off(live):
    live.set_slow()
    live.type("a fox")
    live.page.wait_for_selector(f'{STAGE}[data-shown="a fox"]')
    assert live.overlay_pixels() > 1000
    live.page.click(".nc-toggle")
    live.page.wait_for_timeout(120)
    assert live.overlay_pixels() == 0
    assert live.page.get_attribute(".nc-toggle", "aria-pressed") == "false"
    live.page.keyboard.press("Escape")


def test_reload_keeps_everything(live):
    live.type('a "fox" 🦊')
    live.evaluate("window.nitro.push({ flow_steps: 9, cfg_scale: 3.5, seed: 77, lock: true })")
    live.page.click("#nc-variant label:nth-child(2)")
    live.page.wait_for_timeout(200)
    live.evaluate("window.nitro.push({ flow_steps: 11 })")
    live.page.click(".nc-toggle")
    live.page.wait_for_timeout(300)
    live.open()
    live.wait()
    settings = live.evaluate("window.nitro.settings")
    assert settings["variant"] == "pocket-ar-joint" and settings["flow_steps"] == 11
    assert settings["seed"] == 77 and settings["lock"] is True
    assert live.page.input_value(PROMPT) == 'a "fox" 🦊'
    assert live.page.input_value("#nc-seed input") == "77"
    assert live.page.get_attribute(".nc-toggle", "aria-pressed") == "false"


def test_defaults_follow_the_variant(live):
    live.page.click("#nc-variant label:nth-child(2)")
    live.page.wait_for_function("window.nitro.settings.flow_steps === 6")
    assert live.evaluate("window.nitro.settings.ar_iterations") == 1
    live.page.wait_for_timeout(100)
    assert live.page.input_value("#nc-flow_steps input[type=number]") == "6"


def test_a_variant_without_weights_says_so_and_loses_nothing(live):
    live.type("a fox")
    live.wait(shown="a fox")
    live.page.click("#nc-variant label:nth-child(3)")
    live.page.wait_for_function("document.querySelector('.nc-status').dataset.kind === 'error'")
    assert "weights" in live.status()
    card = live.page.inner_text("#nc-variant-card")
    assert "Published, not measured here" in card and "Licence: " in card
    live.page.click("#nc-variant label:nth-child(1)")
    live.page.wait_for_timeout(300)
    assert live.page.input_value(PROMPT) == "a fox" and live.shows("a fox")


def test_failures_are_said_in_words(live):
    live.type("a fox")
    live.wait(shown="a fox")
    live.page.keyboard.type(" explode")
    live.wait("failed")
    assert "broken" in live.status() and live.shows("a fox")
    for _ in range(8):
        live.page.keyboard.press("Backspace")
    live.page.wait_for_timeout(400)
    assert live.page.get_attribute(STAGE, "data-state") == "finished"


def test_hint_names_what_the_model_does_not_know(live):
    live.type("a fox on a spaceship")
    live.page.wait_for_selector("#nc-hint-line[data-kind=warn]")
    hint = live.page.inner_text("#nc-hint-line")
    assert re.search(r"6 of 24 tokens · Pocket doesn.t know: spaceship", hint)


def test_a_seed_that_is_not_allowed_goes_out_of_its_field(live):
    live.page.fill("#nc-seed input", "99999999999")
    live.page.keyboard.press("Tab")
    live.page.wait_for_function(
        "document.querySelector('#nc-seed input').value === '4294967295'"
        " && document.querySelector('.nc-status').textContent.includes('4294967295')"
    )


def test_what_is_not_read_any_more_is_struck_out(live):
    words = [f"w{n}" for n in range(30)]
    live.type(" ".join(words), delay=1)
    live.page.wait_for_selector("#nc-hint-line s")
    assert "31 of 24 tokens" in live.page.inner_text("#nc-hint-line")
    assert live.page.inner_text("#nc-hint-line s") == " ".join(words[23:])


def test_example_draws(live):
    live.page.click(".nc-examples button >> nth=0")
    live.wait(shown="a fox on a blue background")
    assert live.page.input_value(PROMPT) == "a fox on a blue background"


def test_broken_stream_falls_back_to_gradios_own(live):
    live.page.route("**/canvas/stream", lambda route: route.fulfill(status=200, body=b""))
    live.type("a fox")
    live.wait(shown="a fox")
    assert live.shows("a fox")
    live.page.unroute("**/canvas/stream")
    live.evaluate(
        "(now => { performance.now = () => now() + 61000; })(performance.now.bind(performance))"
    )
    with live.page.expect_request("**/canvas/stream"):  # a minute later it is tried again
        live.page.keyboard.type(" b")
    live.wait(shown="a fox b")


def test_server_gone_is_said_and_picked_up_again(live):
    live.type("a fox")
    live.wait(shown="a fox")
    live.page.route("**/canvas/**", lambda route: route.abort())
    live.page.keyboard.type(" x")
    live.wait("offline")
    assert "kept" in live.status() and live.shows("a fox")
    live.page.unroute("**/canvas/**")
    live.wait(shown="a fox x")
    assert "reached" not in live.status()
    live.complaints = [c for c in live.complaints if "ERR_FAILED" not in c]


def test_server_lost_halfway_brings_the_finished_picture_back(live):
    live.type("a fox")
    live.wait(shown="a fox")
    live.set_slow()
    live.wait("running")
    live.page.wait_for_timeout(200)
    live.page.route("**/canvas/**", lambda route: route.abort())
    live.page.keyboard.type(" y")
    live.wait("offline")
    assert live.shows("a fox") and "Trying again in" in live.status()
    live.complaints = [c for c in live.complaints if "ERR_FAILED" not in c]


def test_shift_and_enter_start_a_new_line(live):
    live.type("a fox")
    live.page.keyboard.press("Shift+Enter")
    live.page.keyboard.type("on red")
    assert live.page.input_value(PROMPT) == "a fox\non red"
    live.page.wait_for_function(
        "nitro.stage.root.dataset.state === 'finished'"
        " && nitro.stage.root.dataset.shown.replace(/\\s+/, ' ') === 'a fox on red'"
    )


def test_no_frame_is_ever_blank(live):
    live.type("a fox")
    live.wait(shown="a fox")
    live.evaluate(
        "(() => { window.blank = 0; const c = document.querySelector('.nc-picture');"
        "const look = () => { const d = c.getContext('2d').getImageData(2, 2, 1, 1).data;"
        "if (d[3] === 0) window.blank += 1; if (!window.enough) requestAnimationFrame(look); };"
        "look(); })()"
    )
    live.page.keyboard.type(" and a hen", delay=40)
    live.wait(shown="a fox and a hen")
    assert live.evaluate("window.enough = 1, window.blank") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone(page, site, scheme):
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme=scheme)
    touch = page.context.new_cdp_session(page)
    touch.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    live = Live(page, site)
    live.type("a fox on a blue background")
    live.wait(shown="a fox on a blue background")
    page.click("#nc-more button")
    page.wait_for_timeout(300)
    wide = live.evaluate(
        "[...document.querySelectorAll('main *:not(.nc-shelf *)')].filter((e) => e.clientWidth && "
        "e.getBoundingClientRect().right > 391).map((e) => e.className || e.id)"
    )
    assert live.evaluate("document.documentElement.scrollWidth") <= 390 and not wide
    background = live.evaluate("getComputedStyle(document.body).backgroundColor")
    bright = sum(map(int, re.findall(r"\d+", background)[:3])) > 380
    assert bright == (scheme == "light")
    assert not live.complaints


def test_theme_switch_survives_a_reload(live):
    dark = "document.body.classList.contains('dark')"
    before = live.evaluate(dark)
    live.page.click(".nc-theme")
    assert live.evaluate(dark) != before
    live.open()
    live.page.wait_for_timeout(100)
    assert live.evaluate(dark) != before


def test_random_weights_are_badged(live):
    assert not live.page.is_visible(".nc-badge")
    live.page.click("#nc-variant label:nth-child(2)")
    live.page.wait_for_selector(".nc-badge", state="visible")
    assert "untrained" in live.page.inner_text(".nc-running")
    live.page.click("#nc-variant label:nth-child(1)")
    live.page.wait_for_selector(".nc-badge", state="hidden")


def test_two_tabs_do_not_stop_each_other(context, live, site):
    other = Live(context.new_page(), site)
    live.set_slow(30)
    live.type("a fox")
    other.type("an owl")
    live.wait(shown="a fox")
    other.wait(shown="an owl")
    assert live.shows("a fox") and other.shows("an owl")
    other.page.close()
    time.sleep(0.05)


def test_addresses_hold_with_and_without_a_final_slash(live):
    for at in ("/space/x/", "/space/x", "/space/x/?__theme=dark#part"):
        live.evaluate(
            "(at) => (document.querySelector('base') || document.head.appendChild("
            "document.createElement('base'))).href = at",
            at,
        )
        address = live.evaluate("window.nitro.address('canvas/stream')")
        assert address == f"{live.site.address}space/x/canvas/stream"
