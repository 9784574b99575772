"""What the tests of batches share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import app
from ui.batch.ledger import METADATA

VARIANTS = ("pocket-ar", "pocket-ar-joint")
TEMPLATE = "{one|two|three} {red|blue} {cat|dog}"  # 12 pictures


def batch(*arguments) -> int:
    return app.main(["batch", "--ar-iterations", "2", *map(str, arguments)])


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / METADATA).read_text().splitlines()]


def pictures(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in (".png", ".webp"))


def contents(folder: Path) -> dict[str, bytes]:
    """Of every picture, and of the metadata."""
    return {path.name: path.read_bytes() for path in [*pictures(folder), folder / METADATA]}


def pixels(path: Path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def check_image_folder(folder: Path) -> None:
    """What the `imagefolder` loader of `datasets` asks of a folder with metadata."""
    found = lines(folder)
    columns = [{name: type(value) for name, value in line.items()} for line in found]
    assert all(each == columns[0] for each in columns), "a column is of one type"
    assert all(isinstance(line["file_name"], str) for line in found)
    assert sorted(line["file_name"] for line in found) == [p.name for p in pictures(folder)]


def order(**changes: Any) -> dict[str, Any]:
    """What a page asks for: four pictures of each of two variants."""
    return {
        "prompts": "a {red|blue} {cat|dog}",
        "kind": "template",
        "variants": list(VARIANTS),
        **changes,
    }
