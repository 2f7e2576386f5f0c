"""Meshes of fractal terrain and planets: clean surfaces that are rough at all lengths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import trimesh
from scipy.ndimage import map_coordinates
from scipy.spatial import Delaunay
from torch_geometric.data import Data

from permutogeo.data.geometry import face_geometry
from permutogeo.typing import Array

LAYOUTS = ("grid", "jittered", "scattered")
FORMS: dict[str, Callable[[Array], Array]] = {
    "hills": lambda height: height,
    "ridges": lambda height: -np.abs(height),
    "valleys": np.abs,
    "peaks": lambda height: np.exp(0.7 * height),
}
# Longest edge of scattered points in cells, cells along a side of the field of a planet, and
# searched range of the factor of heights.
LONGEST, PLANET_CELLS, FACTORS = 6.0, 96, (1e-4, 1e4)


def fractal_terrain(
    num_faces: int,
    exponent: float = 0.7,
    slope: float = 20.0,
    *,
    layout: str = "grid",
    form: str = "hills",
    finest: float = 0.0,
    seed: int = 0,
) -> Data:
    """Return an open mesh of terrain whose height differences grow with a power of the distance.

    Args:
        num_faces: Approximate number of faces.
        exponent: The power ("The Fractal Geometry of Nature", Mandelbrot 1982); terrain has 0.5 to
            0.9, lower values are rougher.
        slope: Mean angle of the faces against the horizontal in degrees.
        layout: ``"grid"``, ``"jittered"`` grid, or ``"scattered"`` points, triangulated.
        form: ``"hills"``, ``"ridges"``, ``"valleys"`` or ``"peaks"``.
        finest: Length in cells below which waves are missing, as in enlarged height maps.
        seed: Seed of the terrain.

    Example:
        >>> fractal_terrain(1000, layout="grid")
        Data(pos=[529, 3], face=[3, 968])
    """
    for name, value, known in (("layout", layout, LAYOUTS), ("form", form, tuple(FORMS))):
        if value not in known:
            raise ValueError(f"Expected '{name}' in {known} (got {value!r})")
    rng = np.random.default_rng(seed)
    size = int(np.sqrt(num_faces / 2)) + 1
    height = FORMS[form](_field((2 * size, 2 * size), exponent, finest, rng))
    axis = np.arange(size, dtype=np.float64)
    plane = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    if layout == "scattered":
        plane = rng.uniform(0, size - 1, plane.shape)
    elif layout == "jittered":
        plane = plane + rng.uniform(-0.4, 0.4, plane.shape)
    face = _grid_faces(size) if layout == "grid" else _delaunay(plane)
    lifted = map_coordinates(height, plane.T, order=1, mode="wrap")
    base = torch.from_numpy(np.c_[plane, np.zeros(len(plane))])
    up = torch.tensor([0.0, 0.0, 1.0]).double() * torch.from_numpy(lifted).unsqueeze(1)
    return _lift(base, up, torch.from_numpy(face.T.copy()).long(), slope)


def fractal_planet(
    subdivisions: int, exponent: float = 0.7, slope: float = 20.0, *, seed: int = 0
) -> Data:
    """Return a sphere with fractal relief; see :func:`fractal_terrain`.

    Args:
        subdivisions: Of an icosahedron: ``20 * 4**subdivisions`` faces.
        exponent: Power of the distance with which height differences grow.
        slope: Mean angle of the faces against those of the sphere in degrees.
        seed: Seed of the relief.

    Example:
        >>> fractal_planet(2)
        Data(pos=[162, 3], face=[3, 320])
    """
    rng = np.random.default_rng(seed)
    ball = trimesh.creation.icosphere(subdivisions)
    pos = np.array(ball.vertices)
    height = _field((PLANET_CELLS,) * 3, exponent, 0.0, rng)
    lifted = map_coordinates(height, ((0.4 * pos + 0.5) * (PLANET_CELLS - 1)).T, order=1)
    base = torch.from_numpy(pos)
    up = base * torch.from_numpy(lifted).unsqueeze(1)
    return _lift(base, up, torch.from_numpy(np.array(ball.faces).T.copy()).long(), slope)


def _field(
    shape: tuple[int, ...], exponent: float, finest: float, rng: np.random.Generator
) -> Array:
    """Return a periodic random field with a power law spectrum and standard deviation 1."""
    axes = [np.fft.fftfreq(n) for n in shape[:-1]] + [np.fft.rfftfreq(shape[-1])]
    frequency = np.sqrt(sum(k**2 for k in np.meshgrid(*axes, indexing="ij")))
    frequency.flat[0] = 1
    size = frequency ** -(exponent + len(shape) / 2) * np.exp(-0.5 * (frequency * finest) ** 2)
    size.flat[0] = 0
    found = np.fft.rfftn(rng.standard_normal(shape)) * size
    height = np.fft.irfftn(found, shape, axes=range(len(shape)))
    return height / height.std()


def _grid_faces(size: int) -> Array:
    corner = np.arange(size**2).reshape(size, size)
    a, b, c, d = corner[:-1, :-1], corner[1:, :-1], corner[1:, 1:], corner[:-1, 1:]
    return np.concatenate([np.stack(t, -1).reshape(-1, 3) for t in ((a, b, c), (a, c, d))])


def _delaunay(plane: Array) -> Array:
    face = Delaunay(plane).simplices
    a, b, c = plane[face.T]
    is_left = np.linalg.det(np.stack([b - a, c - a], 1)) > 0
    edge = np.linalg.norm(np.stack([a - b, b - c, c - a]), axis=2).max(axis=0)
    return np.where(is_left[:, None], face, face[:, ::-1])[edge < LONGEST]


def _lift(base: torch.Tensor, up: torch.Tensor, face: torch.Tensor, slope: float) -> Data:
    """Return the mesh whose faces are turned by a given mean angle in degrees, by bisection."""
    flat = face_geometry(base, face)[0]
    low, high = FACTORS
    for _ in range(40):
        factor = (low * high) ** 0.5
        cosine = (face_geometry(base + factor * up, face)[0] * flat).sum(dim=1).clamp(-1, 1)
        is_less = float(torch.acos(cosine).rad2deg().mean()) < slope
        low, high = (factor, high) if is_less else (low, factor)
    used, face = face.unique(return_inverse=True)
    return Data(pos=(base + factor * up)[used].float(), face=face)
