"""A user's own meshes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.data import from_mesh
from permutogeo.data.mesh import READERS
from permutogeo.transforms._mesh import face_geometry

from ._shapes import Filter, ShapeDataset, Transform, in_split, parts_of


class MeshFolder(ShapeDataset):
    r"""Meshes in a folder, one subfolder for each class, as points drawn uniformly by area.

    Subfolders and files are read in the order of their names; files may lie deeper, and what is no
    mesh by its suffix is passed over. The split is by shape: of each ten meshes of a class, the
    1st, 2nd, 4th, 5th, 7th and 9th train, the 6th validates, the 3rd, 8th and 10th test. Points
    keep the units of the file: :class:`permutogeo.transforms.NormalizeScale` is a ``pre_transform``
    that makes sizes alike.

    Args:
        root: The folder, with meshes (``.ply``, ``.obj``, ``.off``, ``.stl``, ``.glb``) as in
            ``root/chair/0001.off``.
        num_points: How many points to draw from each mesh.
        split: ``"train"``, ``"val"``, ``"trainval"``, ``"test"`` or ``"all"``.
        seed: Of the points drawn; a mesh gives the same points whichever split it is read in.
        transform: Applied to a shape at each access.
        pre_transform: Applied to a shape once, while reading.
        pre_filter: Which shapes to keep.

    Each shape has ``pos`` and ``normal`` :math:`(N, 3)`, the number ``y`` of its class, and the
    ``path`` of its file.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        num_points: int = 1024,
        split: str = "all",
        seed: int = 0,
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
        pre_filter: Filter | None = None,
    ):
        owner = type(self).__name__
        parts_of(owner, split)
        if num_points < 1:
            raise ValueError(f"{owner}: Expected 'num_points' >= 1 (got {num_points})")
        folder = Path(root).expanduser()
        if not folder.is_dir():
            raise FileNotFoundError(f"{owner}: Expected the folder '{folder}' (there is none)")
        found = _meshes(folder)
        if not found:
            raise FileNotFoundError(
                f"{owner}: Expected meshes ({', '.join(READERS)}) in subfolders of '{folder}', one "
                f"for each class, as in '{folder / 'chair' / '0001.off'}' (found none)"
            )
        #: Names of the classes, which are those of the subfolders; ``y`` counts in them.
        self.classes: list[str] = list(found)
        self.num_points = num_points
        paths = [(name, path) for name, files in found.items() for path in files]
        chosen = in_split(owner, [name for name, _ in paths], split)
        shapes = self._read(paths, chosen, seed)
        super().__init__(folder, shapes, transform, pre_transform, pre_filter)

    def _read(self, paths: list[tuple[str, Path]], chosen: list[bool], seed: int) -> Iterator[Data]:
        for i, ((name, path), wanted) in enumerate(zip(paths, chosen, strict=True)):
            if wanted:
                # Not seed + i: neighbors would share their points with those of the next seed.
                state = np.random.SeedSequence([seed, i]).generate_state(1)
                generator = torch.Generator().manual_seed(int(state[0]))
                pos, normal = _draw(path, self.num_points, generator)
                label = torch.tensor([self.classes.index(name)])
                yield Data(pos=pos, normal=normal, y=label, path=str(path))

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.classes)


def _meshes(folder: Path) -> dict[str, list[Path]]:
    """The mesh files of each subfolder that has any."""
    found = {}
    for child in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = [p for p in child.rglob("*") if p.suffix.lower() in READERS and p.is_file()]
        if files:
            found[child.name] = sorted(files)
    return found


def _draw(path: Path, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Points drawn uniformly by area from a mesh, and the normals of their faces."""
    mesh = from_mesh(path)
    normal, _, area = face_geometry(mesh.pos, mesh.face)
    if not float(area.sum()) > 0:
        raise ValueError(f"'{path}': Expected a mesh with some area (got {len(area)} flat faces)")
    # Not torch.multinomial, which takes no more than 2^24 faces.
    ends = area.double().cumsum(0)
    drawn = torch.rand(count, generator=generator, dtype=torch.float64) * ends[-1]
    index = torch.searchsorted(ends, drawn, right=True).clamp(max=len(area) - 1)
    u, v = torch.rand(2, count, 1, generator=generator)
    over = u + v > 1
    u, v = torch.where(over, 1 - u, u), torch.where(over, 1 - v, v)
    a, b, c = mesh.pos[mesh.face[:, index]]
    return a + u * (b - a) + v * (c - a), normal[index]
