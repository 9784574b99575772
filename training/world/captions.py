"""Captions: a small grammar that says what a scene shows, in the many ways people say it."""

from __future__ import annotations

from random import Random

from training.world.scenes import Scene
from training.world.vocabulary import COLOUR_SYNONYMS, SYNONYMS, article, plural

NUMBERS = {1: ("one", "1", "a single"), 2: ("two", "2"), 3: ("three", "3"), 4: ("four", "4")}
OPENINGS = (
    "a picture of", "an image of", "a drawing of", "an icon of", "a photo of", "an emoji of",
    "draw", "show me", "i want", "please draw", "make", "there is", "paint",
)  # fmt: skip
ADJECTIVES = (
    "cute", "little", "nice", "pretty", "beautiful", "big", "small", "funny", "lovely", "tiny",
    "huge", "happy", "fluffy", "sweet", "cool", "old", "young",
)  # fmt: skip
# No word of the world: captions hold one now and then, so that an unknown word does no harm.
UNKNOWN_WORD = "xyzzy"
CLOSINGS = (", icon", ", emoji", " please", ", clean", ", simple", "!", ".", ", high quality")
RELATIONS = {
    "left of": ("left of", "to the left of", "on the left of", "on the left side of"),
    "right of": ("right of", "to the right of", "on the right of", "on the right side of"),
    "above": ("above", "over", "on top of"),
    "below": ("below", "under", "beneath", "underneath"),
}
INVERSE = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}
FUNCTION_WORDS = (
    "a an the and with on in of to at by next beside background backdrop colour color coloured "
    "colored side it its is are there two both together , . !"
)


def caption(scene: Scene, rng: Random, plain: bool = False) -> str:
    """One caption of the scene. `plain` gives the grammar's simplest form (for evaluation)."""
    content = _content(scene, rng, plain)
    must_say = scene.skill == "colours" or (plain and scene.skill in ("attribute", "position"))
    if must_say or rng.random() < 0.65:
        text = _with_background(content, _colour(scene.background, rng, plain), rng, plain)
    else:
        text = content
    if plain:
        return text
    if rng.random() < 0.2:
        text = f"{rng.choice(OPENINGS)} {text}"
    if rng.random() < 0.15:
        text += rng.choice(CLOSINGS)
    if rng.random() < 0.08:
        words = text.split()
        words.insert(rng.randint(0, len(words)), UNKNOWN_WORD)
        text = " ".join(words)
    return text


def _content(scene: Scene, rng: Random, plain: bool) -> str:
    first = scene.items[0]
    if scene.skill == "counting":
        if len(scene.items) == 1 and not plain and rng.random() < 0.5:
            return _phrase(first.name, None, rng, plain)
        number = NUMBERS[len(scene.items)][0] if plain else rng.choice(NUMBERS[len(scene.items)])
        noun = _noun(first.name, rng, plain)
        return f"{number} {noun if len(scene.items) == 1 else plural(noun)}"
    phrases = [_phrase(item.name, item.tint, rng, plain) for item in scene.items]
    if scene.relation is not None:
        relation = scene.relation
        if not plain and rng.random() < 0.5:
            relation, phrases = INVERSE[relation], phrases[::-1]
        words = relation if plain else rng.choice(RELATIONS[relation])
        return f"{phrases[0]} {words} {phrases[1]}"
    if len(phrases) == 2:  # named from left to right, as they stand
        joint = "and" if plain else rng.choices(("and", "with", ",", "next to"), (6, 2, 1, 1))[0]
        return f"{phrases[0]} {joint} {phrases[1]}".replace(" , ", ", ")
    return phrases[0]


def _noun(name: str, rng: Random, plain: bool) -> str:
    if not plain and name in SYNONYMS and rng.random() < 0.2:
        return rng.choice(SYNONYMS[name])
    return name


def _colour(name: str, rng: Random, plain: bool) -> str:
    if not plain and name in COLOUR_SYNONYMS and rng.random() < 0.25:
        return rng.choice(COLOUR_SYNONYMS[name])
    return name


def _phrase(name: str, tint: str | None, rng: Random, plain: bool) -> str:
    words = _noun(name, rng, plain)
    if tint is not None:
        words = f"{_colour(tint, rng, plain)} {words}"
    if not plain and rng.random() < 0.08:
        words = f"{rng.choice(ADJECTIVES)} {words}"
    if plain or rng.random() < 0.75:
        return f"{article(words)} {words}"
    return f"the {words}" if rng.random() < 0.2 else words


def _with_background(content: str, colour: str, rng: Random, plain: bool) -> str:
    forms = (
        f"{content} on {article(colour)} {colour} background",
        f"{content} on {colour}",
        f"{content}, {colour} background",
        f"{content} with {article(colour)} {colour} background",
        f"{article(colour)} {colour} background with {content}",
        f"{content} in front of {article(colour)} {colour} background",
        f"{colour} background, {content}",
    )
    return forms[0] if plain else rng.choices(forms, (6, 2, 3, 2, 2, 1, 1))[0]
