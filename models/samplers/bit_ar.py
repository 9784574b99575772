"""Autoregressive sampling of binary tokens (Instella-T2I): one token a step, in order.

A picture to start from lends the tokens that are kept: those before the first free one are read at
once, later ones are read in passing. Source: docs of the release; a step is one token, for every
branch of guidance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.contracts import SampleSettings
from models.given import GIVEN, Given
from models.instella.autoregressive import BitAR, TokenCache
from models.instella.generator import TextMemory
from models.instella.noise import certain, guided
from models.instella.raster import raster_of
from models.randomness import draw_uniforms
from models.trajectory import Trajectory


@dataclass
class BitARState:
    """One picture in progress. All but `free` and `committed_at` live on the model's device."""

    settings: SampleSettings
    cache: TokenCache
    scale: Tensor  # fp32 scalar
    uniforms: Tensor  # fp32 [tokens, bits]
    bits: Tensor  # fp32 [tokens, bits]; what is not there yet is a half
    certainty: Tensor  # fp32 [tokens, bits]
    free: Tensor  # bool [tokens]: drawn here; the others are given
    committed_at: Tensor  # int16 [tokens]: 0 = not yet, GIVEN = kept
    first: int = 0  # the first token to be drawn
    step: int = 0

    @property
    def place(self) -> int:
        """The next token."""
        return self.first + self.step


@dataclass
class BitARSampler:
    """The step contract; see `models.contracts.Sampler`."""

    model: BitAR

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
    ) -> BitARState:
        """A new sample; its random numbers come from the seed unless they are given."""
        config, device = self.model.config, prompt.keys.device
        if uniforms is None:
            uniforms = draw_uniforms(settings.seed, 1, config.tokens, config.bits)[0]
        free = torch.ones(config.tokens, dtype=torch.bool)
        bits = torch.full((config.tokens, config.bits), 0.5, device=device)
        certainty = torch.zeros_like(bits)
        if given is not None:
            free = drawn_tokens(given)
            kept = ~free[:, None].to(device)
            bits = torch.where(kept, given.rows.to(device), bits)
            certainty = kept.float().expand_as(bits).clone()
        guide = settings.cfg_scale != 1.0
        memories = (unconditional, prompt) if guide else (prompt,)
        state = BitARState(
            settings=settings,
            cache=TokenCache(memories, config.tokens + 1),
            scale=torch.tensor(float(settings.cfg_scale), device=device),
            uniforms=uniforms.to(device),
            bits=bits,
            certainty=certainty,
            free=free,
            committed_at=torch.where(free, 0, GIVEN).to(torch.int16),
            first=int(free.float().argmax()),
        )
        if state.first:  # all but the last one, which the first step reads
            self.model.prefill(state.cache, bits[: state.first - 1])
        return state

    def resume(
        self,
        settings: SampleSettings,
        prompt: TextMemory,
        unconditional: TextMemory,
        *,
        trajectory: Trajectory,
        step: int,
    ) -> BitARState:
        """Goes on after the tokens that were there; a diffusion's estimate lends its first ones.
        After all steps it is the finished picture."""
        if step == trajectory.steps:
            return self._finished(settings, prompt, unconditional, trajectory)
        given = trajectory.moment(step)
        state = self.start(settings, prompt, unconditional, given=given)
        if trajectory.kind == "bit-ar" and trajectory.committed is not None:
            committed = trajectory.committed.flatten().cpu()
            past = (committed > 0) & (committed <= step)
            state.committed_at = torch.where(past, committed, state.committed_at)
            state.first, state.step = state.first - step, step
        return state

    def _finished(
        self,
        settings: SampleSettings,
        prompt: TextMemory,
        unconditional: TextMemory,
        trajectory: Trajectory,
    ) -> BitARState:
        state = self.start(settings, prompt, unconditional)
        state.bits = trajectory.rows.to(state.bits.device)
        state.certainty = torch.ones_like(state.bits)
        if trajectory.committed is not None:
            state.committed_at = trajectory.committed.flatten().cpu()
        state.first = self.model.config.tokens - trajectory.steps
        state.step = trajectory.steps
        return state

    def trajectory(self, state: BitARState) -> Trajectory:
        return Trajectory(
            kind="bit-ar",
            settings=state.settings,
            steps=self.num_steps(state),
            latent=self.latent(state),
            committed=self.committed(state),
        )

    def num_steps(self, state: BitARState) -> int:
        return self.model.config.tokens - state.first

    def advance(self, states: Sequence[BitARState]) -> None:
        """The next token of each state."""
        before = [state.bits[state.place - 1] if state.place else None for state in states]
        logits = self.model.step([state.cache for state in states], before).float()
        for state, own in zip(states, logits, strict=True):  # own: [branches, bits]
            place, state.step = state.place, state.step + 1
            if not state.free[place]:
                continue
            one = guided(own[0], own[1], state.scale) if len(own) == 2 else own[0]
            chance = certain(one, state.settings.temperature)
            bits = (state.uniforms[place] < chance).float()
            state.bits[place] = torch.where(chance.isnan(), chance, bits)  # decoding refuses these
            state.certainty[place] = (2 * chance - 1).abs()
            state.committed_at[place] = state.step

    def latent(self, state: BitARState) -> Tensor:
        """[bits, tokens, 1]; a half where nothing is known."""
        return state.bits.T[:, :, None].clone()

    def shown(self, state: BitARState) -> Tensor | bool:
        if state.step >= self.num_steps(state):
            return True
        there = state.committed_at != 0
        return there[:, None].to(state.bits.device) if bool(there.any()) else False

    def committed(self, state: BitARState) -> Tensor:
        return state.committed_at[:, None].clone()

    def noise_level(self, state: BitARState) -> None:
        return None

    def raster(self, state: BitARState) -> Tensor:
        return raster_of((state.bits > 0.5).float(), state.certainty)


def drawn_tokens(given: Given) -> Tensor:
    """bool [tokens]: which are drawn. A strength below 1 takes the last of the free ones, so that
    a prefix stays, which is how the model goes on."""
    free = given.free.flatten().cpu()
    places = free.nonzero().flatten()
    kept = len(places) - max(1, round(given.strength * len(places)))
    free = free.clone()
    free[places[:kept]] = False
    return free
