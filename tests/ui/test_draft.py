"""While keys fall a draft, when they rest the picture itself, and no flash in between."""

from __future__ import annotations

import pytest

from tests.ui.conftest import serving
from tests.ui.live import Live
from tests.ui.world import PageWorld, start

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def slow_site():
    with start(PageWorld(step_s=0.08), ["pocket-ar"]) as engine, serving(engine) as site:
        yield site


@pytest.fixture
def live(page, slow_site):
    visit = Live(page, slow_site, draft=True)
    visit.type("a fox")
    visit.wait(shown="a fox")  # from now on the page knows how long a picture takes
    yield visit
    assert not visit.complaints


def test_draft_then_the_picture_with_the_same_seed(live, slow_site):
    live.evaluate(
        "(() => { window.log = []; const { streamRaw } = nitro; nitro.streamRaw = (r, ...rest) => {"
        "window.log.push(r[0].request); return streamRaw(r, ...rest); }; })()"
    )
    live.page.keyboard.type(" b", delay=30)
    live.wait(shown="a fox b")
    draft, picture = live.evaluate("window.log")[-2:]
    assert draft["ar_iterations"] == 6 and picture["ar_iterations"] == 24
    assert draft["prompt"] == picture["prompt"] and draft["seed"] == picture["seed"]
    assert live.evaluate("nitro.runs.result.settings.ar_iterations") == 24
    assert live.evaluate("nitro.historySize()") >= 1


def test_refining_shows_nothing_worse_than_the_draft(live):
    """How much of the canvas has the prompt's colour never falls once the draft was whole."""
    live.evaluate(
        "(() => { window.shares = []; const canvas = document.querySelector('.nc-picture');"
        "const draw = nitro.stage.draw.bind(nitro.stage); nitro.stage.draw = (source) => {"
        "draw(source); const d = canvas.getContext('2d').getImageData(0, 0, canvas.width,"
        "canvas.height).data; let grey = 0; for (let i = 0; i < d.length; i += 4)"
        "grey += d[i] === d[i + 1] && d[i + 1] === d[i + 2];"
        "window.shares.push([nitro.runs.current?.draft ?? null, grey / (d.length / 4)]); }; })()"
    )
    live.page.keyboard.type(" c", delay=30)
    live.wait(shown="a fox c")
    shares = live.evaluate("window.shares")
    drafted = [grey for draft, grey in shares if draft]
    refined = [grey for draft, grey in shares if draft is False]
    assert drafted and refined
    assert drafted[-1] < 0.02 and max(refined) < 0.5


def test_draft_can_be_switched_off(live, slow_site):
    live.evaluate("window.nitro.push({ draft: false })")
    asked = slow_site.asked
    live.page.keyboard.type(" d")
    live.wait(shown="a fox d")
    assert slow_site.asked == asked + 1
