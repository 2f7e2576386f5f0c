"""Point clouds as rows of numbers: XYZ, TXT, XYZN, XYZRGB."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from permutogeo.data.fields import Fields
from permutogeo.data.formats.text import parse_floats, read_text
from permutogeo.typing import Array

# Attribute in the columns after the coordinates.
EXTRA_ATTRIBUTE = {".xyz": "x", ".txt": "x", ".xyzn": "normal", ".xyzrgb": "x"}

_NUMBER = re.compile(r"(nan|inf)", re.IGNORECASE)


def read_rows(path: Path) -> Array:
    """Read rows of equally many numbers, separated by spaces or commas, as float64."""
    lines = [line.partition("#")[0].split() for line in read_text(path).splitlines()]
    rows = [_columns(words, i) for i, words in enumerate(words for words in lines if words)]
    width = len(rows[0]) if rows else 0
    if rows and any(map(_is_name, rows[0])):
        raise ValueError(f"a header '{' '.join(rows[0])[:60]}'; begin that line with '#'")
    bad = next((i for i, row in enumerate(rows) if len(row) != width), None)
    if bad is not None:
        raise ValueError(f"row {bad} has {len(rows[bad])} numbers, the first has {width}")
    return parse_floats(rows, width)


def read_xyz(path: Path) -> Fields:
    """Read rows of three coordinates, then normals (``.xyzn``), colors or other values."""
    values = read_rows(path)
    width = values.shape[1]
    name = EXTRA_ATTRIBUTE[path.suffix.lower()]
    wanted = 6 if path.suffix.lower() in (".xyzn", ".xyzrgb") else width
    if width < 3 or width != wanted:
        raise ValueError(f"rows have {width} numbers")
    fields = {"pos": values[:, :3]}
    if width > 3:
        fields[name] = values[:, 3:]
    return fields


def _is_name(word: str) -> bool:
    """Return whether a word is the name of a column, and neither a number nor ``nan``."""
    return word.lstrip("/")[:1].isalpha() and not _NUMBER.match(word)


def _columns(words: list[str], row: int) -> list[str]:
    """Split the words of a row at commas; raises for decimal commas.

    ``1,2,3`` and ``1, 2, 3`` are columns. With spaces between words, a comma inside of one is that
    of a decimal fraction.
    """
    if not any("," in word for word in words):
        return words
    inner = next((word for word in words if "," in word.strip(",")), None)
    if inner is not None and len(words) > 1:
        raise ValueError(
            f"row {row} has '{inner}', a decimal comma or two separators; write decimal points, "
            "and separate columns by spaces or by commas"
        )
    return " ".join(words).replace(",", " ").split()


def write_xyz(path: Path, fields: Fields) -> None:
    """Write coordinates and the attribute in ``EXTRA_ATTRIBUTE`` of the suffix."""
    parts: list[Array] = [fields["pos"]]
    suffix = path.suffix.lower()
    extra = fields.get(EXTRA_ATTRIBUTE[suffix])
    if extra is None and suffix in (".xyzn", ".xyzrgb"):
        raise ValueError(
            f"Expected '{EXTRA_ATTRIBUTE[suffix]}' in data to write {suffix} (it has none)"
        )
    if extra is not None:
        parts.append(extra)
    if suffix == ".xyzrgb" and parts[1].shape[1] != 3:
        raise ValueError(f"Expected 'x' of shape [N, 3] (got {list(parts[1].shape)})")
    digits = "%.17g" if fields["pos"].dtype == np.float64 else "%.9g"
    np.savetxt(path, np.concatenate(parts, axis=1), fmt=digits)
