"""Points as text (XYZ and its relatives) and as NumPy arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permutogeo.data._fields import Array, Fields, attribute_name, unit_colors

MEANING = {".xyz": "x", ".txt": "x", ".xyzn": "normal", ".xyzrgb": "x"}


def read_xyz(path: Path) -> Fields:
    """Rows of numbers: three coordinates, then normals (``.xyzn``), colors or other values."""
    lines = path.read_text(encoding="utf-8").replace(",", " ").splitlines()
    rows = [line.partition("#")[0].split() for line in lines]
    rows = [row for row in rows if row]
    width = len(rows[0]) if rows else 0
    bad = next((i for i, row in enumerate(rows) if len(row) != width), None)
    if bad is not None:
        raise ValueError(f"row {bad} has {len(rows[bad])} numbers, the first has {width}")
    values = np.array(rows, np.float64).reshape(len(rows), width)
    name = MEANING[path.suffix.lower()]
    wanted = 6 if path.suffix.lower() in (".xyzn", ".xyzrgb") else width
    if width < 3 or width != wanted:
        raise ValueError(f"rows have {width} numbers")
    fields = {"pos": values[:, :3]}
    if width > 3:
        fields[name] = values[:, 3:]
    return fields


def write_xyz(path: Path, fields: Fields) -> None:
    """Write coordinates and the one attribute that the suffix stands for."""
    parts: list[Array] = [fields["pos"]]
    suffix = path.suffix.lower()
    extra = fields.get(MEANING[suffix])
    if extra is None and suffix in (".xyzn", ".xyzrgb"):
        raise ValueError(f"Expected '{MEANING[suffix]}' in data to write {suffix} (it has none)")
    if extra is not None:
        parts.append(extra)
    if suffix == ".xyzrgb" and parts[1].shape[1] != 3:
        raise ValueError(f"Expected 'x' of shape [N, 3] (got {list(parts[1].shape)})")
    digits = "%.17g" if fields["pos"].dtype == np.float64 else "%.9g"
    np.savetxt(path, np.concatenate(parts, axis=1), fmt=digits)


def fields_of_array(values: Array, *, wide: bool = True) -> Fields:
    """``[N, 2]``, ``[N, 3]``, or ``[N, 3 + C]`` whose further columns are ``x``."""
    if values.ndim != 2 or values.shape[1] < 2 or (values.shape[1] > 3 and not wide):
        more = ", or [N, 3 + C]" if wide else ""
        raise ValueError(
            f"Expected points of shape [N, 2] or [N, 3]{more} (got {list(values.shape)})"
        )
    fields = {"pos": values[:, :3]}
    if values.shape[1] > 3:
        fields["x"] = values[:, 3:]
    return fields


def read_npy(path: Path) -> Fields:
    """One array, see :func:`fields_of_array`."""
    with open(path, "rb") as file:
        return fields_of_array(np.lib.format.read_array(file, allow_pickle=False))


def write_npy(path: Path, fields: Fields) -> None:
    """Write ``pos`` and ``x`` side by side."""
    pos, x = fields["pos"], fields.get("x")
    if x is not None and pos.shape[1] == 2:
        raise ValueError("Expected 'pos' of shape [N, 3] beside 'x' in .npy (got [N, 2]); use .npz")
    np.save(path, pos if x is None else np.concatenate([pos, x], axis=1), allow_pickle=False)


def read_npz(path: Path) -> Fields:
    """Named arrays; ``pos``, ``points`` or ``xyz`` are the positions."""
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    key = next((name for name in ("pos", "points", "xyz") if name in arrays), None)
    if key is None:
        raise ValueError(f"no 'pos' among {', '.join(arrays) or 'nothing'}")
    fields: Fields = {"pos": arrays.pop(key)}
    for name, value in arrays.items():
        if name == "x":
            value = value[:, None] if value.ndim == 1 else value
            fields[name] = unit_colors(value) if value.dtype == np.uint8 else value
        elif value.ndim and len(value) == len(fields["pos"]):
            fields[attribute_name(name)] = value
    return fields


def write_npz(path: Path, fields: Fields) -> None:
    """Write every attribute of the points under its own name."""
    np.savez(path, **fields)  # type: ignore[arg-type]
