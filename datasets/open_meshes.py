"""Meshes of many kinds, with their licenses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from torch_geometric.data import Data

from permutogeo.data import from_mesh
from permutogeo.datasets.shape_dataset import Filter, ShapeDataset, Transform
from permutogeo.datasets.sources import find_file, read_arrays, read_mesh_names

FILE = "meshes/open_meshes.npz"
_WHAT = "32 triangle meshes (arrays v_<name>, f_<name>)"
# As stated by the collection for each object. "SMPL" marks bodies of the Max Planck Society, which
# are CC BY 4.0 under a body license of their own.
_NAMES_OF = {
    "CC BY 4.0": (
        "boat boot cat_low_resolution demosthenes_low_res hammer hand_closed hand_lowres mountain "
        "penguin penguin_hr pizza sword torus wingnut"
    ),
    "CC BY 4.0, SMPL": "human_man human_woman human_neutral",
    "CC BY 3.0": "goathead koala_low_resolution plane scorpion_low_resolution skull_low_resolution",
    "CC BY-SA 3.0": "lionstatue",
    "public domain": "fish fish_low_resolution spot spot_low_resolution nefertiti_lowres",
    "Stanford, research only": "armadillo bunny bunny_hr",
    "libigl": "stuffedtoy",
}
_FREE = ("CC BY 4.0", "CC BY 3.0", "public domain")
#: License of each mesh by name.
TERMS = {name: terms for terms, names in _NAMES_OF.items() for name in names.split()}


class OpenMeshes(ShapeDataset):
    r"""32 triangle meshes of 810 to 35,002 vertices: animals, statues, tools, bodies, a terrain.

    From the collection `odedstein/meshes <https://github.com/odedstein/meshes>`_, in its
    coordinates. ``demosthenes_low_res``, ``hand_lowres``, ``human_neutral``,
    ``lionstatue``, ``mountain`` and ``pizza`` have a border; the others are closed.

    Args:
        root: The folder that holds ``meshes/open_meshes.npz``;
            by default ``$PERMUTOGEO_DATA``.
        terms: ``"any"``, or ``"free"`` for the 24 meshes in the public domain or under CC BY that
            are not SMPL bodies: weights trained on these may be redistributed. Meshes with
            unknown names do not count as free.
        transform: Applied at each access.
        pre_transform: Applied once, while reading.
        pre_filter: Which meshes to keep.

    Each mesh has ``pos`` :math:`(N, 3)`, ``face`` :math:`(3, F)`, its ``name`` and its license
    ``terms``.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        terms: str = "any",
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
        pre_filter: Filter | None = None,
    ):
        owner = type(self).__name__
        if terms not in ("any", "free"):
            raise ValueError(f"{owner}: Expected 'terms' in any, free (got {terms!r})")
        path = find_file(owner, root, FILE, _WHAT)
        names = read_mesh_names(path, "v_")
        kept = [name for name in names if terms == "any" or TERMS.get(name) in _FREE]
        meshes = _read(path, kept)
        super().__init__(path.parent.parent, meshes, transform, pre_transform, pre_filter)

    @property
    def names(self) -> list[str]:
        """Names of the meshes."""
        return [mesh.name for mesh in self._shapes]


def _read(path: Path, names: list[str]) -> Iterator[Data]:
    arrays = read_arrays(path, {f"{kind}_{name}": (None, 3) for name in names for kind in "vf"})
    for name in names:
        try:
            mesh = from_mesh(arrays[f"v_{name}"], arrays[f"f_{name}"])
        except ValueError as error:
            raise ValueError(f"'{path}': Expected a mesh as '{name}' ({error})") from error
        mesh.name = name
        mesh.terms = TERMS.get(name, "unknown")
        yield mesh
