"""Masked-autoregressive sampling with an MLP flow head (Nitro-AR GAN).

Each AR iteration runs the backbone over the known and masked tokens, then lets the flow head fill
in the next tokens of the generation order. The backbone takes neither time nor mask as input, so
samples at different iterations share one forward. Nothing here waits for the device: the counts
follow from the schedule, the positions are slices of the order.

Starting from a picture is the same with some tokens known: order and schedule run over the free
ones. Committed tokens never change, so any earlier step follows from a finished picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from models.contracts import SampleSettings
from models.emmdit import EmbeddedText
from models.given import Anchor, Given, Opening
from models.nitro_ar import NitroAR
from models.randomness import Randomness, draw
from models.samplers.prompts import PromptContext
from models.schedules import flow_sigmas, flow_times, guidance_scales, masked_counts
from models.trajectory import Trajectory


@dataclass
class MaskedARState:
    """One picture in progress. All tensors live on the model's device."""

    settings: SampleSettings
    contexts: tuple[PromptContext, ...]  # (unconditional, prompt), or the prompt alone
    counts: tuple[int, ...]  # masked tokens before each iteration, 0 at the end
    order: Tensor  # int64 [free tokens]; the first entries are revealed last
    noise: Tensor  # fp32 [T, C], by position
    guidance: Tensor  # fp32 [iterations]
    tokens: Tensor  # [T, C]
    committed_at: Tensor  # int16 [T], 0 = masked, GIVEN = kept
    anchor: Anchor | None = None  # the picture it started from
    step: int = 0

    @property
    def positions(self) -> Tensor:
        """The tokens this iteration commits, int64 [n]."""
        return self.order[self.counts[self.step + 1] : self.counts[self.step]]

    @property
    def all_masked(self) -> bool:
        return self.counts[self.step] == len(self.tokens)


@dataclass
class MaskedARSampler:
    """The step contract for Nitro-AR with an MLP head; see `models.contracts.Sampler`."""

    model: NitroAR
    _times: dict[int, Tensor] = field(default_factory=dict)

    def prompt_context(self, text_rows: Tensor) -> PromptContext:
        return PromptContext.of(self.model, text_rows)

    def batch_key(self, settings: SampleSettings) -> object:
        return settings.flow_steps, settings.cfg_scale != 1.0

    def start(
        self,
        settings: SampleSettings,
        prompt: PromptContext,
        unconditional: PromptContext,
        random: Randomness | None = None,
        *,
        given: Given | None = None,
    ) -> MaskedARState:
        """A new sample; its random numbers come from the seed unless they are given."""
        config, mask = self.model.config, self.model.mask_token
        random = random or draw(settings.seed, config.tokens, config.channels)
        begun = Opening.of(given, random.order, mask[0], settings.ar_iterations)
        guided = settings.cfg_scale != 1.0
        state = MaskedARState(
            settings=settings,
            contexts=(unconditional, prompt) if guided else (prompt,),
            counts=(),
            order=begun.order,
            noise=(random.fields[0] * settings.temperature).to(mask.device),
            guidance=torch.empty(0),
            tokens=begun.tokens,
            committed_at=begun.committed_at,
            anchor=begun.anchor,
        )
        return self._scheduled(state, masked_counts(len(begun.order), begun.iterations))

    def _scheduled(self, state: MaskedARState, counts: tuple[int, ...]) -> MaskedARState:
        """The state with its mask schedule, and the guidance that follows from it."""
        chosen = state.settings
        scales = guidance_scales(
            chosen.cfg_scale, chosen.cfg_schedule, self.model.config.tokens, counts
        )
        guidance = torch.tensor(scales, device=self.model.mask_token.device)
        return replace(state, counts=counts, guidance=guidance)

    def resume(
        self,
        settings: SampleSettings,
        prompt: PromptContext,
        unconditional: PromptContext,
        *,
        trajectory: Trajectory,
        step: int,
    ) -> MaskedARState:
        """From the other's tokens; in its own schedule if that has as many iterations."""
        state = self.start(settings, prompt, unconditional, given=trajectory.moment(step))
        iterations = trajectory.settings.ar_iterations
        if trajectory.kind != "mlp-head" or iterations != settings.ar_iterations:
            return state
        assert trajectory.committed is not None
        stamps = trajectory.committed.flatten().to(state.tokens.device)
        known = trajectory.known(step).flatten().to(state.tokens.device)
        state = self._scheduled(state, trajectory.counts)
        return replace(state, step=step, committed_at=torch.where(known, stamps, 0))

    def trajectory(self, state: MaskedARState) -> Trajectory:
        return Trajectory(
            kind="mlp-head",
            settings=state.settings,
            steps=self.num_steps(state),
            latent=self.latent(state),
            committed=self.committed(state),
            counts=state.counts,
        )

    def num_steps(self, state: MaskedARState) -> int:
        return len(state.counts) - 1

    def advance(self, states: Sequence[MaskedARState]) -> None:
        """One AR iteration for each state: backbone, flow head, commit."""
        active = [state for state in states if len(state.positions)]
        if active:
            hidden = self._hidden_rows(active)  # unconditional rows of all states, then prompts'
            tokens = self._flow(active, hidden)
            sizes = [len(state.positions) for state in active]
            for state, part in zip(active, tokens.split(sizes), strict=True):
                state.tokens.index_copy_(0, state.positions, part.to(state.tokens.dtype))
                state.committed_at.index_fill_(0, state.positions, state.step + 1)
        for state in states:
            state.step += 1

    def _hidden_rows(self, states: Sequence[MaskedARState]) -> Tensor:
        """Hidden rows of the tokens about to be committed, [rows, D]: branch-major."""
        branches = len(states[0].contexts)
        jobs = [(state, state.contexts[branch]) for branch in range(branches) for state in states]
        later = [(state, context) for state, context in jobs if not state.all_masked]
        found: dict[int, Tensor] = {}
        if later:
            widest = max(len(state.positions) for state, _ in later)
            tokens = torch.stack([state.tokens for state, _ in later])  # [B, T, C]
            text = EmbeddedText.stack([context.text for _, context in later])
            rows = torch.stack([_padded(state.positions, widest) for state, _ in later])
            hidden = self.model(tokens, text, rows)  # [B, widest, D]
            for index, (state, context) in enumerate(later):
                found[id(state), id(context)] = hidden[index, : len(state.positions)]  # type: ignore[index]
        parts = []
        for state, context in jobs:
            if not state.all_masked:
                parts.append(found[id(state), id(context)])  # type: ignore[index]
            else:
                parts.append(self._first_pass(context)[0].index_select(0, state.positions))
        return torch.cat(parts)

    def _first_pass(self, context: PromptContext) -> Tensor:
        """Hidden rows of the all-masked picture [1, T, D]; the same for every seed."""
        if context.first_pass is None:
            config = self.model.config
            masked = self.model.mask_token.expand(1, config.tokens, -1)
            context.first_pass = self.model(masked, context.text)
        return context.first_pass

    def _flow(self, states: Sequence[MaskedARState], hidden: Tensor) -> Tensor:
        """The head's Euler steps from noise to tokens, [rows, C]."""
        head, steps = self.model.diffloss.net, states[0].settings.flow_steps
        guided = len(states[0].contexts) == 2
        z = torch.cat([state.noise.index_select(0, state.positions) for state in states])
        scale = torch.cat(
            [state.guidance[state.step].expand(len(state.positions)) for state in states]
        )[:, None]
        condition = head.condition(hidden)
        times, sigmas = self._time_rows(steps), flow_sigmas(steps)
        for k in range(steps):
            x = z.to(hidden.dtype)
            if guided:
                v_null, v_text = head(x.repeat(2, 1), times[k], condition).float().chunk(2)
                velocity = torch.lerp(v_null, v_text, scale)
            else:
                velocity = head(x, times[k], condition).float()
            z = z + (sigmas[k + 1] - sigmas[k]) * velocity
        return z

    def _time_rows(self, steps: int) -> Tensor:
        """The head's time embedding at each evaluation, [steps, W]; a table, as it never varies."""
        head = self.model.diffloss.net
        device = self.model.mask_token.device
        table = self._times.get(steps)
        if table is None or table.device != device:
            table = head.time(torch.tensor(flow_times(steps, "two-step"), device=device))
            self._times[steps] = table
        return table

    def latent(self, state: MaskedARState) -> Tensor:
        side, tokens = self.model.config.grid, state.tokens.float()
        if state.anchor is not None:  # as given, where the model's numbers are coarser
            tokens = state.anchor.hold(tokens)
        return tokens.T.unflatten(1, (side, side))

    def shown(self, state: MaskedARState) -> Tensor | bool:
        """The known cells: masked ones hold the mask token, which is no picture."""
        if state.step >= self.num_steps(state):
            return True
        return False if state.all_masked else self.committed(state) != 0

    def committed(self, state: MaskedARState) -> Tensor:
        side = self.model.config.grid
        return state.committed_at.unflatten(0, (side, side))

    def noise_level(self, state: MaskedARState) -> None:
        return None

    def raster(self, state: object) -> None:
        return None


def _padded(positions: Tensor, length: int) -> Tensor:
    """Positions repeated from the start up to `length`; the extra rows are never read."""
    missing = length - len(positions)
    return torch.cat([positions, positions[:1].expand(missing)]) if missing else positions
