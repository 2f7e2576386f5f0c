"""Scene of a page or a picture: shapes in one frame, and their errors against a reference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch_geometric.data import Data

from permutogeo.data.geometry import mean_edge_length
from permutogeo.data.open3d_loader import load_open3d
from permutogeo.typing import Array
from permutogeo.viz.shapes import (
    Shape,
    decimate,
    fit_unit_sphere,
    have_same_faces,
    mean_spacing,
    read_shapes,
)

GROUND_TRUTH = "ground truth"
# The part of the vertices whose error may exceed the color scale: outliers must not pale the rest.
BEYOND_SCALE = 0.01
ROUND_NUMBERS = (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True)
class Scene:
    """Shapes within the unit sphere, with errors in one unit."""

    shapes: tuple[Shape, ...]
    measure: str  # what the error of a vertex is
    unit: str  # "mean edge" or "mean spacing"
    unit_length: float  # in the units of the input
    scale_end: float  # the error of the last color, in units
    radius: float  # that was scaled to 1, in the units of the input

    @property
    def has_errors(self) -> bool:
        """Whether any shape has errors."""
        return any(shape.error is not None for shape in self.shapes)

    @property
    def max_error(self) -> float:
        """Largest error of the shapes as drawn, at least the end of the color scale."""
        errors = [float(shape.error.max()) for shape in self.shapes if shape.error is not None]
        return max(errors, default=self.scale_end) or self.scale_end

    @property
    def reference(self) -> int:
        """Index of the shape that the others are compared with."""
        return next(i for i, shape in enumerate(self.shapes) if shape.error is None)

    def is_blendable(self, index: int) -> bool:
        """Return whether a shape is a result whose vertices correspond to those of the first."""
        shape, first = self.shapes[index], self.shapes[0]
        shares = shape.face is not None and shape.face is first.face
        return index > 0 and shares and shape.error is not None

    @property
    def has_colors(self) -> bool:
        """Whether any shape has vertex colors."""
        return any(shape.color is not None for shape in self.shapes)

    @property
    def quantity(self) -> str:
        """Name of the vertex value: ``"error"``, or ``"displacement"`` without a ground truth."""
        return "displacement" if self.measure.startswith("Displacement") else "error"

    @property
    def unit_text(self) -> str:
        """Caption of the unit."""
        return f"in {self.unit}s of {self.unit_length:.3g}"


def make_scene(meshes: Mapping[str, Data], error: str | None, max_faces: int, caller: str) -> Scene:
    """Read, check, compare, decimate and scale the shapes of a page or a picture."""
    if max_faces < 1:
        raise ValueError(f"{caller}: Expected 'max_faces' >= 1 (got {max_faces})")
    shapes = read_shapes(meshes, caller)
    reference, measure = _reference(shapes, error, caller)
    unit, length = _unit(reference)
    shapes = [_with_errors(shape, reference, length) for shape in shapes]
    end = _scale_end([shape.error for shape in shapes if shape.error is not None])
    shapes, radius = fit_unit_sphere(decimate(shapes, max_faces))
    return Scene(tuple(shapes), measure, unit, length, end, radius)


def _reference(shapes: Sequence[Shape], error: str | None, caller: str) -> tuple[Shape, str]:
    """Return the shape that errors are measured against, and what the error is called."""
    by_name = {shape.name: shape for shape in shapes}
    if error is None and GROUND_TRUTH not in by_name:
        return shapes[0], f"Displacement from {shapes[0].name}"
    name = GROUND_TRUTH if error is None else error
    if name not in by_name:
        listed = ", ".join(repr(name) for name in by_name)
        raise ValueError(f"{caller}: Expected 'error' to name one of {listed} (got {error!r})")
    return by_name[name], f"Distance to {name}"


def _unit(reference: Shape) -> tuple[str, float]:
    """Return the name and the length of the unit of errors."""
    if reference.face is None:
        return "mean spacing", mean_spacing(reference.pos) or 1.0
    pos, face = torch.from_numpy(reference.pos), torch.from_numpy(reference.face.T)
    return "mean edge", float(mean_edge_length(pos, face)) or 1.0


def _with_errors(shape: Shape, reference: Shape, unit: float) -> Shape:
    if shape is reference:
        return shape
    error = vertex_distances(shape.pos, shape.face, reference.pos, reference.face) / unit
    mean, largest = float(error.mean()), float(error.max())
    return replace(shape, error=error, error_mean=mean, error_max=largest)


def vertex_distances(
    pos: Array, face: Array | None, target: Array, target_face: Array | None
) -> Array:
    """Return the distance of each vertex to the target.

    Meshes with the same vertex count and triangles are compared vertex by vertex; otherwise the
    nearest point of the target's surface counts, or of its points if it is a cloud.
    """
    if len(pos) == len(target) and have_same_faces(face, target_face):
        return np.linalg.norm(pos - target, axis=1)
    if target_face is None:
        return cKDTree(target).query(pos)[0]
    return _surface_distances(pos, target, target_face)


def _surface_distances(pos: Array, target: Array, face: Array) -> Array:
    open3d = load_open3d()
    tensor = open3d.core.Tensor
    center = target.mean(axis=0)  # Open3D computes in single precision
    scene = open3d.t.geometry.RaycastingScene()
    scene.add_triangles(
        tensor((target - center).astype(np.float32)), tensor(face.astype(np.uint32))
    )
    return scene.compute_distance(tensor((pos - center).astype(np.float32))).numpy()


def _scale_end(errors: list[Array]) -> float:
    """Return a round number above nearly all errors of the worst shape."""
    return round_up(max((float(np.quantile(e, 1 - BEYOND_SCALE)) for e in errors), default=0.0))


def round_up(value: float) -> float:
    """Return the next number whose half is short to write too, or 1 for 0."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in ROUND_NUMBERS if value <= step * power * (1 + 1e-9))
