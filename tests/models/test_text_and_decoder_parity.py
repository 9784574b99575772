"""Parity of the text path and the decoder with the reference, and the exact published tensors."""

from __future__ import annotations

import json

import pytest
import torch
from diffusers import AutoencoderDC
from transformers import LlamaConfig, LlamaModel

from models.autoencoder import DCAutoencoder
from models.nitro_ar import NITRO_AR_GAN, NITRO_AR_JOINT_GAN, NitroAR
from models.pixels import to_pixels
from models.published import DC_AE_F32C32, LLAMA_32_1B
from models.text import ByteTokenizer, LlamaTextEncoder
from models.weights import shapes_of
from tests.golden_rule import FOLDER, deviation, fill, golden, golden_rule, rule_input

pytestmark = pytest.mark.golden
TOLERANCE = 1e-4


class Ids:
    """A tokenizer that knows two prompts: the golden's."""

    pad_id = 101

    def ids(self, prompt: str) -> list[int]:
        return {"prompt": [100, 5, 9, 33, 17], "empty": [100]}[prompt]

    def unknown_words(self, prompt: str) -> list[str]:
        return []


def test_text_rows_including_padding() -> None:
    config = dict(golden_rule("llama-text.tiny")["config"])
    rope = {"rope_theta": config.pop("rope_theta"), **config.pop("rope_scaling")}
    model = LlamaModel(LlamaConfig(**config, rope_parameters=rope))
    fill(model, prefix="model.")
    with torch.no_grad():
        model.embed_tokens.weight *= 8
    encoder = LlamaTextEncoder(model, Ids(), max_tokens=32)
    for name, expected in golden("llama-text.tiny").items():
        assert deviation(encoder.encode([name]), expected) <= TOLERANCE
    together = encoder.encode(["prompt", "empty"])
    assert deviation(together[1:], golden("llama-text.tiny")["empty"]) <= TOLERANCE


def test_decoder_levels_and_picture() -> None:
    config, expected = golden_rule("dc-ae.tiny")["config"], golden("dc-ae.tiny")
    autoencoder = DCAutoencoder(fill(AutoencoderDC(**config)))
    assert autoencoder.scale == 0.41407
    levels = {}
    for level in (5, 4, 3):
        autoencoder.model.decoder.up_blocks[level].register_forward_hook(
            lambda _m, _i, out, level=level: levels.update({f"up{level}": out})
        )
    made = autoencoder.model.decoder(rule_input("input:latent", 1, 32, 8, 8) / autoencoder.scale)
    for name in ("up5", "up4", "up3"):
        level = levels[name]
        if level.numel() > 40000:
            level = level[:, :, ::4, ::4]
        assert deviation(level, expected[name]) <= TOLERANCE, name
    assert deviation(made[:, :, ::4, ::4], expected["decode.stride4"]) <= TOLERANCE
    assert deviation(made[:, :, :48, :48], expected["decode.block0"]) <= TOLERANCE
    picture = autoencoder.decode(rule_input("input:latent", 1, 32, 8, 8))
    assert torch.equal(picture, (made * 0.5 + 0.5).clamp(0, 1))


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("nitro-ar-gan", lambda: NitroAR(NITRO_AR_GAN)),
        ("nitro-ar-joint-gan", lambda: NitroAR(NITRO_AR_JOINT_GAN)),
        ("dc-ae-f32c32-sana", lambda: AutoencoderDC(**DC_AE_F32C32)),
    ],
)
def test_published_names_shapes_and_counts(name: str, build) -> None:
    keys = json.loads((FOLDER / "keys" / f"{name}.keys.json").read_text())
    with torch.device("meta"):
        model = build()
    assert shapes_of(model) == {n: tuple(shape) for n, (_, shape) in keys["tensors"].items()}
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == keys["_meta"]["total_parameters"]


def test_text_model_has_no_language_head() -> None:
    with torch.device("meta"):
        model = LlamaModel(LlamaConfig(**LLAMA_32_1B))
    assert not any("lm_head" in name for name in model.state_dict())
    assert sum(parameter.numel() for parameter in model.parameters()) == 1_235_814_400


def test_prompt_longer_than_the_limit_is_cut_on_the_right() -> None:
    class Recorder(LlamaTextEncoder):
        def encode_ids(self, ids, mask):
            self.seen = ids
            return ids

    encoder = Recorder(None, ByteTokenizer(256, 257), max_tokens=8)
    encoder.encode(["abcdefghijk", ""])
    assert encoder.seen.tolist() == [[256, *b"abcdefg"], [256] + [257] * 7]


def test_pixels_are_truncated_as_published() -> None:
    values = torch.tensor([0.0, 0.5, 254.9 / 255, 1.0]).view(1, 1, 2, 2).expand(1, 3, 2, 2)
    (made,) = to_pixels(values)
    assert made[..., 0].tolist() == [[0, 127], [254, 255]]
