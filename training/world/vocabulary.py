"""The words of the Pocket world: its objects, its colours and how people call them.

An object is one glyph of the font "Noto Color Emoji". Names follow Unicode's short names where
those are what a visitor would type; `SYNONYMS` lists other words people use for the same thing.
"""

from __future__ import annotations

OBJECTS: dict[str, str] = {
    # animals
    "fox": "🦊", "cat": "🐱", "dog": "🐶", "panda": "🐼", "bear": "🐻", "koala": "🐨",
    "tiger": "🐯", "lion": "🦁", "cow": "🐮", "pig": "🐷", "frog": "🐸", "monkey": "🐵",
    "rabbit": "🐰", "mouse": "🐭", "hamster": "🐹", "wolf": "🐺", "horse": "🐴", "unicorn": "🦄",
    "chicken": "🐔", "chick": "🐤", "penguin": "🐧", "owl": "🦉", "eagle": "🦅", "duck": "🦆",
    "bee": "🐝", "butterfly": "🦋", "ladybug": "🐞", "snail": "🐌", "turtle": "🐢", "snake": "🐍",
    "octopus": "🐙", "crab": "🦀", "fish": "🐠", "dolphin": "🐬", "whale": "🐳", "shark": "🦈",
    "elephant": "🐘", "giraffe": "🦒", "zebra": "🦓", "camel": "🐪", "hedgehog": "🦔",
    "squirrel": "🐿️", "dragon": "🐲", "dinosaur": "🦕", "parrot": "🦜", "flamingo": "🦩",
    # food
    "apple": "🍎", "pear": "🍐", "orange fruit": "🍊", "lemon": "🍋", "banana": "🍌",
    "watermelon": "🍉", "grapes": "🍇", "strawberry": "🍓", "cherries": "🍒", "peach": "🍑",
    "pineapple": "🍍", "coconut": "🥥", "avocado": "🥑", "tomato": "🍅", "carrot": "🥕",
    "corn": "🌽", "broccoli": "🥦", "mushroom": "🍄", "bread": "🍞", "cheese": "🧀",
    "hamburger": "🍔", "pizza": "🍕", "hot dog": "🌭", "taco": "🌮", "egg": "🥚",
    "donut": "🍩", "cookie": "🍪", "cake": "🍰", "cupcake": "🧁", "ice cream": "🍦",
    "lollipop": "🍭", "coffee": "☕",
    # vehicles
    "car": "🚗", "taxi": "🚕", "bus": "🚌", "truck": "🚚", "tractor": "🚜", "bicycle": "🚲",
    "scooter": "🛵", "train": "🚂", "airplane": "✈️", "helicopter": "🚁", "rocket": "🚀",
    "sailboat": "⛵", "ship": "🚢", "ambulance": "🚑", "fire engine": "🚒", "ufo": "🛸",
    # nature
    "sun": "🌞", "moon": "🌙", "star": "⭐", "cloud": "☁️", "rainbow": "🌈", "snowflake": "❄️",
    "snowman": "⛄", "fire": "🔥", "tree": "🌳", "pine tree": "🌲", "palm tree": "🌴",
    "cactus": "🌵", "sunflower": "🌻", "rose": "🌹", "tulip": "🌷", "leaf": "🍁",
    "clover": "🍀", "volcano": "🌋", "earth": "🌍", "shell": "🐚",
    # things
    "house": "🏠", "castle": "🏰", "tent": "⛺", "balloon": "🎈", "gift": "🎁", "key": "🔑",
    "lock": "🔒", "bell": "🔔", "book": "📕", "pencil": "✏️", "scissors": "✂️", "clock": "⏰",
    "umbrella": "☂️", "crown": "👑", "hat": "🎩", "guitar": "🎸", "drum": "🥁", "trumpet": "🎺",
    "soccer ball": "⚽", "basketball": "🏀", "trophy": "🏆", "camera": "📷", "robot": "🤖",
    "ghost": "👻", "heart": "❤️", "diamond": "💎", "light bulb": "💡", "magnet": "🧲",
}  # fmt: skip

# One RGB value a colour: as a background, and as the tint of a recoloured object.
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (226, 62, 58),
    "orange": (247, 148, 46),
    "yellow": (252, 217, 76),
    "green": (92, 178, 92),
    "turquoise": (62, 190, 186),
    "blue": (74, 134, 232),
    "purple": (150, 96, 206),
    "pink": (248, 158, 196),
    "brown": (146, 98, 62),
    "gray": (150, 154, 160),
    "white": (248, 248, 248),
    "black": (38, 38, 44),
}
# Colours an object can be tinted with: the ones a hue makes unmistakable.
TINTS = ("red", "orange", "yellow", "green", "turquoise", "blue", "purple", "pink")

IRREGULAR_PLURALS: dict[str, str] = {
    "fox": "foxes", "mouse": "mice", "wolf": "wolves", "butterfly": "butterflies",
    "ladybug": "ladybugs", "octopus": "octopuses", "fish": "fish", "grapes": "grapes",
    "strawberry": "strawberries", "cherries": "cherries", "peach": "peaches",
    "tomato": "tomatoes", "broccoli": "broccoli", "bread": "breads", "sun": "suns",
    "bus": "buses", "leaf": "leaves", "cactus": "cacti", "scissors": "scissors",
    "candy": "candies", "bunny": "bunnies", "puppy": "puppies", "kitty": "kitties",
    "daisy": "daisies", "ice cream": "ice creams", "corn": "corns", "cheese": "cheeses",
}  # fmt: skip

# Other words for an object; in captions they take its place now and then.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "cat": ("kitty", "kitten"), "dog": ("puppy", "doggy"), "rabbit": ("bunny",),
    "pig": ("piglet",), "horse": ("pony",), "chicken": ("hen",), "chick": ("baby chick",),
    "ladybug": ("ladybird",), "fish": ("tropical fish",), "whale": ("spouting whale",),
    "frog": ("toad",), "monkey": ("ape",), "bear": ("teddy",), "bee": ("honeybee",),
    "dinosaur": ("dino",), "mushroom": ("toadstool",), "hamburger": ("burger",),
    "donut": ("doughnut",), "cookie": ("biscuit",), "cake": ("shortcake",),
    "lollipop": ("candy",), "coffee": ("hot drink",), "bread": ("loaf",), "corn": ("maize",),
    "orange fruit": ("tangerine", "mandarin"), "cherries": ("cherry",), "grapes": ("grape",),
    "car": ("automobile",), "taxi": ("cab",), "truck": ("lorry",), "bicycle": ("bike",),
    "scooter": ("moped",), "train": ("locomotive", "steam train"), "airplane": ("plane", "jet", "aeroplane"),
    "helicopter": ("chopper",), "rocket": ("spaceship",), "sailboat": ("boat", "yacht"),
    "fire engine": ("fire truck",), "ufo": ("flying saucer",), "moon": ("crescent moon",),
    "fire": ("flame",), "pine tree": ("evergreen",), "leaf": ("maple leaf",),
    "clover": ("four leaf clover",), "earth": ("globe", "planet", "world"), "shell": ("seashell",),
    "house": ("home",), "gift": ("present",), "lock": ("padlock",), "clock": ("alarm clock",),
    "hat": ("top hat",), "soccer ball": ("football", "ball"), "heart": ("love",),
    "diamond": ("gem", "jewel"), "light bulb": ("lamp",), "robot": ("android",),
    "sun": ("sunshine",), "cloud": ("overcast",), "book": ("notebook",),
    "turtle": ("tortoise",), "snake": ("serpent",), "parrot": ("bird",), "eagle": ("bird",),
    "camel": ("dromedary",), "hot dog": ("hotdog",), "ice cream": ("icecream",),
    "sunflower": ("flower",), "rose": ("flower",), "tulip": ("flower",), "tree": ("oak",),
    "basketball": ("ball",), "trophy": ("prize",), "ship": ("steamer",), "pencil": ("pen",),
}  # fmt: skip

COLOUR_SYNONYMS: dict[str, tuple[str, ...]] = {
    "turquoise": ("teal", "cyan"),
    "purple": ("violet",),
    "gray": ("grey",),
    "pink": ("rose coloured",),
}


def plural(noun: str) -> str:
    """The plural of an object's name or synonym; the last word carries it."""
    if noun in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[noun]
    head, _, last = noun.rpartition(" ")
    if last in IRREGULAR_PLURALS:
        last = IRREGULAR_PLURALS[last]
    elif last.endswith(("s", "x", "ch", "sh")):
        last += "es"
    elif last.endswith("y") and last[-2] not in "aeiou":
        last = last[:-1] + "ies"
    else:
        last += "s"
    return f"{head} {last}".strip()


def article(noun: str) -> str:
    """ "a" or "an" for a noun phrase (by its first letter; "ufo" and "unicorn" sound like y)."""
    return "a" if noun[0] not in "aeiou" or noun.startswith(("uni", "ufo")) else "an"
