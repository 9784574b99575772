"""Shared by the engine's tests."""

from __future__ import annotations

import logging

import pytest

from engine.events import Event, Finished, Step
from engine.job import Channel


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No log records: a captured traceback would keep the pictures in its frames alive."""
    monkeypatch.setattr(logging.getLogger("engine"), "level", logging.CRITICAL + 1)
    logging.getLogger("engine").manager._clear_cache()  # type: ignore[attr-defined]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device waits until a step was read, so that a test sees every one of them."""
    put = Channel.put

    def put_when_read(channel: Channel, event: Event) -> bool:
        if isinstance(event, Step | Finished):
            with channel._changed:
                assert channel._changed.wait_for(lambda: channel._lanes[2] is None, 10)
        return put(channel, event)

    take = Channel._take

    def take_and_tell(channel: Channel) -> Event | None:
        event = take(channel)
        channel._changed.notify_all()
        return event

    monkeypatch.setattr(Channel, "put", put_when_read)
    monkeypatch.setattr(Channel, "_take", take_and_tell)
