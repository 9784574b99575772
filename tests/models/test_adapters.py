"""The adapters around text encoder and autoencoder: what they survive."""

from __future__ import annotations

import threading

import pytest
import torch
from diffusers import AutoencoderDC

from models.autoencoder import DCAutoencoder
from models.contracts import BrokenPicture
from models.text import FastTokenizer
from tests.golden_rule import fill, golden_rule
from training.words import build_tokenizer


@pytest.fixture(scope="module")
def autoencoder() -> DCAutoencoder:
    model = AutoencoderDC(**golden_rule("dc-ae.tiny")["config"])
    return DCAutoencoder(fill(model).to(torch.bfloat16))


def test_picture_too_large_for_half_precision_is_decoded_in_full(
    autoencoder: DCAutoencoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = autoencoder.model.decoder.forward
    types: list[torch.dtype] = []

    def overflowing(latents: torch.Tensor) -> torch.Tensor:
        types.append(latents.dtype)
        made = decode(latents)
        return made if latents.dtype == torch.float32 else made * float("nan")

    monkeypatch.setattr(autoencoder.model.decoder, "forward", overflowing)
    picture = autoencoder.decode(torch.randn(1, 32, 2, 2))
    assert types == [torch.bfloat16, torch.float32]
    assert torch.isfinite(picture).all()
    assert {p.dtype for p in autoencoder.model.parameters()} == {torch.bfloat16}


def test_latents_that_are_no_numbers_are_told(autoencoder: DCAutoencoder) -> None:
    with pytest.raises(BrokenPicture, match="another seed"):
        autoencoder.decode(torch.full((1, 32, 2, 2), float("nan")))


def test_encode_and_decode_use_one_scale(autoencoder: DCAutoencoder) -> None:
    pixels = torch.rand(1, 3, 64, 64)
    latents = autoencoder.encode(pixels)
    direct = autoencoder.model.encoder((pixels * 2 - 1).bfloat16())
    assert torch.equal(latents, direct * autoencoder.scale)


def test_picture_too_large_for_half_precision_is_encoded_in_full(
    autoencoder: DCAutoencoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = autoencoder.model.encoder.forward
    broken = {torch.bfloat16}

    def overflowing(pixels: torch.Tensor) -> torch.Tensor:
        made = encode(pixels)
        return made * float("nan") if pixels.dtype in broken else made

    monkeypatch.setattr(autoencoder.model.encoder, "forward", overflowing)
    latents = autoencoder.encode(torch.rand(1, 3, 64, 64))
    assert latents.dtype == torch.float32 and torch.isfinite(latents).all()
    assert {p.dtype for p in autoencoder.model.parameters()} == {torch.bfloat16}
    broken.add(torch.float32)
    with pytest.raises(BrokenPicture, match="could not be encoded"):
        autoencoder.encode(torch.rand(1, 3, 64, 64))
    assert {p.dtype for p in autoencoder.model.parameters()} == {torch.bfloat16}


def test_tokenisers_are_never_borrowed_twice() -> None:
    """tokenizers#537: "Already borrowed" when threads share a fast tokenizer."""
    tokenizer = FastTokenizer(build_tokenizer())
    wrong: list[Exception] = []

    def ask(number: int) -> None:
        try:
            for length in range(60):
                prompt = "a fox " * (1 + (length + number) % 9) + "zeppelin"
                assert len(tokenizer.ids(prompt)) == 2 + len(prompt.split()) - 1
                assert tokenizer.unknown_words(prompt) == ["zeppelin"]
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_emoji_of_the_world_say_their_names_and_others_are_unknown() -> None:
    tokenizer = FastTokenizer(build_tokenizer())
    assert tokenizer.ids("🦊 and ❤️") == tokenizer.ids("fox and heart")
    assert tokenizer.unknown_words("🦊 🗿!") == ["🗿"]


def test_special_words_are_not_special_in_a_prompt() -> None:
    tokenizer = FastTokenizer(build_tokenizer())
    assert tokenizer.ids("")[0] == tokenizer.ids("a fox")[0]
    assert len(tokenizer.ids("")) == 1
