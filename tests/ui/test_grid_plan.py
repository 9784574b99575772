"""Grids from the command line: what an axis says, which cells it makes, and their sheet."""

from __future__ import annotations

import io
import json
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import app
from engine.requests import GenerationRequest, InvalidRequest
from tests.ui.world import is_of
from ui.grid.axes import Axis, make_axis, parse_axis
from ui.grid.cells import MAX_CELLS, plan_grid, steps
from ui.grid.sheet import KEY, MAX_SIDE, layout, sheet

BASE = GenerationRequest("a fox", preview_every=0, preview="off")


# ---- axes ----


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("ar_iterations: 4-20 step 4", "ar_iterations", (4, 8, 12, 16, 20)),
        ("AR iterations: 1, 2, 5-7", "ar_iterations", (1, 2, 5, 6, 7)),
        ("flow_steps: 3 to 5,9 .. 10", "flow_steps", (3, 4, 5, 9, 10)),
        ("cfg_scale: 1-2 step .25", "cfg_scale", (1.0, 1.25, 1.5, 1.75, 2.0)),
        ("temperature: 0-0.3 step 0.1", "temperature", (0.0, 0.1, 0.2, 0.3)),
        ("seed: 4, 4, 3", "seed", (4, 3)),
        ("seed: 4-9 step 10", "seed", (4,)),
        ("prompt: a fox, red: big | an owl |", "prompt", ("a fox, red: big", "an owl")),
        ("variant: pocket-ar, pocket-ar-joint", "variant", ("pocket-ar", "pocket-ar-joint")),
        ("cfg_schedule: linear", "cfg_schedule", ("linear",)),
    ],
)
def test_an_axis_is_a_setting_and_its_values(text, key, values):
    assert parse_axis(text) == Axis(key, values)
    assert [type(v) for v in parse_axis(text).values] == [type(v) for v in values]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4-20", "a setting and its values"),
        ("caption: raw", "cannot be an axis"),
        ("seed:", "has no values"),
        ("prompt: | |", "has no values"),
        ("seed: many", "'many' cannot be read"),
        ("seed: 1-2-3", "cannot be read"),
        ("seed: -1", "cannot be read"),
        ("seed: ٣", "cannot be read"),
        ("seed: 5-1", "goes nowhere"),
        ("seed: 1-5 step 0", "goes nowhere"),
        ("seed: 1.5", "whole numbers"),
        ("ar_iterations: 1-2 step 0.5", "whole numbers"),
        ("seed: 0-1000000000", "more than 100 values"),
        ("cfg_scale: 1-2 step 0.000000001", "more than 100 values"),
        ("seed: 1-60, 101-160", "more than 100 values"),
    ],
)
def test_an_axis_that_cannot_be_read_says_why(text, words):
    with pytest.raises(InvalidRequest, match=words):
        parse_axis(text)


hundredths = st.integers(0, 500).map(lambda n: Decimal(n) / 100)


@given(hundredths, st.integers(0, 99), hundredths.filter(bool))
def test_a_range_has_its_ends_and_even_steps(first, count, step):
    last = first + count * step
    values = make_axis("cfg_scale", f"{first:f} - {last:f} step {step:f}").values
    assert values == tuple(float(first + n * step) for n in range(count + 1))


@given(st.sampled_from(("seed", "cfg_scale", "prompt", "variant")), st.text(max_size=30))
def test_any_text_is_an_axis_or_is_refused_in_words(key, text):
    try:
        axis = make_axis(key, text)
    except InvalidRequest as refusal:
        assert len(str(refusal)) > 10
    else:
        assert 1 <= len(axis.values) == len(set(axis.values)) == len(axis.labels())


# ---- cells ----

some_axes = st.lists(
    st.sampled_from(
        [
            Axis("ar_iterations", (16, 2, 8)),
            Axis("flow_steps", (1, 3)),
            Axis("seed", (7, 1)),
            Axis("cfg_scale", (1.0, 4.5)),
            Axis("temperature", (0.5, 1.0)),
            Axis("cfg_schedule", ("constant", "linear")),
            Axis("variant", ("pocket-ar-joint", "pocket-ar")),
            Axis("prompt", ("a fox", "a cat", "a dog")),
        ]
    ),
    min_size=2,
    max_size=3,
    unique_by=lambda axis: axis.key,
)


@given(some_axes)
def test_every_combination_is_one_cell_cheapest_first(axes):
    grid = plan_grid(axes, BASE)
    assert len({cell.place for cell in grid.cells}) == len(grid.cells) == grid.size
    costs = [steps(cell.request) for cell in grid.cells]
    assert costs == sorted(costs)
    for cell in grid.cells:
        for axis, n in zip(axes, cell.place):
            assert getattr(cell.request, axis.key) == axis.values[n]
        assert cell.request == cell.request.resolved()


def test_measured_times_decide_where_they_are_known():
    axes = [Axis("variant", ("pocket-ar", "pocket-ar-joint")), Axis("seed", (0, 1))]
    slow = {"pocket-ar": 1.0, "pocket-ar-joint": 100.0}
    grid = plan_grid(axes, BASE, lambda r: steps(r) * slow[r.variant])
    assert [cell.request.variant for cell in grid.cells] == ["pocket-ar"] * 2 + [
        "pocket-ar-joint"
    ] * 2
    assert plan_grid(axes, BASE).cells[0].request.variant == "pocket-ar-joint"


def test_what_one_model_cannot_do_stays_empty():
    axes = [Axis("variant", ("pocket-ar", "nitro-e")), Axis("ar_iterations", (1, 12))]
    grid = plan_grid(axes, BASE)
    assert {cell.place for cell in grid.cells} == {(0, 0), (0, 1), (1, 0)} and grid.size == 4


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        (["seed: 1"], "two or three axes"),
        (["seed: 1", "seed: 2"], "the same"),
        (["seed: 0-10", "cfg_scale: 1-10"], f"11 × 10 are 110 pictures; at most {MAX_CELLS}"),
        (["seed: 1", "ar_iterations: 12, 65"], "AR iterations of Pocket AR has to be from 1 to 64"),
        (["seed: 1", "variant: pocket-ar, nope"], "no variant 'nope'"),
        (["seed: 1", "cfg_schedule: constant, cosine"], "CFG schedule has to be one of"),
        (["cfg_scale: 1", "seed: 1, 9999999999"], "Seed"),
    ],
)
def test_too_much_too_little_and_the_impossible_are_refused_before_anything_is_drawn(axes, words):
    with pytest.raises(InvalidRequest, match=words):
        plan_grid([parse_axis(text) for text in axes], BASE)


# ---- the sheet ----


def opened(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


@given(some_axes, st.data())
def test_pictures_are_at_their_places_and_missing_ones_are_empty(axes, data):
    grid = plan_grid(axes, BASE)
    there = data.draw(st.sets(st.sampled_from([cell.place for cell in grid.cells])))
    pictures = {
        place: np.full((128, 128, 3), 20 + n, np.uint8) for n, place in enumerate(sorted(there))
    }
    where = layout(grid)
    pixels = opened(sheet(grid, pictures))
    assert pixels.shape == (where.size[1], where.size[0], 3)
    for cell in grid.cells:
        left, top = where.corner(cell.place)
        part = pixels[top : top + where.cell, left : left + where.cell]
        assert part.shape == (128, 128, 3)
        if cell.place in pictures:
            assert np.array_equal(part, pictures[cell.place])
        else:
            assert (part[1:-1, 1:-1] == 255).all() and (part[0] != 255).all()


def test_axes_are_labelled_and_long_labels_stay_beside_the_pictures():
    axes = [parse_axis("prompt: " + "a very long prompt " * 40 + "| " + "x" * 900)]
    axes += [parse_axis("seed: 0, 1"), parse_axis("cfg_scale: 1, 2")]
    for order in (axes, axes[1:] + axes[:1], axes[2:] + axes[:2]):
        grid = plan_grid(order, BASE)
        where = layout(grid)
        pixels = opened(
            sheet(grid, {c.place: np.zeros((128, 128, 3), np.uint8) for c in grid.cells})
        )
        for cell in grid.cells:
            left, top = where.corner(cell.place)
            assert not pixels[top : top + 128, left : left + 128].any(), "no label is on a picture"
        left, top = where.corner((0, 0, 0))
        assert (pixels[:top, left:] < 100).any() and (pixels[top:, :left] < 100).any()
        assert (pixels[:, -8:] == 255).all() and (pixels[-8:] == 255).all()


def test_a_large_sheet_has_smaller_cells():
    grid = plan_grid([parse_axis("seed: 0-49"), parse_axis("cfg_scale: 1, 2")], BASE)
    where = layout(grid)
    assert where.cell == 128 and max(where.size) <= MAX_SIDE
    wide = plan_grid([parse_axis("seed: 0-99"), parse_axis("variant: nitro-ar-gan")], BASE)
    where = layout(wide)
    assert 48 <= where.cell < 512 and max(where.size) <= MAX_SIDE


# ---- the command ----


def grid(*arguments) -> int:
    return app.main(["grid", *map(str, arguments)])


def test_a_sheet_is_drawn_with_what_it_shows_inside(engines, tmp_path, capsys):
    out = tmp_path / "new" / "sheet.png"
    code = grid("--x", "prompt: a fox | a cat", "--y", "ar_iterations: 3, 1", "--out", out)
    assert code == 0 and "4 of 4 cells" in capsys.readouterr().out
    with Image.open(out) as image:
        image.load()
        inside = json.loads(image.text[KEY])
        pixels = np.asarray(image)
    assert inside["axes"][0] == {"key": "prompt", "values": ["a fox", "a cat"]}
    assert inside["cells"][0]["ar_iterations"] == 1
    where = layout(plan_grid([Axis(a["key"], tuple(a["values"])) for a in inside["axes"]], BASE))
    for n, prompt in enumerate(("a fox", "a cat")):
        left, top = where.corner((n, 1))
        assert is_of(pixels[top : top + 128, left : left + 128].mean((0, 1)), prompt)


def test_a_cell_that_fails_is_said_and_stays_empty(engines, tmp_path, capsys):
    out = tmp_path / "sheet.png"
    assert grid("--x", "prompt: a fox | explode", "--y", "seed: 0", "--out", out) == 1
    said = capsys.readouterr()
    assert "1 of 2 cells" in said.out and "Prompt explode, Seed 0: " in said.err
    assert out.exists()
    assert (
        grid("explode", "--x", "cfg_scale: 1", "--y", "seed: 0", "--out", tmp_path / "no.png") == 1
    )
    assert not (tmp_path / "no.png").exists()


def test_what_cannot_be_is_refused_without_an_engine(engines, tmp_path, capsys):
    for axes, words in (
        (("seed: 1", "cfg_scale: 99"), "CFG scale"),
        (("seed: 1", "seed"), "a setting and its values"),
    ):
        assert grid("a", "--x", axes[0], "--y", axes[1], "--out", tmp_path / "x.png") == 2
        assert words in capsys.readouterr().err
    assert grid("--x", "seed: 1", "--y", "cfg_scale: 2") == 2
    assert "prompt is empty" in capsys.readouterr().err and not engines
