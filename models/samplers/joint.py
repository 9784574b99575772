"""Joint sampling (Nitro-AR Joint-GAN): a global token first, then all tokens at once.

A small pass predicts the latent of the picture's thumbnail, one token. It then stands in for every
masked token, and a transformer head moves all tokens from noise to data together, so that one AR
iteration is enough; more are possible. Every Euler step of the head is a step of its own, so that
each can be shown and aborted: first the global token, then `flow_steps` for each iteration.

Starting from a picture, the backbone reads its kept tokens beside the global token. The head moves
all tokens together, so the kept ones go along on their own straight line from noise to where they
are: the free ones then see them as clear as themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from models.contracts import SampleSettings
from models.emmdit import EmbeddedText
from models.given import GIVEN, Anchor, Given, Opening
from models.heads import TransformerHead
from models.nitro_ar import NitroAR
from models.randomness import Randomness, draw
from models.samplers.prompts import PromptContext
from models.schedules import flow_sigmas, flow_times, guidance_scales, masked_counts
from models.trajectory import Trajectory, same_flow


@dataclass
class JointState:
    """One picture in progress. `condition` and `z` belong to the AR iteration at work."""

    settings: SampleSettings
    contexts: tuple[PromptContext, ...]  # (unconditional, prompt), or the prompt alone
    counts: tuple[int, ...]
    order: Tensor  # int64 [free tokens]
    fields: Tensor  # fp32 [iterations, T, C]
    thumbnail_noise: Tensor  # fp32 [1, C]
    guidance: Tensor  # fp32 [iterations + 1]: the global token's (constant), then the iterations'
    tokens: Tensor  # [T, C]
    committed_at: Tensor  # int16 [T], 0 = masked, GIVEN = kept
    z: Tensor  # fp32 [T, C]
    anchor: Anchor | None = None  # the picture it started from
    global_token: Tensor | None = None  # [1, C]
    condition: Tensor | None = None  # [branches, T, W]
    estimate: Tensor | None = None  # fp32 [T, C]: the clean tokens z is heading for
    path: list[Tensor] = field(default_factory=list)  # z before each step that was taken
    step: int = 0

    @property
    def iterations(self) -> int:
        return len(self.counts) - 1

    @property
    def iteration(self) -> int:
        return (self.step - 1) // self.settings.flow_steps

    @property
    def flow_step(self) -> int:
        return (self.step - 1) % self.settings.flow_steps


@dataclass
class JointSampler:
    """The step contract for Nitro-AR with a transformer head; see `models.contracts.Sampler`.

    `keep_global_token`: masked tokens stay the global token after the first iteration instead of
    becoming the mask token. `rewrite`: later iterations overwrite committed tokens. The published
    pipeline uses neither, and one iteration.
    """

    model: NitroAR
    keep_global_token: bool = False
    rewrite: bool = False
    _times: dict[tuple[str, int], Tensor] = field(default_factory=dict)

    def prompt_context(self, text_rows: Tensor) -> PromptContext:
        return PromptContext.of(self.model, text_rows)

    def batch_key(self, settings: SampleSettings) -> object:
        return settings.cfg_scale != 1.0

    def start(
        self,
        settings: SampleSettings,
        prompt: PromptContext,
        unconditional: PromptContext,
        random: Randomness | None = None,
        *,
        given: Given | None = None,
    ) -> JointState:
        """A new sample; its random numbers come from the seed unless they are given."""
        config, mask = self.model.config, self.model.mask_token
        random = random or draw(
            settings.seed, config.tokens, config.channels, settings.ar_iterations
        )
        begun = Opening.of(given, random.order, mask[0], settings.ar_iterations)
        counts = masked_counts(len(begun.order), begun.iterations)
        scales = guidance_scales(settings.cfg_scale, settings.cfg_schedule, config.tokens, counts)
        guided = settings.cfg_scale != 1.0
        fields = (random.fields * settings.temperature).to(mask.device)
        return JointState(
            settings=settings,
            contexts=(unconditional, prompt) if guided else (prompt,),
            counts=counts,
            order=begun.order,
            fields=fields,
            thumbnail_noise=(random.thumbnail * settings.temperature).to(mask.device),
            guidance=torch.tensor((settings.cfg_scale, *scales), device=mask.device),
            tokens=begun.tokens,
            committed_at=begun.committed_at,
            z=fields[0],
            anchor=begun.anchor,
        )

    def resume(
        self,
        settings: SampleSettings,
        prompt: PromptContext,
        unconditional: PromptContext,
        *,
        trajectory: Trajectory,
        step: int,
    ) -> JointState:
        """On the same flow, if noise and step counts are the same."""
        theirs = trajectory.settings
        mine = (settings.ar_iterations, settings.flow_steps)
        alike = (theirs.ar_iterations, theirs.flow_steps) == mine and same_flow(theirs, settings)
        if trajectory.kind != "joint-head" or not alike or self.rewrite or step == 0:
            return self.start(settings, prompt, unconditional, given=trajectory.moment(step))
        assert trajectory.committed is not None and trajectory.global_token is not None
        device, known = self.model.mask_token.device, trajectory.known(step)
        free = trajectory.committed != GIVEN
        given = None if free.all() else Given(trajectory.latent, free)
        state = self.start(settings, prompt, unconditional, given=given)
        state.step, state.z = step, trajectory.path[step].to(device)
        state.path = [point.to(device) for point in trajectory.path[:step]]
        state.global_token = trajectory.global_token.to(device, state.tokens.dtype)
        stamps = trajectory.committed.flatten().to(device)
        state.committed_at = torch.where(known.flatten().to(device), stamps, 0)
        stand_in = self.model.mask_token[0]
        if state.iteration == 0 or self.keep_global_token:
            stand_in = state.global_token
        rows = trajectory.rows.to(device, state.tokens.dtype)
        state.tokens = torch.where(known.flatten().to(device)[:, None], rows, stand_in)
        return state

    def trajectory(self, state: JointState) -> Trajectory:
        levels = flow_sigmas(state.settings.flow_steps)[:-1]
        return Trajectory(
            kind="joint-head",
            settings=state.settings,
            steps=self.num_steps(state),
            latent=self.latent(state),
            committed=self.committed(state),
            counts=state.counts,
            path=tuple(state.path),
            sigmas=(1.0, *levels * state.iterations, 0.0),
            global_token=state.global_token,
        )

    def num_steps(self, state: JointState) -> int:
        return 1 + state.iterations * state.settings.flow_steps

    def advance(self, states: Sequence[JointState]) -> None:
        """The global token for fresh states; one Euler step of the joint head for the others."""
        fresh = [state for state in states if state.step == 0]
        flowing = [state for state in states if state.step > 0]
        if fresh:
            self._global_tokens(fresh)
        if opening := [state for state in flowing if state.condition is None]:
            self._open_iteration(opening)
        for state in states:
            state.path.append(state.z)
        if flowing:
            self._joint_step(flowing)
        for state in states:
            state.step += 1

    def _global_tokens(self, states: Sequence[JointState]) -> None:
        """Predict each picture's thumbnail token and put it in every free place."""
        head = self.model.diffloss_global.net
        # Few rows and few steps: states with different step counts go one after another.
        for steps in sorted({state.settings.flow_steps for state in states}):
            group = [state for state in states if state.settings.flow_steps == steps]
            hidden = torch.cat([self._global_pass(context) for context in _by_branch(group)])
            condition = head.condition(hidden)  # [branches * B, 1, W]
            z = torch.stack([state.thumbnail_noise for state in group])  # [B, 1, C]
            scale = torch.stack([state.guidance[0] for state in group])[:, None, None]
            times, sigmas = self._time_rows(head, steps), flow_sigmas(steps)
            for k in range(steps):
                time = times[k].expand(condition.shape[0], -1)
                velocity = _guided(head, z, time, condition, scale)
                z = z + (sigmas[k + 1] - sigmas[k]) * velocity
            for state, token in zip(group, z, strict=True):
                state.global_token = token.to(state.tokens.dtype)
                state.tokens = state.global_token.expand_as(state.tokens).clone()
                if state.anchor is not None:
                    state.tokens = state.anchor.hold(state.tokens)

    def _global_pass(self, context: PromptContext) -> Tensor:
        """Condition of the global token, [1, 1, D]; the same for every seed."""
        if context.global_pass is None:
            context.global_pass = self.model.global_pass(context.text)
        return context.global_pass

    def _open_iteration(self, states: Sequence[JointState]) -> None:
        """The backbone pass of an AR iteration, and the head's condition from it."""
        contexts = _by_branch(states)
        branches = len(states[0].contexts)
        tokens = torch.stack([state.tokens for state in states]).repeat(branches, 1, 1)
        text = EmbeddedText.stack([context.text for context in contexts])
        conditions = self.model.diffloss.net.condition(self.model(tokens, text))
        for index, state in enumerate(states):
            state.condition = conditions[index :: len(states)]  # [branches, T, W]

    def _joint_step(self, states: Sequence[JointState]) -> None:
        """One Euler step of the joint head; states may be at different times."""
        head = self.model.diffloss.net
        branches = len(states[0].contexts)
        z = torch.stack([state.z for state in states])  # [B, T, C]
        rows = [
            self._time_rows(head, state.settings.flow_steps)[state.flow_step] for state in states
        ]
        time = torch.stack(rows).repeat(branches, 1)  # [branches * B, W]
        condition = torch.cat(
            [state.condition[branch] for branch in range(branches) for state in states]  # type: ignore[index]
        ).unflatten(0, (branches * len(states), -1))
        scale = torch.stack([state.guidance[1 + state.iteration] for state in states])[
            :, None, None
        ]
        velocity = _guided(head, z, time, condition, scale)
        for state, v in zip(states, velocity, strict=True):
            sigmas, k = flow_sigmas(state.settings.flow_steps), state.flow_step
            state.estimate = state.z - sigmas[k] * v
            state.z = state.z + (sigmas[k + 1] - sigmas[k]) * v
            if state.anchor is not None:
                noise = state.fields[state.iteration]
                state.estimate = state.anchor.hold(state.estimate)
                state.z = state.anchor.hold_noised(state.z, sigmas[k + 1], noise)
            if k == state.settings.flow_steps - 1:
                self._commit(state)

    def _commit(self, state: JointState) -> None:
        """Write the tokens this AR iteration reveals; the others become masked again."""
        iteration, done = state.iteration, state.z.to(state.tokens.dtype)
        keep = state.counts[iteration + 1]
        now = state.order[keep:] if self.rewrite else state.order[keep : state.counts[iteration]]
        state.tokens.index_copy_(0, now, done.index_select(0, now))
        state.committed_at.index_fill_(0, now, state.step + 1)
        if iteration == 0 and not self.keep_global_token:
            masked = state.order[:keep]
            state.tokens.index_copy_(0, masked, self.model.mask_token[0].expand(keep, -1))
        state.condition = None
        if iteration + 1 < state.iterations:
            state.z = state.fields[iteration + 1]

    def _time_rows(self, head: TransformerHead, steps: int) -> Tensor:
        """A head's time embedding at each evaluation, [steps, W]."""
        name = "main" if head is self.model.diffloss.net else "global"
        device = self.model.mask_token.device
        table = self._times.get((name, steps))
        if table is None or table.device != device:
            table = head.time(torch.tensor(flow_times(steps, "multi-step"), device=device))
            self._times[name, steps] = table
        return table

    def latent(self, state: JointState) -> Tensor:
        """Committed tokens where there are any; elsewhere the clean estimate of the flow."""
        side, tokens = self.model.config.grid, state.tokens.float()
        if state.estimate is not None and state.step < self.num_steps(state):
            tokens = torch.where(state.committed_at[:, None] > 0, tokens, state.estimate)
        if state.anchor is not None:
            tokens = state.anchor.hold(tokens)
        return tokens.T.unflatten(1, (side, side))

    def shown(self, state: JointState) -> bool:
        """Everything, from the first flow step on: the estimate covers the whole picture."""
        return state.estimate is not None

    def committed(self, state: JointState) -> Tensor:
        side = self.model.config.grid
        return state.committed_at.unflatten(0, (side, side))

    def noise_level(self, state: JointState) -> None:
        return None

    def raster(self, state: object) -> None:
        return None


def _by_branch(states: Sequence[JointState]) -> list[PromptContext]:
    """Contexts of all states: the unconditional ones first, then the prompts."""
    branches = len(states[0].contexts)
    return [state.contexts[branch] for branch in range(branches) for state in states]


def _guided(
    head: TransformerHead, z: Tensor, time: Tensor, condition: Tensor, scale: Tensor
) -> Tensor:
    """The head's velocity [B, N, C] in fp32, guided where there are two branches."""
    x = z.to(condition.dtype)
    if condition.shape[0] == z.shape[0]:
        return head(x, time, condition).float()
    v_null, v_text = head(x.repeat(2, 1, 1), time, condition).float().chunk(2)
    return torch.lerp(v_null, v_text, scale)
