"""Pictures of every mode become what a viewer would show, in a square."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from models.photos import as_rgb, fitted

RED, WHITE = (255, 0, 0), (255, 255, 255)


def colour(image: Image.Image) -> tuple[int, ...]:
    return as_rgb(image).getpixel((0, 0))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("mode", "fill", "shown"),
    [
        ("RGB", RED, RED),
        ("L", 77, (77, 77, 77)),
        ("1", 1, WHITE),
        ("RGBA", (255, 0, 0, 255), RED),
        ("RGBA", (255, 0, 0, 0), WHITE),
        ("RGBA", (0, 0, 0, 128), (127, 127, 127)),
        ("LA", (0, 0), WHITE),
        ("CMYK", (0, 255, 255, 0), RED),
        ("YCbCr", (255, 128, 128), WHITE),
        ("HSV", (0, 255, 255), RED),
        ("LAB", (255, 128, 128), WHITE),
        ("I;16", 65535, WHITE),
        ("I;16", 32896, (128, 128, 128)),
        ("I", 65535, WHITE),
        ("I", 255, WHITE),
        ("F", 1.0, WHITE),
        ("F", 0.5, (128, 128, 128)),
        ("F", float("nan"), (0, 0, 0)),
    ],
)
def test_every_mode(mode: str, fill: object, shown: tuple[int, ...]) -> None:
    made = colour(Image.new(mode, (3, 2), fill))  # type: ignore[arg-type]
    assert max(abs(a - b) for a, b in zip(made, shown, strict=True)) <= 1


def test_a_palette_with_a_transparent_colour() -> None:
    image = Image.new("P", (2, 2), 1)
    image.putpalette([0, 0, 0, 255, 0, 0])
    assert colour(image) == RED
    image.info["transparency"] = 1
    assert colour(image) == WHITE


def test_a_range_of_its_own_is_scaled() -> None:
    ramp = np.array([[-3.0, 0.0, 5.0]], np.float32)
    assert np.asarray(as_rgb(Image.fromarray(ramp)))[0, :, 0].tolist() == [0, 96, 255]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_cameras_orientation_is_followed(orientation: int) -> None:
    upright = np.zeros((4, 6, 3), np.uint8)
    upright[0, 0] = RED
    undo = {1: [], 2: [0], 3: [3], 4: [1], 5: [5], 6: [2], 7: [6], 8: [4]}[orientation]
    image = Image.fromarray(upright)
    for turn in undo:
        image = image.transpose(Image.Transpose(turn))
    image.getexif()[0x0112] = orientation
    assert np.array_equal(np.asarray(as_rgb(image)), upright)


def test_cover_crops_the_middle_and_contain_shows_all() -> None:
    wide = np.zeros((10, 40, 3), np.uint8)
    wide[:, :10] = wide[:, 30:] = RED
    covered = fitted(Image.fromarray(wide), 20)
    assert covered.box == (0, 0, 1, 1) and covered.pixels[:, 4:16].max() == 0
    shown = fitted(Image.fromarray(wide), 40, "contain")
    assert shown.box == (0, 15 / 40, 1, 25 / 40)
    assert (shown.pixels[:, 0] == RED).all(), "the bars repeat the edges"
    assert shown.pixels[:, 20].max() == 0


def test_a_margin_leaves_a_border_free() -> None:
    photo = fitted(Image.new("RGB", (50, 50), RED), 128, margin=0.25)
    assert photo.box == (0.25, 0.25, 0.75, 0.75) and photo.pixels.shape == (128, 128, 3)
    assert (photo.pixels == RED).all()


@pytest.mark.parametrize("size", [(1, 1), (1, 5000), (5000, 1), (3, 2), (127, 129)])
@pytest.mark.parametrize("fit", ["cover", "contain"])
@pytest.mark.parametrize("margin", [0.0, 0.45])
def test_any_size_fits(size: tuple[int, int], fit: str, margin: float) -> None:
    photo = fitted(Image.new("RGB", size, RED), 64, fit, margin)  # type: ignore[arg-type]
    assert photo.pixels.shape == (64, 64, 3) and (photo.pixels == RED).all()
    left, top, right, bottom = photo.box
    assert 0 <= left < right <= 1 and 0 <= top < bottom <= 1
