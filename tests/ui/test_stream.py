"""The canvas routes over real HTTP: what they serve, what they refuse, and who sees what."""

from __future__ import annotations

import httpx
import pytest

from tests.ui.world import is_of, mean_colour
from ui.frames import unpack
from ui.guard import SESSION_HEADER
from ui.metadata import read_settings


@pytest.fixture
def visitor(site):
    with httpx.Client(base_url=site.address, timeout=20) as client:
        session = client.post("canvas/session").json()["session"]
        client.headers[SESSION_HEADER] = session
        yield client


def ask(prompt: str = "a fox", slot: str = "live", **settings) -> dict:
    return {"requests": [{"slot": slot, "request": {"prompt": prompt, **settings}}]}


def draw(visitor: httpx.Client, body: dict) -> list:
    answer = visitor.post("canvas/stream", json=body)
    assert answer.status_code == 200, answer.text
    return list(unpack(answer.content))


def test_a_picture_arrives_step_by_step(visitor):
    messages = draw(visitor, ask(ar_iterations=5, seed=7))
    events = [head["event"] for head, _ in messages]
    assert events[-1] == "finished" and 2 <= events.count("step") <= 5
    assert all(head["slot"] == "live" for head, _ in messages)
    steps = [(head, body) for head, body in messages if head["event"] == "step"]
    frames = [body for head, body in steps if head["index"] < 5]  # then the picture itself comes
    assert all(body.startswith(b"\xff\xd8") for body in frames)
    assert all(max(map(max, head["committed"])) == head["index"] for head, _ in steps)


def test_a_whole_numbered_scale_is_still_a_real_number(visitor):
    """Browsers write 2.0 as 2; a model that computes with an integer scale fails."""
    end, _ = draw(visitor, ask(ar_iterations=1, cfg_scale=2, temperature=1))[-1]
    assert isinstance(end["settings"]["cfg_scale"], float)
    assert isinstance(end["settings"]["temperature"], float)


def test_slots_share_one_stream(visitor):
    body = {
        "requests": [
            {"slot": f"column {n}", "request": {"prompt": f"fox {n}", "ar_iterations": 2}}
            for n in range(3)
        ]
    }
    ends = {h["slot"]: h["settings"]["prompt"] for h, _ in draw(visitor, body) if "settings" in h}
    assert ends == {f"column {n}": f"fox {n}" for n in range(3)}


def test_finished_picture_downloads_with_its_settings(site, visitor):
    prompt = 'a "fox" 🦊 ثعلب'
    end, _ = draw(visitor, ask(prompt, ar_iterations=1, seed=5))[-1]
    answer = visitor.get(f"canvas/result/{end['result']}.png")
    assert answer.headers["content-type"] == "image/png"
    assert read_settings(answer.content) == end["settings"]
    assert end["settings"]["prompt"] == prompt and end["settings"]["seed"] == 5


def test_a_picture_is_its_owners_alone(site, visitor):
    end, _ = draw(visitor, ask(ar_iterations=1))[-1]
    with httpx.Client(base_url=site.address) as other:
        path = f"canvas/result/{end['result']}.png"
        assert other.get(path).status_code == 401
        session = other.post("canvas/session").json()["session"]
        assert other.get(path, headers={SESSION_HEADER: session}).status_code == 404


def test_sessions_cannot_be_made_up(site):
    for forged in ("", "me", "me.", ".", "a" * 32 + "." + "0" * 32, "x.\u00e9"):
        answer = httpx.post(
            f"{site.address}canvas/stream",
            json=ask(),
            headers={SESSION_HEADER: forged.encode("utf-8")},
        )
        assert answer.status_code == 401 and "session" in answer.json()["error"]


def test_newest_wins_within_a_slot(visitor, site):
    before = site.steps
    with visitor.stream("POST", "canvas/stream", json=ask("old", ar_iterations=64)) as old:
        parts = old.iter_raw()
        next(parts)
        new = draw(visitor, ask("new", ar_iterations=2))
        rest = b"".join(parts)
    assert new[-1][0]["settings"]["prompt"] == "new"
    assert b'"superseded"' in rest
    assert site.steps - before < 64


def test_leaving_cancels(visitor, site):
    before = site.engine.status().counters.cancels
    with visitor.stream("POST", "canvas/stream", json=ask(ar_iterations=64)) as answer:
        next(answer.iter_raw())
    assert site.rests()
    assert site.engine.status().counters.cancels == before + 1


def test_leaving_cancels_every_one_of_many(visitor, site):
    before = site.engine.status().counters.cancels
    with visitor.stream("POST", "canvas/stream", json=ask(ar_iterations=64, count=12)) as answer:
        next(answer.iter_raw())
    assert site.rests()
    assert site.engine.status().counters.cancels == before + 12


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "not valid JSON"),
        (b"{", 400, "not valid JSON"),
        (b"\xff\xfe", 400, "not valid JSON"),
        (b"[" * 30_000, 400, "not valid JSON"),
        (b"[]", 400, "has to be"),
        (b'{"requests": []}', 400, "has to be"),
        (b'{"requests": [1]}', 400, "slot"),
        (b'{"requests": [{"slot": 5}]}', 400, "slot"),
        (b'{"requests": [{"slot": "a"}]}', 400, "JSON object"),
        (b'{"requests": [{"request": {}}]}', 400, "no prompt"),
        (b'{"requests": [{"request": {"prompt": ""}}]}', 400, "empty"),
        (b'{"requests": [{"request": {"prompt": 5}}]}', 400, "text"),
        (b'{"requests": [{"request": {"prompt": "a", "x": 1}}]}', 400, "Unknown setting"),
        (b'{"requests": [{"request": {"prompt": "a", "seed": -1}}]}', 400, "Seed"),
        (b'{"requests": [{"request": {"prompt": "a", "seed": NaN}}]}', 400, "Seed"),
        (b'{"requests": [{"request": {"prompt": "a", "variant": "z"}}]}', 400, "no variant"),
        (b'{"requests": [{"request": {"prompt": "a", "ar_iterations": 0}}]}', 400, "from 1"),
        (b'{"requests": [{"request": {"prompt": "a", "flow_steps": 1000000000}}]}', 400, "50"),
        (b'{"requests": [{"request": {"prompt": "a", "cfg_schedule": []}}]}', 400, "one of"),
        (
            b'{"requests": [{"request": {"prompt": "a", "seed": ' + b"9" * 5000 + b"}}]}",
            400,
            "digits",
        ),
        (
            b'{"requests": [{"request": {"prompt": "a", "seed": ' + b"9" * 4000 + b"}}]}",
            400,
            "Seed",
        ),
        (b'{"requests": [{"request": {"prompt": "a", "\\ud800": 1}}]}', 400, "Unknown setting"),
        (b'{"requests": [{"request": {"prompt": "a", "variant": "\\ud800"}}]}', 400, "no variant"),
        (b'{"requests": [{"slot": "\\ud800", "request": {"prompt": "a"}}]}', 400, "slot"),
        (b'{"requests": [{"slot": "a\\nb", "request": {"prompt": "a"}}]}', 400, "slot"),
        (b'{"requests": "' + b"x" * 100_000 + b'"}', 413, "64 KiB"),
    ],
)
def test_bad_bodies_are_refused_in_words(visitor, body, status, words):
    answer = visitor.post("canvas/stream", content=body)
    assert answer.status_code == status and words in answer.json()["error"]


def test_a_body_of_unknown_length_is_bounded_too(visitor):
    answer = visitor.post("canvas/stream", content=(b"x" * 1024 for _ in range(100)))
    assert answer.status_code == 413


def test_too_many_slots_and_twins_are_refused(visitor):
    entry = ask()["requests"][0]
    many = [{**entry, "slot": str(n)} for n in range(17)]
    assert "At most 16" in visitor.post("canvas/stream", json={"requests": many}).text
    assert "twice" in visitor.post("canvas/stream", json={"requests": [entry, entry]}).text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "SELF"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://evil.example", "sec-fetch-site": "cross-site"}, 403),
        ({"origin": "https://front.example", "x-forwarded-host": "front.example"}, 403),
        ({"origin": "http://[::1"}, 403),
        ({"origin": "SELF", "sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://front.example", "sec-fetch-site": "same-origin"}, 200),
    ],
)
def test_foreign_pages_are_refused(site, headers, status):
    headers = {
        key: value.replace("SELF", site.address.rstrip("/")) for key, value in headers.items()
    }
    answer = httpx.post(f"{site.address}canvas/session", headers=headers)
    assert answer.status_code == status


def test_a_failure_is_an_event_and_the_next_picture_comes(visitor):
    assert draw(visitor, ask("explode"))[-1][0]["event"] == "failed"
    assert draw(visitor, ask("a fox", ar_iterations=1))[-1][0]["event"] == "finished"


def test_hints_and_status(visitor, site):
    facts = visitor.get("canvas/describe", params={"variant": "pocket-ar", "prompt": "a zebra"})
    assert facts.json() == {
        "tokens": 3, "limit": 24, "unknown": ["zebra"], "nearest": ["horse"], "truncated": False,
        "unread": "",
    }  # fmt: skip
    assert visitor.get("canvas/describe", params={"variant": "no"}).status_code == 400
    status = httpx.get(f"{site.address}canvas/status").json()
    assert [card["id"] for card in status["variants"]][:2] == ["pocket-ar", "pocket-ar-joint"]
    assert httpx.get(f"{site.address}healthz").text == "ok"


def test_gradio_client_draws_through_the_second_transport(site):
    from gradio_client import Client

    client = Client(site.address, verbose=False)
    answers = list(client.submit("a fox", ar_iterations=3, seed=4, api_name="/generate"))
    heads = [head for head, _ in answers]
    assert heads[-1]["event"] == "finished" and heads[-1]["settings"]["seed"] == 4
    assert answers[-1][1].startswith("data:image/jpeg;base64,")
    with pytest.raises(Exception, match="empty"):
        client.predict("", api_name="/generate")


def test_gradio_client_edits_forks_and_asks_for_many(site):
    from gradio_client import Client

    client = Client(site.address, verbose=False)

    def draw(prompt: str, **settings) -> list:
        answers = client.submit(prompt, ar_iterations=4, api_name="/generate", **settings)
        return [head for head, _ in answers if head["event"] == "finished"]

    first = draw("a fox")[0]
    edit = draw("a cat", picture=first["picture"], free="1" * 32 + "0" * 32, context=1)[0]
    assert sum(cell > 0 for row in edit["committed"] for cell in row) == 40
    fork = draw("a fox", fork_of=edit["picture"], fork_step=2, seed=0)[0]
    assert fork["event"] == "finished" and fork["settings"]["fork_step"] == 2
    many = draw("a fox", count=3, seed=8)
    assert [(head["seed"], head["place"], head["count"]) for head in many] == [
        (8, 0, 3),
        (9, 1, 3),
        (10, 2, 3),
    ]
    stranger = Client(site.address, verbose=False)
    with pytest.raises(Exception, match="not kept here"):
        stranger.predict("a cat", picture=first["picture"], api_name="/generate")


def test_gradio_client_compares_and_lists(site):
    from gradio_client import Client

    client = Client(site.address, verbose=False)
    cards = client.predict(api_name="/variants")
    assert [card["id"] for card in cards][:2] == ["pocket-ar", "pocket-ar-joint"]
    assert client.predict(api_name="/status")["max_batch"] >= 1
    panes = [{"variant": "pocket-ar", "ar_iterations": 8}, {"variant": "pocket-ar-joint"},
             {"variant": "pocket-ar", "ar_iterations": 3, "seed": 9}]  # fmt: skip
    heads = [h for h, _ in client.submit("a fox", panes, seed=4, api_name="/compare")]
    ends = {head["slot"]: head for head in heads if head["event"] == "finished"}
    assert [ends[f"pane {n}"]["seed"] for n in (1, 2, 3)] == [4, 4, 9]
    steps = [head["slot"] for head in heads if head["event"] == "step"]
    assert steps.index("pane 2") < len(steps) - 1 - steps[::-1].index("pane 1")  # side by side
    for wrong, words in (([], "1 to"), ([{"variant": "no"}], "no"), (["x"], "dictionary")):
        with pytest.raises(Exception, match=words):
            client.predict("a fox", wrong, api_name="/compare")
    assert site.rests()


def test_two_visitors_never_see_each_others_frames(site):
    """Frames carry the prompt's colour: 20 interleaved pictures, each stream its own colour."""
    from concurrent.futures import ThreadPoolExecutor

    def visit(name: str) -> None:
        with httpx.Client(base_url=site.address, timeout=30) as client:
            client.headers[SESSION_HEADER] = client.post("canvas/session").json()["session"]
            for n in range(10):
                _end, body = draw(client, ask(f"{name} {n}", ar_iterations=1))[-1]
                assert is_of(mean_colour(body), f"{name} {n}")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(visit, ("left", "right")))
