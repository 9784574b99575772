"""From files to Instella's parts: generator, autoencoder, text encoder. See `models.loading`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor
from transformers import OlmoConfig, OlmoModel

from models.catalogue import Variant
from models.instella.autoencoder import BitAutoencoder
from models.instella.autoregressive import BitAR
from models.instella.checkpoints import (
    check_match,
    generator_config,
    read_checkpoint,
    tokenizer_config,
)
from models.instella.config import (
    INSTELLA_AR,
    INSTELLA_DIFFUSION,
    INSTELLA_TOKENIZER,
    POCKET_BITS_AR,
    POCKET_TOKENIZER,
    GeneratorConfig,
)
from models.instella.diffusion import BitDiffusion
from models.instella.text import OLMO_1B, OlmoTextEncoder
from models.instella.tokenizer import BinaryTokenizer
from models.packed import read_packed
from models.sources import Progress, Sources, published_file
from models.text import ByteTokenizer
from models.weights import WeightsError, difference, load_into, random_tensors, shapes_of

GENERATORS: Mapping[str, GeneratorConfig] = {
    "instella-diffusion": INSTELLA_DIFFUSION,
    "instella-ar": INSTELLA_AR,
    "pocket-instella": POCKET_BITS_AR,
}
TOKENIZER_FILE = "bae/model.safetensors"
POCKET_FILE = "pocket-instella-tokenizer.safetensors"


def new_generator(config: GeneratorConfig) -> BitDiffusion | BitAR:
    """With untouched parameters; on the meta device inside its context."""
    return BitDiffusion(config) if config.kind == "diffusion" else BitAR(config)


def load_generator(
    variant: Variant, sources: Sources, dtype: torch.dtype, progress: Progress
) -> BitDiffusion | BitAR:
    """Raises `WeightsError` in words."""
    config, name = GENERATORS[variant.id], variant.weights_file
    if sources.random and not variant.embedded:
        with torch.device("meta"):
            model = new_generator(config)
        load_into(model, random_tensors(shapes_of(model)), dtype)
        return model
    if variant.embedded:
        with torch.device("meta"):
            model = new_generator(config)
        load_into(model, read_packed(sources.pocket / name, shapes_of(model)), dtype)
        return model
    file = published_file(variant.hub_repo, name, sources, progress)
    progress(0.5, f"reading {name}")
    model, tensors = read_generator(config, file)
    load_into(model, tensors, dtype)
    return model


def read_generator(
    config: GeneratorConfig, file: Path
) -> tuple[BitDiffusion | BitAR, dict[str, Tensor]]:
    """A published generator as it will be, on the meta device, and its tensors. `config` says all
    but the number and width of tokens, which the file knows. Raises `WeightsError`."""
    tensors = read_checkpoint(file)
    config = generator_config(config, _shapes(tensors), file.name)
    with torch.device("meta"):
        model = new_generator(config)
    _check(tensors, shapes_of(model), file.name)
    return model, tensors


def load_tokenizer(
    variant: Variant, sources: Sources, dtype: torch.dtype, progress: Progress
) -> BitAutoencoder:
    """Raises `WeightsError` in words."""
    config = POCKET_TOKENIZER if variant.embedded else INSTELLA_TOKENIZER
    if variant.embedded:
        with torch.device("meta"):
            model = BinaryTokenizer(config)
        tensors = read_packed(sources.pocket / POCKET_FILE, shapes_of(model))
    elif sources.random:
        with torch.device("meta"):
            model = BinaryTokenizer(config)
        tensors = random_tensors(shapes_of(model))
    else:
        file = published_file(variant.hub_repo, TOKENIZER_FILE, sources, progress)
        tensors = read_checkpoint(file)
        config = tokenizer_config(config, _shapes(tensors), TOKENIZER_FILE)
        with torch.device("meta"):
            model = BinaryTokenizer(config)
        _check(tensors, shapes_of(model), TOKENIZER_FILE)
    load_into(model, tensors, dtype)
    return BitAutoencoder(model, variant.resolution)


def check_pair(
    generator: BitDiffusion | BitAR, tokenizer: BitAutoencoder, variant: Variant
) -> None:
    """Raises `WeightsError` unless generator, autoencoder and catalogue agree on tokens."""
    check_match(generator.config, tokenizer.model.config, variant.weights_file)
    if generator.config.tokens != variant.tokens:
        raise WeightsError(
            f"{variant.weights_file} writes {generator.config.tokens} tokens; {variant.title} is "
            f"known to have {variant.tokens}. This may be a newer release than this program knows."
        )


def random_olmo(dtype: torch.dtype) -> OlmoTextEncoder:
    """The text encoder at full size with random weights and one token a byte."""
    with torch.device("meta"):
        model = OlmoModel(OlmoConfig(**OLMO_1B))
    tensors = random_tensors(shapes_of(model))
    model.rotary_emb = type(model.rotary_emb)(model.config)  # its table is no weight
    load_into(model, tensors, dtype)
    return OlmoTextEncoder(model, PlainBytes())


class PlainBytes(ByteTokenizer):
    """One token a byte and no begin token: an empty prompt has none, as with the real one."""

    def __init__(self) -> None:
        super().__init__(begin_id=0, pad_id=1)

    def ids(self, prompt: str) -> list[int]:
        return list(prompt.encode())


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _check(
    tensors: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]], name: str
) -> None:
    if problem := difference(expected, _shapes(tensors)):
        raise WeightsError(f"{name} is not the file this model needs: {problem}")
