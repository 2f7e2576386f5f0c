"""Mesh and point cloud files as the commands read and write them."""

import os
import warnings
from pathlib import Path

from torch_geometric.data import Data

from permutogeo.cli.console import note
from permutogeo.cli.paths import READABLE_SUFFIXES
from permutogeo.data import from_mesh, from_point_cloud, to_mesh, to_point_cloud
from permutogeo.data import mesh as mesh_io
from permutogeo.data import point_cloud as cloud_io
from permutogeo.data.files import suffix_of
from permutogeo.data.formats import las_records
from permutogeo.data.formats.obj import GROUPS, STRING_ATTRIBUTES
from permutogeo.transforms import RepairMesh

# Attributes that name other files, relative to the folder of their own.
REFERENCES = ("material_library", "texture_files")
# Attributes that each format can store; formats that are not listed store all numeric ones.
STORED = {
    ".obj": {
        "x",
        "uv",
        "face_uv",
        *STRING_ATTRIBUTES,
        *(f"face_{name}" for name in GROUPS.values()),
    },
    ".off": {"x", "face_color"},
    ".stl": {"face_attribute"},
    ".glb": {"x", "uv"},
    ".gltf": {"x", "uv"},
    ".xyz": {"x"},
    ".txt": {"x"},
    ".npy": {"x"},
    ".xyzn": set(),
    ".xyzrgb": {"x"},
}
GEOMETRY = {"pos", "face", "normal"}


def has_faces(data: Data) -> bool:
    """Return whether ``data`` is a mesh rather than a point cloud."""
    return data.get("face") is not None


def read_geometry(path: Path) -> tuple[Data, str]:
    """Read a mesh, or a point cloud if there are no faces, and repair it.

    Returns:
        The data, and a description of the repairs, which is also printed; empty if none.
    """
    suffix = suffix_of(path, READABLE_SUFFIXES)
    reader = from_mesh if suffix in mesh_io.READERS else from_point_cloud
    with warnings.catch_warnings(record=True) as caught:  # such as polygons that become triangles
        warnings.simplefilter("always")
        data = reader(path, dtype=None, check=False)
    for warning in caught:
        note(f"Warning: {warning.message}")
    data, report = RepairMesh().repair(data)
    if report:
        note(f"Warning: '{path}': {report}")
    return data, str(report)


def count_noun(number: int, singular: str, plural: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {singular if number == 1 else plural}"


def describe_size(data: Data) -> str:
    """Return the numbers of points, or of vertices and faces, in words."""
    number = len(data["pos"])
    if not has_faces(data):
        return count_noun(number, "point", "points")
    faces = count_noun(data["face"].size(1), "face", "faces")
    return f"{count_noun(number, 'vertex', 'vertices')}, {faces}"


def lost_attributes(data: Data, path: Path) -> list[str]:
    """Return the attributes that the format of ``path`` cannot store.

    Raises:
        ValueError: If the format cannot store such data at all.
    """
    suffix = suffix_of(path, mesh_io.WRITERS if has_faces(data) else cloud_io.WRITERS)
    if suffix in STORED:
        return sorted(set(data.to_dict()) - GEOMETRY - STORED[suffix])
    strings = set(STRING_ATTRIBUTES)
    if suffix not in cloud_io.PRECISE:
        strings |= set(las_records.STRING_ATTRIBUTES)
    return sorted(set(data.to_dict()) & strings)


def write_geometry(data: Data, path: Path, source: Path) -> None:
    """Write data that was read from ``source``; references to other files stay valid."""
    for name in REFERENCES:
        if name in data:
            data[name] = [_relocate(word, source, path) for word in data[name]]
    (to_mesh if has_faces(data) else to_point_cloud)(data, path)


def _relocate(word: str, source: Path, path: Path) -> str:
    """Return a file name relative to ``source`` as one relative to ``path``."""
    file = source.parent / word
    if not file.is_file() or Path(word).is_absolute():
        return word
    return Path(os.path.relpath(file.resolve(), path.parent.resolve())).as_posix()
