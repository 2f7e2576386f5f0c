"""Text, numbers and colors in text formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from permutogeo.data.fields import unit_colors
from permutogeo.typing import Array

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Rows that are formatted at once: a number as a string takes many times its memory.
_CHUNK = 2**14


def skip_mark(content: bytes) -> bytes:
    """Return ``content`` without the UTF-8 byte-order mark that some editors write."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ValueError("the text is UTF-16; save it as UTF-8")
    return content.removeprefix(_BYTE_ORDER_MARK)


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Read a text file, without a byte-order mark and with ``\\n`` as line ends."""
    text = skip_mark(path.read_bytes()).decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_floats(rows: Sequence[Sequence[str]], width: int) -> Array:
    """Parse rows of ``width`` numbers as float64 ``[N, width]``."""
    _refuse_underscores(rows)
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)


def parse_integers(rows: Sequence[Sequence[str]]) -> Array:
    """Parse rows of equally many integers as int64."""
    _refuse_underscores(rows)
    return np.array(rows, dtype=np.int64).reshape(len(rows), -1)


def _refuse_underscores(rows: Sequence[Sequence[str]]) -> None:
    """Raise for ``1_000``, which Python and NumPy read as a number."""
    for row in rows:
        if "_" in "".join(row):
            word = next(word for word in row if "_" in word)
            raise ValueError(f"could not convert '{word}' to a number")


def format_rows(values: Array) -> Iterator[str]:
    """Yield rows of numbers with the fewest digits that read back to the same value."""
    for start in range(0, len(values), _CHUNK):
        yield from map(" ".join, values[start : start + _CHUNK].astype(np.str_).tolist())


def text_colors(colors: Array) -> Array:
    """Return colors of a text file as float32 in [0, 1]; values above 2 mean a range of 255."""
    return unit_colors(colors / 255.0 if len(colors) and colors.max() > 2.0 else colors)
