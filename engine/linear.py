"""A latent-to-RGB map that teaches itself: the cheap preview.

Each token's patch of pixels is a linear function of the latents of the token and its eight
neighbours. The map is the ridge solution of normal equations that accumulate over decoded
pictures, so it fits whatever autoencoder is used and needs no files. A latent of 8 x 8 tokens
takes one small matrix product, some hundredths of what decoding it takes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from models.instella.autoencoder import SmallDecode
from models.preview import PreviewDecoder

_RIDGE = 1e-3  # of the features' mean power
_LEARN_PICTURES = 48  # pictures after which the map has learnt enough
NEUTRAL = 0.5  # grey level of what is not there yet
_BIG_PATCH = 8  # pixels a token, where a picture is larger than a preview


class LinearPreview:
    """One autoencoder's map. Learns on the CPU in fp64, renders wherever the latents are."""

    def __init__(self, channels: int, pixels_per_token: int, resolution: int, limit: int) -> None:
        if channels < 1 or pixels_per_token < 1:
            raise ValueError(f"No map for {channels} channels, {pixels_per_token} px a token.")
        fits = resolution <= limit
        self._limit = limit
        self.patch = pixels_per_token if fits else min(_BIG_PATCH, pixels_per_token)
        features, targets = 9 * channels + 1, 3 * self.patch**2
        self._gram = torch.zeros(features, features, dtype=torch.float64)
        self._cross = torch.zeros(features, targets, dtype=torch.float64)
        self._kernel: Tensor | None = None  # fp32 [3 p p, C, 3, 3]
        self._bias: Tensor | None = None  # fp32 [3 p p]
        self._solve_at = 1
        self.pictures = 0

    @property
    def ready(self) -> bool:
        return self._kernel is not None

    @property
    def learning(self) -> bool:
        return self.pictures < _LEARN_PICTURES

    def learn(self, latents: Tensor, pixels: Tensor) -> None:
        """Take in [N, C, h, w] and what they decode to, [N, 3, H, W] in 0..1.

        Solves anew when the pictures seen have doubled: about six times in all.
        """
        if not self.learning or not bool(torch.isfinite(latents).all() & pixels.isfinite().all()):
            return
        latents, pixels = latents.cpu().double(), pixels.cpu().double()
        height, width = latents.shape[-2] * self.patch, latents.shape[-1] * self.patch
        small = F.interpolate(pixels, size=(height, width), mode="area")
        targets = _rows(F.unfold(small, self.patch, stride=self.patch))  # [N h w, 3 p p]
        features = _features(latents)  # [N h w, 9 C + 1]
        self._gram += features.T @ features
        self._cross += features.T @ targets
        self.pictures += len(latents)
        if self.pictures >= self._solve_at:
            self._solve_at = 2 * self.pictures
            self._solve()

    def _solve(self) -> None:
        power = self._gram.diagonal()[:-1].mean().clamp(min=1e-8)
        ridge = torch.full_like(self._gram.diagonal(), float(_RIDGE * power))
        ridge[-1] = 1e-9  # the bias is free: with nothing known the map gives the mean colour
        solution = torch.linalg.solve(self._gram + torch.diag(ridge), self._cross)
        channels = (len(solution) - 1) // 9
        self._kernel = solution[:-1].T.float().unflatten(1, (channels, 3, 3)).contiguous()
        self._bias = solution[-1].float()

    def render(self, latents: Tensor, shown: Tensor | None = None) -> Tensor:
        """[N, C, h, w] to [N, 3, h p, w p] in 0..1, at most the preview limit a side.

        `shown` is bool [N, h, w] or None for all: the other tokens get a neutral tone. A handful
        of operations in all, as this runs after every step.
        """
        if self._kernel is None or self._bias is None:
            raise RuntimeError("The preview map has seen no picture yet.")
        if self._kernel.device != latents.device:
            self._kernel, self._bias = (
                self._kernel.to(latents.device),
                self._bias.to(latents.device),
            )
        around = F.pad(latents.float(), (1, 1, 1, 1), mode="replicate")
        patches = F.conv2d(around, self._kernel, self._bias)  # [N, 3 p p, h, w]
        if shown is not None:
            patches = torch.where(shown[:, None], patches, NEUTRAL)
        return F.pixel_shuffle(patches, self.patch).clamp(0, 1)


class TrainedPreview:
    """A small decoder that was trained beforehand, in the linear map's place."""

    ready, learning = True, False

    def __init__(self, decoder: PreviewDecoder | SmallDecode) -> None:
        self._decoder = decoder

    def learn(self, latents: Tensor, pixels: Tensor) -> None:
        """It has learnt already."""

    def render(self, latents: Tensor, shown: Tensor | None = None) -> Tensor:
        """As `LinearPreview.render`, at the decoder's own size."""
        pixels = self._decoder(latents, shown).float().clamp(0, 1)
        # Tokens of a row have no place in the picture that could be covered.
        return pixels if latents.shape[-1] == 1 else veil(pixels, shown)


def _rows(columns: Tensor) -> Tensor:
    """[N, K, L] to [N L, K]."""
    return columns.transpose(1, 2).reshape(-1, columns.shape[1])


def _features(latents: Tensor) -> Tensor:
    """[N, C, h, w] to [N h w, 9 C + 1]: each token with its neighbours and a one."""
    around = _rows(F.unfold(F.pad(latents, (1, 1, 1, 1), mode="replicate"), 3))
    return torch.cat([around, around.new_ones(len(around), 1)], dim=1)


def practice_pictures(count: int, resolution: int, grid: int) -> Tensor:
    """[count, 3, R, R]: soft colour fields with hard discs, to encode where nothing is drawn yet."""
    random = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 3, grid // 2 + 1, grid // 2 + 1, generator=random)
    fields = F.interpolate(coarse, size=(resolution, resolution), mode="bicubic").clamp(0, 1)
    axis = torch.linspace(0, 1, resolution)
    for picture in fields:
        for x, y, radius, *colour in torch.rand(4, 6, generator=random).tolist():
            inside = (axis[:, None] - y) ** 2 + (axis[None] - x) ** 2 < (0.1 + radius / 5) ** 2
            picture[:, inside] = torch.tensor(colour)[:, None]
    return fields


def veil(pixels: Tensor, shown: Tensor | None) -> Tensor:
    """Cover tokens that are not there yet by the neutral tone, [N, 3, H, W] and bool [N, h, w]."""
    if shown is None:
        return pixels
    there = F.interpolate(shown[:, None].to(pixels), size=pixels.shape[-2:])
    return torch.lerp(torch.full_like(pixels, NEUTRAL), pixels, there)
