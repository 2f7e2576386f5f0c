"""Meshes in a folder of the user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.data import from_mesh
from permutogeo.data.geometry import face_geometry
from permutogeo.data.mesh import READERS
from permutogeo.datasets.shape_dataset import (
    Filter,
    ShapeDataset,
    Transform,
    split_mask,
    split_parts,
)


class MeshFolder(ShapeDataset):
    r"""Meshes in a folder, one subfolder per class, sampled uniformly by area.

    Subfolders are searched recursively, in the order of their names. Files without the suffix of a
    mesh are skipped, and so is everything with a hidden name (``.cache/a.ply``, or ``.a.3f9c.ply``,
    which an interrupted program may leave behind), as in ``permutogeo denoise`` and ``train``.

    The split is by shape: of each ten meshes of a class, the 1st, 2nd, 4th, 5th, 7th and 9th are
    train, the 6th is val, the 3rd, 8th and 10th are test. Points keep the units of the file; use
    :class:`permutogeo.transforms.NormalizeScale` as ``pre_transform`` to normalize them.

    Args:
        root: The folder, with meshes (``.ply``, ``.obj``, ``.off``, ``.stl``, ``.glb``) as in
            ``root/chair/0001.off``.
        num_points: Number of points sampled from each mesh.
        split: ``"train"``, ``"val"``, ``"trainval"``, ``"test"`` or ``"all"``.
        seed: Random seed of the sampled points, which do not depend on the split.
        transform: Applied at each access.
        pre_transform: Applied once, while reading.
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
        split_parts(owner, split)
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
        #: Names of the classes (the subfolders), indexed by ``y``.
        self.classes: list[str] = list(found)
        self.num_points = num_points
        paths = [(name, path) for name, files in found.items() for path in files]
        chosen = split_mask(owner, [name for name, _ in paths], split)
        shapes = self._read(paths, chosen, seed)
        super().__init__(folder, shapes, transform, pre_transform, pre_filter)

    def _read(self, paths: list[tuple[str, Path]], chosen: list[bool], seed: int) -> Iterator[Data]:
        for i, ((name, path), wanted) in enumerate(zip(paths, chosen, strict=True)):
            if wanted:
                # With seed + i, neighbors would share their points with those of the next seed.
                state = np.random.SeedSequence([seed, i]).generate_state(1)
                generator = torch.Generator().manual_seed(int(state[0]))
                pos, normal = _sample(path, self.num_points, generator)
                label = torch.tensor([self.classes.index(name)])
                yield Data(pos=pos, normal=normal, y=label, path=str(path))

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)


def _meshes(folder: Path) -> dict[str, list[Path]]:
    """Return the mesh files of each subfolder that has any."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        is_hidden = any(part.startswith(".") for part in parts)
        if len(parts) > 1 and not is_hidden and path.suffix.lower() in READERS and path.is_file():
            found.setdefault(parts[0], []).append(path)
    return found


def _sample(path: Path, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sample points uniformly by area from a mesh; return them with their face normals."""
    mesh = from_mesh(path)
    normal, _, area = face_geometry(mesh.pos, mesh.face)
    if not float(area.sum()) > 0:
        raise ValueError(f"'{path}': Expected a mesh with some area (got {len(area)} flat faces)")
    # torch.multinomial is limited to 2^24 faces.
    ends = area.double().cumsum(0)
    drawn = torch.rand(count, generator=generator, dtype=torch.float64) * ends[-1]
    index = torch.searchsorted(ends, drawn, right=True).clamp(max=len(area) - 1)
    u, v = torch.rand(2, count, 1, generator=generator)
    over = u + v > 1
    u, v = torch.where(over, 1 - u, u), torch.where(over, 1 - v, v)
    a, b, c = mesh.pos[mesh.face[:, index]]
    return a + u * (b - a) + v * (c - a), normal[index]
