"""The cells of a grid: one request for each combination of its axes' values, cheapest first."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.requests import GenerationRequest, InvalidRequest, find_variant
from ui.grid.axes import Axis

MAX_CELLS = 100

Place = tuple[int, ...]  # which value of each axis, by index
Cost = Callable[[GenerationRequest], float]


@dataclass(frozen=True)
class Cell:
    """One picture and where it goes."""

    place: Place
    request: GenerationRequest  # resolved


@dataclass(frozen=True)
class Grid:
    """Two or three axes (across, down, from table to table) and the cells that are possible."""

    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]  # in the order in which they are best drawn

    @property
    def size(self) -> int:
        """Places, those included that no request can fill."""
        return math.prod(len(axis.values) for axis in self.axes)


def steps(request: GenerationRequest) -> float:
    """Sampler steps of a resolved request: what it costs, where nothing is measured."""
    assert request.ar_iterations and request.flow_steps, "resolve first"
    variant = find_variant(request.variant)
    return variant.steps(request.ar_iterations, request.flow_steps)


def plan_grid(axes: Sequence[Axis], base: GenerationRequest, cost: Cost = steps) -> Grid:
    """Check and order everything before anything is drawn.

    A combination that a model cannot do leaves its place empty (one model's steps beyond another
    one's range); a value that leaves a whole line empty is refused. Raises `InvalidRequest`.
    """
    if not 2 <= len(axes) <= 3:
        raise InvalidRequest(f"A grid has two or three axes; got {len(axes)}.")
    if len({axis.key for axis in axes}) < len(axes):
        raise InvalidRequest("Two axes are the same. Choose different ones.")
    size = math.prod(len(axis.values) for axis in axes)
    if size > MAX_CELLS:
        numbers = " × ".join(str(len(axis.values)) for axis in axes)
        raise InvalidRequest(
            f"{numbers} are {size} pictures; at most {MAX_CELLS} go into a grid. Shorten an axis."
        )
    cells: list[Cell] = []
    problems: dict[tuple[int, int], InvalidRequest] = {}  # by axis and value
    for place in itertools.product(*(range(len(axis.values)) for axis in axes)):
        changes = {axis.key: axis.values[n] for axis, n in zip(axes, place, strict=True)}
        try:
            cells.append(Cell(place, replace(base, **changes).resolved()))
        except InvalidRequest as error:
            for line in enumerate(place):
                problems.setdefault(line, error)
    filled = {line for cell in cells for line in enumerate(cell.place)}
    for line, problem in problems.items():
        if line not in filled:
            raise problem
    costs = {cell.place: cost(cell.request) for cell in cells}
    return Grid(tuple(axes), tuple(sorted(cells, key=lambda c: (costs[c.place], c.place))))
