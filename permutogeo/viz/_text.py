"""Text on pictures, in the font that Pillow brings along."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

INK = (32, 34, 38)
FAINT = (106, 110, 118)


@lru_cache(maxsize=16)
def font(size: int) -> Any:
    """The font, with letters of so many pixels."""
    from PIL import ImageFont

    return ImageFont.load_default(max(size, 6))


def width(text: str, size: int) -> float:
    """How many pixels a line takes."""
    return font(size).getlength(text)


def fitted(text: str, size: int, room: float) -> str:
    """The text on one line, with an ellipsis where it would be wider than ``room``."""
    text = " ".join(text.split())
    if width(text, size) <= room:
        return text
    while text and width(text + "…", size) > room:
        text = text[:-1]
    return text.rstrip() + "…"
