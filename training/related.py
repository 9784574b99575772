"""Words Pocket does not know, with the known ones nearest in meaning: for the hint on the page.

From the English keywords of Unicode's CLDR for the world's glyphs (Debian package
unicode-cldr-core) and from the groups below. A keyword that is itself known is left out.

    python -m training.related --out assets/pocket/text_encoder
"""

from __future__ import annotations

import argparse
import json
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

from models.wording import RELATED_FILE
from training.words import vocabulary
from training.world.vocabulary import OBJECTS

ANNOTATIONS = Path("/usr/share/unicode/cldr/common/annotations/en.xml")

# What visitors type: families of the world's objects, shades of its colours, larger numbers.
GROUPS = {
    "animal pet puppies": "cat dog rabbit", "wildlife beast": "lion tiger bear",
    "bug insect spider ant beetle fly wasp": "bee ladybug butterfly",
    "raven crow pigeon sparrow swan goose robin": "bird eagle duck",
    "cheetah leopard panther jaguar lynx": "tiger lion cat", "kangaroo sloth wombat": "koala bear",
    "deer goat sheep lamb donkey moose": "horse cow camel", "bull buffalo ox": "cow",
    "lizard crocodile alligator reptile": "snake dinosaur turtle", "rat gerbil": "mouse hamster",
    "beaver otter raccoon badger": "squirrel hedgehog fox", "hippo rhino": "elephant",
    "seal walrus orca": "dolphin whale", "jellyfish squid": "octopus", "lobster shrimp": "crab",
    "goldfish salmon tuna": "fish shark", "trex raptor": "dinosaur dragon",
    "fruit berry": "apple strawberry banana", "plum apricot mango": "peach",
    "lime grapefruit": "lemon", "melon": "watermelon", "vegetable salad": "carrot broccoli tomato",
    "blueberry raspberry blackberry": "strawberry grapes", "potato onion pumpkin": "tomato carrot",
    "food meal dinner lunch snack": "pizza hamburger taco", "sandwich": "hamburger bread",
    "burrito": "taco", "baguette toast croissant": "bread", "pie pastry muffin": "cake cupcake",
    "dessert sweets chocolate": "cake donut cookie", "tea cup mug drink espresso": "coffee",
    "vehicle transport": "car bus truck", "van minivan suv jeep": "car truck",
    "motorcycle motorbike": "scooter bicycle", "tram subway metro": "train",
    "aircraft glider drone": "airplane helicopter", "spacecraft shuttle missile": "rocket ufo",
    "alien": "ufo robot", "canoe kayak raft": "boat", "ferry submarine": "ship", "police": "car",
    "plant bush": "tree cactus", "daisy lily orchid blossom bouquet": "rose tulip sunflower",
    "forest wood": "tree", "mountain hill": "volcano", "snow ice": "snowflake",
    "rain storm weather": "cloud umbrella", "sky": "cloud sun", "lightning": "cloud fire",
    "galaxy comet asteroid space": "star rocket", "mars jupiter saturn": "planet",
    "sea ocean beach": "ship shell fish", "building tower hut cabin barn church": "house castle",
    "palace fortress": "castle", "camp": "tent", "toy doll": "teddy balloon", "box parcel": "gift",
    "door": "key house", "newspaper magazine letter": "book", "brush crayon": "pencil",
    "watch hourglass": "clock", "cap helmet": "hat", "king queen prince princess": "crown",
    "violin piano banjo ukulele": "guitar", "flute saxophone horn": "trumpet",
    "tennis baseball volleyball": "ball", "medal award": "trophy", "phone tv": "camera",
    "computer cyborg": "robot", "monster zombie skeleton vampire": "ghost dragon",
    "person man woman boy girl child baby human face": "robot snowman teddy",
    "candle torch": "fire lamp", "crystal ruby emerald sapphire": "diamond",
    "crimson scarlet maroon": "red", "navy azure indigo": "blue", "lime olive emerald mint": "green",
    "gold golden amber": "yellow", "silver": "gray", "magenta rose fuchsia": "pink",
    "lavender lilac": "purple", "beige tan": "brown", "aqua": "turquoise",
    "five six seven eight nine ten many several few": "four", "pair couple": "two",
}  # fmt: skip


def cldr_keywords(file: Path) -> dict[str, list[str]]:
    """Keyword to the names of the objects whose glyph has it, in the world's order."""
    names = {}
    for name, glyph in OBJECTS.items():
        names[glyph] = names[glyph.rstrip("\ufe0f")] = name
    keywords: dict[str, list[str]] = defaultdict(list)
    for entry in ElementTree.parse(file).iter("annotation"):
        name = names.get(entry.get("cp", ""))
        if name is None or entry.get("type") == "tts":
            continue
        for keyword in (entry.text or "").lower().split("|"):
            keywords[keyword.strip()].append(name)
    return keywords


def related_words(annotations: Path = ANNOTATIONS) -> dict[str, list[str]]:
    """Unknown word to known words. Without CLDR's file, from the groups alone."""
    known = set(vocabulary())
    found: dict[str, list[str]] = {}
    if annotations.exists():
        # A keyword of many glyphs ("face") says nothing about any of them.
        found |= {word: names for word, names in cldr_keywords(annotations).items()
                  if len(names) <= 12}  # fmt: skip
    else:
        print("related words: CLDR is not installed; only the project's own groups", flush=True)
    for words, nearest in GROUPS.items():
        for word in words.split():
            found[word] = nearest.split()
    return {
        word: list(dict.fromkeys(names))[:3]
        for word, names in sorted(found.items())
        if word.isalpha() and word not in known
    }


def save_related_words(folder: Path) -> None:
    lines = json.dumps(related_words(), ensure_ascii=False, indent=0)
    (folder / RELATED_FILE).write_text(lines + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--out", type=Path, default=Path("assets/pocket/text_encoder"))
    save_related_words(parser.parse_args().out)


if __name__ == "__main__":
    main()
