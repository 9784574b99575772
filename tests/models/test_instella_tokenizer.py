"""The binary autoencoder is the reference's: positions, encoder, quantiser, decoder at any grid."""

from __future__ import annotations

import json

import pytest
import torch

from models.instella.config import INSTELLA_TOKENIZER
from models.instella.positions import angle_table, coordinates
from models.instella.tokenizer import BinaryTokenizer
from models.weights import shapes_of
from tests.golden_rule import FOLDER, deviation, golden
from tests.instella_rule import coins, picture, uniform
from tests.models.instella import tokenizer as tiny

LIMIT = 1e-4


def square() -> torch.Tensor:
    return picture("image", 2, 3, 32, 32)


def test_names_and_shapes_are_the_published_checkpoints() -> None:
    with torch.device("meta"):
        found = shapes_of(BinaryTokenizer(INSTELLA_TOKENIZER))
    stored = json.loads((FOLDER / "keys" / "instella-bae.keys.json").read_text())["tensors"]
    assert found == {name: tuple(shape) for name, (_, shape) in stored.items()}


@pytest.mark.parametrize("size", [256, 512, 768, 1024])
@pytest.mark.parametrize("stage", [0, 1])
def test_coordinates_of_every_size(size: int, stage: int) -> None:
    known = golden("instella-positions")
    count, side = (size // 32, 32) if stage == 0 else (size // 16, 64)
    places = coordinates(3, count, count, side)
    assert torch.equal(places[:3], torch.tensor([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]]))
    rows, columns = places[3::count, 1], places[3 : 3 + count, 2]
    for made in (rows, columns):
        assert torch.equal(made, known[f"px{size}_stage{stage}_f32"])
        assert torch.equal(made.bfloat16().float(), known[f"px{size}_stage{stage}_bf16"])


def test_the_table_of_angles() -> None:
    known = golden("instella-positions")
    made = angle_table(known["rope_ids"], INSTELLA_TOKENIZER.axes)
    assert deviation(made[0], known["rope_cos"]) < LIMIT
    assert deviation(made[1], known["rope_sin"]) < LIMIT
    stage = golden("instella-bae")
    for made, name in zip(
        tiny().tables(6, 4, 4, 8, torch.device("cpu")), ("cos", "sin"), strict=True
    ):
        assert deviation(made, stage[f"dec_rope_{name}_stage0"]) < LIMIT


def test_encoding_gives_the_same_bits() -> None:
    known, model = golden("instella-bae"), tiny()
    assert deviation(square(), known["image"]) < 1e-6
    latents = model.encoder(square(), model.tables)
    assert deviation(latents, known["enc_out"]) < LIMIT
    logits = model.logits(square())
    assert deviation(logits, known["enc_logits"]) < LIMIT
    assert torch.equal((logits > 0).float(), known["enc_bits"])
    assert deviation(known["enc_bits"] @ model.quantizer.embed, known["enc_quantized"]) < LIMIT
    oblong = model.logits(picture("image_rect", 1, 3, 32, 48))
    assert deviation(oblong, known["enc_rect_logits"]) < LIMIT
    assert torch.equal((oblong > 0).float(), known["enc_rect_bits"])


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [("decode_32", 8, 8), ("decode_64", 16, 16), ("decode_32x48", 8, 12)],
)
def test_the_same_bits_decode_at_any_even_grid(name: str, rows: int, columns: int) -> None:
    bits = coins("bits", 2, 6, 10)
    assert torch.equal(bits, golden("instella-bae")["bits"])
    assert deviation(tiny().decode(bits, rows, columns), golden("instella-bae")[name]) < LIMIT


def test_there_and_back() -> None:
    known, model = golden("instella-bae"), tiny()
    bits = (model.logits(square()) > 0).float()
    assert deviation(model.decode(bits, 8, 8), known["recon_32"]) < LIMIT
    assert deviation(model.decode(bits, 16, 16), known["recon_to_64"]) < LIMIT


def test_probabilities_decode_too() -> None:
    soft = torch.from_numpy(uniform("soft", 2, 6, 10)).float()
    known = golden("instella-bae")
    assert deviation(soft, known["soft"]) < 1e-6
    assert deviation(tiny().decode(soft, 8, 8), known["decode_32_soft"]) < LIMIT


def test_positions_rounded_as_the_release_rounds_them() -> None:
    known, model = golden("instella-bae"), tiny("bf16")
    assert deviation(model.decode(known["bits"], 8, 8), known["decode_32_bf16pos"]) < LIMIT
    assert deviation(model.logits(square()), known["enc_logits_bf16pos"]) < LIMIT


def test_without_a_square_to_span() -> None:
    known = golden("instella-bae")
    made = tiny("exact", False).decode(known["bits"], 8, 8)
    assert deviation(made, known["decode_32_noscale"]) < LIMIT


def test_every_block_of_the_decoder() -> None:
    known, model = golden("instella-bae"), tiny()
    seen: dict[str, torch.Tensor] = {}
    hooks = [
        block.register_forward_hook(
            lambda _m, _i, out, n=index: seen.__setitem__(f"dec_block{n}_out", out)
        )
        for index, block in enumerate(model.decoder.transformer_blocks)
    ]
    up = model.decoder.up_layers[0]
    hooks.append(
        up.register_forward_hook(
            lambda _m, _i, out: seen.__setitem__("dec_up0_out", out.flatten(2).mT)
        )
    )
    model.decode(known["bits"], 8, 8)
    for hook in hooks:
        hook.remove()
    assert len(seen) == 4
    for name, made in seen.items():
        assert deviation(made[:1], known[name]) < LIMIT, name


@pytest.mark.parametrize("side", [12, 20, 8])
def test_sizes_that_no_grid_fits_are_refused_in_words(side: int) -> None:
    with pytest.raises(ValueError, match="multiples of 8 px, and 16 px at least"):
        tiny().logits(torch.zeros(1, 3, side, side))
    with pytest.raises(ValueError, match="even and 4 at least"):
        tiny().decode(torch.zeros(1, 6, 10), 3, 4)
