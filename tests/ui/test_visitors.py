"""Visitors far away, cut off, beside each other, or without a mouse."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.ui.conftest import Site, serving
from tests.ui.live import PROMPT, STAGE, Live
from tests.ui.proxy import delayed
from tests.ui.world import PageWorld, is_of, start

pytestmark = pytest.mark.browser
TEXT = "a fox on a blue"


@pytest.mark.parametrize("round_trip_s", [0.0, 0.08])
def test_burst_of_keys_ends_with_the_last_prompt_in_time(page, site, round_trip_s):
    """Final frame within 1.5 generations, the pause and two round trips of the last key."""
    with delayed(site.address, round_trip_s) as line:
        live = Live(page, Site(line.address, site.engine))
        live.type("a cat")
        live.wait(shown="a cat")
        whole = live.evaluate("nitro.runs.paceMs('pocket-ar')")
        page.fill(PROMPT, "")
        live.evaluate(
            "(text) => { const box = document.querySelector('#nc-prompt textarea');"
            "box.addEventListener('keydown', () => { window.lastKey = performance.now(); });"
            "const keep = nitro.onFinished; nitro.onFinished = (r) => { if (r.settings.prompt ==="
            "text) window.ended ??= performance.now(); keep(r); }; }",
            TEXT,
        )
        page.click(PROMPT)
        page.keyboard.type(TEXT, delay=60)
        live.wait(shown=TEXT)
        assert live.shows(TEXT)
        late = live.evaluate("window.ended - window.lastKey")
        assert late < 1.5 * whole + 120 + 2000 * round_trip_s + 250  # 250: two busy cores
    assert not live.complaints


def test_a_keystroke_costs_little(live):
    """The page's own work for a key, from the event to the request, in the main thread."""
    live.type("a fox")
    live.wait(shown="a fox")
    live.evaluate(
        "(() => { window.costs = []; for (const name of ['schedule', 'run']) { const own ="
        "nitro[name]; nitro[name] = (...args) => { const t = performance.now(); own(...args);"
        "window.costs.push(performance.now() - t); }; } })()"
    )
    live.page.keyboard.type(" on a hill", delay=160)
    live.wait(shown="a fox on a hill")
    costs = live.evaluate("window.costs")
    assert len(costs) >= 15 and sorted(costs)[len(costs) // 2] < 8 and max(costs) < 16


def test_controls_answer_while_the_device_is_busy(live):
    """From an event to the next painted frame, in the middle of a long picture."""
    live.set_slow()
    live.type("a fox")
    live.wait("running")
    live.evaluate(
        "(() => { window.answers = []; for (const name of ['keydown', 'click'])"
        "document.addEventListener(name, (event) => { const began = performance.now();"
        "requestAnimationFrame(() => setTimeout(() =>"
        "window.answers.push(performance.now() - began))); }, true); })()"
    )
    live.page.keyboard.type(" b")
    for selector in (".nc-heat", ".nc-toggle", "[data-choose=paint]", "[data-choose=draw]"):
        live.page.click(selector)
        live.page.wait_for_timeout(60)
    answers = live.evaluate("window.answers")
    assert len(answers) >= 6 and sorted(answers)[len(answers) // 2] < 100
    assert live.page.input_value(PROMPT) == "a fox b"
    live.page.keyboard.press("Escape")


def test_five_seconds_offline(page, site):
    with delayed(site.address, 0.0) as line:
        live = Live(page, Site(line.address, site.engine))
        live.type("a fox")
        live.wait(shown="a fox")
        live.set_slow()
        live.wait("running")
        line.cut()
        page.keyboard.type(" b")
        live.wait("offline")
        assert live.shows("a fox") and "kept" in live.status()
        live.evaluate("nitro.push({ ar_iterations: 4 })")
        page.wait_for_timeout(5000)
        line.up = True
        page.wait_for_selector(
            f'{STAGE}[data-state="finished"][data-shown="a fox b"]', timeout=20_000
        )
        assert live.shows("a fox b") and "reached" not in live.status()


def test_a_server_restarted_halfway_loses_nothing(page):
    """The same address, another engine: no session, no picture, no trajectory is known there."""
    first, second = start(PageWorld(), ["pocket-ar"]), start(PageWorld(), ["pocket-ar"])
    with first, second, serving(second) as after:
        with serving(first) as before, delayed(before.address, 0.0) as line:
            live = Live(page, Site(line.address, first))
            live.type("a fox")
            live.wait(shown="a fox")
            live.set_slow()
            live.wait("running")
            line.cut()
            line.target, line.up = after.address, True
            live.evaluate("nitro.push({ ar_iterations: 5 })")
            page.keyboard.type(" b")
            page.wait_for_selector(
                f'{STAGE}[data-state="finished"][data-shown="a fox b"]', timeout=20_000
            )
            assert live.shows("a fox b") and page.input_value(PROMPT) == "a fox b"
            assert int(page.get_attribute(STAGE, "data-history")) >= 2
            assert page.get_attribute(".nc-status", "data-kind") != "error"


def test_two_visitors_never_see_each_others_frames(context, page, site):
    """200 generations at once; every painted frame has the visitor's own colour or none yet."""
    visits = [Live(page, site), Live(context.new_page(), site)]
    texts = ["a fox", "an owl"]
    for live, text in zip(visits, texts, strict=True):
        live.type(text)
        live.wait(shown=text)
        live.evaluate(
            "(() => { window.colours = []; window.count = 0;"
            "const draw = nitro.stage.draw.bind(nitro.stage);"
            "const look = document.createElement('canvas').getContext('2d',"
            "{ willReadFrequently: true }); nitro.stage.draw = (source) => { draw(source);"
            "look.drawImage(source, 0, 0, 8, 8); const d = look.getImageData(0, 0, 8, 8).data;"
            "for (let i = 0; i < d.length; i += 4) window.colours.push([d[i], d[i + 1], d[i + 2]]"
            ".join()); window.colours = [...new Set(window.colours)]; };"
            "const keep = nitro.onFinished; nitro.onFinished = (r) => { keep(r);"
            "window.count += 1; if (window.count < 100) setTimeout(nitro.generate); };"
            "nitro.push({ ar_iterations: 2 }); })()"
        )
    for live in visits:
        live.evaluate("nitro.generate()")
    for live, text, other in zip(visits, texts, texts[::-1], strict=True):
        live.page.wait_for_function("window.count >= 100", timeout=120_000)
        colours = [tuple(map(int, each.split(","))) for each in live.evaluate("window.colours")]
        assert any(is_of(colour, text) for colour in colours)
        assert not any(is_of(colour, other) for colour in colours)
        assert not live.complaints
    visits[1].page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("mode", ["look", "paint", "draw", "compare", "grid"])
def test_no_serious_accessibility_fault(page, site, scheme, mode):
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    live = Live(page, site)
    live.type("a fox on a spaceship")
    live.wait(shown="a fox on a spaceship")
    if mode == "compare":
        page.click(".nc-pages a >> text=Compare")
        page.wait_for_selector(".nc-versus", state="visible")
    elif mode == "grid":
        page.click(".nc-pages a >> text=Grid")
        page.click(".nc-grid-draw")
        page.wait_for_selector(".nc-grid[data-state=resting]", timeout=30_000)
    else:
        page.click(f"[data-choose={mode}]")
        page.click("#nc-more button")
    page.wait_for_timeout(400)
    found = Axe().run(page).response["violations"]
    serious = [
        f"{rule['id']}: {node['target']} {node.get('failureSummary', '')[:160]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]
    assert not serious, "\n".join(serious)
