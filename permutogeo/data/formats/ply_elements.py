"""Elements of PLY files, ASCII and binary, with all properties and checked counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from permutogeo.data.fields import cast_exact
from permutogeo.data.formats.text import parse_floats, skip_mark
from permutogeo.typing import Array

TYPES = {
    **dict.fromkeys(("char", "int8"), "i1"),
    **dict.fromkeys(("uchar", "uint8"), "u1"),
    **dict.fromkeys(("short", "int16"), "i2"),
    **dict.fromkeys(("ushort", "uint16"), "u2"),
    **dict.fromkeys(("int", "int32"), "i4"),
    **dict.fromkeys(("uint", "uint32"), "u4"),
    **dict.fromkeys(("float", "float32"), "f4"),
    **dict.fromkeys(("double", "float64"), "f8"),
    "int64": "i8",  # not in the format's description, but trimesh writes them
    "uint64": "u8",
}
_BYTE_ORDERS = {"ascii": "=", "binary_little_endian": "<", "binary_big_endian": ">"}


class Property(NamedTuple):
    """A property of an element; ``length`` is the type of list lengths, ``None`` for scalars."""

    name: str
    dtype: np.dtype
    length: np.dtype | None


class Element(NamedTuple):
    """An element of the header: name, claimed number of rows, properties."""

    name: str
    rows: int
    properties: list[Property]


# A list property is an array [rows, k] if all lists have one length, else a list of arrays.
Table = dict[str, "Array | list[Array]"]


def _parse_header(header: bytes) -> tuple[str, list[Element]]:
    lines = [line.split() for line in header.decode("ascii", "replace").splitlines()]
    if not lines or lines[0] != ["ply"]:
        raise ValueError("no 'ply' in the first line")
    kind = ""
    elements: list[Element] = []
    for words in lines[1:]:
        match words:
            case [] | ["comment" | "obj_info", *_] | ["end_header"]:
                continue
            case ["format", kind, _] if kind in _BYTE_ORDERS:
                continue
            case ["element", name, count] if count.isdigit():
                elements.append(Element(name, int(count), []))
            case ["property", "list", length, dtype, name] if (
                kind and elements and length in TYPES and dtype in TYPES
            ):
                order = _BYTE_ORDERS[kind]
                item = np.dtype(order + TYPES[dtype])
                prop = Property(name, item, np.dtype(order + TYPES[length]))
                elements[-1].properties.append(prop)
            case ["property", dtype, name] if kind and elements and dtype in TYPES:
                prop = Property(name, np.dtype(_BYTE_ORDERS[kind] + TYPES[dtype]), None)
                elements[-1].properties.append(prop)
            case _:
                raise ValueError(f"header line '{' '.join(words)}'")
    if not kind:
        raise ValueError("no 'format' line in the header")
    twice = _repeated([element.name for element in elements])
    if twice is not None:
        raise ValueError(f"the header has the element '{twice}' more than once")
    for element in elements:
        twice = _repeated([prop.name for prop in element.properties])
        if twice is not None:
            raise ValueError(f"'{element.name}' has the property '{twice}' more than once")
    return kind, elements


def _repeated(names: list[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _count_error(element: Element, got: object) -> ValueError:
    return ValueError(f"the header claims {element.rows} of '{element.name}', there are {got}")


def _read_uniform(rows: list[list[str]], element: Element) -> Table | None:
    """Parse rows whose list lengths are those of the first row; ``None`` if lengths differ."""
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        return None
    values = parse_floats(rows, len(rows[0]))
    table: Table = {}
    at = 0
    for prop in element.properties:
        if prop.length is None:
            size = 1
        else:
            size = int(values[0, at]) if at < values.shape[1] else -1
            if size < 0 or (values[:, at] != size).any():
                return None
            at += 1
        part = cast_exact(values[:, at : at + size], prop.dtype, prop.name)
        table[prop.name] = part[:, 0] if prop.length is None and part.shape[1] else part
        at += size
    return table if at == values.shape[1] else None


def _read_ascii(lines: list[str], at: int, element: Element) -> Table:
    """Parse the rows of an element, from line ``at`` on."""
    if len(lines) - at < element.rows:
        raise _count_error(element, len(lines) - at)
    rows = [line.split() for line in lines[at : at + element.rows]]
    if not any(prop.length for prop in element.properties):
        return _read_scalars(rows, element)
    uniform = _read_uniform(rows, element)
    return _read_ragged(rows, element) if uniform is None else uniform


def _read_scalars(rows: list[list[str]], element: Element) -> Table:
    """Parse rows of an element without list properties."""
    width = len(element.properties)
    bad = next((i for i, row in enumerate(rows) if len(row) != width), None)
    if bad is not None:
        raise ValueError(f"row {bad} of '{element.name}' has {len(rows[bad])} of {width} values")
    values = parse_floats(rows, width)
    return {
        p.name: cast_exact(values[:, i], p.dtype, p.name) for i, p in enumerate(element.properties)
    }


def _read_ragged(rows: list[list[str]], element: Element) -> Table:
    """Parse rows whose lists differ in length, one by one."""
    table: dict[str, list[Array]] = {prop.name: [] for prop in element.properties}
    for number, row in enumerate(rows):
        at = 0
        for prop in element.properties:
            size = 1
            if prop.length is not None:
                size, at = int(row[at]) if at < len(row) else 1, at + 1
            if size < 0 or at + size > len(row):
                raise ValueError(f"row {number} of '{element.name}' is too short")
            table[prop.name].append(parse_floats([row[at : at + size]], size)[0])
            at += size
        if at != len(row):
            raise ValueError(f"row {number} of '{element.name}' has {len(row)} of {at} values")
    return _compact(table, element)


def _compact(table: dict[str, list[Array]], element: Element) -> Table:
    """Return scalars and lists of one common length as arrays, other lists as they are."""
    out: Table = {}
    for prop in element.properties:
        rows = table[prop.name]
        if prop.length is None:
            out[prop.name] = cast_exact(np.array([row[0] for row in rows]), prop.dtype, prop.name)
        elif rows and len({len(row) for row in rows}) == 1:
            out[prop.name] = cast_exact(np.stack(rows), prop.dtype, prop.name)
        else:
            out[prop.name] = [cast_exact(row, prop.dtype, prop.name) for row in rows]
    return out


def _row_dtype(element: Element, sizes: list[int]) -> np.dtype:
    parts: list[tuple] = []
    for i, (prop, size) in enumerate(zip(element.properties, sizes, strict=True)):
        if prop.length is None:
            parts.append((f"v{i}", prop.dtype))
        else:
            parts += [(f"n{i}", prop.length), (f"v{i}", prop.dtype, (size,))]
    return np.dtype(parts)


def _list_lengths(body: memoryview, at: int, element: Element) -> list[int]:
    """Return the list lengths of the row at byte ``at``; 1 for scalars."""
    sizes = []
    for prop in element.properties:
        size = 1
        if prop.length is not None:
            if at + prop.length.itemsize > len(body):
                raise _count_error(element, "fewer")
            size = int(np.frombuffer(body, prop.length, 1, at)[0])
            at += prop.length.itemsize
        sizes.append(size)
        at += size * prop.dtype.itemsize
        if size < 0 or at > len(body):
            raise _count_error(element, "fewer")
    return sizes


def _read_binary(body: memoryview, at: int, element: Element) -> tuple[Table, int]:
    if element.rows == 0 or not element.properties:
        return {prop.name: np.empty(0, prop.dtype) for prop in element.properties}, at
    sizes = _list_lengths(body, at, element)
    dtype = _row_dtype(element, sizes)
    lists = [i for i, prop in enumerate(element.properties) if prop.length is not None]
    room = (len(body) - at) // dtype.itemsize
    if not lists and room < element.rows:
        raise _count_error(element, room)
    if room >= element.rows:
        rows = np.frombuffer(body, dtype, element.rows, at)
        if all((rows[f"n{i}"] == sizes[i]).all() for i in lists):
            table: Table = {p.name: rows[f"v{i}"] for i, p in enumerate(element.properties)}
            return table, at + element.rows * dtype.itemsize
    mixed: dict[str, list[Array]] = {prop.name: [] for prop in element.properties}
    for _ in range(element.rows):  # lists of different lengths: row by row
        row_dtype = _row_dtype(element, _list_lengths(body, at, element))
        row = np.frombuffer(body, row_dtype, 1, at)
        for i, prop in enumerate(element.properties):
            mixed[prop.name].append(np.atleast_1d(row[f"v{i}"][0]))
        at += row_dtype.itemsize
    return _compact(mixed, element), at


def read_elements(path: Path) -> tuple[dict[str, Table], list[str]]:
    """Read all elements of a PLY file, each a table of its properties, and the comments."""
    content = skip_mark(path.read_bytes())
    mark = content.find(b"end_header")
    line_end = content.find(b"\n", mark)
    if mark < 0 or not content.startswith(b"ply"):
        raise ValueError("no header from 'ply' to 'end_header'")
    body_start = line_end + 1 if line_end >= 0 else len(content)
    kind, elements = _parse_header(content[:mark])
    tables: dict[str, Table] = {}
    if kind == "ascii":
        text = content[body_start:].decode("ascii")
        lines = [line for line in text.splitlines() if line.strip()]
        at = 0
        for element in elements:
            tables[element.name] = _read_ascii(lines, at, element)
            at += element.rows
        left = len(lines) - at
    else:
        body, at = memoryview(content), body_start
        for element in elements:
            tables[element.name], at = _read_binary(body, at, element)
        left = len(bytes(body[at:]).strip())
    if left:
        unit = "lines" if kind == "ascii" else "bytes"
        raise ValueError(f"{left} {unit} follow after all that the header claims")
    header = content[:mark].decode("utf-8", "replace").splitlines()
    return tables, [line[8:].strip() for line in header if line.startswith("comment ")]
