"""Diffusion sampling of binary tokens (Instella-T2I): guess the clean bits, noise them less, again.

A picture to start from has its bits noised to the strength asked for. Kept tokens are put back after
every draw at that time's noise, and exactly as given at the end. Source: docs of the release; a
step is one pass of the network for every branch of guidance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from models.contracts import SampleSettings
from models.given import Given
from models.instella.diffusion import BitDiffusion, Modulation
from models.instella.generator import TextBatch, TextMemory
from models.instella.noise import (
    Protocol,
    certain,
    clean_probability,
    guided,
    next_probability,
    noise_times,
    noise_times_from,
    noised,
)
from models.instella.raster import raster_of
from models.randomness import draw_uniforms
from models.trajectory import Trajectory, same_flow

_TABLES = 4  # step counts whose modulations are kept; at full size 20 steps weigh 16 MB


@dataclass
class BitDiffusionState:
    """One picture in progress, on the model's device."""

    settings: SampleSettings
    texts: tuple[TextMemory, ...]  # (unconditional, prompt), or the prompt's alone
    scale: Tensor  # fp32 scalar
    uniforms: Tensor  # fp32 [draws, tokens, bits]; the first one draws the noise at the start
    times: tuple[float, ...]
    modulation: Modulation  # of every time but the last
    z: Tensor  # fp32 [tokens, bits], 0 or 1
    kept: Tensor | None = None  # bool [tokens, 1]
    source: Tensor | None = None  # fp32 [tokens, bits]: where kept tokens come from
    clean: Tensor | None = None  # probability of each clean bit, from the last step
    path: list[Tensor] = field(default_factory=list)  # z before each step that was taken
    estimates: list[Tensor] = field(default_factory=list)  # clean bits foreseen by each step
    step: int = 0


@dataclass
class BitDiffusionSampler:
    """The step contract; see `models.contracts.Sampler`. `rho` and `protocol` are the release's
    options and keep its defaults."""

    model: BitDiffusion
    rho: float = 1.0
    protocol: Protocol = 1
    _known: dict[tuple[float, ...], Modulation] = field(default_factory=dict)

    def prompt_context(self, text_rows: Tensor) -> TextMemory:
        return self.model.remember(text_rows)

    def batch_key(self, settings: SampleSettings) -> object:
        return settings.cfg_scale != 1.0

    def start(
        self,
        settings: SampleSettings,
        prompt: TextMemory,
        unconditional: TextMemory,
        uniforms: Tensor | None = None,
        *,
        given: Given | None = None,
    ) -> BitDiffusionState:
        """A new sample; its random numbers come from the seed unless they are given."""
        config, device = self.model.config, prompt.keys.device
        times = noise_times(settings.flow_steps, self.rho)
        if uniforms is None:
            # One more than a whole picture needs: a strength between two times adds a step.
            count = settings.flow_steps + 1
            uniforms = draw_uniforms(settings.seed, count, config.tokens, config.bits)
        uniforms = uniforms.to(device)
        chance, kept, source = torch.tensor(0.5, device=device), None, None
        if given is not None:
            source, free = given.rows.to(device), given.free.flatten()[:, None]
            times = noise_times_from(given.strength, settings.flow_steps, self.rho)
            chance = noised(source, times[0])
            kept = None if bool(free.all()) else ~free.to(device)
        return BitDiffusionState(
            settings=settings,
            texts=(unconditional, prompt) if settings.cfg_scale != 1.0 else (prompt,),
            scale=torch.tensor(float(settings.cfg_scale), device=device),
            uniforms=uniforms,
            times=times,
            modulation=self._modulation(times),
            z=(uniforms[0] < chance).float(),
            kept=kept,
            source=source,
        )

    def resume(
        self,
        settings: SampleSettings,
        prompt: TextMemory,
        unconditional: TextMemory,
        *,
        trajectory: Trajectory,
        step: int,
    ) -> BitDiffusionState:
        """On the same path where the draws are the same, with the times that are left. After all
        steps it is the finished picture."""
        if step == trajectory.steps:
            return self._finished(settings, prompt, unconditional, trajectory)
        state = self.start(settings, prompt, unconditional, given=trajectory.moment(step))
        theirs = trajectory.settings
        if trajectory.kind != "bit-diffusion" or not same_flow(theirs, settings):
            return state
        device = state.z.device
        state.z = trajectory.path[step].to(device)
        if theirs.flow_steps == settings.flow_steps:
            state.times, state.step = trajectory.sigmas, step
            state.path = [point.to(device) for point in trajectory.path[:step]]
            state.estimates = [point.to(device) for point in trajectory.estimates[:step]]
            state.modulation = self._modulation(state.times)
        return state

    def _finished(
        self,
        settings: SampleSettings,
        prompt: TextMemory,
        unconditional: TextMemory,
        trajectory: Trajectory,
    ) -> BitDiffusionState:
        state = self.start(settings, prompt, unconditional)
        state.z = state.clean = trajectory.rows.to(state.z.device)
        state.times, state.step = trajectory.sigmas, trajectory.steps
        state.path, state.estimates = list(trajectory.path), list(trajectory.estimates)
        state.kept = trajectory.kept
        return state

    def trajectory(self, state: BitDiffusionState) -> Trajectory:
        return Trajectory(
            kind="bit-diffusion",
            settings=state.settings,
            steps=self.num_steps(state),
            latent=self.latent(state),
            kept=state.kept,
            path=tuple(state.path),
            sigmas=state.times,
            estimates=tuple(state.estimates),
        )

    def num_steps(self, state: BitDiffusionState) -> int:
        return len(state.times) - 1

    def advance(self, states: Sequence[BitDiffusionState]) -> None:
        """One step back for each state."""
        branches = len(states[0].texts)
        z = torch.stack([state.z for state in states])  # [B, tokens, bits]
        time = Modulation.of([state.modulation.row(state.step) for state in states], branches)
        text = TextBatch.of([state.texts[b] for b in range(branches) for state in states])
        logits = self.model(z.repeat(branches, 1, 1), time, text).float()
        if branches == 2:
            scale = torch.stack([state.scale for state in states])[:, None, None]
            empty, prompted = logits.chunk(2)
            logits = guided(empty, prompted, scale)
        for state, own in zip(states, logits, strict=True):
            self._step(state, own)

    def _step(self, state: BitDiffusionState, logits: Tensor) -> None:
        now, after = state.times[state.step], state.times[state.step + 1]
        state.clean = clean_probability(state.z, certain(logits, state.settings.temperature))
        if state.kept is not None:
            state.clean = torch.where(state.kept, state.source, state.clean)
        state.path.append(state.z)
        bits = (state.clean > 0.5).float()
        state.estimates.append(torch.where(state.clean.isnan(), state.clean, bits))  # so that
        # decoding refuses what is no number
        state.step += 1
        if state.step == self.num_steps(state):
            state.z = state.estimates[-1]
            return
        chance = next_probability(state.z, state.clean, now, after, self.protocol)
        if state.kept is not None:
            chance = torch.where(state.kept, noised(state.source, after), chance)
        state.z = (state.uniforms[state.step] < chance).float()

    def _modulation(self, times: tuple[float, ...]) -> Modulation:
        device = self.model.proj_out.weight.device
        known = self._known.get(times)
        if known is None or known.out.device != device:
            known = self.model.modulation(torch.tensor(times[:-1], device=device))
            if times[0] == 1.0:  # strengths are many, step counts few
                while len(self._known) >= _TABLES:
                    del self._known[next(iter(self._known))]
                self._known[times] = known
        return known

    def latent(self, state: BitDiffusionState) -> Tensor:
        """The clean bits foreseen while under way, the sample at the end, [bits, tokens, 1]."""
        done = state.step >= self.num_steps(state) or not state.estimates
        return (state.z if done else state.estimates[-1]).T[:, :, None]

    def shown(self, state: BitDiffusionState) -> bool:
        return bool(state.estimates)

    def committed(self, state: BitDiffusionState) -> None:
        return None

    def noise_level(self, state: BitDiffusionState) -> float:
        return state.times[state.step]

    def raster(self, state: BitDiffusionState) -> Tensor:
        """The bits as they stand, and how sure the clean ones are."""
        clean = torch.full_like(state.z, 0.5) if state.clean is None else state.clean
        return raster_of(state.z, (2 * clean - 1).abs())
