"""Variants with a row of binary tokens through the engine: rasters, sizes, prefixes, company."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from engine.engine import Engine
from engine.events import Finished, Step
from engine.requests import InvalidRequest
from models.catalogue import find_variant
from models.contracts import LoadedVariant
from models.given import GIVEN
from models.instella.autoencoder import BitAutoencoder, SmallDecode
from models.instella.config import CoderConfig, GeneratorConfig, TokenizerConfig
from models.instella.loading import new_generator
from models.instella.tokenizer import BinaryTokenizer
from models.loading import sampler_of
from models.weights import load_into, random_tensors, shapes_of
from tests.engine.fakes import FakeText, end, request

BITS = 8


class Words(FakeText):
    """A row of features per word, none for an empty prompt."""

    def encode(self, prompts: Any) -> list[torch.Tensor]:  # type: ignore[override]
        generator = torch.Generator()
        return [
            torch.stack(
                [
                    torch.randn(16, generator=generator.manual_seed(sum(w.encode())))
                    for w in p.split()
                ]
            )
            if p
            else torch.zeros(0, 16)
            for p in prompts
        ]


@pytest.fixture(scope="module")
def parts() -> dict[str, Any]:
    coder = CoderConfig(2, 2, 16, 0)
    tokenizer = BinaryTokenizer(
        TokenizerConfig(coder, coder, 16, 128, BITS, axes=(4, 6, 6), span=512)
    )
    load_into(tokenizer, random_tensors(shapes_of(tokenizer)), torch.float32)
    models: dict[str, Any] = {}
    for kind in ("diffusion", "ar"):
        model = new_generator(GeneratorConfig(kind, 128, BITS, 2, 2, 16, 16))
        models[f"instella-{kind}"] = load_into(
            model, random_tensors(shapes_of(model)), torch.float32
        )
    return {"autoencoder": BitAutoencoder(tokenizer, 512), **models}


@pytest.fixture(scope="module")
def engine(parts: dict[str, Any]) -> Iterator[Engine]:
    decode = parts["autoencoder"].decode
    parts["decoded"] = decoded = []

    def counted(latents: torch.Tensor, resolution: int | None = None) -> torch.Tensor:
        decoded.append((len(latents), resolution))
        return decode(latents, resolution)

    parts["autoencoder"].decode = counted

    def load(variant_id: str, progress: Any) -> LoadedVariant:
        return LoadedVariant(
            variant=find_variant(variant_id),
            sampler=sampler_of(parts[variant_id]),
            text=Words(),
            autoencoder=parts["autoencoder"],
            weights="random",
            own=(parts[variant_id],),
            preview=SmallDecode(parts["autoencoder"]),
        )

    with Engine(load, ["instella-diffusion", "instella-ar"]) as running:
        assert running.wait_ready(60)
        yield running


VARIANTS = ("instella-diffusion", "instella-ar")


def drawn(engine: Engine, variant: str, **settings: Any) -> Finished:
    last = end(engine.submit(request(variant=variant, **settings), "me"), 60)
    assert isinstance(last, Finished), last
    return last


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_step_has_a_raster_and_some_have_previews(
    engine: Engine, variant: str, patient: None
) -> None:
    job = engine.submit(request(variant=variant, seed=3, preview_every=1, size=256), "me", variant)
    steps, finished = [], None
    for event in job.events():
        if isinstance(event, Step):
            steps.append(event)
        elif isinstance(event, Finished):
            finished = event
    assert finished is not None and finished.bits is not None
    assert finished.bits.shape == (128, BITS) and finished.image.shape == (256, 256, 3)
    assert all(step.bits is not None and step.bits.shape == (128, BITS) for step in steps)
    assert len(steps) == finished.steps == (20 if variant == "instella-diffusion" else 128)
    assert any(step.preview is not None for step in steps)
    if variant == "instella-ar":
        # The missing end of a row is left out of a preview; it is no place to be covered.
        assert {step.preview_kind for step in steps if step.preview is not None} == {"linear"}
        assert steps[9].committed is not None and (steps[9].committed > 0).sum() == 10
        assert finished.committed is not None and finished.committed.shape == (128, 1)


@pytest.mark.parametrize("variant", VARIANTS)
def test_previews_cost_little(engine: Engine, variant: str) -> None:
    finished = drawn(engine, variant, seed=31)
    assert finished.timings.preview_ms <= 0.15 * finished.timings.device_ms


@pytest.mark.parametrize("variant", VARIANTS)
def test_another_size_is_decoded_and_not_generated(
    engine: Engine, parts: dict[str, Any], variant: str
) -> None:
    small = drawn(engine, variant, seed=11, size=256)
    before = engine.status().counters.steps
    parts["decoded"].clear()
    large = drawn(engine, variant, seed=11, size=512)
    usual = drawn(engine, variant, seed=11)
    assert engine.status().counters.steps == before, "the tokens were drawn again"
    assert parts["decoded"] == [(1, 512)]  # the usual size is 512: that one was there already
    assert large.image.shape == (512, 512, 3) and np.array_equal(usual.image, large.image)
    assert np.array_equal(large.bits, small.bits)  # type: ignore[arg-type]  # certainties, too
    # It can be started from and forked like the one that was generated.
    assert drawn(engine, variant, seed=12, fork_of=large.picture, fork_step=5, size=256).picture


@pytest.mark.parametrize("variant", VARIANTS)
def test_company_of_other_sizes_changes_no_pixel(engine: Engine, variant: str) -> None:
    wanted = [(n, size) for n, size in enumerate((256, 512, 256))]
    jobs = [
        engine.submit(request(variant=variant, seed=40 + n, size=size), f"visitor {n}")
        for n, size in wanted
    ]
    together = [end(job, 60) for job in jobs]
    for (n, size), made in zip(wanted, together, strict=True):
        alone = drawn(engine, variant, seed=40 + n, size=size, temperature=1.0)
        assert np.array_equal(made.bits >> 7, alone.bits >> 7)  # type: ignore[operator]
        assert made.image.shape == (size, size, 3)


def test_a_prefix_of_another_picture_is_continued(engine: Engine) -> None:
    first = drawn(engine, "instella-diffusion", seed=5)
    free = "0" * 40 + "1" * 88
    made = drawn(engine, "instella-ar", prompt="a blue star", picture=first.picture, free=free)
    assert made.committed is not None and (made.committed[:40] == GIVEN).all()
    assert np.array_equal(made.bits[:40] >> 7, first.bits[:40] >> 7)  # type: ignore[index]
    assert made.steps == 88


def test_a_sent_picture_is_encoded_and_noised_to_the_strength(engine: Engine) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8)
    name = engine.add_picture(pixels, "me")
    made = drawn(engine, "instella-diffusion", picture=name, strength=0.3)
    assert made.steps == 6


def test_what_makes_no_sense_for_a_row_of_tokens_is_refused_in_words(engine: Engine) -> None:
    first = drawn(engine, "instella-ar", seed=5)
    for settings, words in (
        ({"free": "1" * 64, "picture": first.picture}, "128 characters.*tokens in order"),
        ({"picture": first.picture, "context": 1}, "no place in the picture"),
        ({"size": 300}, "one of 256, 512, 768, 1024; got 300"),
    ):
        with pytest.raises(InvalidRequest, match=words):
            engine.submit(request(variant="instella-ar", **settings), "me")
    with pytest.raises(InvalidRequest, match="128 px alone"):
        request(size=256).resolved()
