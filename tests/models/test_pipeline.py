"""The pipeline class behaves the way users of diffusers rely on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from models.pipeline import NitroPipeline

FOX = "a fox on a blue background"


@pytest.fixture(scope="module")
def pipe() -> NitroPipeline:
    return NitroPipeline.from_pretrained("pocket-ar", device="cpu")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_same_seed_same_picture(pipe: NitroPipeline) -> None:
    a, b, c = (pipe(FOX, generator=seeded(seed), output_type="np").images[0] for seed in (1, 1, 2))
    assert np.array_equal(a, b) and not np.allclose(a, c, atol=0.02)


def test_output_types_agree(pipe: NitroPipeline) -> None:
    drawn = {
        kind: pipe(FOX, generator=seeded(), output_type=kind).images
        for kind in ("pil", "np", "pt", "latent")
    }
    assert isinstance(drawn["pil"][0], Image.Image) and drawn["pil"][0].size == (128, 128)
    assert drawn["np"].shape == (1, 128, 128, 3)
    assert np.array_equal(drawn["pt"][0].permute(1, 2, 0).numpy(), drawn["np"][0])
    assert np.abs(np.asarray(drawn["pil"][0]) / 255 - drawn["np"][0]).max() < 1 / 255
    decoded = pipe.loaded.autoencoder.decode(drawn["latent"])
    assert torch.allclose(decoded, drawn["pt"], atol=1e-5)
    with pytest.raises(ValueError, match="output_type"):
        pipe(FOX, output_type="jpeg")


def test_batch_of_prompts_and_many_per_prompt(pipe: NitroPipeline) -> None:
    both = pipe(
        [FOX, "a cat"], num_images_per_prompt=2, generator=seeded(), output_type="pt"
    ).images
    assert both.shape[0] == 4
    assert not torch.allclose(both[0], both[1], atol=0.02)
    generators = [seeded(5), seeded(6)]
    pair = pipe([FOX, "a cat"], generator=generators, output_type="pt").images
    alone = pipe("a cat", generator=seeded(6), output_type="pt").images
    assert torch.allclose(pair[1], alone[0], atol=1e-3)
    with pytest.raises(ValueError, match="2 generators were given for 1"):
        pipe(FOX, generator=generators)


def test_callback_sees_every_step_and_can_stop(pipe: NitroPipeline) -> None:
    seen: list[int] = []

    def stop_at_four(pipeline: NitroPipeline, step: int, done: float, values: dict) -> None:
        seen.append(step)
        if step == 3:
            pipeline.interrupt()

    pipe(FOX, callback_on_step_end=stop_at_four)
    assert seen == [0, 1, 2, 3]
    seen.clear()
    pipe(FOX, num_inference_steps=3, callback_on_step_end=lambda p, s, d, v: seen.append(s))
    assert seen == [0, 1, 2]


def test_negative_prompt_and_guidance_count(pipe: NitroPipeline) -> None:
    def draw(**options: object) -> torch.Tensor:
        return pipe(FOX, generator=seeded(), output_type="latent", **options).images

    plain = draw()
    assert not torch.allclose(plain, draw(negative_prompt="a cat"), atol=1e-3)
    assert not torch.allclose(plain, draw(guidance_scale=1.0), atol=1e-3)
    unguided = draw(guidance_scale=1.0)
    assert torch.equal(unguided, draw(guidance_scale=0.0, negative_prompt="a cat"))


def half() -> Image.Image:
    """A mask whose left half is free."""
    mask = Image.new("L", (300, 300))
    mask.paste(255, (0, 0, 150, 300))
    return mask


def test_masked_editing_keeps_the_other_tokens(pipe: NitroPipeline) -> None:
    before = pipe(FOX, generator=seeded(), output_type="latent").images[0]
    for mask in (half(), np.asarray(half()), np.asarray(half()) / 255.0, torch.eye(8) * 0 + 1):
        after = pipe(
            "a cat", image=before, mask_image=mask, generator=seeded(1), output_type="latent"
        ).images[0]
        whole = isinstance(mask, torch.Tensor)
        assert torch.equal(after[:, :, 4:], before[:, :, 4:]) is not whole
        assert not torch.equal(after[:, :, :4], before[:, :, :4])
    wider = pipe(
        "a cat",
        image=before,
        mask_image=half(),
        context=2,
        generator=seeded(),
        output_type="latent",
    ).images[0]
    changed = (wider != before).any(0).any(0)
    assert changed.tolist() == [True] * 6 + [False] * 2


def test_any_picture_can_be_started_from(pipe: NitroPipeline) -> None:
    photo = pipe(FOX, generator=seeded()).images[0]
    latent = pipe.loaded.autoencoder.encode(
        torch.from_numpy(np.array(photo)).permute(2, 0, 1)[None] / 255
    )[0]
    forms = [
        photo,
        photo.convert("RGBA"),
        np.asarray(photo),
        np.asarray(photo) / 255.0,
        torch.from_numpy(np.array(photo)).permute(2, 0, 1) / 255,
        torch.from_numpy(np.array(photo)).permute(2, 0, 1),
        latent,
    ]
    made = [
        pipe("a cat", image=form, generator=seeded(2), output_type="latent").images[0]
        for form in forms
    ]
    for each in made:
        assert torch.allclose(each, made[0], atol=1e-3)
        kept = (each - latent).abs().amax(0) < 1e-4
        assert int(kept.sum()) == 64 - round(0.6 * 64)
    wide = Image.new("RGB", (640, 100), "red")
    assert pipe(FOX, image=wide, strength=0.1).images[0].size == (128, 128)


def test_one_picture_for_each_prompt_and_as_many_as_wanted(pipe: NitroPipeline) -> None:
    first, second = pipe([FOX, "a cat"], generator=seeded(), output_type="latent").images
    made = pipe(
        ["a dog", "an owl"], image=[first, second], mask_image=half(), num_images_per_prompt=2,
        generator=seeded(), output_type="latent",
    ).images  # fmt: skip
    for index, base in enumerate((first, first, second, second)):
        assert torch.equal(made[index, :, :, 4:], base[:, :, 4:])
    with pytest.raises(ValueError, match="3 images were given for 1"):
        pipe(FOX, image=[first] * 3)


def test_what_cannot_be_started_from_is_refused(pipe: NitroPipeline) -> None:
    latent = torch.zeros(32, 8, 8)
    with pytest.raises(ValueError, match="give `image`"):
        pipe(FOX, strength=0.5)
    with pytest.raises(ValueError, match="nothing to draw"):
        pipe(FOX, image=latent, mask_image=Image.new("L", (8, 8)))
    with pytest.raises(ValueError, match="strength"):
        pipe(FOX, image=latent, strength=0.0)
    with pytest.raises(ValueError, match=r"\[C, 8, 8\]"):
        pipe(FOX, image=torch.zeros(32, 16, 16))
    with pytest.raises(ValueError, match="a mask"):
        pipe(FOX, image=np.zeros((8, 8, 2)))


def test_the_caption_setting_counts(pipe: NitroPipeline) -> None:
    def draw(prompt: str, caption: str | None) -> torch.Tensor:
        return pipe(prompt, caption=caption, generator=seeded(), output_type="latent").images

    shouted = "<b>A FOX</b> on a blue background"
    assert torch.equal(draw(shouted, "clean"), draw(FOX, None))
