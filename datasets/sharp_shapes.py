"""Generated shapes with sharp edges."""

from __future__ import annotations

from itertools import count

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.data import from_mesh
from permutogeo.datasets._generated import GeneratedShapes
from permutogeo.datasets._patchwork import Patchwork, Tangled
from permutogeo.datasets._remesh import scatter
from permutogeo.datasets._shapes import Transform
from permutogeo.datasets._sharp_recipes import random_solid
from permutogeo.datasets._solid_mesh import check, mesh_of


class SharpShapes(GeneratedShapes):
    r"""Generated shapes like machined parts, with vertices and edges exactly on their creases.

    A shape is made of boxes, wedges, cylinders, cones, balls, rings, polygons drawn out, twisted or
    turned on a lathe, and smooth blends of such, by unions, intersections and differences. Flat
    and curved sides meet at all angles, shallow and steep, convex and concave. Meshes are closed,
    of one piece, turned outward, about 2 wide, and have triangles of even size, in half of the
    shapes with vertices scattered along their surfaces.

    Nothing is read or downloaded. A shape is made at its first use, in a second or two, and kept.

    Args:
        num_shapes: How many shapes.
        num_faces: The least and the largest number of faces to aim at; sizes in between are
            equally likely on a logarithmic scale.
        seed: Of the shapes: shape :math:`i` depends on the seed, on ``num_faces`` and on
            :math:`i`.
        transform: Applied to a shape at each access.
        pre_transform: Applied to a shape once, when it is made.

    Each shape has ``pos`` :math:`(N, 3)`, ``face`` :math:`(3, F)` and ``face_patch`` :math:`(F)`,
    the number of the smooth surface that a face lies on: edges between faces of two surfaces are
    the creases.

    Example:
        >>> from permutogeo.datasets import SharpShapes
        >>> shapes = SharpShapes(100, num_faces=(500, 600))
        >>> shapes
        SharpShapes(100)
        >>> shapes[0].keys()
        ['face_patch', 'face', 'pos']
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

    def make(self, index: int) -> Data:
        for attempt in count():  # about every third solid has details too fine to be meshed well
            try:
                rng = np.random.default_rng([self.seed, index, attempt])
                mesh = self._attempt(index, rng)
                break
            except Tangled:
                continue
        data = from_mesh(mesh.pos, mesh.face)
        data.face_patch = torch.from_numpy(np.unique(mesh.patch, return_inverse=True)[1])
        return data

    def _attempt(self, kind: int, rng: np.random.Generator) -> Patchwork:
        low, high = self.num_faces
        wanted = round(low * (high / low) ** rng.random())
        disorder = max(0.0, rng.uniform(-0.2, 0.2))
        solid = random_solid(kind, rng)
        mesh = mesh_of(solid, wanted)
        if disorder > 0:
            mesh = scatter(mesh, disorder * float(mesh.length.mean()), rng)
        check(mesh, solid)
        return mesh
