"""Weights files: each kind of wrong file is told in words that name file, expected and found."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from models import loading
from models.catalogue import find_variant
from models.check import check_weights
from models.emmdit import EMMDiTConfig
from models.heads import HeadConfig
from models.loading import Loader
from models.nitro_ar import NitroAR, NitroARConfig
from models.sources import Sources, part_folder, progress_bar, weights_file
from models.weights import WeightsError, random_tensors, read_weights, shapes_of

TINY = NitroARConfig(
    EMMDiTConfig(grid=8, width=32, head_dim=16, text_width=16, groups=(1, 1, 1)),
    HeadConfig("mlp", width=16, depth=1),
)
EXPECTED = shapes_of(NitroAR(TINY))


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    return random_tensors(EXPECTED)


def written(folder: Path, tensors: dict[str, torch.Tensor]) -> Path:
    file = folder / "Nitro-AR-512px-GAN.safetensors"
    save_file(tensors, file)
    return file


def test_the_right_file_loads_strictly(tmp_path: Path, tensors: dict) -> None:
    read = read_weights(written(tmp_path, tensors), EXPECTED)
    NitroAR(TINY).load_state_dict(read, strict=True)
    assert all(torch.equal(read[name], tensors[name]) for name in EXPECTED)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"model\.safetensors does not exist"):
        read_weights(tmp_path / "model.safetensors", EXPECTED)


def test_truncated_file(tmp_path: Path, tensors: dict) -> None:
    file = written(tmp_path, tensors)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(WeightsError, match="cut off while downloading"):
        read_weights(file, EXPECTED)


def test_file_that_is_no_safetensors_file(tmp_path: Path) -> None:
    file = tmp_path / "page.safetensors"
    file.write_text("<html>Access denied</html>")
    with pytest.raises(WeightsError, match="not a complete safetensors file"):
        read_weights(file, EXPECTED)


def test_foreign_file(tmp_path: Path) -> None:
    file = written(tmp_path, {"unet.conv.weight": torch.zeros(3, 3)})
    with pytest.raises(WeightsError, match=r"expected \d+ tensors, found 1.*'unet.conv.weight'"):
        read_weights(file, EXPECTED)


def test_wrong_width(tmp_path: Path, tensors: dict) -> None:
    tensors["x_proj.weight"] = torch.zeros(64, 32)
    with pytest.raises(WeightsError, match=r"x_proj.weight has shape \[64, 32\], expected \[32"):
        read_weights(written(tmp_path, tensors), EXPECTED)


def test_integer_tensor(tmp_path: Path, tensors: dict) -> None:
    tensors["x_proj.bias"] = tensors["x_proj.bias"].to(torch.int32)
    with pytest.raises(WeightsError, match="x_proj.bias is int32"):
        read_weights(written(tmp_path, tensors), EXPECTED)


def test_weights_folder_that_does_not_exist() -> None:
    variant = find_variant("nitro-ar-gan")
    with pytest.raises(WeightsError, match="NITRO_WEIGHTS is set to something that is no folder"):
        weights_file(variant, Sources(weights="/nowhere"), lambda part, what: None)


def test_gated_text_encoder_names_the_licence_page(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx
    from huggingface_hub.errors import GatedRepoError

    from models import sources

    def refused(*args: object, **kwargs: object) -> str:
        raise GatedRepoError(
            "403", response=httpx.Response(403, request=httpx.Request("GET", "https://x"))
        )

    monkeypatch.setattr(sources, "snapshot_download", refused)
    with pytest.raises(WeightsError) as caught:
        part_folder("meta-llama/Llama-3.2-1B", "text encoder", "NITRO_TEXT_ENCODER", print)
    assert "https://huggingface.co/meta-llama/Llama-3.2-1B" in str(caught.value)
    assert "NITRO_TEXT_ENCODER" in str(caught.value)


def test_download_progress_follows_a_growing_total() -> None:
    told: list[tuple[float, str]] = []
    bar = progress_bar(lambda part, what: told.append((part, what)))(total=0, name="x")
    bar.update(10)
    bar.total = 4 * 10**6
    bar.update(10**6 - 10)
    bar.update(10**6)
    assert told == [(0.25, "downloading 1 of 4 MB"), (0.5, "downloading 2 of 4 MB")]


def test_text_encoder_that_is_neither_folder_nor_repository() -> None:
    with pytest.raises(
        WeightsError, match="neither a folder nor a Hub repository.*NITRO_TEXT_ENCODER"
    ):
        part_folder("./nowhere", "text encoder", "NITRO_TEXT_ENCODER", print)


def test_check_says_what_is_wrong(
    tmp_path: Path, tensors: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = {**loading.CONFIGS, "nitro-ar-gan": TINY}
    monkeypatch.setattr(loading, "CONFIGS", configs)
    tensors["x_proj.bias"][0] = float("nan")
    written(tmp_path, tensors)
    report = check_weights("nitro-ar-gan", tmp_path, Sources())
    assert not report.ok
    assert "values that are no numbers, e.g. x_proj.bias" in report.lines[-1]
    assert any("exactly the expected names and shapes" in line for line in report.lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nitro-ar-gan", "nitro-ar-joint-gan"])
def test_full_size_file_loads_through_the_product(tmp_path: Path, name: str) -> None:
    """A file with the published names, as published, through the loader the page uses."""
    variant = find_variant(name)
    with torch.device("meta"):
        expected = shapes_of(NitroAR(loading.CONFIGS[name]))
    halves = {n: t.bfloat16() for n, t in random_tensors(expected).items()}
    save_file(halves, tmp_path / variant.weights_file)
    loader = Loader(Sources(weights=str(tmp_path)), torch.device("cpu"), torch.bfloat16)
    model = loader._model(variant, lambda part, what: None)
    assert all(torch.equal(p, halves[n]) for n, p in model.named_parameters())
