"""Files people send: every kind Pillow reads, and every kind of trouble."""

from __future__ import annotations

import io
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.testclient import TestClient

from models.photos import Photo
from tests.engine.fakes import FakeWorld
from tests.ui.world import start
from ui import uploads
from ui.frames import unpack
from ui.guard import SESSION_HEADER, Guard, RateLimit, Refusal
from ui.metadata import png
from ui.stream import CanvasRoutes
from ui.uploads import UploadRoutes, decode

RED = (255, 0, 0)


def file(image: Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def picture(mode: str = "RGB", side: int = 96) -> Image.Image:
    return Image.new("RGB", (side, side), RED).convert(mode)


def animation(kind: str) -> bytes:
    later = [Image.new("RGB", (32, 32), colour) for colour in ("blue", "green")]
    return file(picture(side=32), kind, save_all=True, append_images=later)


def sixteen_bits() -> bytes:
    return file(Image.fromarray(np.full((8, 8), 65535, np.uint16)), "PNG")


ZOO = {
    "png": (lambda: file(picture(), "PNG"), RED),
    "jpeg": (lambda: file(picture(), "JPEG", quality=95), RED),
    "large jpeg": (lambda: file(picture(side=4000), "JPEG", quality=95), RED),
    "progressive jpeg": (lambda: file(picture(), "JPEG", progressive=True), RED),
    "grey jpeg": (lambda: file(Image.new("L", (9, 9), 90), "JPEG"), (90, 90, 90)),
    "cmyk jpeg": (lambda: file(picture("CMYK"), "JPEG", quality=95), RED),
    "webp": (lambda: file(picture(), "WEBP", lossless=True), RED),
    "bmp": (lambda: file(picture(), "BMP"), RED),
    "tiff": (lambda: file(picture(), "TIFF"), RED),
    "cmyk tiff": (lambda: file(picture("CMYK"), "TIFF"), RED),
    "tga": (lambda: file(picture(), "TGA"), RED),
    "ppm": (lambda: file(picture(), "PPM"), RED),
    "ico": (lambda: file(picture(), "ICO", sizes=[(32, 32)]), RED),
    "palette": (lambda: file(picture("P"), "PNG"), RED),
    "bilevel": (lambda: file(Image.new("1", (9, 9), 1), "PNG"), (255, 255, 255)),
    "16 bit": (sixteen_bits, (255, 255, 255)),
    "see-through": (lambda: file(Image.new("RGBA", (9, 9)), "PNG"), (255, 255, 255)),
    "gif": (lambda: animation("GIF"), RED),
    "animated webp": (lambda: animation("WEBP"), RED),
    "animated png": (lambda: animation("PNG"), RED),
}


@pytest.mark.parametrize("kind", ZOO)
def test_what_pillow_reads_is_taken(kind: str) -> None:
    make, colour = ZOO[kind]
    photo = decode(make(), 64)
    assert photo.pixels.shape == (64, 64, 3)
    assert np.abs(photo.pixels.astype(int) - colour).max() <= 6


def bomb() -> bytes:
    """A PNG of a few bytes that says it has 900 million pixels."""

    def chunk(name: bytes, body: bytes) -> bytes:
        check = zlib.crc32(name + body)
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def text_bomb() -> bytes:
    """A small picture with a comment that unpacks to far more than a comment may."""
    whole = file(picture(), "PNG")
    body = b"note\0\0" + zlib.compress(b"\0" * (80 << 20))
    chunk = struct.pack(">I", len(body)) + b"zTXt" + body
    chunk += struct.pack(">I", zlib.crc32(b"zTXt" + body))
    return whole[:33] + chunk + whole[33:]


TROUBLE = {
    "nothing": (lambda: b"", 400, "empty"),
    "text": (lambda: b"hello, I am a picture", 415, "not a picture"),
    "svg": (lambda: b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415, "not a picture"),
    "postscript": (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", 415, "not a"),
    "bomb": (bomb, 413, "too many pixels"),
    "text bomb": (text_bomb, 400, "damaged"),
    "half a png": (lambda: file(Image.effect_noise((99, 99), 50), "PNG")[:3000], 400, "damaged"),
    "half a jpeg": (lambda: file(Image.effect_noise((99, 99), 50), "JPEG")[:1500], 400, "damaged"),
    "half a gif": (lambda: file(Image.effect_noise((99, 99), 50), "GIF")[:900], 400, "damaged"),
    "half a webp": (lambda: file(Image.effect_noise((99, 99), 50), "WEBP")[:900], 400, "damaged"),
    "a png's first bytes": (lambda: file(picture(), "PNG")[:20], 400, "damaged"),
}


@pytest.mark.parametrize("kind", TROUBLE)
def test_trouble_is_refused_in_words(kind: str) -> None:
    make, status, words = TROUBLE[kind]
    with pytest.raises(Refusal, match=words) as refusal:
        decode(make(), 64)
    assert refusal.value.status == status and len(refusal.value.message) < 200


def test_pixels_just_over_the_bound_are_refused_before_they_are_decoded(monkeypatch: Any) -> None:
    monkeypatch.setattr(uploads, "MAX_PIXELS", 99 * 99)
    assert decode(file(picture(side=99), "PNG"), 64).pixels.shape == (64, 64, 3)
    with pytest.raises(Refusal, match="too many pixels"):
        decode(file(picture(side=100), "PNG"), 64)


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("seed", range(150))
def test_flipped_bytes_never_surprise(seed: int) -> None:
    chance = np.random.default_rng(seed)
    kinds = ("PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP", "ICO", "TGA", "PPM")
    noise = Image.fromarray(chance.integers(0, 256, (24, 24, 3), np.uint8))
    data = bytearray(file(noise, kinds[seed % len(kinds)]))
    for place in chance.integers(0, len(data), 1 + seed % 8):
        data[place] = chance.integers(256)
    try:
        assert decode(bytes(data), 32).pixels.shape == (32, 32, 3)
    except Refusal as refusal:
        assert refusal.status in (400, 413, 415)


# ---- over HTTP ----


@pytest.fixture
def client() -> Iterator[TestClient]:
    with start(FakeWorld(), ["pocket-ar"]) as engine:
        guard = Guard(uploads=RateLimit(0.001, 12))
        routes = CanvasRoutes(engine, guard).routes() + UploadRoutes(engine, guard).routes()
        with TestClient(Starlette(routes=routes)) as made:
            made.headers[SESSION_HEADER] = made.post("/canvas/session").json()["session"]
            yield made


def stranger(client: TestClient) -> dict[str, str]:
    return {SESSION_HEADER: client.post("/canvas/session").json()["session"]}


def draw(client: TestClient, **settings: Any) -> list[tuple[dict, bytes]]:
    body = {"requests": [{"slot": "live", "request": {"prompt": "a fox", **settings}}]}
    answer = client.post("/canvas/stream", json=body)
    assert answer.status_code == 200, answer.text
    return list(unpack(answer.content))


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


def test_a_file_becomes_a_picture_to_start_from(client: TestClient) -> None:
    sent = client.post("/canvas/picture", content=file(picture(), "PNG")).json()
    assert sent["side"] == 128 and sent["box"] == [0, 0, 1, 1]
    assert sent["outside"] == {"8": "0" * 64} and sent["settings"] is None
    shown = client.get(f"/canvas/picture/{sent['picture']}.png")
    assert shown.headers["content-type"] == "image/png" and (pixels(shown.content) == RED).all()
    end, body = draw(client, picture=sent["picture"], free="1" * 32 + "0" * 32)[-1]
    assert end["event"] == "finished" and end["settings"]["picture"] == sent["picture"]
    assert [cell for row in end["committed"] for cell in row][32:] == [-1] * 32
    assert np.abs(pixels(body)[80:] - RED).max() < 8
    again = client.post("/canvas/picture", content=file(picture(), "BMP")).json()
    assert again["picture"] == sent["picture"], "the same pixels are the same picture"


def test_outpainting_gets_its_free_cells_told(client: TestClient) -> None:
    data = file(picture(), "PNG")
    sent = client.post("/canvas/picture?fit=contain&margin=0.25", content=data).json()
    assert sent["box"] == [0.25, 0.25, 0.75, 0.75]
    rows = [sent["outside"]["8"][n : n + 8] for n in range(0, 64, 8)]
    assert rows == ["1" * 8] * 2 + ["11000011"] * 4 + ["1" * 8] * 2
    end, _ = draw(client, picture=sent["picture"], free=sent["outside"]["8"])[-1]
    assert (np.array(end["committed"])[2:6, 2:6] == -1).all()


def test_a_picture_made_here_brings_its_settings(client: TestClient) -> None:
    settings = {"prompt": "a 🦊", "seed": 7}
    data = png(np.zeros((128, 128, 3), np.uint8), settings)
    assert client.post("/canvas/picture", content=data).json()["settings"] == settings


def test_finished_pictures_are_started_from_forked_and_shown(client: TestClient) -> None:
    end, body = draw(client, seed=5)[-1]
    fork, forked = draw(client, seed=5, fork_of=end["picture"], fork_step=6)[-1]
    assert fork["event"] == "finished" and forked == body
    shown = client.get(f"/canvas/picture/{end['picture']}")
    assert shown.status_code == 200 and np.abs(pixels(shown.content) - pixels(body)).mean() < 3
    edit, _ = draw(client, prompt="b", picture=end["picture"], strength=0.5)[-1]
    assert edit["settings"]["strength"] == 0.5
    assert sum(cell > 0 for row in edit["committed"] for cell in row) == 32


def test_nobody_else_reaches_a_picture(client: TestClient) -> None:
    other = stranger(client)
    sent = client.post("/canvas/picture", content=file(picture(), "PNG")).json()["picture"]
    drawn = draw(client)[-1][0]["picture"]
    for name in (sent, drawn):
        assert client.get(f"/canvas/picture/{name}", headers=other).status_code == 404
        for start_from in ({"picture": name}, {"fork_of": name}):
            body = {"requests": [{"request": {"prompt": "a fox", **start_from}}]}
            answer = client.post("/canvas/stream", json=body, headers=other)
            assert answer.status_code == 400 and "not kept here" in answer.json()["error"]


def test_many_pictures_come_in_one_stream(client: TestClient) -> None:
    messages = draw(client, count=5, seed=3)
    assert {head["slot"] for head, _ in messages} == {"live"}
    assert {head["count"] for head, _ in messages} == {5}
    ends = {head["place"]: head for head, _ in messages if head["event"] == "finished"}
    assert [ends[place]["seed"] for place in range(5)] == [3, 4, 5, 6, 7]
    assert len({end["picture"] for end in ends.values()}) == 5


def test_more_than_sixty_four_in_all_are_refused(client: TestClient) -> None:
    entry = {"prompt": "a fox", "count": 40}
    body = {"requests": [{"slot": name, "request": entry} for name in ("a", "b")]}
    answer = client.post("/canvas/stream", json=body)
    assert answer.status_code == 400 and "asks for 80" in answer.json()["error"]


@pytest.mark.parametrize(
    ("query", "content", "status", "words"),
    [
        ("fit=stretch", b"", 400, "fit"),
        ("margin=0.5", b"", 400, "margin"),
        ("margin=nan", b"", 400, "margin"),
        ("margin=x", b"", 400, "margin"),
        ("", b"no picture", 415, "not a picture"),
        ("", b"", 400, "empty"),
    ],
)
def test_bad_requests(
    client: TestClient, query: str, content: bytes, status: int, words: str
) -> None:
    answer = client.post(f"/canvas/picture?{query}", content=content)
    assert answer.status_code == status and words in answer.json()["error"]


def test_large_files_are_refused_whether_or_not_they_say_so(client: TestClient) -> None:
    large = b"x" * (uploads.MAX_FILE_BYTES + 1)
    assert client.post("/canvas/picture", content=large).status_code == 413
    parts = (large[at : at + (1 << 20)] for at in range(0, len(large), 1 << 20))
    answer = client.post("/canvas/picture", content=parts)
    assert answer.status_code == 413 and "24 MiB" in answer.json()["error"]


def test_one_owners_files_are_decoded_one_at_a_time(client: TestClient, monkeypatch: Any) -> None:
    """Else whoever sends many large ones has all decoders."""
    inside, most, lock = [0], [0], threading.Lock()

    def slow(*arguments: Any) -> Photo:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(0.05)
        with lock:
            inside[0] -= 1
        return decode(*arguments)

    monkeypatch.setattr(uploads, "decode", slow)
    data, other = file(picture(), "PNG"), stranger(client)

    def send(headers: dict[str, str] | None) -> int:
        return client.post("/canvas/picture", content=data, headers=headers).status_code

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(send, [None] * 5)) == {200}
        assert most[0] == 1
        assert set(pool.map(send, [None, other] * 3)) == {200}
        assert most[0] == 2


def test_sessions_sites_and_pace_are_checked(client: TestClient) -> None:
    data = file(picture(), "PNG")
    assert (
        client.post("/canvas/picture", content=data, headers={SESSION_HEADER: "x"}).status_code
        == 401
    )
    foreign = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    assert client.post("/canvas/picture", content=data, headers=foreign).status_code == 403
    for _ in range(12):
        assert client.post("/canvas/picture", content=data).status_code == 200
    answer = client.post("/canvas/picture", content=data)
    assert answer.status_code == 429 and "retry-after" in answer.headers
    answer = client.post("/canvas/picture", content=data, headers=stranger(client))
    assert answer.status_code == 200
