"""Arrows point one way: app -> ui -> engine -> models."""

from __future__ import annotations

import pytest

from tests.deploy.sources import ROOMS, files_of, imports_of

WEB = {"gradio", "gradio_client", "fastapi", "starlette", "uvicorn"}
DEVICE = {"torch", "diffusers", "transformers", "safetensors", "huggingface_hub"}
FORBIDDEN = {
    "models": {"app", "ui", "engine", "training", "benchmarks", "tests"} | WEB,
    "engine": {"app", "ui", "training", "benchmarks", "tests"} | WEB,
    "ui": {"app", "models", "training", "benchmarks", "tests"} | DEVICE,
    "app": {"training", "benchmarks", "tests"},
    "training": {"app", "ui", "tests"} | WEB,  # its sample pictures are drawn by the engine
    "benchmarks": {"app", "tests"},
}


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_imports_nothing_that_is_not_its_business(room: str) -> None:
    wrong = [
        f"{place} imports {module}"
        for place, module in imports_of(room)
        if module.split(".")[0] in FORBIDDEN[room]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_code(room: str) -> None:
    """Else the test above would pass for a room that was renamed."""
    assert files_of(room)
