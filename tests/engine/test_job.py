"""A reader may be slow, late or gone; the device never notices."""

from __future__ import annotations

import asyncio
import threading

import numpy as np

from engine.events import Failed, Finished, Queued, Started, Step, Superseded, Timings
from engine.job import Channel, Job
from engine.requests import GenerationRequest

PIXELS = np.zeros((2, 2, 3), np.uint8)


def step(index: int) -> Step:
    return Step(index, 12, None, PIXELS, "linear", Timings())


def finished() -> Finished:
    return Finished(PIXELS, None, 0, {}, 12, Timings())


def job() -> Job:
    return Job(GenerationRequest("a cat"), "me", "live")


def test_a_late_reader_gets_the_newest_step_and_the_end() -> None:
    one = job()
    one.channel.put(Queued(3, 1.0))
    one.channel.put(Queued(1, 0.5))
    one.channel.put(Started({}, 12, "pocket"))
    for index in range(1, 13):
        one.channel.put(step(index))
    one.channel.put(finished())
    events = list(one.events())
    assert [type(event) for event in events] == [Queued, Started, Step, Finished]
    assert events[0] == Queued(1, 0.5)
    assert isinstance(events[2], Step) and events[2].index == 12
    assert one.dropped_steps == 11


def test_the_channel_is_bounded_without_a_reader() -> None:
    channel = Channel()
    for index in range(10_000):
        channel.put(step(index))
    assert sum(event is not None for event in channel._lanes) == 1
    assert channel.dropped == 9_999


def test_nothing_follows_the_end() -> None:
    channel = Channel()
    channel.put(Superseded("newer"))
    channel.put(finished())
    channel.put(step(3))
    assert channel.get() == Superseded("newer")
    assert channel.get(0) is None
    assert channel.over


def test_next_returns_none_when_the_time_is_up() -> None:
    one = job()
    assert one.next(timeout=0) is None
    assert not one.done


def test_stream_is_woken_from_another_thread() -> None:
    one = job()
    seen: list[object] = []

    async def read() -> None:
        ready = asyncio.Event()
        loop = asyncio.get_running_loop()

        def produce() -> None:
            one.channel.put(Started({}, 12, "pocket"))
            asyncio.run_coroutine_threadsafe(_wait(ready), loop).result(5)
            one.channel.put(step(1))
            one.channel.put(Failed("no"))

        thread = threading.Thread(target=produce)
        thread.start()
        async for event in one.stream():
            seen.append(type(event))
            ready.set()
        thread.join()

    async def _wait(event: asyncio.Event) -> None:
        await event.wait()

    asyncio.run(asyncio.wait_for(read(), 5))
    assert seen == [Started, Step, Failed]
    assert not one.channel._listeners


def test_a_reader_whose_loop_closed_is_no_trouble() -> None:
    one = job()

    async def leave() -> None:
        stream = one.stream()
        task = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        task.cancel()
        one.channel.listen(lambda: None)

    asyncio.run(leave())
    one.channel.put(step(1))
    one.channel.put(finished())
    assert isinstance(list(one.events())[-1], Finished)
