"""The published `.pt` files: read without running anything in them, and kept as safetensors.

`diffusion.pt` and `ar.pt` are pickled by torch; a pickle can run code. They are read by torch's
restricted reader, which refuses whatever is no tensor or plain container, and written once as
safetensors beside the original (or not at all, where the folder cannot be written to).
"""

from __future__ import annotations

import logging
import os
import pickle
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from models.instella.config import GeneratorConfig, TokenizerConfig
from models.weights import Shapes, WeightsError, read_tensors

PREFIX = "module."
_log = logging.getLogger(__name__)


def read_checkpoint(file: Path) -> dict[str, Tensor]:
    """Tensors of a published file, `.pt` or safetensors, under the model's own names.

    Raises `WeightsError`, in words for a person, for a file that is missing, cut off, of another
    kind, or holds anything but tensors.
    """
    if file.suffix != ".pt":
        return read_tensors(file)
    converted = file.with_suffix(".safetensors")
    if converted.is_file() and (
        not file.is_file() or converted.stat().st_mtime >= file.stat().st_mtime
    ):
        return read_tensors(converted)
    tensors = _unpickled(file)
    partial = converted.with_suffix(f".{os.getpid()}.partial")
    try:
        save_file(tensors, partial)
        partial.replace(converted)
    except (OSError, RuntimeError, SafetensorError) as error:
        _log.info("%s is not converted, its folder cannot be written to: %s", file.name, error)
        partial.unlink(missing_ok=True)
    return tensors


def _unpickled(file: Path) -> dict[str, Tensor]:
    if not file.is_file():
        raise WeightsError(f"{file.name} does not exist. Expected a torch file of that name.")
    size = f"{file.name} ({file.stat().st_size:,} bytes)"
    with file.open("rb") as stream:
        begins_like_zip = stream.read(4) == b"PK\x03\x04"
    if not begins_like_zip:
        raise WeightsError(
            f"{size} is no torch file: something else was given that name, or it was saved by a "
            "torch of before 2020. Download it again from its repository."
        )
    if not zipfile.is_zipfile(file):
        raise WeightsError(
            f"{size} is not complete: its end is missing. It was probably cut off while "
            "downloading: delete it and download it again."
        )
    try:
        stored = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise WeightsError(
            f"{file.name} holds more than tensors and was not opened: what else a pickled file "
            f"holds could be a program. ({_first_line(error)})"
        ) from None
    except Exception as error:  # torch has many kinds for damaged archives
        raise WeightsError(
            f"{size} is damaged ({_first_line(error)}). Delete it and download it again."
        ) from None
    return named_tensors(stored, file.name)


def _first_line(error: Exception) -> str:
    """What torch found, without its advice on how to load the file nevertheless."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "GLOBAL" in line]
    return (telling or lines or [type(error).__name__])[0][:160]


def named_tensors(stored: object, name: str) -> dict[str, Tensor]:
    """The state dict in a checkpoint: under `module` where there is such an entry, names without a
    leading "module.". Raises `WeightsError` where there is none."""
    if isinstance(stored, Mapping) and isinstance(stored.get("module"), Mapping):
        stored = stored["module"]
    if not isinstance(stored, Mapping) or not stored:
        raise WeightsError(f"{name} holds no tensors by name: it is not a model's checkpoint.")
    strange = [key for key, value in stored.items() if not isinstance(value, Tensor)]
    if strange:
        raise WeightsError(
            f"{name} holds {type(stored[strange[0]]).__name__} under {strange[0]!r} where a tensor "
            "was expected: it is not a model's checkpoint."
        )
    return {str(key).removeprefix(PREFIX): value.contiguous() for key, value in stored.items()}


# ---- sizes, as the publisher gives none ----


def generator_config(base: GeneratorConfig, shapes: Shapes, name: str) -> GeneratorConfig:
    """`base` with the number and width of tokens that a checkpoint has.

    Raises `WeightsError` if it is of the other kind of generator.
    """
    own = "norm1.linear.weight" if base.kind == "diffusion" else "input_layernorm.weight"
    other = {"diffusion": "the autoregressive", "ar": "the diffusion"}[base.kind]
    try:
        bits = shapes["x_embedder.weight"][1]
        positions = shapes["transformer_blocks.0.pos_emb"][1]
    except (KeyError, IndexError):
        raise WeightsError(f"{name} is not a checkpoint of an Instella generator.") from None
    if f"transformer_blocks.0.{own}" not in shapes:
        raise WeightsError(f"{name} is {other} generator's file, under another name.")
    return replace(base, bits=bits, tokens=positions - (base.kind == "ar"))


def tokenizer_config(base: TokenizerConfig, shapes: Shapes, name: str) -> TokenizerConfig:
    """`base` with the number and width of tokens that a checkpoint has. Raises `WeightsError`."""
    try:
        bits, tokens = shapes["quantizer.embed"][0], shapes["encoder.latent_tokens"][1]
    except (KeyError, IndexError):
        raise WeightsError(f"{name} is not a checkpoint of Instella's autoencoder.") from None
    return replace(base, bits=bits, tokens=tokens)


def check_match(generator: GeneratorConfig, tokenizer: TokenizerConfig, name: str) -> None:
    """Raises `WeightsError` unless one writes the tokens that the other reads."""
    if (generator.tokens, generator.bits) != (tokenizer.tokens, tokenizer.bits):
        raise WeightsError(
            f"{name} writes {generator.tokens} tokens of {generator.bits} bits, but the "
            f"autoencoder reads {tokenizer.tokens} of {tokenizer.bits}: the two files belong to "
            "different releases."
        )
