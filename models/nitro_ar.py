"""Nitro-AR: the backbone with its flow head, under the official checkpoint's names.

`gan` has an MLP head, `joint` a transformer head and a second one for the global token. Published
and Pocket sizes are values of one config class.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from models.emmdit import EMMDiT, EMMDiTConfig
from models.heads import HeadConfig, MLPHead, TransformerHead


@dataclass(frozen=True)
class NitroARConfig:
    """A whole Nitro-AR model. The joint flavour (transformer head) also has a global head."""

    backbone: EMMDiTConfig = field(default_factory=EMMDiTConfig)
    head: HeadConfig = field(default_factory=lambda: HeadConfig("mlp"))
    global_head: HeadConfig | None = None  # of the joint flavour; None = like `head`

    @property
    def joint(self) -> bool:
        return self.head.kind == "transformer"

    def __post_init__(self) -> None:
        if self.joint != self.backbone.global_pass:
            raise ValueError("A transformer head and a backbone with a global pass go together.")


NITRO_AR_GAN = NitroARConfig()
NITRO_AR_JOINT_GAN = NitroARConfig(
    EMMDiTConfig(norm="rms", global_pass=True), HeadConfig("transformer")
)

# 8 x 8 tokens; neighbours are a whole unit apart in the position code, as there are so few.
_POCKET_BACKBONE = {
    "grid": 8,
    "width": 160,
    "head_dim": 32,
    "text_width": 160,
    "groups": (1, 3, 1),
    "position_step": 1.0,
}
POCKET_AR = NitroARConfig(
    EMMDiTConfig(**_POCKET_BACKBONE),  # type: ignore[arg-type]
    HeadConfig("mlp", width=192, depth=3),
)
POCKET_AR_JOINT = NitroARConfig(
    EMMDiTConfig(**_POCKET_BACKBONE, norm="rms", global_pass=True),  # type: ignore[arg-type]
    HeadConfig("transformer", width=160, depth=2, head_dim=32),
    global_head=HeadConfig("transformer", width=160, depth=1, head_dim=32),
)


class HeadSlot(nn.Module):
    """The checkpoint keeps a head one level down, as `diffloss.net`."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net


class NitroAR(EMMDiT):
    """Backbone and head(s) in one state dict, as published."""

    def __init__(self, config: NitroARConfig) -> None:
        super().__init__(config.backbone)
        self.full_config = config
        backbone, head = config.backbone, config.head
        if config.joint:
            heads = {"diffloss": head, "diffloss_global": config.global_head or head}
            for name, numbers in heads.items():
                net = TransformerHead(
                    numbers,
                    backbone.channels,
                    backbone.width,
                    backbone.grid,
                    backbone.position_step,
                )
                setattr(self, name, HeadSlot(net))
        else:
            self.diffloss = HeadSlot(MLPHead(head, backbone.channels, backbone.width))
