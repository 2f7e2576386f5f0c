"""Pairs of a noisy and a clean mesh."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from torch_geometric.data import Data

from permutogeo.data import from_mesh
from permutogeo.datasets.shape_dataset import Filter, ShapeDataset, Transform
from permutogeo.datasets.sources import find_file, read_arrays, read_mesh_names

FILE = "meshes/denoising_pairs.npz"
_WHAT = "7 pairs of a clean and a noisy mesh (arrays clean_<name>, noisy_<name>, f_<name>)"
_KINDS = ("clean", "noisy", "f")


class DenoisingPairs(ShapeDataset):
    r"""Seven pairs of a clean and a noisy mesh from the `"Guided Mesh Normal Filtering"
    <https://doi.org/10.1111/cgf.12742>`_ paper: block, bunny, fandisk (twice), julius, sharpsphere
    and trimstar.

    They are a test set: do not train on them.

    Args:
        root: The folder that holds ``meshes/denoising_pairs.npz``;
            by default ``$PERMUTOGEO_DATA``.
        transform: Applied at each access.
        pre_transform: Applied once, while reading.
        pre_filter: Which pairs to keep.

    Each pair has the noisy ``pos`` :math:`(N, 3)`, ``clean_pos`` :math:`(N, 3)` in the same order,
    ``face`` :math:`(3, F)`, the text ``name`` (as ``"fandisk"``) and the number ``noise``: its
    level relative to the mean edge length, as the authors give it.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
        pre_filter: Filter | None = None,
    ):
        path = find_file(type(self).__name__, root, FILE, _WHAT)
        pairs = _read(path, read_mesh_names(path, "noisy_"))
        super().__init__(path.parent.parent, pairs, transform, pre_transform, pre_filter)


def _read(path: Path, names: list[str]) -> Iterator[Data]:
    arrays = read_arrays(path, {f"{kind}_{name}": (None, 3) for name in names for kind in _KINDS})
    for name in names:
        clean, noisy, face = (arrays[f"{kind}_{name}"] for kind in _KINDS)
        shape, _, noise = name.rpartition("_")
        try:
            mesh = from_mesh(noisy, face)
            mesh.clean_pos = from_mesh(clean, face).pos
            mesh.name, mesh.noise = shape, float(noise)
        except ValueError as error:
            expected = f"a pair with its noise in the name as '{name}'"
            raise ValueError(f"'{path}': Expected {expected} ({error})") from error
        if mesh.clean_pos.shape != mesh.pos.shape:
            raise ValueError(
                f"'{path}': Expected as many clean as noisy vertices in '{name}' "
                f"(got {len(clean)} and {len(noisy)})"
            )
        yield mesh
