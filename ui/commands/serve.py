"""Serve the page."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_options(parser: argparse.ArgumentParser) -> None:
    """The command's options; each overrides the environment variable named with it."""
    parser.add_argument("--host", default=None, help="address to listen on (NITRO_HOST)")
    parser.add_argument("--port", type=int, default=None, help="port (NITRO_PORT), default 7860")
    parser.add_argument("--share", action="store_true", help="also open a public Gradio link")
    parser.add_argument(
        "--variants", default=None, metavar="A,B", help="serve only these (NITRO_VARIANTS)"
    )
    parser.add_argument(
        "--mcp",
        action="store_true",
        help="tools for language models, over the Model Context Protocol (NITRO_MCP=1); needs "
        "the package mcp",
    )


def run(options: argparse.Namespace, make_engine: Callable[[list[str] | None], Any]) -> int:
    """Serve until Ctrl+C. 1 when the address cannot be had, or the package for `--mcp`."""
    from ui import mcp_tools
    from ui.guard import Guard
    from ui.serve import serve

    mcp = options.mcp or wants_mcp(os.environ)
    if mcp and not mcp_tools.available():
        print(mcp_tools.MISSING, file=sys.stderr)
        return 1
    wished = [name.strip() for name in (options.variants or "").split(",") if name.strip()]
    engine = make_engine(wished or None)
    host, port = where(options.host, options.port, os.environ)
    origins = os.environ.get("NITRO_ALLOWED_ORIGINS", "").split(",")
    allowed = frozenset(origin.strip() for origin in origins if origin.strip())
    guard = Guard(allowed, proxies(os.environ))
    try:
        server = serve(
            engine,
            host=host,
            port=port,
            share=options.share,
            quiet=True,
            guard=guard,
            most_pictures=most_pictures(os.environ),
            mcp=mcp,
        )
    except OSError:
        engine.close()
        print(
            f"The page could not be opened on port {port} of {host}. Is the port in use? Choose "
            "another one with --port or NITRO_PORT."
        )
        return 1
    shown = "127.0.0.1" if host == "0.0.0.0" else host
    print(f"Nitro Canvas is at http://{shown}:{port}  (Ctrl+C ends it)", flush=True)
    if mcp:
        print(f"Tools for language models (MCP): http://{shown}:{port}/gradio_api/mcp/", flush=True)
    try:
        server.block()
    finally:
        engine.close()
    return 0


def where(host: str | None, port: int | None, environ: Any) -> tuple[str, int]:
    """Address and port: option, else environment, else this machine only.

    In a container or on Spaces "this machine" is nobody, so there it is every interface.
    """
    contained = "SPACE_ID" in environ or Path("/.dockerenv").exists()
    fallback = "0.0.0.0" if contained else "127.0.0.1"
    given = environ.get("NITRO_PORT", "7860")
    if port is None and not given.isdigit():
        raise SystemExit(f"NITRO_PORT has to be a number; got {given!r}.")
    return host or environ.get("NITRO_HOST") or fallback, int(given) if port is None else port


def most_pictures(environ: Any) -> int:
    """How many pictures one batch of a visitor may have: NITRO_BATCH_PICTURES."""
    given = environ.get("NITRO_BATCH_PICTURES") or "500"
    if not given.isdecimal():
        raise SystemExit(f"NITRO_BATCH_PICTURES has to be a number; got {given!r}.")
    return int(given)


def wants_mcp(environ: Any) -> bool:
    """Whether NITRO_MCP switches the tools for language models on."""
    given = environ.get("NITRO_MCP") or "0"
    if given not in ("0", "1"):
        raise SystemExit(f"NITRO_MCP has to be 1 or 0; got {given!r}.")
    return bool(given == "1")


def proxies(environ: Any) -> int:
    """How many proxies in front are believed about who asks: NITRO_PROXIES, else Spaces' own."""
    given = environ.get("NITRO_PROXIES") or ("1" if "SPACE_ID" in environ else "0")
    if not given.isdecimal():
        raise SystemExit(f"NITRO_PROXIES has to be a number; got {given!r}.")
    return int(given)
