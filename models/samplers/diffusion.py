"""Diffusion sampling of whole pictures (Nitro-E): Euler steps along a rectified flow.

Every step runs the model on all tokens. Samples at different noise levels share a forward, as
time enters per sample.

A picture to start from is noised to the strength asked for and denoised from there. Kept cells are
put back after every step at that step's noise level, and exactly as given at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from models.contracts import SampleSettings
from models.given import Anchor, Given
from models.nitro_e import NitroE
from models.randomness import Randomness, draw
from models.schedules import diffusion_sigmas, diffusion_sigmas_from
from models.trajectory import Trajectory, same_flow


@dataclass
class DiffusionState:
    """One picture in progress, on the model's device."""

    settings: SampleSettings
    texts: tuple[Tensor, ...]  # (unconditional, prompt) embedded rows [1, L, D], or the prompt's
    scale: Tensor  # fp32 scalar
    noise: Tensor  # fp32 [T, C]
    sigmas: tuple[float, ...]  # noise level before each step, and 0 at the end
    times: Tensor  # [steps, 6, D]: modulation by time at each step
    z: Tensor  # fp32 [T, C]
    anchor: Anchor | None = None  # the picture whose kept cells are held
    estimate: Tensor | None = None  # fp32 [T, C]: the clean tokens z is heading for
    path: list[Tensor] = field(default_factory=list)  # z before each step that was taken
    step: int = 0


@dataclass
class DiffusionSampler:
    """The step contract for Nitro-E; see `models.contracts.Sampler`. A step is a flow step."""

    model: NitroE
    _times: dict[tuple[float, ...], Tensor] = field(default_factory=dict)

    def prompt_context(self, text_rows: Tensor) -> Tensor:
        """Embedded text [1, L, D]."""
        weight = self.model.context_embedder.weight
        return self.model.embed_text(text_rows[None].to(weight.device, weight.dtype))

    def batch_key(self, settings: SampleSettings) -> object:
        return settings.cfg_scale > 1.0

    def start(
        self,
        settings: SampleSettings,
        prompt: Tensor,
        unconditional: Tensor,
        random: Randomness | None = None,
        *,
        given: Given | None = None,
    ) -> DiffusionState:
        """A new sample; its random numbers come from the seed unless they are given."""
        config, device = self.model.config, prompt.device
        random = random or draw(settings.seed, config.tokens, config.channels)
        noise = (random.fields[0] * settings.temperature).to(device)
        z, sigmas, anchor = noise, diffusion_sigmas(settings.flow_steps), None
        if given is not None:
            free = given.free.flatten()
            sigmas = diffusion_sigmas_from(given.strength, settings.flow_steps)
            z = (1 - sigmas[0]) * given.rows.to(device) + sigmas[0] * noise
            anchor = None if free.all() else Anchor.of(given, free, device)
        guided = settings.cfg_scale > 1.0
        return DiffusionState(
            settings=settings,
            texts=(unconditional, prompt) if guided else (prompt,),
            scale=torch.tensor(float(settings.cfg_scale), device=device),
            noise=noise,
            sigmas=sigmas,
            times=self._time_rows(sigmas),
            z=z,
            anchor=anchor,
        )

    def resume(
        self,
        settings: SampleSettings,
        prompt: Tensor,
        unconditional: Tensor,
        *,
        trajectory: Trajectory,
        step: int,
    ) -> DiffusionState:
        """On the same flow where the noise is the same, with the noise levels that are left."""
        moment, theirs = trajectory.moment(step), trajectory.settings
        state = self.start(settings, prompt, unconditional, given=moment)
        if trajectory.kind != "diffusion" or not same_flow(theirs, settings):
            return state
        device = state.z.device
        if theirs.flow_steps == settings.flow_steps:
            state.sigmas, state.step = trajectory.sigmas, step
            state.path = [point.to(device) for point in trajectory.path[:step]]
        else:
            state.sigmas = diffusion_sigmas_from(trajectory.sigmas[step], settings.flow_steps)
        state.times = self._time_rows(state.sigmas)
        state.z = trajectory.path[step].to(device)
        return state

    def trajectory(self, state: DiffusionState) -> Trajectory:
        side = self.model.config.grid
        held = None if state.anchor is None else ~state.anchor.free.view(side, side)
        return Trajectory(
            kind="diffusion",
            settings=state.settings,
            steps=self.num_steps(state),
            latent=self.latent(state),
            kept=held,
            path=tuple(state.path),
            sigmas=state.sigmas,
        )

    def num_steps(self, state: DiffusionState) -> int:
        return len(state.sigmas) - 1

    def advance(self, states: Sequence[DiffusionState]) -> None:
        """One Euler step for each state."""
        branches = len(states[0].texts)
        z = torch.stack([state.z for state in states])  # [B, T, C]
        rows = [state.times[state.step] for state in states]
        time = torch.stack(rows).repeat(branches, 1, 1)  # [branches * B, 6, D]
        text = torch.cat([state.texts[branch] for branch in range(branches) for state in states])
        x = z.to(text.dtype).repeat(branches, 1, 1)
        velocity = self.model(x, text, time).float()
        if branches == 2:
            v_null, v_text = velocity.chunk(2)
            scale = torch.stack([state.scale for state in states])[:, None, None]
            velocity = torch.lerp(v_null, v_text, scale)
        for state, v in zip(states, velocity, strict=True):
            now, after = state.sigmas[state.step], state.sigmas[state.step + 1]
            state.path.append(state.z)
            state.estimate = state.z - now * v
            state.z = state.z + (after - now) * v
            if state.anchor is not None:
                state.estimate = state.anchor.hold(state.estimate)
                state.z = state.anchor.hold_noised(state.z, after, state.noise)
            state.step += 1

    def _time_rows(self, sigmas: tuple[float, ...]) -> Tensor:
        """Modulation by time at each step, [steps, 6, D]; a table, as it seldom varies."""
        device = self.model.proj_out.weight.device
        table = self._times.get(sigmas)
        if table is None or table.device != device:
            table = self.model.adaln_single(1000 * torch.tensor(sigmas[:-1], device=device))
            if sigmas[0] == 1.0:  # strengths are many, step counts few
                self._times[sigmas] = table
        return table

    def latent(self, state: DiffusionState) -> Tensor:
        """The clean estimate while under way, the sample at the end."""
        side = self.model.config.grid
        done = state.step >= self.num_steps(state) or state.estimate is None
        tokens = state.z if done else state.estimate
        assert tokens is not None
        if state.anchor is not None:
            tokens = state.anchor.hold(tokens)
        return tokens.T.unflatten(1, (side, side))

    def shown(self, state: DiffusionState) -> bool:
        return state.estimate is not None

    def committed(self, state: DiffusionState) -> None:
        return None

    def noise_level(self, state: DiffusionState) -> float:
        return state.sigmas[state.step]

    def raster(self, state: object) -> None:
        return None
