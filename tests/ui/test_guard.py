"""Frames, sessions and rates without a server."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from ui.frames import jpeg, pack, unpack
from ui.guard import Guard, RateLimit, Refusal
from ui.results import ResultStore


@given(st.lists(st.tuples(st.dictionaries(st.text(), st.text() | st.integers()), st.binary())))
def test_messages_come_out_as_they_went_in(messages):
    assert list(unpack(b"".join(pack(head, body) for head, body in messages))) == messages


def test_a_header_holds_what_utf8_cannot():
    assert list(unpack(pack({"slot": "\ud800"}))) == [({"slot": "\ud800"}, b"")]


@given(st.integers(1, 40))
def test_a_cut_stream_is_noticed(cut):
    whole = pack({"event": "step"}, b"0123456789" * 3)
    with pytest.raises(ValueError, match="ends inside"):
        list(unpack(whole[:-cut]))


def test_frames_are_jpeg():
    data = jpeg(np.zeros((512, 512, 3), np.uint8))
    assert data[:3] == b"\xff\xd8\xff"


def test_rate_is_per_owner_and_recovers():
    now = [0.0]
    rate = RateLimit(per_second=2, burst=4, owners=3, clock=lambda: now[0])
    for _ in range(4):
        rate.take("typist")
    with pytest.raises(Refusal, match="too many") as refusal:
        rate.take("typist")
    assert refusal.value.status == 429 and refusal.value.retry_after == pytest.approx(0.5)
    rate.take("somebody else")
    now[0] = 0.6
    rate.take("typist")


def test_more_than_a_bucket_holds_costs_the_whole_bucket():
    now = [0.0]
    rate = RateLimit(per_second=2, burst=4, clock=lambda: now[0])
    rate.take("collector", 64)
    with pytest.raises(Refusal):
        rate.take("collector")
    now[0] = 1.0
    with pytest.raises(Refusal):
        rate.take("collector", 64)
    now[0] = 2.0
    rate.take("collector", 64)


def test_rate_forgets_old_owners():
    rate = RateLimit(owners=3)
    for owner in range(100):
        rate.take(str(owner))
    assert len(rate._buckets) == 3


def test_results_are_the_owners_alone_and_bounded():
    store = ResultStore(per_owner=3, count=5, max_bytes=10**6)
    image = np.zeros((10, 10, 3), np.uint8)
    mine = [store.add("me", image, {"n": n}) for n in range(4)]
    assert store.get(mine[0], "me") is None  # the fourth pushed it out
    assert store.get(mine[3], "me").settings == {"n": 3}
    assert store.get(mine[3], "you") is None
    for n in range(20):
        store.add(f"owner {n}", image, {})
    assert len(store) == 5
    small = ResultStore(max_bytes=1000)
    small.add("me", image, {})
    for _ in range(5):
        small.add("me", image, {})
    assert len(small) == 3


def request(client: str = "9.9.9.9", **headers: str) -> Request:
    pairs = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    return Request({"type": "http", "headers": pairs, "client": (client, 1)})


@pytest.mark.parametrize(
    ("proxies", "headers", "passes"),
    [
        (0, {}, True),
        (0, {"origin": "https://canvas"}, True),
        (0, {"origin": "https://evil", "x_forwarded_host": "evil"}, False),
        (1, {"origin": "https://front", "x_forwarded_host": "front"}, True),
        (1, {"origin": "https://evil", "x_forwarded_host": "front"}, False),
        (0, {"origin": "https://friend"}, True),
        (0, {"origin": "https://friend", "sec_fetch_site": "cross-site"}, True),
        (0, {"origin": "https://canvas", "sec_fetch_site": "same-site"}, False),
        (0, {"origin": "https://front", "sec_fetch_site": "same-origin"}, True),
        (0, {"sec_fetch_site": "cross-site"}, False),
        (0, {"origin": "http://[::1"}, False),
        (0, {"origin": "null"}, False),
    ],
)
@pytest.mark.parametrize("evil", [{}, {"sec_fetch_site": "cross-site", "origin": "https://evil"}])
def test_who_may_ask(proxies, headers, passes, evil):
    guard = Guard(frozenset({"https://friend"}), proxies)
    asked = request(host="canvas", **{**headers, **evil})
    if passes and not evil:
        guard.check_origin(asked)
    else:
        with pytest.raises(Refusal, match="not allowed"):
            guard.check_origin(asked)


def test_addresses_are_believed_as_far_as_proxies_are():
    chain = "6.6.6.6, 1.2.3.4, 10.0.0.1"
    assert Guard().address(request(x_forwarded_for=chain)) == "9.9.9.9"
    assert Guard(proxies=1).address(request(x_forwarded_for=chain)) == "10.0.0.1"
    assert Guard(proxies=2).address(request(x_forwarded_for=chain)) == "1.2.3.4"
    assert Guard(proxies=9).address(request(x_forwarded_for="1.2.3.4")) == "1.2.3.4"
    assert Guard(proxies=1).address(request()) == "9.9.9.9"
    home = Guard().address(request("2001:db8::1"))
    assert home == Guard().address(request("2001:db8::ffff")) != "2001:db8::1"


def test_new_sessions_do_not_outrun_the_pace_of_an_address():
    now = [0.0]
    clock = lambda: now[0]  # noqa: E731
    guard = Guard(addresses=RateLimit(1, 40, clock=clock), openings=RateLimit(1, 5, clock=clock))
    for _ in range(5):
        guard.open_session(request())
    with pytest.raises(Refusal, match="too many"):
        guard.open_session(request())
    guard.open_session(request("8.8.8.8"))
    for page in range(4):
        guard.pace(request(), f"page {page}", 10)
    with pytest.raises(Refusal, match="too many") as refusal:
        guard.pace(request(), "one more page")
    assert refusal.value.status == 429
    now[0] = 1.1
    guard.pace(request(), "one more page")
