"""Meshes and point clouds between files and ``Data``, as the commands read and write them."""

import os
from pathlib import Path

from torch_geometric.data import Data

from permutogeo.data import from_mesh, from_point_cloud, to_mesh, to_point_cloud
from permutogeo.data import mesh as meshes
from permutogeo.data import point_cloud as clouds
from permutogeo.data._files import suffix_of
from permutogeo.data._obj import GROUPS
from permutogeo.data._obj import WORDS as OBJ_WORDS
from permutogeo.transforms import RepairMesh

READABLE = tuple(dict.fromkeys([*meshes.READERS, *clouds.READERS]))
WRITABLE = tuple(dict.fromkeys([*meshes.WRITERS, *clouds.WRITERS]))
# Attributes by which a file names others, relative to its own folder.
REFERENCES = ("material_library", "texture_files")
# What formats hold of what a mesh may have; those that are not here hold all numbers.
HELD = {
    ".obj": {"x", "uv", "face_uv", *OBJ_WORDS, *(f"face_{name}" for name in GROUPS.values())},
    ".off": {"x", "face_color"},
    ".stl": {"face_attribute"},
    ".glb": {"x", "uv"},
    ".xyz": {"x"},
    ".txt": {"x"},
    ".npy": {"x"},
    ".xyzn": set(),
    ".xyzrgb": {"x"},
}
PLAIN = {"pos", "face", "normal"}


def has_faces(data: Data) -> bool:
    """Whether it is a mesh rather than a point cloud."""
    return data.get("face") is not None


def read(path: Path) -> Data:
    """A mesh, or a cloud where there are no faces; a damaged one is mended with a warning."""
    if not path.exists():
        raise FileNotFoundError(f"'{path}': Expected a file or folder (there is none of that name)")
    suffix = suffix_of(path, READABLE)
    reader = from_mesh if suffix in meshes.READERS else from_point_cloud
    return RepairMesh()(reader(path, dtype=None, check=False))


def plural(count: int, one: str, several: str) -> str:
    """How many there are, in words that fit."""
    return f"{count:,} {one if count == 1 else several}"


def size(data: Data) -> str:
    """How much there is."""
    count = len(data["pos"])
    if not has_faces(data):
        return plural(count, "point", "points")
    faces = plural(data["face"].size(1), "face", "faces")
    return f"{plural(count, 'vertex', 'vertices')}, {faces}"


def check_target(data: Data, path: Path) -> list[str]:
    """Raise if ``path`` cannot hold such data; the attributes that it cannot hold otherwise."""
    suffix = suffix_of(path, meshes.WRITERS if has_faces(data) else clouds.WRITERS)
    if suffix in HELD:
        return sorted(set(data.to_dict()) - PLAIN - HELD[suffix])
    return sorted(set(data.to_dict()) & set(OBJ_WORDS))


def write(data: Data, path: Path, source: Path) -> None:
    """Write what came from ``source``, so that it finds the files that it refers to."""
    for name in REFERENCES:
        if name in data:
            data[name] = [_seen_from(path, source, word) for word in data[name]]
    (to_mesh if has_faces(data) else to_point_cloud)(data, path)


def _seen_from(path: Path, source: Path, word: str) -> str:
    """A name beside ``source`` as one beside ``path``; what is no file stays as it is."""
    file = source.parent / word
    if not file.is_file() or Path(word).is_absolute():
        return word
    return Path(os.path.relpath(file.resolve(), path.parent.resolve())).as_posix()
