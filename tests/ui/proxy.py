"""A reverse proxy that serves a site under a prefix, as a shared host would.

It rewrites a request's first line and lets the bytes run both ways; one request a connection.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
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

    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    address: list[str] = []
    listening = threading.Event()

    async def run() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            address.append(f"http://127.0.0.1:{port}/{prefix}/")
            listening.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    assert listening.wait(10)
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
