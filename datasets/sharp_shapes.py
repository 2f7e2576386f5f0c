"""Procedural CAD-like shapes with sharp features."""

from __future__ import annotations

from itertools import count

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.data import from_mesh
from permutogeo.datasets.generated_dataset import GeneratedDataset
from permutogeo.datasets.shape_dataset import Transform
from permutogeo.datasets.synthetic.isotropic_remeshing import jitter
from permutogeo.datasets.synthetic.meshing import check_mesh, mesh_solid
from permutogeo.datasets.synthetic.patch_mesh import MeshingError, PatchMesh
from permutogeo.datasets.synthetic.random_solids import random_solid


class SharpShapes(GeneratedDataset):
    r"""Procedural CAD-like shapes whose mesh edges lie exactly on the sharp features.

    A shape is a CSG tree (union, intersection, difference) of boxes, wedges, cylinders, cones,
    ellipsoids, tori, extruded, twisted and revolved polygons, and smooth unions. Flat and curved
    faces meet at all dihedral angles, convex and concave. Meshes are closed, connected, oriented
    outward, about 2 wide, and isotropic; in half of the shapes the vertices are jittered along the
    surface.

    Nothing is read or downloaded. A shape is generated at first use, in a second or two, and
    cached.

    Args:
        num_shapes: Number of shapes.
        num_faces: Range of the target number of faces, sampled log-uniformly.
        seed: Random seed; shape :math:`i` depends on the seed, ``num_faces`` and :math:`i`.
        transform: Applied at each access.
        pre_transform: Applied once, when a sample is generated.

    Each shape has ``pos`` :math:`(N, 3)`, ``face`` :math:`(3, F)` and ``face_patch`` :math:`(F)`,
    the index of the smooth surface that a face lies on: edges between two surfaces are the
    creases.

    Example:
        >>> from permutogeo.datasets import SharpShapes
        >>> shapes = SharpShapes(100, num_faces=(500, 600))
        >>> shapes
        SharpShapes(100)
        >>> sorted(shapes[0].keys())
        ['face', 'face_patch', 'pos']
    """

    def __init__(
        self,
        num_shapes: int = 100,
        num_faces: tuple[int, int] = (2000, 20000),
        seed: int = 0,
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
    ):
        super().__init__(num_shapes, seed, transform, pre_transform)
        low, high = num_faces
        if not 100 <= low <= high:
            raise ValueError(
                f"{type(self).__name__}: Expected 'num_faces' as two numbers, the first at least "
                f"100 and no larger than the second (got {num_faces})"
            )
        self.num_faces = low, high

    def generate(self, index: int) -> Data:
        for attempt in count():  # about every third solid has details too fine to mesh
            try:
                rng = np.random.default_rng([self.seed, index, attempt])
                mesh = self._attempt(index, rng)
                break
            except MeshingError:
                continue
        data = from_mesh(mesh.pos, mesh.face)
        data.face_patch = torch.from_numpy(np.unique(mesh.patch, return_inverse=True)[1])
        return data

    def _attempt(self, kind: int, rng: np.random.Generator) -> PatchMesh:
        low, high = self.num_faces
        wanted = round(low * (high / low) ** rng.random())
        amount = max(0.0, rng.uniform(-0.2, 0.2))
        solid = random_solid(kind, rng)
        mesh = mesh_solid(solid, wanted)
        if amount > 0:
            mesh = jitter(mesh, amount * float(mesh.edge_length.mean()), rng)
        check_mesh(mesh, solid)
        return mesh
