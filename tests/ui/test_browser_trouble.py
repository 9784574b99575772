"""The Live page when something is not as it should be: half pictures, restarts, proxies, waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.ui.conftest import Site, serving
from tests.ui.proxy import prefixed
from tests.ui.test_browser import PROMPT, STAGE, Live
from tests.ui.world import PageWorld, start
from ui.metadata import read_settings

pytestmark = pytest.mark.browser


@pytest.fixture
def visit(browser) -> Iterator:
    """Opens pages, each in a browser profile of its own."""
    opened = []

    def open_page(site: Site, script: str = "") -> Live:
        context = browser.new_context(viewport={"width": 1280, "height": 860})
        opened.append(context)
        page = context.new_page()
        if script:
            page.add_init_script(script)
        return Live(page, site)

    yield open_page
    for context in opened:
        context.close()


def half_an_owl(live: Live) -> None:
    """The canvas holds a finished fox, then some frames of an owl that takes long."""
    live.type("a fox")
    live.wait(shown="a fox")
    live.evaluate("Object.assign(nitro.settings, { ar_iterations: 64 })")
    live.page.fill(PROMPT, "an owl")
    live.page.wait_for_selector(f'{STAGE}[data-state="running"][data-shown="an owl"]')
    assert not live.page.is_enabled(".nc-save")


def test_half_a_picture_never_stands_for_a_finished_one(visit, site, tmp_path):
    live = visit(site)
    half_an_owl(live)
    live.page.fill(PROMPT, "")
    live.wait(shown="a fox")
    assert live.shows("a fox")
    with live.page.expect_download() as download:
        live.page.click(".nc-save")
    download.value.save_as(tmp_path / "picture.png")
    assert read_settings(tmp_path / "picture.png")["prompt"] == "a fox"

    live.page.fill(PROMPT, "an owl")
    live.page.wait_for_selector(f'{STAGE}[data-state="running"][data-shown="an owl"]')
    live.page.click("#nc-variant label:nth-child(3)")  # a variant without weights
    live.page.wait_for_selector(".nc-status[data-kind=error]")
    live.wait(shown="a fox")
    assert live.shows("a fox") and not live.complaints


def test_a_picture_that_is_cancelled_elsewhere_gives_way_to_the_finished_one(visit, site):
    live = visit(site)
    owners = []
    submit = site.engine.submit
    site.engine.submit = lambda request, owner, slot: (
        owners.append(owner) or submit(request, owner, slot)
    )
    try:
        half_an_owl(live)
    finally:
        del site.engine.submit
    site.engine.cancel_owner(owners[-1])
    live.wait(shown="a fox")
    assert live.shows("a fox")


def test_a_finished_picture_that_cannot_be_read_is_an_error(visit, site):
    live = visit(site)
    live.type("a fox")
    live.wait(shown="a fox")
    live.evaluate(
        "(() => { const show = nitro.stage.show.bind(nitro.stage);"
        "nitro.stage.show = (blob, painted, broken) => show(broken ? new Blob(['?']) : blob,"
        "painted, broken); })()"
    )
    live.page.keyboard.type(" b")
    live.wait("failed")
    assert "damaged" in live.status() and live.shows("a fox")


def test_steps_without_frames_count_and_show_their_grid(visit, site):
    live = visit(site)
    live.evaluate("window.nitro.push({ preview_every: 0, ar_iterations: 60 })")
    live.page.wait_for_timeout(60)
    live.type("a fox")
    live.page.wait_for_function(
        "parseInt(document.querySelector('[data-fact=step]').textContent) > 2"
    )
    assert live.overlay_pixels() > 1000
    live.page.keyboard.press("Escape")


def test_a_restarted_server_is_noticed(visit, site):
    live = visit(
        site,
        # the page asks every second while something loads, so that this test need not wait
        "const real = window.fetch; window.fetch = async (at, ...rest) => {"
        "const answer = await real(at, ...rest);"
        "if (!String(at).endsWith('canvas/status')) return answer;"
        "const status = await answer.json(); if (window.boot) status.boot = window.boot;"
        "if (window.broken) return new Response('{}', { status: 500 });"
        "status.variants[1].state = 'loading'; return Response.json(status); };",
    )
    live.type("a fox")
    live.wait(shown="a fox")
    live.evaluate("window.broken = true")
    live.page.wait_for_timeout(1200)
    live.evaluate("window.broken = false, window.boot = 'another'")
    live.page.wait_for_selector(".nc-status[data-kind=warn]")
    assert "restarted" in live.status() and not live.page.is_enabled(".nc-save")
    assert not live.complaints


def test_notes_are_said_when_the_hint_line_cannot(visit, site):
    live = visit(site)
    live.page.route("**/canvas/describe*", lambda route: route.fulfill(status=500, body="{}"))
    live.type("a zebra")
    live.wait(shown="a zebra")
    live.page.wait_for_selector(".nc-status[data-kind=warn]")
    assert "doesn't know: zebra" in live.status()
    live.page.unroute("**/canvas/describe*")
    live.page.keyboard.type(" x")
    live.page.wait_for_selector("#nc-hint-line[data-kind=warn]")
    live.wait(shown="a zebra x")
    assert "zebra" not in live.status()


def test_waiting_for_a_variant_says_so(visit, browser):
    world = PageWorld()
    world.gates["pocket-ar"] = threading.Event()
    with start(world, ["pocket-ar"], wait=False) as engine, serving(engine) as site:
        live = visit(site)
        live.type("a fox")
        live.page.wait_for_function(
            "document.querySelector('.nc-status').textContent.includes('Pocket AR is loading')"
        )
        world.gates["pocket-ar"].set()
        live.wait(shown="a fox")
        assert "loading" not in live.status()
        live.page.close()


def test_the_page_works_under_a_proxys_prefix(visit, browser, monkeypatch):
    monkeypatch.setenv("GRADIO_ROOT_PATH", "/space/x")
    world = PageWorld()
    with (
        start(world, ["pocket-ar"]) as engine,
        serving(engine) as site,
        prefixed(site.address, "space/x") as address,
    ):
        missing = []
        page = browser.new_context().new_page()
        page.on("response", lambda r: r.status >= 400 and missing.append(r.url))
        live = Live(page, Site(address, engine))
        live.type("a fox")
        live.wait(shown="a fox")
        assert live.shows("a fox") and not missing
        page.context.close()
