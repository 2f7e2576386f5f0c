"""PCD files (ASCII, binary, compressed) with all their fields and checked sizes.

Not read through a library: Open3D's tensor reader drops all but the first value of a field with
COUNT above 1 and fills missing rows with uninitialized memory; pypcd4 returns fewer points than
the header claims without an error, runs out of memory for a large COUNT and refuses two spaces
between numbers. Either would need these header checks before it, and pypcd4 brings pydantic and a
compiled LZF package for the 25 lines of :func:`lzf_decompress`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permutogeo.data.fields import Fields, cast_exact
from permutogeo.data.formats.columns import Columns, from_columns, to_columns
from permutogeo.data.formats.text import parse_floats, skip_mark
from permutogeo.typing import Array

_KINDS = {"F": "f", "I": "i", "U": "u"}


def _expand(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}_{i}" for i in range(count)]


def _header(content: bytes) -> tuple[dict[str, list[str]], int]:
    """Return the entries of the header and the offset of the data."""
    entries: dict[str, list[str]] = {}
    at = 0
    while "DATA" not in entries:
        end = content.find(b"\n", at)
        if end < 0:
            raise ValueError("no 'DATA' line")
        words = content[at:end].decode("ascii", "replace").partition("#")[0].split()
        at = end + 1
        if words:
            entries[words[0].upper()] = words[1:]
    missing = [key for key in ("FIELDS", "SIZE", "TYPE", "WIDTH", "HEIGHT") if key not in entries]
    if missing:
        raise ValueError(f"no {', '.join(missing)} in the header")
    return entries, at


def lzf_decompress(packed: bytes, size: int) -> bytes:
    """Decompress data of liblzf: literal runs, and back references into the output."""
    out = bytearray()
    at = 0
    while at < len(packed) and len(out) <= size:
        control = packed[at]
        at += 1
        if control < 32:
            out += packed[at : at + control + 1]
            at += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += packed[at]
            at += 1
        start = len(out) - ((control & 31) << 8) - packed[at] - 1
        at += 1
        if start < 0:
            raise ValueError("the compressed data are damaged")
        length += 2
        chunk = out[start : start + length]
        while len(chunk) < length:  # a back reference may overlap its output
            chunk += chunk[: length - len(chunk)]
        out += chunk
    if len(out) != size:
        raise ValueError(f"{size} bytes are claimed, {len(out)} were compressed")
    return bytes(out)


def _read_ascii(body: bytes, dtypes: dict[str, np.dtype], count: int) -> Columns:
    rows = [line.split() for line in body.decode("ascii").splitlines() if line.strip()]
    if len(rows) != count or any(len(row) != len(dtypes) for row in rows):
        raise ValueError(f"the header claims {count} rows of {len(dtypes)}, there are {len(rows)}")
    values = parse_floats(rows, len(dtypes))
    return {
        name: cast_exact(values[:, i], dtype, name)
        for i, (name, dtype) in enumerate(dtypes.items())
    }


def _read_compressed(body: bytes, dtypes: dict[str, np.dtype], count: int) -> Columns:
    if len(body) < 8:
        raise ValueError("the compressed data are missing")
    packed, size = (int(n) for n in np.frombuffer(body, "<u4", 2))
    row = sum(dtype.itemsize for dtype in dtypes.values())
    if len(body) - 8 < packed or size != row * count or size * 3 > packed * 264:
        claim = f"{count} points of {row} bytes"
        raise ValueError(f"the header claims {claim}, {len(body) - 8} packed bytes follow")
    raw = lzf_decompress(body[8 : 8 + packed], size)
    columns, at = {}, 0
    for name, dtype in dtypes.items():  # fields are stored one after the other
        columns[name] = np.frombuffer(raw, dtype, count, at)
        at += count * dtype.itemsize
    return columns


def _unpack_colors(columns: Columns) -> Columns:
    """Replace the packed ``rgb`` of PCL (bits of a float or an integer) by three columns."""
    for name in ("rgb", "rgba"):
        if name in columns:
            bits = np.ascontiguousarray(columns.pop(name))
            bits = bits.view(np.uint32) if bits.dtype.itemsize == 4 else bits.astype(np.uint32)
            for color, shift in (("red", 16), ("green", 8), ("blue", 0)):
                columns[color] = (bits >> shift & 255).astype(np.uint8)
            if name == "rgba":
                columns["alpha"] = (bits >> 24 & 255).astype(np.uint8)
    return columns


def _column_types(entries: dict[str, list[str]], kind: str, size: int) -> dict[str, np.dtype]:
    """Return the type of each scalar column; a field with COUNT k becomes k columns.

    Args:
        entries: The header.
        kind: Encoding of the data.
        size: Number of bytes after the header, which must have room for one row.
    """
    names = entries["FIELDS"]
    counts = [int(n) for n in entries.get("COUNT", ["1"] * len(names))]
    if not len(names) == len(counts) == len(entries["SIZE"]) == len(entries["TYPE"]):
        raise ValueError("FIELDS, SIZE, TYPE and COUNT differ in length")
    if any(count < 1 for count in counts):
        raise ValueError(f"COUNT is {min(counts)}, it has to be 1 or more")
    # A value takes two characters, or its bytes, of which LZF packs at most 264 into three.
    smallest = {"ascii": 2.0, "binary": 1.0, "binary_compressed": 3 / 264}[kind]
    if sum(counts) * smallest > size + 8:
        raise ValueError(f"the header claims rows of {sum(counts)} values, {size} bytes follow")
    dtypes: dict[str, np.dtype] = {}
    for i, (name, repeat) in enumerate(zip(names, counts, strict=True)):
        dtype = _scalar_type(entries["TYPE"][i], entries["SIZE"][i])
        columns = _expand(f"_{i}" if name == "_" else name, repeat)
        if not dtypes.keys().isdisjoint(columns):
            raise ValueError(f"FIELDS has '{name}' more than once")
        dtypes.update(dict.fromkeys(columns, dtype))
    return dtypes


def _scalar_type(letter: str, size: str) -> np.dtype:
    if letter not in _KINDS or size not in ("1", "2", "4", "8") or letter + size in ("F1", "F2"):
        raise ValueError(f"TYPE {letter} of SIZE {size}, there is no such type")
    return np.dtype(f"<{_KINDS[letter]}{size}")


def _num_points(entries: dict[str, list[str]]) -> int:
    count = max(int(entries["WIDTH"][0]), 0) * max(int(entries["HEIGHT"][0]), 0)
    claimed = int(entries.get("POINTS", [str(count)])[0])
    if count != claimed:
        raise ValueError(f"the header claims {claimed} points, width times height is {count}")
    return count


def _read_binary(body: bytes, dtypes: dict[str, np.dtype], count: int) -> Columns:
    row = np.dtype(list(dtypes.items()))
    if len(body) < row.itemsize * count or len(body) - row.itemsize * count > 1:
        held = len(body) // row.itemsize
        raise ValueError(f"the header claims {count} points, there are {held}")
    table = np.frombuffer(body, row, count)
    return {name: table[name] for name in dtypes}


_READERS = {"ascii": _read_ascii, "binary": _read_binary, "binary_compressed": _read_compressed}


def read_pcd(path: Path) -> Fields:
    """Read all fields of a PCD file except padding (fields named ``_``)."""
    content = skip_mark(path.read_bytes())
    entries, start = _header(content)
    count, kind = _num_points(entries), "".join(entries["DATA"])
    if kind not in _READERS:
        raise ValueError(f"DATA is '{kind}', neither ascii nor binary nor binary_compressed")
    dtypes = _column_types(entries, kind, len(content) - start)
    columns = _READERS[kind](content[start:], dtypes, count)
    columns = {name: value for name, value in columns.items() if not name.startswith("_")}
    return from_columns(_unpack_colors(columns))


def _pack_colors(columns: Columns) -> Columns:
    if "red" not in columns:
        return columns
    red, green, blue = (columns[name].astype(np.uint32) for name in ("red", "green", "blue"))
    packed: Array = (red << 16 | green << 8 | blue).view(np.float32)
    rest = {k: v for k, v in columns.items() if k not in ("red", "green", "blue")}
    return {**rest, "rgb": packed}


def write_pcd(path: Path, fields: Fields) -> None:
    """Write all point attributes, binary."""
    columns = _pack_colors(to_columns(fields))
    rename = {"nx": "normal_x", "ny": "normal_y", "nz": "normal_z"}
    columns = {rename.get(name, name): value for name, value in columns.items()}
    dtype = np.dtype([(name, v.dtype.newbyteorder("<")) for name, v in columns.items()])
    rows = np.empty(len(fields["pos"]), dtype)
    for name, value in columns.items():
        rows[name] = value
    letters = {kind: letter for letter, kind in _KINDS.items()}
    header = [
        "VERSION 0.7",
        f"FIELDS {' '.join(columns)}",
        f"SIZE {' '.join(str(v.dtype.itemsize) for v in columns.values())}",
        f"TYPE {' '.join(letters[v.dtype.kind] for v in columns.values())}",
        f"COUNT {' '.join('1' for _ in columns)}",
        f"WIDTH {len(rows)}",
        "HEIGHT 1",
        "VIEWPOINT 0 0 0 1 0 0 0",
        f"POINTS {len(rows)}",
        "DATA binary\n",
    ]
    path.write_bytes("\n".join(header).encode("ascii") + rows.tobytes())
