"""From a variant's id to something that runs. Parts that several variants share are loaded once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import torch
from diffusers import AutoencoderDC
from transformers import LlamaConfig, LlamaModel

from models.autoencoder import DCAutoencoder
from models.catalogue import Variant, find_variant
from models.contracts import LoadedVariant, Sampler, WeightState
from models.instella import loading as instella
from models.instella.autoencoder import BitAutoencoder, SmallDecode
from models.instella.autoregressive import BitAR
from models.instella.diffusion import BitDiffusion
from models.instella.text import OlmoTextEncoder
from models.lora import merge_lora
from models.nitro_ar import (
    NITRO_AR_GAN,
    NITRO_AR_JOINT_GAN,
    POCKET_AR,
    POCKET_AR_JOINT,
    NitroAR,
    NitroARConfig,
)
from models.nitro_e import NITRO_E_512, NITRO_E_1024, POCKET_E, NitroE, NitroEConfig
from models.packed import read_packed, tables_of
from models.precision import pick_device, pick_dtype
from models.preview import PreviewDecoder, read_preview
from models.published import DC_AE_F32C32, LLAMA_32_1B
from models.samplers.bit_ar import BitARSampler
from models.samplers.bit_diffusion import BitDiffusionSampler
from models.samplers.diffusion import DiffusionSampler
from models.samplers.joint import JointSampler
from models.samplers.masked_ar import MaskedARSampler
from models.sources import Progress, Sources, lora_folder, part_folder, weights_file
from models.text import ByteTokenizer, LlamaTextEncoder
from models.weights import (
    WeightsError,
    load_into,
    random_tensors,
    read_weights,
    shapes_of,
)

_log = logging.getLogger(__name__)
CONFIGS: dict[str, NitroARConfig | NitroEConfig] = {
    "pocket-ar": POCKET_AR,
    "pocket-ar-joint": POCKET_AR_JOINT,
    "pocket-e": POCKET_E,
    "pocket-e-dist": POCKET_E,
    "nitro-ar-gan": NITRO_AR_GAN,
    "nitro-ar-joint-gan": NITRO_AR_JOINT_GAN,
    "nitro-e": NITRO_E_512,
    "nitro-e-dist": NITRO_E_512,
    "nitro-e-grpo": NITRO_E_512,
    "nitro-e-1024": NITRO_E_1024,
}
Part = TypeVar("Part")
Generator = NitroAR | NitroE | BitDiffusion | BitAR
POCKET_TOKENS, NITRO_TOKENS = 24, 128  # rows the image models were trained to read


def build(variant_id: str) -> Generator:
    """The variant's generator with untouched parameters; on the meta device inside its context."""
    if variant_id in instella.GENERATORS:
        return instella.new_generator(instella.GENERATORS[variant_id])
    config = CONFIGS[variant_id]
    return NitroE(config) if isinstance(config, NitroEConfig) else NitroAR(config)


def sampler_of(model: Generator) -> Sampler:
    """The sampler that drives a generator."""
    if isinstance(model, BitAR):
        return BitARSampler(model)
    if isinstance(model, BitDiffusion):
        return BitDiffusionSampler(model)
    if isinstance(model, NitroE):
        return DiffusionSampler(model)
    return JointSampler(model) if model.full_config.joint else MaskedARSampler(model)


@dataclass
class Loader:
    """Loads variants for one device. Thread-safe; hold one per process."""

    sources: Sources = field(default_factory=Sources)
    device: torch.device = field(default_factory=pick_device)
    dtype: torch.dtype | None = None
    _text: dict[str, LlamaTextEncoder | OlmoTextEncoder] = field(default_factory=dict)
    _autoencoders: dict[str, DCAutoencoder | BitAutoencoder] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self, variant_id: str, progress: Progress = lambda part, what: None) -> LoadedVariant:
        """Load a variant and what it shares with others.

        Raises `KeyError` for an unknown id and `WeightsError`, in words for a person, for files
        that are missing, damaged, foreign or behind a licence.
        """
        variant = find_variant(variant_id)
        with self._lock:
            progress(0.0, "looking for the weights")
            model = self._model(variant, progress)
            progress(0.6, "loading the text encoder")
            text = self._text_encoder(variant, progress)
            progress(0.9, "loading the autoencoder")
            autoencoder = self._autoencoder(variant, progress)
            if isinstance(model, BitDiffusion | BitAR) and isinstance(autoencoder, BitAutoencoder):
                instella.check_pair(model, autoencoder, variant)
            progress(1.0, "loaded")
        return LoadedVariant(
            variant=variant,
            sampler=sampler_of(model),
            text=text,
            autoencoder=autoencoder,
            weights=self.weight_state(variant),
            own=(model,),
            shared=(
                (f"text encoder {variant.text_encoder}", text.model),
                (f"autoencoder {variant.autoencoder}", autoencoder.model),
            ),
            preview=self._preview(variant, autoencoder),
        )

    def _preview(
        self, variant: Variant, autoencoder: DCAutoencoder | BitAutoencoder
    ) -> PreviewDecoder | SmallDecode | None:
        if isinstance(autoencoder, BitAutoencoder):
            return SmallDecode(autoencoder)
        if not variant.embedded:
            return None
        channels = autoencoder.model.config.latent_channels
        patch = variant.resolution // variant.grid
        decoder = read_preview(self.sources.pocket / "autoencoder", channels, patch)
        return None if decoder is None else decoder.to(self.device)

    def weight_state(self, variant: Variant) -> WeightState:
        if variant.embedded:
            return "pocket"
        return "random" if self.sources.random else "official"

    def _dtype(self) -> torch.dtype:
        return self.dtype or pick_dtype(self.device)

    def _model(self, variant: Variant, progress: Progress) -> Generator:
        if variant.family == "instella":
            own = instella.load_generator(variant, self.sources, self._dtype(), progress)
            return own.to(self.device)
        with torch.device("meta"):
            model = build(variant.id)
        expected = shapes_of(model)
        if self.sources.random and not variant.embedded:
            progress(0.1, "making random weights")
            tensors = random_tensors(expected)
        else:
            file = weights_file(variant, self.sources, progress)
            progress(0.5, f"reading {file.name}")
            if variant.embedded:
                tensors = read_packed(file, expected, tables_of(model))
            else:
                tensors = read_weights(file, expected)
            if variant.lora_folder:
                progress(0.55, f"merging {variant.lora_folder}")
                tensors = merge_lora(tensors, lora_folder(variant, self.sources, progress))
        load_into(model, tensors, self._dtype())
        # Position tables follow the number type, as in the published pipeline.
        return model.to(self.device, self._dtype())

    def _text_encoder(
        self, variant: Variant, progress: Progress
    ) -> LlamaTextEncoder | OlmoTextEncoder:
        name = variant.text_encoder
        if name not in self._text:
            encoder: LlamaTextEncoder | OlmoTextEncoder
            if name == "pocket":
                folder = self.sources.pocket / "text_encoder"
                encoder = _from_folder(
                    folder, LlamaTextEncoder.from_folder, POCKET_TOKENS, self._dtype()
                )
            elif name == "amd-olmo-1b" and self.sources.random:
                encoder = instella.random_olmo(self._dtype())
            elif name == "amd-olmo-1b":
                folder = part_folder(self.sources.olmo, "text encoder", "NITRO_OLMO", progress)
                encoder = _from_folder(folder, OlmoTextEncoder.from_folder, self._dtype())
            elif self.sources.random:
                encoder = self._random_text_encoder()
            else:
                folder = part_folder(
                    self.sources.text_encoder, "text encoder", "NITRO_TEXT_ENCODER", progress
                )
                encoder = _from_folder(
                    folder, LlamaTextEncoder.from_folder, NITRO_TOKENS, self._dtype()
                )
            encoder.model.to(self.device)
            self._text[name] = encoder
        return self._text[name]

    def _random_text_encoder(self) -> LlamaTextEncoder:
        with torch.device("meta"):
            model = LlamaModel(LlamaConfig(**LLAMA_32_1B))
        tensors = random_tensors(shapes_of(model))
        rotary = type(model.rotary_emb)(model.config)  # its table is no weight: built for real
        model.rotary_emb = rotary
        load_into(model, tensors, self._dtype())
        config = model.config
        tokenizer = ByteTokenizer(config.bos_token_id, config.eos_token_id)
        return LlamaTextEncoder(model, tokenizer, NITRO_TOKENS)

    def _autoencoder(self, variant: Variant, progress: Progress) -> DCAutoencoder | BitAutoencoder:
        name = variant.autoencoder
        if name not in self._autoencoders:
            autoencoder: DCAutoencoder | BitAutoencoder
            if variant.family == "instella":
                autoencoder = instella.load_tokenizer(
                    variant, self.sources, self._dtype(), progress
                )
            elif name == "pocket":
                folder = self.sources.pocket / "autoencoder"
                autoencoder = _from_folder(folder, DCAutoencoder.from_folder, self._dtype())
            elif self.sources.random:
                with torch.device("meta"):
                    model = AutoencoderDC(**DC_AE_F32C32)
                load_into(model, random_tensors(shapes_of(model)), self._dtype())
                autoencoder = DCAutoencoder(model)
            else:
                folder = part_folder(
                    self.sources.autoencoder, "autoencoder", "NITRO_AUTOENCODER", progress
                )
                autoencoder = _from_folder(folder, DCAutoencoder.from_folder, self._dtype())
            autoencoder.model.to(self.device)
            self._autoencoders[name] = autoencoder
        return self._autoencoders[name]


def _from_folder(folder: Path, load: Callable[..., Part], *arguments: object) -> Part:
    """Load a transformers or diffusers folder; its many errors become one in words."""
    if not (folder / "config.json").is_file():
        raise WeightsError(
            f"{folder.name} holds no config.json: it is not a complete model folder."
        )
    try:
        return load(folder, *arguments)
    except WeightsError:
        raise
    except Exception as error:  # each library and version has its own kinds
        _log.warning("Loading %s failed", folder, exc_info=True)
        raise WeightsError(
            f"The files in {folder.name} could not be loaded ({type(error).__name__}; the log has "
            "the details). They may be incomplete: delete the folder and download it again."
        ) from error
