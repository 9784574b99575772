"""The Live page when something is not as it should be: half pictures, restarts, proxies, waits."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.ui.conftest import Site, serving
from tests.ui.live import PROMPT, STAGE, Live
from tests.ui.proxy import prefixed
from tests.ui.world import PageWorld, start
from ui.metadata import read_settings

pytestmark = pytest.mark.browser


def test_half_a_picture_never_stands_for_a_finished_one(live, site, tmp_path, monkeypatch):
    owners = []
    submit = site.engine.submit

    def noting(request, owner, slot):
        owners.append(owner)
        return submit(request, owner, slot)

    monkeypatch.setattr(site.engine, "submit", noting)

    def half_an_owl() -> None:
        live.page.fill(PROMPT, "an owl")
        live.page.wait_for_selector(f'{STAGE}[data-state="running"][data-shown="an owl"]')
        assert not live.page.is_enabled(".nc-save")

    def the_fox_is_back() -> None:
        live.wait(shown="a 🦊")
        assert live.shows("a 🦊")

    live.type("a 🦊")
    the_fox_is_back()
    live.evaluate("Object.assign(nitro.settings, { ar_iterations: 64 })")
    half_an_owl()
    site.engine.cancel_owner(owners[-1])
    the_fox_is_back()

    live.page.fill(PROMPT, "")
    live.page.wait_for_timeout(200)
    half_an_owl()
    live.page.fill(PROMPT, "")
    the_fox_is_back()
    with live.page.expect_download() as download:
        live.page.click(".nc-save")
    download.value.save_as(tmp_path / "picture.png")
    settings = read_settings(tmp_path / "picture.png")
    assert settings["prompt"] == "a 🦊"
    assert str(settings["seed"]) in download.value.suggested_filename

    half_an_owl()
    live.page.click("#nc-variant label:nth-child(3)")  # a variant without weights
    live.page.wait_for_selector(".nc-status[data-kind=error]")
    the_fox_is_back()


def test_a_finished_picture_that_cannot_be_read_is_an_error(live):
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


def test_steps_without_frames_count_and_show_their_grid(live):
    live.evaluate("window.nitro.push({ preview_every: 0, ar_iterations: 60 })")
    live.page.wait_for_timeout(60)
    live.type("a fox")
    live.page.wait_for_function(
        "parseInt(document.querySelector('[data-fact=step]').textContent) > 2"
    )
    assert live.overlay_pixels() > 1000
    live.page.keyboard.press("Escape")


def test_a_restarted_server_is_noticed(live):
    """The page asks every second while something loads, so that this test need not wait."""
    answers = {"status": 200, "boot": ""}

    def status(route) -> None:
        body = route.fetch().json()
        body["boot"] = answers["boot"] or body["boot"]
        body["variants"][1]["state"] = "loading"
        body = body if answers["status"] == 200 else {"error": "no"}
        route.fulfill(status=answers["status"], json=body)

    live.page.route("**/canvas/status", status)
    live.open()
    live.type("a fox")
    live.wait(shown="a fox")
    answers["status"] = 500
    live.page.wait_for_event("response", lambda answer: answer.status == 500)
    answers.update(status=200, boot="another")
    live.page.wait_for_function(
        "document.querySelector('.nc-status').textContent.includes('restarted')"
    )
    with live.page.expect_download() as saved:  # from the page's own memory, settings inside
        live.page.click(".nc-save")
    settings = read_settings(Path(saved.value.path()))
    assert settings["prompt"] == "a fox" and "not kept" in live.status()
    live.complaints = [c for c in live.complaints if "500" not in c]


def test_notes_are_said_when_the_hint_line_cannot(live):
    live.page.route("**/canvas/describe*", lambda route: route.fulfill(status=500, body="{}"))
    live.type("a zebra")
    live.wait(shown="a zebra")
    live.page.wait_for_selector(".nc-status[data-kind=warn]")
    assert "doesn't know: zebra" in live.status()
    live.page.unroute("**/canvas/describe*")
    live.complaints = [c for c in live.complaints if "500" not in c]
    live.page.keyboard.type(" x")
    live.page.wait_for_selector("#nc-hint-line[data-kind=warn]")
    live.wait(shown="a zebra x")
    assert "zebra" not in live.status()


def test_waiting_for_a_variant_says_so(context):
    world = PageWorld()
    world.gates["pocket-ar"] = threading.Event()
    with start(world, ["pocket-ar"], wait=False) as engine, serving(engine) as site:
        live = Live(context.new_page(), site)
        live.type("a fox")
        live.page.wait_for_function(
            "document.querySelector('.nc-status').textContent.includes('Pocket AR is loading')"
        )
        world.gates["pocket-ar"].set()
        live.wait(shown="a fox")
        assert "loading" not in live.status()
        live.page.close()


def test_the_page_works_under_a_proxys_prefix(context, monkeypatch):
    monkeypatch.setenv("GRADIO_ROOT_PATH", "/space/x")
    with (
        start(PageWorld(), ["pocket-ar"]) as engine,
        serving(engine) as site,
        prefixed(site.address, "space/x") as address,
    ):
        page, missing = context.new_page(), []
        page.on("response", lambda answer: answer.status >= 400 and missing.append(answer.url))
        live = Live(page, Site(address, engine))
        live.type("a fox")
        live.wait(shown="a fox")
        own = [place for place in missing if "manifest.json" not in place]  # Gradio has none
        assert live.shows("a fox") and not own
        page.close()
