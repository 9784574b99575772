"""Frames, sessions and rates without a server."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ui.frames import jpeg, pack, unpack
from ui.guard import RateLimit, Refusal
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
