"""What a batch is asked to draw: prompt files, templates, and the plan made of them."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.requests import MAX_SEED, InvalidRequest
from ui.batch.plan import Plan, PlanTooLarge, request_of
from ui.batch.prompts import Entry, PromptFileError, read_prompts
from ui.batch.template import TemplateError, combinations, expand


def written(tmp_path, name: str, text: str | bytes):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ---- files ----


def test_a_text_file_is_a_prompt_a_line(tmp_path):
    path = written(tmp_path, "p.txt", "\ufeffa fox 🦊\r\n\n  two cats, sitting \n#1 \u2028 dog")
    assert [e.prompt for e in read_prompts(path)] == [
        "a fox 🦊",
        "two cats, sitting",
        "#1 \u2028 dog",
    ]


def test_a_csv_file_has_a_prompt_column_and_settings(tmp_path):
    text = 'seed, prompt,cfg_scale\n7,"a fox, with a ""hat""",2\n,"two\nlines",\nx,a cat,\n'
    assert read_prompts(written(tmp_path, "p.csv", text)) == (
        Entry('a fox, with a "hat"', {"seed": 7, "cfg_scale": 2.0}),
        Entry("two\nlines"),
        Entry("a cat", {"seed": "x"}),  # is refused when it is drawn, and alone
    )


def test_a_json_lines_file_has_objects_or_strings(tmp_path):
    text = '{"prompt": "a fox", "variant": "pocket-ar-joint", "seed": null}\n\n"a cat"\n'
    assert read_prompts(written(tmp_path, "p.jsonl", text)) == (
        Entry("a fox", {"variant": "pocket-ar-joint"}),
        Entry("a cat"),
    )


def test_what_a_batch_wrote_is_a_prompt_file_for_the_same_pictures(tmp_path):
    first = Plan((Entry("a fox"), Entry("a cat", {"seed": 9})), seeds=2)
    lines = [task.line(task.request(), "pocket") for task in first.tasks()]
    path = written(tmp_path, "metadata.jsonl", "\n".join(map(json.dumps, lines)))
    again = Plan(read_prompts(path))
    assert [t.request() for t in again.tasks()] == [t.request() for t in first.tasks()]
    assert [request_of(line) for line in lines] == [t.request() for t in first.tasks()]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("p.txt", "\n \n", "holds no prompt"),
        ("p.txt", b"caf\xe9", "not UTF-8"),
        ("p.csv", "", "holds no prompt"),
        ("p.csv", "text\na fox\n", "line 1: unknown setting 'text'"),
        ("p.csv", "seed\n1\n", "line 1: there is no prompt"),
        ("p.csv", "prompt,prompt\na,b\n", "'prompt' is there twice"),
        ("p.csv", "prompt\na fox, sitting\n", "line 2: more cells"),
        ("p.csv", 'prompt\n"a fox\n', "line 2: unexpected end"),
        ("p.jsonl", '"a fox"\n{"prompt": "a\n', "line 2: this is not valid JSON"),
        ("p.jsonl", "[" * 100_000, "line 1: this is not valid JSON"),
        ("p.jsonl", '{"prompt": "a", "seeed": 1}', "line 1: unknown setting 'seeed'"),
        ("p.jsonl", '{"seed": 1}', "line 1: there is no prompt"),
        ("p.jsonl", "17", 'line 1: expected {"prompt": "..."}'),
    ],
)
def test_a_file_that_cannot_be_read_says_where_and_why(tmp_path, name, text, words):
    with pytest.raises(PromptFileError) as refused:
        read_prompts(written(tmp_path, name, text))
    assert words in str(refused.value) and name in str(refused.value)


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(PromptFileError, match="cannot be read: No such file"):
        read_prompts(tmp_path / "nowhere.txt")


# ---- templates ----


@pytest.mark.parametrize(
    ("template", "prompts"),
    [
        ("a fox", ["a fox"]),
        ("a {red|blue} {cat|dog}", ["a red cat", "a red dog", "a blue cat", "a blue dog"]),
        ("a {|big }fox", ["a fox", "a big fox"]),
        ("{a|{b|c}d}|e", ["a|e", "bd|e", "cd|e"]),
        (r"\{a\} \| \\ {b}", [r"{a} | \ b"]),
        (r"\n", [r"\n"]),
    ],
)
def test_a_template_stands_for_all_combinations(template, prompts):
    assert list(expand(template)) == prompts
    assert combinations(template) == len(prompts)


@given(st.lists(st.lists(st.text("abc ", max_size=3), min_size=1, max_size=4), max_size=4))
def test_as_many_prompts_as_lists_multiply_to(lists):
    template = "-".join("{" + "|".join(options) + "}" for options in lists)
    prompts = list(expand(template))
    assert len(prompts) == combinations(template) == math.prod(map(len, lists))
    for prompt in prompts:
        parts = prompt.split("-") if lists else []
        assert all(part in options for part, options in zip(parts, lists, strict=True))


@given(st.text(r"{|}\ab", max_size=30))
def test_any_text_is_a_template_or_is_refused_in_words(text):
    try:
        prompts = list(expand(text, limit=10_000))
    except TemplateError as refusal:
        assert str(refusal)[0].isupper()
    else:
        assert len(prompts) == combinations(text) >= 1


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("a {red", "character 3"),
        ("a red}", "character 6"),
        ("{" * 20 + "}" * 20, "nested"),
        ("{a|b}" * 30, "1,073,741,824"),
    ],
)
def test_a_template_that_cannot_be_read_says_why(template, words):
    with pytest.raises(TemplateError, match=words):
        expand(template)


# ---- the plan ----


def test_every_picture_has_a_number_a_file_and_its_settings():
    plan = Plan(
        (Entry("a fox"), Entry("a cat", {"seed": MAX_SEED, "variant": "pocket-ar"})),
        ("pocket-ar", "pocket-ar-joint"),
        seeds=2,
        settings={"cfg_scale": 2.5},
    )
    tasks = list(plan.tasks())
    asked = [(r.variant, r.prompt, r.seed, r.cfg_scale) for r in (task.request() for task in tasks)]
    assert asked == [
        ("pocket-ar", "a fox", 0, 2.5),
        ("pocket-ar", "a fox", 1, 2.5),
        ("pocket-ar", "a cat", MAX_SEED, 2.5),
        ("pocket-ar", "a cat", 0, 2.5),
        ("pocket-ar-joint", "a fox", 0, 2.5),
        ("pocket-ar-joint", "a fox", 1, 2.5),
    ]
    assert len(plan) == len(tasks) and [t.index for t in tasks] == list(range(6))
    assert [plan.index_of(t.file_name) for t in tasks] == list(range(6))
    for foreign in ("000006.png", "00000.png", "000000.webp", "metadata.jsonl", "٠٠٠٠٠٠.png"):
        assert plan.index_of(foreign) is None


def test_a_variant_that_only_a_line_names_is_drawn_too():
    plan = Plan((Entry("a", {"variant": "pocket-ar-joint"}), Entry("b", {"variant": []})))
    first, second = plan.tasks()
    assert first.request().variant == "pocket-ar-joint" and len(plan) == 2
    with pytest.raises(InvalidRequest, match="no variant"):
        second.request()


@pytest.mark.parametrize("seed", ["x", True, -1, 1.5, 2**80])
def test_a_seed_that_is_none_is_refused_when_drawn(seed):
    for task in Plan((Entry("a", {"seed": seed}),), seeds=2).tasks():
        with pytest.raises(InvalidRequest, match="Seed"):
            task.request()


def test_whatever_changes_a_picture_changes_the_fingerprint():
    base = {"entries": (Entry("a fox"), Entry("a cat")), "settings": {"cfg_scale": 2.0}}
    changes: list[dict] = [
        {},
        {"entries": (Entry("a cat"), Entry("a fox"))},
        {"entries": (Entry("a fox"), Entry("a cat", {"seed": 1}))},
        {"settings": {"cfg_scale": 2.5}},
        {"variants": ("pocket-ar-joint",)},
        {"seeds": 2},
        {"seed": 1},
        {"format": "webp"},
        {"exact": True},
    ]
    prints = [Plan(**{**base, **change}).fingerprint() for change in changes]
    assert len(set(prints)) == len(changes)
    assert Plan(**base).fingerprint() == prints[0]


def test_more_pictures_than_a_batch_may_have_are_refused():
    with pytest.raises(PlanTooLarge, match="20,000,000"):
        Plan((Entry("a"),) * 200, seeds=100_000)
