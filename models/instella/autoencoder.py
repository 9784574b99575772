"""The binary autoencoder behind the products' door: latents are bits, [bits, tokens, 1]."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.contracts import BrokenPicture
from models.instella.tokenizer import BinaryTokenizer

PREVIEW_PATCHES = 8  # a side, of a preview's grid


class BitAutoencoder:
    """See `models.contracts.Autoencoder`. `resolution` is in pixels a side."""

    def __init__(self, model: BinaryTokenizer, resolution: int) -> None:
        self.model = model.eval().requires_grad_(False)
        self.resolution = resolution

    def decode(self, latents: Tensor, resolution: int | None = None) -> Tensor:
        """[N, bits, tokens, 1] to [N, 3, R, R] in 0..1, at any size the patches allow."""
        side = (resolution or self.resolution) // self.model.config.patch
        weight = self.model.to_pixel.weight
        made = self.model.decode(latents[:, :, :, 0].mT.to(weight.device), side, side)
        if not torch.isfinite(made).all():
            raise BrokenPicture(
                "The picture could not be decoded: values are not numbers. The autoencoder's "
                "weights may be damaged: check them with `python app.py check`."
            )
        return (made.float() * 0.5 + 0.5).clamp(0, 1)

    def encode(self, pixels: Tensor) -> Tensor:
        weight = self.model.to_pixel.weight
        logits = self.model.logits((pixels * 2 - 1).to(weight.device, weight.dtype))
        if not torch.isfinite(logits).all():
            raise BrokenPicture("The picture could not be encoded: values are not numbers.")
        return (logits > 0).float().mT[:, :, :, None]


class SmallDecode(nn.Module):
    """Previews: the real decoder on a small grid. Tokens that are not there yet are left out, which
    the decoder's interface allows; it was not trained for that, so early ones look vague."""

    def __init__(self, autoencoder: BitAutoencoder) -> None:
        super().__init__()
        self._decode = autoencoder.decode
        patch, whole = autoencoder.model.config.patch, autoencoder.resolution
        self.resolution = min(PREVIEW_PATCHES * patch, whole // 2)

    def forward(self, latents: Tensor, shown: Tensor | None = None) -> Tensor:
        """`shown` is bool [N, tokens, 1]; None = all."""
        if shown is None:
            return self._decode(latents, self.resolution)
        rows = zip(latents, shown[:, :, 0], strict=True)
        return torch.cat(
            [self._decode(row[None, :, there], self.resolution) for row, there in rows]
        )
