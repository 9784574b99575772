"""Other people's few-step models, built by diffusers at full size with random weights.

Speed does not depend on what the weights say, so nothing is downloaded. Configurations are those
of the models' Hub repositories; the prompt's embedding is given, as ours is when it is cached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from diffusers import AutoencoderDC, AutoencoderKL, SanaTransformer2DModel, UNet2DConditionModel
from torch import Tensor, nn

from models.published import DC_AE_F32C32

_SANA_06B = {
    "in_channels": 32, "out_channels": 32, "num_attention_heads": 36, "attention_head_dim": 32,
    "num_layers": 28, "num_cross_attention_heads": 16, "cross_attention_head_dim": 72,
    "cross_attention_dim": 1152, "caption_channels": 2304, "mlp_ratio": 2.5, "sample_size": 16,
    "patch_size": 1,
}  # fmt: skip
_SD_UNET = {
    "sample_size": 64, "cross_attention_dim": 1024, "attention_head_dim": (5, 10, 20, 20),
    "use_linear_projection": True,
}  # fmt: skip
_SD_VAE = {
    "block_out_channels": (128, 256, 512, 512), "layers_per_block": 2, "latent_channels": 4,
    "down_block_types": ("DownEncoderBlock2D",) * 4, "up_block_types": ("UpDecoderBlock2D",) * 4,
}  # fmt: skip


@dataclass
class Peer:
    """A model at its usual settings for one 512-px picture."""

    backbone: nn.Module
    decoder: nn.Module
    steps: int
    step: Callable[[nn.Module, Tensor], Tensor]  # backbone and latent to the model's output
    latent: tuple[int, ...]  # [1, C, h, w]

    def __post_init__(self) -> None:
        for part in (self.backbone, self.decoder):
            part.eval().requires_grad_(False)

    @torch.no_grad()
    def draw(self) -> Tensor:
        """One picture from noise; the scheduler's own arithmetic is negligible and left out."""
        weight = next(self.backbone.parameters())
        x = torch.randn(self.latent, device=weight.device).to(weight.dtype)
        for _ in range(self.steps):
            x = x - self.step(self.backbone, x) / self.steps
        return self.decoder(x)


def _sana_step(guided: bool, sprint: bool) -> Callable[[nn.Module, Tensor], Tensor]:
    def step(model: nn.Module, x: Tensor) -> Tensor:
        count = 2 if guided else 1
        text = x.new_zeros(count, 300, 2304)
        time = x.new_full((count,), 500.0)
        options = {"guidance": x.new_full((1,), 4.5)} if sprint else {}
        made = model(x.repeat(count, 1, 1, 1), text, time, return_dict=False, **options)[0]
        return made[:1] + 3.5 * (made[-1:] - made[:1]) if guided else made

    return step


def _unet_step(model: nn.Module, x: Tensor) -> Tensor:
    return model(x, 999, x.new_zeros(1, 77, 1024), return_dict=False)[0]


def _dc_ae() -> nn.Module:
    return AutoencoderDC.from_config(DC_AE_F32C32).decoder


def sana() -> Peer:
    """Sana 0.6B at 512 px: 20 steps with guidance."""
    return Peer(SanaTransformer2DModel(**_SANA_06B), _dc_ae(), 20, _sana_step(True, False),
                (1, 32, 16, 16))  # fmt: skip


def sana_sprint() -> Peer:
    """SANA-Sprint 0.6B at 512 px: two steps, guidance as an input."""
    config = {**_SANA_06B, "guidance_embeds": True, "qk_norm": "rms_norm_across_heads"}
    return Peer(SanaTransformer2DModel(**config), _dc_ae(), 2, _sana_step(False, True),
                (1, 32, 16, 16))  # fmt: skip


def sd_turbo() -> Peer:
    """SD-Turbo at 512 px: the UNet of Stable Diffusion 2.1, one step."""
    vae = AutoencoderKL(**_SD_VAE)
    decoder = nn.Sequential(vae.post_quant_conv, vae.decoder)
    return Peer(UNet2DConditionModel(**_SD_UNET), decoder, 1, _unet_step, (1, 4, 64, 64))


PEERS: dict[str, Callable[[], Peer]] = {
    "SD-Turbo": sd_turbo,
    "SANA-Sprint 0.6B": sana_sprint,
    "Sana 0.6B": sana,
}
