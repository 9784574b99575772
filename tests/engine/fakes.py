"""A small world that follows the contracts: pictures whose colour is their prompt's.

`FakeSampler.before_step` runs in the worker's thread before every step, with the states that
share it. Tests hook in there, so races happen exactly where a test wants them, without sleeping.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine.engine import Engine
from engine.events import Finished
from engine.job import Job
from engine.limits import EngineLimits
from engine.pool import Progress
from engine.requests import GenerationRequest
from models.catalogue import find_variant
from models.contracts import BrokenPicture, LoadedVariant, SampleSettings
from models.given import GIVEN, Given, open_order
from models.trajectory import Trajectory

CHANNELS, GRID, SIDE = 4, 8, 128
Hook = Callable[[Sequence["FakeState"]], None]


def colour_of(prompt: str) -> tuple[int, int, int]:
    """The colour the fake draws a prompt in."""
    digest = hashlib.sha256(prompt.encode()).digest()
    return digest[0], digest[1], digest[2]


@dataclass(eq=False)
class FakeState:
    settings: SampleSettings
    context: Tensor
    noise: Tensor  # [C, h, w]
    order: Tensor  # [free cells]
    step: int = 0
    tokens: Tensor = field(default_factory=lambda: torch.zeros(CHANNELS, GRID, GRID))
    grid: Tensor = field(default_factory=lambda: torch.zeros(GRID, GRID, dtype=torch.int16))


class FakeSampler:
    """Commits tokens in a seeded order; a step takes `work` small matrix products."""

    def __init__(self, work: int = 0) -> None:
        self.work = work
        self.before_step: Hook = lambda states: None
        self.batches: list[tuple[int, ...]] = []  # progress of the samples of every step
        self.contexts = 0
        self.started = 0
        self.threads: set[str] = set()
        self.given: list[Given] = []
        self._busy = torch.eye(192)

    def prompt_context(self, text_rows: Tensor) -> Tensor:
        self.contexts += 1
        return text_rows.clone()

    def start(
        self,
        settings: SampleSettings,
        prompt: Any,
        unconditional: Any,
        *,
        given: Given | None = None,
    ) -> FakeState:
        self.started += 1
        random = torch.Generator().manual_seed(settings.seed)
        noise = torch.randn(CHANNELS, GRID, GRID, generator=random) * settings.temperature
        order = torch.randperm(GRID * GRID, generator=random)
        context = prompt + 0 * unconditional
        state = FakeState(settings, context, noise, open_order(order, given))
        if given is not None:
            self.given.append(given)
            kept = torch.ones(GRID * GRID, dtype=torch.bool).index_fill_(0, state.order, False)
            state.tokens = torch.where(kept.view(GRID, GRID), given.latent, 0.0)
            state.grid.view(-1)[kept] = GIVEN
        return state

    def resume(
        self,
        settings: SampleSettings,
        prompt: Any,
        unconditional: Any,
        *,
        trajectory: Trajectory,
        step: int,
    ) -> FakeState:
        known = trajectory.known(step)
        state = self.start(settings, prompt, unconditional)
        state.tokens = torch.where(known, trajectory.latent, 0.0)
        state.grid = torch.where(known, trajectory.committed, 0)
        state.step = step
        return state

    def trajectory(self, state: FakeState) -> Trajectory:
        return Trajectory(
            "mlp-head", state.settings, self.num_steps(state), state.tokens, state.grid
        )

    def num_steps(self, state: FakeState) -> int:
        return state.settings.ar_iterations

    def advance(self, states: Sequence[FakeState]) -> None:
        self.threads.add(threading.current_thread().name)
        self.batches.append(tuple(state.step for state in states))
        self.before_step(states)
        for _ in range(self.work):
            self._busy = self._busy @ self._busy
        for state in states:
            total = self.num_steps(state)
            last = math.ceil(len(state.order) * (state.step + 1) / total)
            first = math.ceil(len(state.order) * state.step / total)
            now = state.order[first:last]
            colour = state.context[0, :3].reshape(3, 1)
            flat = state.tokens.view(CHANNELS, -1)
            flat[:, now] = 0.02 * state.noise.view(CHANNELS, -1)[:, now]
            flat[:3, now] += colour
            state.step += 1
            state.grid.view(-1)[now] = state.step

    def batch_key(self, settings: SampleSettings) -> object:
        return settings.flow_steps

    def latent(self, state: FakeState) -> Tensor:
        return state.tokens

    def shown(self, state: FakeState) -> Tensor | bool:
        return state.grid != 0

    def committed(self, state: FakeState) -> Tensor | None:
        return state.grid

    def noise_level(self, state: FakeState) -> float | None:
        return None

    def raster(self, state: FakeState) -> None:
        return None


class FakeText:
    """Every word is a token; words with an x are unknown. Fails when two threads count at once."""

    max_tokens = 16

    def __init__(self) -> None:
        self.encoded: list[str] = []
        self._inside = threading.Lock()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._inside.acquire(blocking=False):
            raise RuntimeError("Already borrowed")
        try:
            yield
        finally:
            self._inside.release()

    def encode(self, prompts: Sequence[str]) -> Tensor:
        self.encoded += prompts
        rows = torch.zeros(len(prompts), 2, 4)
        for index, prompt in enumerate(prompts):
            rows[index, :, :3] = torch.tensor(colour_of(prompt)) / 255
        return rows

    def count_tokens(self, prompt: str) -> int:
        with self._alone():
            return len(prompt.split())

    def unknown_words(self, prompt: str) -> list[str]:
        with self._alone():
            return [word for word in prompt.split() if "x" in word]

    def nearest_words(self, word: str) -> list[str]:
        return [word.replace("x", "g")]


class FakeAutoencoder:
    """Nearest upsampling of the first three channels; `work` makes it as dear as a real one."""

    def __init__(self, work: int = 0) -> None:
        self.work = work
        self.decoded = self.encoded = 0
        self._busy = torch.eye(192)

    def decode(self, latents: Tensor, resolution: int | None = None) -> Tensor:
        if not torch.isfinite(latents).all():
            raise BrokenPicture("The picture has values that are not numbers. Try another seed.")
        self.decoded += len(latents)
        for _ in range(self.work * len(latents)):
            self._busy = self._busy @ self._busy
        pixels = latents[:, :3].float().clamp(0, 1)
        return torch.nn.functional.interpolate(pixels, size=(SIDE, SIDE))

    def encode(self, pixels: Tensor) -> Tensor:
        self.encoded += len(pixels)
        small = torch.nn.functional.interpolate(pixels, size=(GRID, GRID), mode="area")
        return torch.cat([small, small.mean(1, keepdim=True)], dim=1)


class FakeWorld:
    """The loader of an engine under test, and handles to what it loaded."""

    def __init__(self, step_work: int = 0, decode_work: int = 0) -> None:
        self.sampler = FakeSampler(step_work)
        self.samplers: dict[str, FakeSampler] = {}
        self.text = FakeText()
        self.autoencoder = FakeAutoencoder(decode_work)
        self.failures: dict[str, Exception] = {}
        self.gates: dict[str, threading.Event] = {}
        self.loads: list[str] = []

    def load(self, variant_id: str, progress: Progress) -> LoadedVariant:
        self.loads.append(variant_id)
        progress(0.5, "Reading weights.")
        if variant_id in self.gates:
            assert self.gates[variant_id].wait(10)
        if variant_id in self.failures:
            raise self.failures[variant_id]
        sampler = self.sampler if not self.samplers else FakeSampler(self.sampler.work)
        sampler.before_step = self.sampler.before_step
        self.samplers[variant_id] = sampler
        return LoadedVariant(
            variant=find_variant(variant_id),
            sampler=sampler,
            text=self.text,
            autoencoder=self.autoencoder,
            weights="random",
            own=(nn.Linear(16, 16, bias=False),),  # 1024 bytes
            shared=(("autoencoder", nn.Linear(8, 8, bias=False)),),  # 256 bytes
        )

    def reset(self) -> None:
        """Forget what the warm-up did."""
        for sampler in self.samplers.values():
            sampler.batches.clear()
            sampler.contexts = sampler.started = 0
        self.text.encoded.clear()
        self.autoencoder.decoded = self.autoencoder.encoded = 0


@contextmanager
def running(
    world: FakeWorld,
    variants: Sequence[str] = ("pocket-ar",),
    limits: EngineLimits | None = None,
) -> Iterator[Engine]:
    """A warm engine, closed afterwards."""
    engine = Engine(world.load, variants, limits=limits)
    try:
        assert engine.wait_ready(10)
        world.reset()
        yield engine
    finally:
        engine.close()


def request(prompt: str = "a red apple", **settings: Any) -> GenerationRequest:
    """Twelve iterations unless another variant or number is asked for, whatever the default."""
    own = {} if "variant" in settings else {"ar_iterations": 12}
    return GenerationRequest(**{"prompt": prompt, "variant": "pocket-ar", **own, **settings})


def end(job: Job, timeout: float = 10.0) -> Any:
    """Read to the end; the last event."""
    last = None
    while (event := job.next(timeout)) is not None:
        last = event
    assert job.channel.over, "the job has not ended in time"
    return last


def picture(job: Job) -> np.ndarray[Any, Any]:
    """The finished picture."""
    last = end(job)
    assert isinstance(last, Finished), last
    return last.image


class Hold:
    """Stops the worker before a step until released: a hook for `before_step`."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._go = threading.Event()

    def __call__(self, states: Sequence[FakeState]) -> None:
        self.reached.set()
        assert self._go.wait(10), "never released"

    def release(self) -> None:
        self._go.set()
