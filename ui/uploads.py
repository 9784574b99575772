"""Pictures people send: the routes that take them in and show them, and what is refused.

A file is untrusted: its size is bounded before it is read, its pixels before they are decoded, and
whatever a decoder trips over becomes a sentence. Formats that run programs or fetch things are not
opened at all.
"""

from __future__ import annotations

import asyncio
import io
import logging
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakValueDictionary

from PIL import Image
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.pictures import MAX_MARGIN, Fit, Photo, as_rgb, fitted, mask_text, outside
from ui.bodies import read_body
from ui.guard import Guard, Refusal
from ui.metadata import KEY, NoSettings, png, read_settings

MAX_FILE_BYTES = 24 << 20
MAX_PIXELS = 64_000_000
_TOO_LARGE = f"The file is larger than {MAX_FILE_BYTES >> 20} MiB. Make the picture smaller and send it again."
NO_STORE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
# EPS starts Ghostscript, WMF asks Windows; the others only name what a plug-in would have to read
_NOT_OPENED = frozenset({"EPS", "WMF", "MPEG", "HDF5", "GRIB", "BUFR", "FITS"})
_log = logging.getLogger(__name__)


def decode(data: bytes, side: int, fit: Fit = "cover", margin: float = 0.0) -> Photo:
    """A file as a square of `side` pixels. Raises `Refusal`: 413 for too many pixels, 415 for
    what is no picture, 400 for a damaged one."""
    if not data:
        raise Refusal(400, "The file is empty. Choose a picture.")
    try:
        with Image.open(io.BytesIO(data), formats=_formats()) as image:
            _check_pixels(image)
            if image.format == "JPEG":
                image.draft(None, (4 * side, 4 * side))  # large photographs decode smaller
            return fitted(as_rgb(image), side, fit, margin)
    except Refusal:
        raise
    except Image.DecompressionBombError:
        raise _too_many_pixels() from None
    except Image.UnidentifiedImageError:
        raise Refusal(
            415, "This is not a picture that can be read here. Send a PNG, JPEG, WebP or the like."
        ) from None
    except Exception as error:  # each decoder has its own kinds
        _log.info("A picture could not be decoded: %r", error)
        raise Refusal(
            400,
            "The picture is damaged or was cut off: it could not be read to its end. Save it anew "
            "or send another one.",
        ) from None


def _formats() -> list[str]:
    Image.init()
    return [name for name in Image.OPEN if name not in _NOT_OPENED]


def _check_pixels(image: Image.Image) -> None:
    width, height = image.size
    if width < 1 or height < 1:
        raise Refusal(400, "The picture has no pixels. Send another one.")
    if width * height > MAX_PIXELS:
        raise _too_many_pixels()


def _too_many_pixels() -> Refusal:
    return Refusal(
        413,
        f"The picture has too many pixels; at most {MAX_PIXELS // 10**6} million are read. Make it "
        "smaller and send it again.",
    )


class UploadRoutes:
    """`POST /canvas/picture` takes a file in, `GET /canvas/picture/{name}` shows what became of it.

    Two files are decoded at a time, whatever the crowd, and one of each owner is read and decoded
    at a time: that bounds the memory they take, and lets nobody keep the others waiting.
    """

    def __init__(self, engine: Any, guard: Guard):
        self._engine, self._guard = engine, guard
        self._decoders = ThreadPoolExecutor(2, thread_name_prefix="decode")
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by owner

    def routes(self) -> list[Route]:
        return [
            Route("/canvas/picture", self._guard.checked(self.take), methods=["POST"]),
            Route("/canvas/picture/{name}", self._guard.checked(self.show), methods=["GET"]),
        ]

    async def take(self, request: Request) -> Response:
        """The body is the file. In the query: `fit` (cover, contain) and `margin` (0 to 0.45)."""
        owner = self._guard.sessions.owner(request)
        fit, margin = _fit(request), _margin(request)
        self._guard.uploads.take(owner)
        self._guard.addresses.take(self._guard.address(request))
        async with self._turns.setdefault(owner, asyncio.Lock()):
            data = await read_body(request, MAX_FILE_BYTES, _TOO_LARGE)
            body = await self._in_thread(self._keep, owner, data, fit, margin)
        return JSONResponse(body, headers=NO_STORE)

    async def show(self, request: Request) -> Response:
        """A kept picture as PNG, uploaded or drawn, for its owner."""
        owner = self._guard.sessions.owner(request)
        self._guard.pages.take(owner)
        pixels = self._engine.picture(request.path_params["name"].removesuffix(".png"), owner)
        if pixels is None:
            raise Refusal(404, "This picture is not kept any more. Send or draw it again.")
        return Response(
            await self._in_thread(png, pixels, None), media_type="image/png", headers=NO_STORE
        )

    async def _in_thread(self, call: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._decoders, call, *arguments)

    def _keep(self, owner: str, data: bytes, fit: Fit, margin: float) -> dict[str, Any]:
        variants = self._engine.variants()
        photo = decode(data, max(variant.resolution for variant in variants), fit, margin)
        name = self._engine.add_picture(photo.pixels, owner)
        grids = sorted({variant.grid for variant in variants if variant.grid})
        return {
            "picture": name,
            "side": photo.pixels.shape[0],
            "box": [round(edge, 6) for edge in photo.box],
            "outside": {str(grid): mask_text(outside(photo.box, grid)) for grid in grids},
            "settings": _settings(data),
        }


def _settings(data: bytes) -> dict[str, Any] | None:
    """Those of a picture this product made, which was decoded before."""
    if KEY.encode() not in data:
        return None
    try:
        return read_settings(data)
    except NoSettings:
        return None


def _fit(request: Request) -> Fit:
    match request.query_params.get("fit", "cover"):
        case "cover":
            return "cover"
        case "contain":
            return "contain"
    raise Refusal(400, "`fit` has to be cover (fill the square) or contain (show all of it).")


def _margin(request: Request) -> float:
    try:
        margin = float(request.query_params.get("margin", "0"))
    except ValueError:
        margin = math.nan
    if not 0 <= margin <= MAX_MARGIN:
        raise Refusal(400, f"`margin` has to be a number from 0 to {MAX_MARGIN}.")
    return margin
