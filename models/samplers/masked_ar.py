"""Masked-autoregressive sampling with an MLP flow head (Nitro-AR GAN).

Each AR iteration runs the backbone over the known and masked tokens, then lets the flow head fill
in the next tokens of the generation order. The backbone takes neither time nor mask as input, so
samples at different iterations share one forward. Nothing here waits for the device: the counts
follow from the schedule, the positions are slices of the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from models.contracts import SampleSettings
from models.emmdit import EmbeddedText
from models.nitro_ar import NitroAR
from models.randomness import Randomness, draw
from models.samplers.prompts import PromptContext
from models.schedules import flow_sigmas, flow_times, guidance_scales, masked_counts


@dataclass
class MaskedARState:
    """One picture in progress. All tensors live on the model's device."""

    settings: SampleSettings
    contexts: tuple[PromptContext, ...]  # (unconditional, prompt), or the prompt alone
    counts: tuple[int, ...]  # masked tokens before each iteration, 0 at the end
    order: Tensor  # int64 [T]; the first entries are revealed last
    noise: Tensor  # fp32 [T, C], by position
    guidance: Tensor  # fp32 [iterations]
    tokens: Tensor  # [T, C]
    committed_at: Tensor  # int16 [T], 0 = masked
    step: int = 0

    @property
    def positions(self) -> Tensor:
        """The tokens this iteration commits, int64 [n]."""
        return self.order[self.counts[self.step + 1] : self.counts[self.step]]


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
    ) -> MaskedARState:
        """A new sample; its random numbers come from the seed unless they are given."""
        config, mask = self.model.config, self.model.mask_token
        random = random or draw(settings.seed, config.tokens, config.channels)
        scales = guidance_scales(
            settings.cfg_scale, settings.cfg_schedule, config.tokens, settings.ar_iterations
        )
        guided = settings.cfg_scale != 1.0
        return MaskedARState(
            settings=settings,
            contexts=(unconditional, prompt) if guided else (prompt,),
            counts=masked_counts(config.tokens, settings.ar_iterations),
            order=random.order.to(mask.device),
            noise=(random.fields[0] * settings.temperature).to(mask.device),
            guidance=torch.tensor(scales, device=mask.device),
            tokens=mask[0].expand(config.tokens, -1).clone(),
            committed_at=torch.zeros(config.tokens, dtype=torch.int16, device=mask.device),
        )

    def num_steps(self, state: MaskedARState) -> int:
        return state.settings.ar_iterations

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
        later = [(state, context) for state, context in jobs if state.step > 0]
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
            if state.step > 0:
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
        side = self.model.config.grid
        return state.tokens.float().T.unflatten(1, (side, side))

    def shown(self, state: MaskedARState) -> Tensor | bool:
        """The committed cells: masked ones hold the mask token, which is no picture."""
        done = state.step >= self.num_steps(state)
        return True if done else state.step > 0 and self.committed(state) > 0

    def committed(self, state: MaskedARState) -> Tensor:
        side = self.model.config.grid
        return state.committed_at.unflatten(0, (side, side))


def _padded(positions: Tensor, length: int) -> Tensor:
    """Positions repeated from the start up to `length`; the extra rows are never read."""
    missing = length - len(positions)
    return torch.cat([positions, positions[:1].expand(missing)]) if missing else positions
