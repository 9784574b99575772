"""From votes to ratings: the Bradley-Terry model by maximum likelihood, with confidence intervals.

A variant of strength s beats one of strength t with probability 1 / (1 + exp(t - s)) (Bradley and
Terry, 1952). A tie counts as half a win for each; "both bad" says nothing about which is better.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

POINTS = 400 / np.log(10)  # per unit of strength: ten times the odds are 400 points, as in chess
MEAN = 1000.0
PRIOR = 0.01  # keeps strengths finite where one variant has won every time; votes outweigh it
Z_95 = 1.959964
Outcome = tuple[str, str, str]  # left, right, and "left", "right", "tie" or "both bad"


@dataclass(frozen=True)
class Rating:
    """A variant's place. `low` and `high` bound the rating at 95 %; None where nobody voted."""

    variant: str
    rating: float | None
    low: float | None
    high: float | None
    votes: int
    win_rate: float | None  # ties count half


def tallied(outcomes: Iterable[Outcome], variants: Sequence[str]) -> NDArray[np.float64]:
    """wins[i, j]: how often i was found better than j; a tie adds a half to both."""
    place = {name: index for index, name in enumerate(variants)}
    wins = np.zeros((len(variants), len(variants)))
    for left, right, choice in outcomes:
        i, j = place[left], place[right]
        if choice == "left":
            wins[i, j] += 1
        elif choice == "right":
            wins[j, i] += 1
        elif choice == "tie":
            wins[i, j] += 0.5
            wins[j, i] += 0.5
    return wins


def strengths(wins: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Strengths with a mean of 0, and their standard errors, by Newton's method."""
    count = len(wins)
    games = wins + wins.T
    theta = np.zeros(count)
    centre = np.eye(count) - 1 / count
    for _ in range(100):
        chance = 1 / (1 + np.exp(theta[None, :] - theta[:, None]))
        slope = wins.sum(1) - (games * chance).sum(1) - PRIOR * theta
        weight = games * chance * (1 - chance)
        information = np.diag(weight.sum(1) + PRIOR) - weight
        step = np.linalg.solve(information, slope)
        # Far from the optimum a whole step may overshoot.
        theta = theta + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-10:
            break
    spread = centre @ np.linalg.inv(information) @ centre
    return theta - theta.mean(), np.sqrt(np.diag(spread))


def rated(outcomes: Sequence[Outcome]) -> list[Rating]:
    """Ratings of all variants that met, the best first."""
    variants = sorted({name for left, right, _ in outcomes for name in (left, right)})
    if not variants:
        return []
    wins = tallied(outcomes, variants)
    theta, errors = strengths(wins)
    met = {name: sum(name in outcome[:2] for outcome in outcomes) for name in variants}
    out = []
    for index, name in enumerate(variants):
        decided = float(wins[index].sum() + wins[:, index].sum())
        if not decided:
            out.append(Rating(name, None, None, None, met[name], None))
            continue
        at, margin = MEAN + POINTS * theta[index], POINTS * Z_95 * errors[index]
        share = float(wins[index].sum()) / decided
        out.append(Rating(name, at, at - margin, at + margin, met[name], share))
    return sorted(out, key=lambda each: -(each.rating if each.rating is not None else -1e9))
