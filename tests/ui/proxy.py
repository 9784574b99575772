"""Reverse proxies: one that serves a site under a prefix, as a shared host would, and one that is
far away.

The first rewrites a request's first line and lets the bytes run both ways; one request a
connection. The second passes bytes on late, in order, and can be cut off.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


@contextmanager
def prefixed(target: str, prefix: str) -> Iterator[str]:
    """The target's pages under http://127.0.0.1:.../prefix/; yields that address."""
    upstream = urlsplit(target)

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while part := await reader.read(65536):
                writer.write(part)
                await writer.drain()
            writer.write_eof()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, path, rest = head.split(" ", 2)
            if not path.startswith(f"/{prefix}/"):
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                return writer.close()
            version, headers = rest.split("\r\n", 1)
            host = next(x[6:] for x in headers.split("\r\n") if x.lower().startswith("host: "))
            kept = [
                x for x in headers.split("\r\n") if x and not x.lower().startswith("connection:")
            ]
            lines = [f"{method} {path.removeprefix('/' + prefix)} {version}", *kept]
            lines += [f"X-Forwarded-Host: {host}", "Connection: close", "", ""]
            back, forth = await asyncio.open_connection(upstream.hostname, upstream.port)
            forth.write("\r\n".join(lines).encode("latin-1"))
            ends = [
                asyncio.create_task(pipe(reader, forth)),
                asyncio.create_task(pipe(back, writer)),
            ]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)  # either one leaves
            ends[0].cancel()
            forth.close()
            writer.close()

    with _listening(serve) as port:
        yield f"http://127.0.0.1:{port}/{prefix}/"


class Line:
    """The line between a visitor and the site."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.address = ""
        self.up = True
        self.writers: set[asyncio.StreamWriter] = set()
        self.loop: asyncio.AbstractEventLoop | None = None

    def cut(self) -> None:
        """Every connection ends, and no new one is answered until `up` is true again."""
        self.up = False
        assert self.loop
        self.loop.call_soon_threadsafe(
            lambda: [writer.transport.abort() for writer in list(self.writers)]
        )


@contextmanager
def delayed(target: str, round_trip_s: float) -> Iterator[Line]:
    """The target behind a line of this round-trip time."""
    line = Line(target)

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def arrive() -> None:
            with suppress(ConnectionError):
                while True:
                    due, part = await late.get()
                    await asyncio.sleep(max(0.0, due - loop.time()))
                    if not part:
                        return writer.write_eof()
                    writer.write(part)
                    await writer.drain()

        arriving = asyncio.create_task(arrive())
        with suppress(ConnectionError):
            while part := await reader.read(65536):
                late.put_nowait((loop.time() + round_trip_s / 2, part))
        late.put_nowait((loop.time() + round_trip_s / 2, b""))
        await arriving

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line.loop = asyncio.get_running_loop()
        if not line.up:
            return writer.transport.abort()
        line.writers.add(writer)
        upstream = urlsplit(line.target)
        back, forth = await asyncio.open_connection(upstream.hostname, upstream.port)
        try:
            ends = [
                asyncio.create_task(pipe(reader, forth)),
                asyncio.create_task(pipe(back, writer)),
            ]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
        finally:
            line.writers.discard(writer)
            with suppress(RuntimeError, OSError):
                forth.close()
                writer.close()

    with _listening(serve) as port:
        line.address = f"http://127.0.0.1:{port}/"
        yield line


@contextmanager
def _listening(serve: Callable[..., Awaitable[None]]) -> Iterator[int]:
    """A server in a thread of its own; yields its port."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    ports: list[int] = []
    listening = threading.Event()

    async def run() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            ports.append(port)
            listening.set()
            await stop.wait()
            own = asyncio.current_task()
            open_ones = [task for task in asyncio.all_tasks() if task is not own]
            for task in open_ones:
                task.cancel()
            await asyncio.gather(*open_ones, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    assert listening.wait(10)
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
