"""Autoencoder: latents to pixels and back, through diffusers' `AutoencoderDC`.

Generators work on latents of about unit variance; the autoencoder's own are `1 / scale` times as
large. Decoding guards against values that are no numbers, which half precision can produce here.
"""

from __future__ import annotations

from pathlib import Path

import torch
from diffusers import AutoencoderDC
from torch import Tensor

from models.contracts import BrokenPicture
from models.packed import FILE as PACKED
from models.packed import read_packed
from models.weights import load_into, shapes_of


class DCAutoencoder:
    """The adapter around an `AutoencoderDC`; see `models.contracts.Autoencoder`."""

    def __init__(self, model: AutoencoderDC, scale: float | None = None) -> None:
        self.model = model.eval().requires_grad_(False)
        self.scale = float(scale if scale is not None else model.config.scaling_factor)

    @classmethod
    def from_folder(cls, folder: Path, dtype: torch.dtype) -> DCAutoencoder:
        """From a folder in diffusers' layout, or with its weights in 8 bits. Raises what diffusers
        raises, or `models.weights.WeightsError`."""
        if (folder / PACKED).is_file():
            with torch.device("meta"):
                model = AutoencoderDC.from_config(AutoencoderDC.load_config(folder))
            load_into(model, read_packed(folder / PACKED, shapes_of(model)), dtype)
            return cls(model)
        return cls(AutoencoderDC.from_pretrained(folder, torch_dtype=dtype, use_safetensors=True))

    def decode(self, latents: Tensor, resolution: int | None = None) -> Tensor:
        weight = self.model.decoder.conv_in.weight
        made = self.model.decoder((latents / self.scale).to(weight.device, weight.dtype))
        if not torch.isfinite(made).all():
            made = self._decode_exactly(latents)
        return (made.float() * 0.5 + 0.5).clamp(0, 1)

    def _decode_exactly(self, latents: Tensor) -> Tensor:
        """The same in fp32, for pictures that half precision cannot hold."""
        weight = self.model.decoder.conv_in.weight
        if not torch.isfinite(latents).all():
            raise BrokenPicture(
                "The model produced values that are not numbers. Try another seed or a lower CFG "
                "scale; if every picture fails, the weights are damaged."
            )
        usual = weight.dtype  # before `float`, which changes the parameters in place
        if usual != torch.float32:
            self.model.decoder.float()
            try:
                made = self.model.decoder((latents.float() / self.scale).to(weight.device))
            finally:
                self.model.decoder.to(usual)
            if torch.isfinite(made).all():
                return made
        raise BrokenPicture(
            "The picture could not be decoded, even in full precision. The autoencoder's weights "
            "may be damaged: check them with `python app.py check`."
        )

    def encode(self, pixels: Tensor) -> Tensor:
        weight, encoder = self.model.decoder.conv_in.weight, self.model.encoder
        made = encoder((pixels * 2 - 1).to(weight.device, weight.dtype))
        if not torch.isfinite(made).all():  # as in decoding: half precision may be too narrow
            encoder.float()
            try:
                made = encoder((pixels.float() * 2 - 1).to(weight.device))
            finally:
                encoder.to(weight.dtype)
        if not torch.isfinite(made).all():
            raise BrokenPicture(
                "The picture could not be encoded, even in full precision. The autoencoder's "
                "weights may be damaged: check them with `python app.py check`."
            )
        return made * self.scale
