"""Instella's files: pickles that are no weights are refused unopened, and every fault has its words."""

from __future__ import annotations

import os
import pickle
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from models.catalogue import find_variant
from models.check import check_weights
from models.instella import loading
from models.instella.autoencoder import BitAutoencoder, SmallDecode
from models.instella.checkpoints import read_checkpoint
from models.instella.loading import check_pair, load_generator, load_tokenizer
from models.sources import Sources
from models.weights import WeightsError
from tests.instella_rule import coins
from tests.models.instella import AR, BITS, DIFFUSION, TOKENIZER, TOKENS, diffusion, tokenizer


@pytest.fixture(autouse=True)
def tiny_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {**loading.GENERATORS, "instella-diffusion": DIFFUSION, "instella-ar": AR}
    monkeypatch.setattr(loading, "GENERATORS", sizes)
    monkeypatch.setattr(loading, "INSTELLA_TOKENIZER", TOKENIZER)


def weights() -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in diffusion().state_dict().items()}


def published(folder: Path, content: Any) -> Path:
    file = folder / "diffusion.pt"
    torch.save(content, file)
    return file


def loaded(folder: Path, variant: str = "instella-diffusion") -> Any:
    found = find_variant(variant)
    return load_generator(found, Sources(str(folder)), torch.float32, lambda part, what: None)


@pytest.mark.parametrize("prefix", ["", "module."])
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_published_file_loads_and_is_converted_once(
    tmp_path: Path, prefix: str, wrapped: bool
) -> None:
    tensors = {prefix + name: tensor for name, tensor in weights().items()}
    content = {"module": tensors, "global_steps": 7, "lr": [1e-4]} if wrapped else tensors
    file = published(tmp_path, content)
    model = loaded(tmp_path)
    assert all(torch.equal(t, model.state_dict()[n]) for n, t in weights().items())
    converted = tmp_path / "diffusion.safetensors"
    assert set(load_file(converted)) == set(weights())
    file.unlink()  # it is not needed any more
    assert set(loaded(tmp_path).state_dict()) == set(weights())


def test_a_newer_file_is_converted_again(tmp_path: Path) -> None:
    published(tmp_path, {"module": weights()})
    loaded(tmp_path)
    changed = weights()
    changed["proj_out.bias"] += 1
    file = published(tmp_path, {"module": changed})
    later = time.time() + 5
    os.utime(file, (later, later))
    assert torch.equal(loaded(tmp_path).proj_out.bias, changed["proj_out.bias"])


class Trap:
    """What a pickle can do to whoever opens it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.mark),))


def test_a_pickle_with_a_program_is_refused_and_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "it ran"
    published(tmp_path, {"module": weights(), "extra": Trap(mark)})
    with pytest.raises(WeightsError, match="holds more than tensors and was not opened.*mkdir"):
        loaded(tmp_path)
    assert not mark.exists() and not (tmp_path / "diffusion.safetensors").exists()


def test_a_bare_pickle_is_not_opened_at_all(tmp_path: Path) -> None:
    mark = tmp_path / "it ran"
    (tmp_path / "diffusion.pt").write_bytes(pickle.dumps(Trap(mark)))
    with pytest.raises(WeightsError, match="is no torch file"):
        loaded(tmp_path)
    assert not mark.exists()


def test_every_fault_has_its_own_words(tmp_path: Path) -> None:
    said = {}

    def fault(name: str, variant: str = "instella-diffusion") -> None:
        with pytest.raises(WeightsError) as caught:
            loaded(tmp_path, variant)
        said[name] = str(caught.value)
        assert str(tmp_path) not in said[name]  # visitors may read it

    fault("missing")
    file = published(tmp_path, {"module": weights()})
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    fault("cut off")
    file.write_bytes(whole[:2000] + bytes(5000) + whole[7000:])
    fault("damaged")
    save_file(weights(), file)
    fault("renamed")
    published(tmp_path, {"module": {}})
    fault("no tensors")
    published(tmp_path, {"module": {**weights(), "epoch": 3}})
    fault("a number among the tensors")
    short = weights()
    del short["proj_out.bias"]
    published(tmp_path, {"module": short})
    fault("a tensor missing")
    narrow = weights()
    narrow["proj_out.weight"] = narrow["proj_out.weight"][:, :-1]
    published(tmp_path, {"module": narrow})
    fault("wrong width")
    published(tmp_path, {"module": weights()}).rename(tmp_path / "ar.pt")
    fault("the other generator's", "instella-ar")
    assert "does not exist" in said["missing"]
    assert "cut off" in said["cut off"]
    assert "no torch file" in said["renamed"]
    assert "holds no tensors by name" in said["no tensors"]
    assert "'epoch'" in said["a number among the tensors"]
    assert "proj_out.bias" in said["a tensor missing"]
    assert "proj_out.weight has shape [10, 47], expected [10, 48]" in said["wrong width"]
    assert "diffusion generator's file" in said["the other generator's"]
    assert len(set(said.values())) == len(said)


def test_number_and_width_of_tokens_are_read_from_the_files_and_have_to_agree(
    tmp_path: Path,
) -> None:
    published(tmp_path, {"module": weights()})
    (tmp_path / "bae").mkdir()
    save_file(tokenizer().state_dict(), tmp_path / "bae" / "model.safetensors")
    variant = replace(find_variant("instella-diffusion"), tokens=TOKENS)
    sources = Sources(str(tmp_path))
    model = loaded(tmp_path)
    reader = load_tokenizer(variant, sources, torch.float32, lambda part, what: None)
    assert (model.config.tokens, model.config.bits) == (TOKENS, BITS)
    check_pair(model, reader, variant)
    with pytest.raises(WeightsError, match="newer release"):
        check_pair(model, reader, replace(variant, tokens=99))
    wide = tokenizer().state_dict()
    wide["quantizer.embed"] = torch.zeros(12, 32)
    wide["quantizer.proj.0.weight"] = torch.zeros(12, 32)
    wide["quantizer.proj.0.bias"] = torch.zeros(12)
    save_file(wide, tmp_path / "bae" / "model.safetensors")
    reader = load_tokenizer(variant, sources, torch.float32, lambda part, what: None)
    with pytest.raises(WeightsError, match="6 tokens of 10 bits.*reads 6 of 12"):
        check_pair(model, reader, variant)


def test_a_folder_that_cannot_be_written_to_serves_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = published(tmp_path, {"module": weights()})

    def refuse(*arguments: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: Permission denied")

    monkeypatch.setattr("models.instella.checkpoints.save_file", refuse)
    assert set(read_checkpoint(file)) == set(weights())
    assert [path.name for path in tmp_path.iterdir()] == ["diffusion.pt"]


def test_check_tells_about_a_published_file(tmp_path: Path) -> None:
    published(tmp_path, {"module": weights()})
    report = check_weights("instella-diffusion", tmp_path, Sources(olmo="./nowhere"))
    assert report.ok and any("exactly the expected names" in line for line in report.lines)
    published(tmp_path, {"module": {"x": torch.zeros(1)}})
    (tmp_path / "diffusion.safetensors").unlink()
    report = check_weights("instella-diffusion", tmp_path, Sources(olmo="./nowhere"))
    assert not report.ok and "not a checkpoint" in report.lines[-1]


def test_the_same_tokens_at_three_sizes_and_as_a_preview() -> None:
    coder = BitAutoencoder(tokenizer(), 64)
    latent = coins("bits", 1, TOKENS, BITS).mT[:, :, :, None]
    sizes = [coder.decode(latent, side).shape[2:] for side in (32, 64, 128)]
    assert sizes == [(32, 32), (64, 64), (128, 128)]
    assert torch.equal(coder.decode(latent), coder.decode(latent, 64))
    preview = SmallDecode(coder)
    assert preview(latent).shape == (1, 3, 32, 32)
    there = torch.arange(TOKENS)[None, :, None] < 3
    assert torch.equal(preview(latent, there), coder.decode(latent[:, :, :3], 32))
    again = coder.encode(coder.decode(latent))
    assert again.shape == latent.shape and set(again.unique().tolist()) <= {0.0, 1.0}
