"""Caption cleaning: what each mode makes of a prompt, whatever is installed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.captions import CAPTION_MODES, prepared


def test_raw_changes_nothing() -> None:
    prompt = "  A <b>Red</b> Fox @home https://x.org "
    assert prepared(prompt, "raw") == prompt


def test_lower_changes_case_and_ends_only() -> None:
    assert prepared("  A <b>Red</b> Fox, 512x512 ", "lower") == "a <b>red</b> fox, 512x512"


@pytest.mark.parametrize(
    ("prompt", "cleaned"),
    [
        ("A Red Fox", "a red fox"),
        ("a%20red+fox", "a red fox"),
        ("a fox https://example.com/a/b?c=d in snow", "a fox in snow"),
        ("a fox www.example.com", "a fox"),
        ("a fox example.org/fox", "a fox"),
        ("a <b>red</b> fox<br/>", "a red fox"),
        ("a fox by @somebody_else", "a fox by"),
        ("a fox 狐狸 in snow", "a fox in snow"),
        ("a fox — in snow", "a fox - in snow"),
        ("the “red” fox’s tail", 'the "red" fox\'s tail'),
        ("a fox &amp; a cat", "a fox a cat"),
        ("a fox &lt;3", "a fox <3"),
        ("a fox 192.168.0.1", "a fox"),
        ("a fox #12 and #123456", "a fox and"),
        ("a fox 1234567", "a fox"),
        ("a fox IMG_0042.JPG", "a fox"),
        ("a fox!!!   in... snow", "a fox!!! in snow"),
        ("a fox (in [snow])", "a fox in snow"),
        ("red-fox-in-the-snow", "red fox in the snow"),
        ("a well-known fox", "a well-known fox"),
        ("ｆｏｘ in a ﬁeld", "fox in a field"),
        ("a fox free shipping", "a fox"),
        ("a fox jpg image", "a fox"),
        ("a fox click for more", "a fox"),
        ("a fox 512x512", "a fox"),
        ("a fox 10 × 15", "a fox"),
        ("a fox jc6640", "a fox"),
        ("red,green,blue", "red, green, blue"),
        ("'a fox'", "a fox"),
        ("https://example.com", ""),
    ],
)
def test_clean_removes_what_is_no_description(prompt: str, cleaned: str) -> None:
    assert prepared(prompt, "clean") == cleaned


@given(st.text(max_size=200), st.sampled_from(CAPTION_MODES))
def test_any_text_can_be_prepared(text: str, mode: str) -> None:
    made = prepared(text, mode)  # type: ignore[arg-type]
    assert isinstance(made, str)
    if mode == "clean":
        assert "  " not in made and made == made.strip()
