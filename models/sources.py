"""Where files come from: the embedded folder, a local folder, or the Hugging Face Hub."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import hf_hub_download, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError
from tqdm.auto import tqdm

from models.catalogue import Variant
from models.weights import WeightsError

Progress = Callable[[float, str], None]  # part done (0..1) and what is being done
POCKET_FOLDER = Path(__file__).parent.parent / "assets" / "pocket"
LLAMA_REPO = "meta-llama/Llama-3.2-1B"
OLMO_REPO = "amd/AMD-OLMo-1B"
DC_AE_REPO = "mit-han-lab/dc-ae-f32c32-sana-1.0-diffusers"


@dataclass(frozen=True)
class Sources:
    """Where to look. Empty `weights` means the Hub; "random" means full-size random weights."""

    weights: str = ""
    text_encoder: str = LLAMA_REPO
    autoencoder: str = DC_AE_REPO
    olmo: str = OLMO_REPO
    pocket: Path = POCKET_FOLDER

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Sources:
        """NITRO_WEIGHTS (folder or "random"), NITRO_TEXT_ENCODER, NITRO_AUTOENCODER, NITRO_OLMO
        (repo or folder)."""
        return cls(
            weights=environment.get("NITRO_WEIGHTS", ""),
            text_encoder=environment.get("NITRO_TEXT_ENCODER") or LLAMA_REPO,
            autoencoder=environment.get("NITRO_AUTOENCODER") or DC_AE_REPO,
            olmo=environment.get("NITRO_OLMO") or OLMO_REPO,
        )

    @property
    def random(self) -> bool:
        return self.weights == "random"


def weights_file(variant: Variant, sources: Sources, progress: Progress) -> Path:
    """The variant's weights on disk, downloaded if need be. Raises `WeightsError` in words."""
    if variant.embedded:
        return sources.pocket / variant.weights_file
    return published_file(variant.hub_repo, variant.weights_file, sources, progress)


def published_file(repo: str | None, name: str, sources: Sources, progress: Progress) -> Path:
    """A file of a publisher's repository on disk, downloaded if need be. Raises `WeightsError`."""
    if sources.weights:
        folder = Path(sources.weights)
        if not folder.is_dir():
            raise WeightsError(
                "NITRO_WEIGHTS is set to something that is no folder. Set it to the folder that "
                f"holds {name}, or leave it empty to download from the Hub."
            )
        return folder / name
    assert repo is not None, "published variants name their repository"
    try:
        return Path(hf_hub_download(repo, name, tqdm_class=progress_bar(progress)))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise WeightsError(
            f"{name} could not be downloaded from {repo} on the Hub "
            f"({_first_line(error)}). Download it by hand and set NITRO_WEIGHTS to its folder."
        ) from None


def lora_folder(variant: Variant, sources: Sources, progress: Progress) -> Path:
    """The folder of a variant's adapter, beside its weights. Raises `WeightsError` in words."""
    assert variant.lora_folder is not None and variant.hub_repo is not None
    if sources.weights:
        return Path(sources.weights) / variant.lora_folder
    try:
        pattern = f"{variant.lora_folder}/*"
        whole = snapshot_download(
            variant.hub_repo, allow_patterns=[pattern], tqdm_class=progress_bar(progress)
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise WeightsError(
            f"The adapter {variant.lora_folder} could not be downloaded from {variant.hub_repo} "
            f"({_first_line(error)}). Download it by hand and set NITRO_WEIGHTS to its parent."
        ) from None
    return Path(whole) / variant.lora_folder


def part_folder(place: str, what: str, setting: str, progress: Progress) -> Path:
    """The folder of a text encoder or autoencoder: a local one, or a Hub repository's snapshot."""
    folder = Path(place)
    if folder.is_dir():
        return folder
    if place.count("/") != 1 or place.startswith((".", "/", "~")):
        raise WeightsError(
            f"The {what} is set to something that is neither a folder nor a Hub repository. Set "
            f"{setting} to one."
        )
    try:
        return Path(
            snapshot_download(
                place,
                allow_patterns=["*.json", "*.safetensors"],
                ignore_patterns=["original/*"],
                tqdm_class=progress_bar(progress),
            )
        )
    except GatedRepoError:
        raise WeightsError(
            f"Access to the {what} {place} was refused: its licence has to be accepted first, at "
            f"https://huggingface.co/{place}. Then log in with `hf auth login`. Or set {setting} "
            "to another repository or to a folder with the same model."
        ) from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise WeightsError(
            f"The {what} {place} could not be downloaded from the Hub ({_first_line(error)}). "
            f"Set {setting} to a folder that holds it."
        ) from None


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def progress_bar(progress: Progress) -> type[tqdm]:
    """A tqdm class that reports bytes to `progress` instead of drawing a bar."""

    class Reporter(tqdm):  # type: ignore[type-arg]
        def __init__(self, *args: object, **kwargs: object) -> None:
            kwargs.pop("name", None)  # huggingface_hub's own argument
            super().__init__(*args, **{**kwargs, "disable": True})  # type: ignore[arg-type]

        def update(self, n: float | None = 1) -> None:
            self.n += n or 0
            whole = self.total or 0  # of a snapshot it grows while its files become known
            if whole > 10**6:
                part = min(self.n / whole, 1.0)
                progress(part, f"downloading {self.n / 1e6:,.0f} of {whole / 1e6:,.0f} MB")

    return Reporter


def weights_place(variant: Variant, sources: Sources) -> str:
    """Where a variant's weights would come from, looked up without loading or downloading."""
    if variant.embedded:
        file = sources.pocket / variant.weights_file
        return "embedded" if file.is_file() else f"missing: {variant.weights_file}"
    if sources.random:
        return "random weights"
    if sources.weights:
        here = (Path(sources.weights) / variant.weights_file).is_file()
        return f"{'in' if here else 'missing from'} {sources.weights}"
    assert variant.hub_repo is not None
    cached = try_to_load_from_cache(variant.hub_repo, variant.weights_file)
    return "in the Hub cache" if isinstance(cached, str) else f"to download: {variant.hub_repo}"
