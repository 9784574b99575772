"""A job and its channel: how events reach one reader without ever holding up the device.

A channel keeps at most four events: the newest `Queued`, `Started`, the newest `Step` and the
end. A slow reader therefore loses steps, never the end, and costs no memory; the device never
waits, because `put` only replaces. Pixels travel raw; whoever reads a frame encodes it.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

from engine.events import Event, Failed, Finished, Queued, Started, Step, Superseded
from engine.requests import GenerationRequest

_LANES: tuple[type, ...] = (Queued, Started, Step, Finished)
_ENDS = (Finished, Superseded, Failed)


class Channel:
    """From the device to one reader. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lanes: list[Event | None] = [None] * len(_LANES)
        self._listeners: list[Callable[[], None]] = []
        self._ended = False
        self._over = False
        self.dropped = 0  # steps the reader never saw

    def put(self, event: Event) -> bool:
        """Hand over an event; true if it replaced a step nobody had read. Ignored after the end."""
        with self._changed:
            if self._ended:
                return False
            self._ended = isinstance(event, _ENDS)
            lane = len(_LANES) - 1 if self._ended else _LANES.index(type(event))
            replaced = isinstance(event, Step) and self._lanes[lane] is not None
            self.dropped += replaced
            self._lanes[lane] = event
            self._changed.notify_all()
            listeners = list(self._listeners)
        for ring in listeners:
            ring()
        return replaced

    def poll(self) -> Event | None:
        """The next unread event, or None if there is none at the moment."""
        with self._changed:
            return self._take()

    def get(self, timeout: float | None = None) -> Event | None:
        """Wait for the next event. None when the time is up or the end was read already."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or any(self._lanes), timeout)
            return self._take()

    def _take(self) -> Event | None:
        for lane, event in enumerate(self._lanes):
            if event is not None:
                self._lanes[lane] = None
                self._over = isinstance(event, _ENDS)
                return event
        return None

    def listen(self, ring: Callable[[], None]) -> None:
        """Call `ring` after every event; it must not block."""
        with self._changed:
            self._listeners.append(ring)

    def unlisten(self, ring: Callable[[], None]) -> None:
        with self._changed:
            self._listeners.remove(ring)

    @property
    def ended(self) -> bool:
        """The end was put; it may not have been read yet."""
        return self._ended

    @property
    def over(self) -> bool:
        """The end was read."""
        return self._over


@dataclass(eq=False)
class Job:
    """One submitted picture. One reader per job: events are handed out once."""

    request: GenerationRequest  # resolved: every default filled in
    owner: str
    slot: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    submitted: float = field(default_factory=time.perf_counter)
    channel: Channel = field(default_factory=Channel, repr=False)

    @property
    def done(self) -> bool:
        return self.channel.ended

    @property
    def dropped_steps(self) -> int:
        return self.channel.dropped

    def next(self, timeout: float | None = None) -> Event | None:
        """The next event; None when the time is up or after the end."""
        return self.channel.get(timeout)

    def events(self) -> Iterator[Event]:
        """Every event until the end, which is one of Finished, Superseded and Failed."""
        while (event := self.channel.get()) is not None:
            yield event

    async def stream(self) -> AsyncIterator[Event]:
        """`events` for an event loop. Woken by the device thread; nothing polls.

        Leaving the loop early does not cancel the job: call `Engine.cancel` for that.
        """
        loop = asyncio.get_running_loop()
        wake = asyncio.Event()

        def ring() -> None:
            try:
                loop.call_soon_threadsafe(wake.set)
            except RuntimeError:  # the reader's loop has closed
                pass

        self.channel.listen(ring)
        try:
            while not self.channel.over:
                wake.clear()  # before polling, so that no event slips in between
                while (event := self.channel.poll()) is not None:
                    yield event
                if not self.channel.over:
                    await wake.wait()
        finally:
            self.channel.unlisten(ring)
