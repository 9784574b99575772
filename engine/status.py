"""What the engine says about itself: plain values, copied at the moment of asking."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from models.catalogue import Variant, find_variant
from models.contracts import WeightState

LoadState = Literal["waiting", "loading", "ready", "failed"]


@dataclass(frozen=True)
class VariantStatus:
    """One variant's place in the warm pool. `message` is for people: progress, or what failed."""

    id: str
    title: str
    state: LoadState
    message: str = ""
    progress: float = 0.0  # 0..1 while loading
    weights: WeightState | None = None
    memory_bytes: int = 0
    on_device: bool = False

    @property
    def variant(self) -> Variant:
        """The catalogue's entry: resolution, grid, ranges, licence."""
        return find_variant(self.id)


@dataclass(frozen=True)
class MemoryAccount:
    """Bytes of weights on the device. Shared parts count once."""

    own_bytes: int
    shared_bytes: int
    budget_bytes: int | None

    @property
    def total_bytes(self) -> int:
        return self.own_bytes + self.shared_bytes


@dataclass
class Counters:
    """Since the start. A step is one call of a sampler; `samples_stepped` counts its samples."""

    submitted: int = 0
    steps: int = 0
    samples_stepped: int = 0
    finished: int = 0
    failed: int = 0  # of whatever kind; the next three say of which, the rest is errors
    failed_out_of_memory: int = 0
    failed_broken_picture: int = 0
    failed_unavailable: int = 0  # the variant has no weights
    out_of_memory: int = 0  # steps that did not fit; most succeed in smaller batches
    supersedes: int = 0
    cancels: int = 0
    reused: int = 0  # finished pictures given again without a step
    adopted: int = 0  # unfinished pictures whose progress an equal newer request took over
    retried: int = 0  # samples begun again after their batch failed
    refused: int = 0  # queue full
    previews: int = 0
    previews_dropped: int = 0  # steps nobody had read when the next came
    step_s: float = 0.0
    prepare_s: float = 0.0
    preview_s: float = 0.0
    decode_s: float = 0.0


@dataclass(frozen=True)
class EngineStatus:
    """One look at everything."""

    variants: tuple[VariantStatus, ...]
    waiting: int
    running: int
    max_batch: int
    memory: MemoryAccount
    counters: Counters
    step_ms: dict[str, float] = field(default_factory=dict)  # per variant, measured
    decode_ms: dict[str, float] = field(default_factory=dict)
    closed: bool = False

    @property
    def ready(self) -> tuple[str, ...]:
        return tuple(v.id for v in self.variants if v.state == "ready")


@dataclass(frozen=True)
class PromptInfo:
    """How a variant's text encoder sees a prompt. Counts are None until it is loaded."""

    tokens: int | None = None
    limit: int | None = None
    unknown: tuple[str, ...] = ()
    nearest: tuple[str, ...] = ()  # known words to try in place of the unknown ones
    unread: str = ""  # the end of the prompt that does not fit

    @property
    def truncated(self) -> bool:
        return self.tokens is not None and self.limit is not None and self.tokens > self.limit

    def notes(self) -> tuple[str, ...]:
        """Hints for the person who typed the prompt."""
        out = []
        if self.truncated:
            out.append(
                f"The prompt has {self.tokens} tokens; the model reads the first {self.limit}."
            )
        if self.unknown:
            words = ", ".join(self.unknown[:8])
            instead = f" Try: {', '.join(self.nearest)}." if self.nearest else ""
            out.append(f"This model doesn't know: {words}.{instead}")
        return tuple(out)
