"""What is done to a prompt before it is tokenised: nothing, lower case, or a thorough cleaning.

Nitro-AR reads prompts as they are. Nitro-E's published pipeline cleans them the way PixArt's and
DeepFloyd's do, twice over, but only where two optional packages are installed (beautifulsoup4 and
ftfy); elsewhere it lower-cases and trims, so one prompt gives two pictures on two machines. Here
the choice is a setting. Its default for Nitro-E is "lower": what the published pipeline does as
installed, and nearer to the captions the model was trained with, which were not cleaned.

"clean" is that cleaning by the standard library's means. Of ftfy's repairs it has those that can
still matter in lower-cased text: full-width letters, ligatures and control characters.
"""

from __future__ import annotations

import html
import re
import unicodedata
from html.parser import HTMLParser
from typing import Literal
from urllib.parse import unquote_plus

CaptionMode = Literal["raw", "lower", "clean"]
CAPTION_MODES: tuple[CaptionMode, ...] = ("raw", "lower", "clean")

_ADDRESS = re.compile(
    r"\b(?:https?:/{1,3}|www\.|[a-z0-9-]+\.(?:com|co|ru|net|org|edu|gov|it)\b)\S*"
)
_HANDLE = re.compile(r"@[\w.-]+")
_CJK = re.compile(
    "[\u31c0-\u31ef\u31f0-\u31ff\u3200-\u32ff\u3300-\u33ff\u3400-\u4dbf\u4dc0-\u4dff\u4e00-\u9fff]+"
)
_DASHES = re.compile("[\u002d\u058a\u05be\u1400\u1806\u2010-\u2015\u2e17\u2e1a\u2e3a\u2e3b\u2e40"
                     "\u301c\u3030\u30a0\ufe31\ufe32\ufe58\ufe63\uff0d]+")  # fmt: skip
_DOUBLE_QUOTES = re.compile("[`´«»“”¨]")
_SINGLE_QUOTES = re.compile("[‘’]")
_INTERNET_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")
_ARTICLE_NUMBER = re.compile(r"\d:\d\d\s+$")
_TAG_NUMBER = re.compile(r"#\d{1,3}\b|#\d{5,}\b|\b\d{6,}\b")
_FILE_NAME = re.compile(r"\S+\.(?:png|jpe?g|bmp|webp|gif|eps|pdf|apk|mp4)\b")
_QUOTES = re.compile(r"[\"']{2,}")
_DOTS = re.compile(r"\.{2,}")
_FOREIGN_MARKS = re.compile(r"[#®•©™&@·º½¾¿¡§~\[\](){}|\\/*]+")
_SEPARATED = re.compile(r"\s+\.\s+")
_ID = re.compile(r"\b[a-z]{1,3}\d{3,15}\b|\b[a-z]+\d+[a-z]+\b|\b\d+[a-z]+\d+\w*\b")
_ADVERT = re.compile(
    r"(?:free\s+)?(?:worldwide\s+)?(?:shipping|download)s?\b(?:\s+free)?|\bclick\s+(?:for|on)\s+\w+"
    r"|\b(?:png|jpe?g|bmp|webp|gif|eps|pdf|apk|mp4)(?:\s+image\w*)?\b|\bpage\s+\d+\b"
)
_SIZE = re.compile(r"\b\d+(?:[.,]\d+)?\s?[xх×]\s?\d+(?:[.,]\d+)?\b")
_ENDS = re.compile(r"^[\s'\"_\-:.,+]+|[\s'\"_\-:+]+$")


def prepared(prompt: str, mode: CaptionMode) -> str:
    """The prompt as the text encoder gets it. It may be empty, if cleaning leaves nothing."""
    match mode:
        case "raw":
            return prompt
        case "lower":
            return prompt.lower().strip()
        case "clean":
            return clean_caption(clean_caption(prompt))  # as published: what appears is cleaned too


def clean_caption(text: str) -> str:
    """One pass: markup, addresses, handles, numbers of no meaning and stray marks are removed."""
    text = unquote_plus(text).strip().lower()
    text = text.replace("<person>", "person")
    text = _ADDRESS.sub("", text)
    text = _without_tags(text)
    text = _HANDLE.sub("", text)
    text = _CJK.sub("", text)
    text = _DASHES.sub("-", text)
    text = _SINGLE_QUOTES.sub("'", _DOUBLE_QUOTES.sub('"', text))
    text = re.sub(r"&(?:quot|amp);?", "", text)
    text = _INTERNET_ADDRESS.sub(" ", text)
    text = _ARTICLE_NUMBER.sub("", text).replace("\\n", " ")
    text = _FILE_NAME.sub("", _TAG_NUMBER.sub("", text))
    text = _DOTS.sub(" ", _QUOTES.sub('"', text))
    text = _FOREIGN_MARKS.sub(" ", text)
    text = _SEPARATED.sub(" ", text)
    if len(re.findall(r"[-_]", text)) > 3:  # words-joined-like-this were a file's name
        text = re.sub(r"[-_]", " ", text)
    text = html.unescape(html.unescape(_repaired(text)))
    text = _ADVERT.sub("", _ID.sub("", text))
    text = _SIZE.sub("", text)
    text = re.sub(r"\b\s+:\s+", ": ", text)
    text = re.sub(r"(\D[,./])\b", r"\1 ", text)
    text = re.sub(r"\s+", " ", text).strip()
    return _ENDS.sub("", text).strip()


class _Words(HTMLParser):
    """Collects what is between the tags."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def _without_tags(text: str) -> str:
    if "<" not in text and "&" not in text:
        return text
    reader = _Words()
    reader.feed(text)
    reader.close()
    return "".join(reader.words)


def _repaired(text: str) -> str:
    for ligature in "ﬀﬁﬂﬃﬄﬅﬆ":
        text = text.replace(ligature, unicodedata.normalize("NFKC", ligature))
    wide = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
    kept = (c for c in text.translate(wide) if c in "\n\t" or unicodedata.category(c) != "Cc")
    return unicodedata.normalize("NFC", "".join(kept))
