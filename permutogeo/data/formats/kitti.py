"""LiDAR scans of KITTI and SemanticKITTI: ``.bin`` files, with the labels beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permutogeo.data.fields import Fields

_COLUMNS = 4  # x, y, z and intensity


def read_kitti(path: Path) -> Fields:
    """Read points and ``intensity`` as float32, and labels where a label file exists.

    The label file is ``labels/NAME.label`` beside the folder of the scan, as in SemanticKITTI, or
    ``NAME.label`` beside the scan. The lower 16 bits of a label are its class, ``y``; the upper 16
    number the ``instance``.
    """
    size = path.stat().st_size
    if size % (4 * _COLUMNS):
        raise ValueError(f"its size of {size} bytes is no multiple of {4 * _COLUMNS}")
    rows = np.fromfile(path, "<f4").reshape(-1, _COLUMNS)
    fields = {"pos": rows[:, :3], "intensity": rows[:, 3]}
    places = (path.parent.parent / "labels", path.parent)
    labels = [place / f"{path.stem}.label" for place in places]
    found = next((label for label in labels if label.is_file()), None)
    if found is not None:
        fields.update(_read_labels(found, len(rows)))
    return fields


def _read_labels(path: Path, count: int) -> Fields:
    if path.stat().st_size != 4 * count:
        raise ValueError(
            f"its labels '{path.name}' have {path.stat().st_size} bytes for {count} points"
        )
    label = np.fromfile(path, "<u4")
    return {"y": (label & 0xFFFF).astype(np.int64), "instance": (label >> 16).astype(np.int64)}
