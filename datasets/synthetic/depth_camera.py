"""Simulated depth camera: solids scanned with the noise of a Kinect."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import trimesh
from scipy.ndimage import gaussian_filter
from torch_geometric.data import Data

from permutogeo.data.geometry import face_geometry
from permutogeo.datasets.synthetic.range_camera import camera_rays, join_pixels, ray_depth
from permutogeo.typing import Array

# Distance of the camera in radii of the solid, and its tilt against the axis in degrees.
DISTANCE, TILTS = 4.0, (10, 45)
# Searched range of the window of the noise, in pixels, and of its size, in widths of a pixel.
WINDOWS, SIZES, BISECTIONS = (0.0, 6.0), (0.05, 15.0), 9
SOLIDS: dict[str, Callable[[], trimesh.Trimesh]] = {
    "pyramid": lambda: trimesh.creation.cone(1.2, 1.3, sections=4),
    "cone": lambda: trimesh.creation.cone(1.0, 1.6, sections=256),
    "ball": lambda: trimesh.creation.icosphere(5),
    "box": lambda: trimesh.creation.box((1.0, 1.4, 0.8)),
}


def depth_scan(
    solid: str,
    num_faces: int,
    angle: float,
    correlation: float,
    *,
    step: float = 1.0,
    frames: int = 1,
    seed: int = 0,
) -> Data:
    """Return a scan of a solid whose noise has a given angle and correlation.

    The depth of each pixel has noise of the matching window and is rounded to steps, both growing
    with the squared depth. Several frames are averaged and filtered, as by fusion. Window and size
    of the noise are searched so that the mean normal angle and the correlation of the displacements
    between neighbors are the given ones.

    Args:
        solid: One of ``"pyramid"``, ``"cone"``, ``"ball"``, ``"box"``.
        num_faces: Approximate number of faces.
        angle: Mean angle to the clean normals in degrees.
        correlation: Correlation of the displacements of neighbors.
        step: Steps of the depth over the size of the noise; 0: not rounded.
        frames: Number of frames; more than one are fused.
        seed: Seed of view and noise.

    Returns:
        Data with ``pos``, ``face`` and ``clean_pos``.
    """
    rng = np.random.default_rng(seed)
    made = SOLIDS[solid]()
    mesh = Data(
        pos=torch.from_numpy(np.array(made.vertices)),
        face=torch.from_numpy(np.array(made.faces).T.copy()).long(),
    )
    pos = mesh["pos"].numpy()
    center = (pos.min(axis=0) + pos.max(axis=0)) / 2
    radius = float(np.linalg.norm(pos - center, axis=1).max())
    axes = _view(rng)
    eye = center - DISTANCE * radius * axes[2]
    hits = np.isfinite(ray_depth(mesh, eye, camera_rays(axes, eye, center, radius, 64))).mean()
    size = int(np.sqrt(num_faces / 2 / hits))
    ray = camera_rays(axes, eye, center, radius, size)
    cosine = ray @ axes[2]
    depth = ray_depth(mesh, eye, ray) * cosine
    seen = np.isfinite(depth)
    pixel = 2 * radius / size
    corners = join_pixels(np.where(seen, depth, np.inf), pixel)
    used, corner = np.unique(corners, return_inverse=True)
    face = torch.from_numpy(corner.reshape(corners.shape).T.copy())
    depth = np.where(seen, depth, depth[seen].mean())
    white = rng.standard_normal((frames, size, size))
    start = rng.uniform(0, 1, frames)

    def points(values: Array) -> torch.Tensor:
        place = eye + (values / cosine)[..., None] * ray
        return torch.from_numpy(place.reshape(-1, 3)[used])

    def scanned(window: float, level: float) -> torch.Tensor:
        share = 0.7 if frames > 1 else 1.0
        error = _frames(depth, white, start, share * window, level * pixel, step) - depth
        if frames > 1 and window > 0:
            weight = gaussian_filter(seen.astype(float), share * window)
            error = gaussian_filter(np.where(seen, error, 0), share * window)
            error = error / weight.clip(min=1e-9)
        return points(depth + error)

    clean = points(depth)
    found = _search(scanned, clean, face, angle, correlation)
    return Data(pos=found.float(), face=face, clean_pos=clean.float(), name=solid)


def neighbor_correlation(step: torch.Tensor, face: torch.Tensor) -> float:
    """Return the correlation of displacements ``[V, 3]`` between the ends of edges."""
    first, second = torch.cat([face, face.roll(-1, 0)]).view(2, -1)
    product = (step[first] * step[second]).sum(dim=1).mean()
    return float(product / step[first].square().sum(dim=1).mean().clamp(min=1e-30))


def _frames(
    depth: Array, white: Array, start: Array, window: float, level: float, step: float
) -> Array:
    """Return the mean depth of frames with correlated noise, each rounded to steps."""
    scale = (depth / depth.mean()) ** 2
    total = np.zeros_like(depth)
    for noise, first in zip(white, start, strict=True):
        smooth = gaussian_filter(noise, window) if window > 0 else noise
        measured = depth + level * scale * smooth / smooth.std()
        if step > 0:
            width = step * level
            measured = (np.round(measured / width + first) - first) * width
        total += measured / len(white)
    return total


def _search(
    scanned: Callable[[float, float], torch.Tensor],
    clean: torch.Tensor,
    face: torch.Tensor,
    angle: float,
    correlation: float,
) -> torch.Tensor:
    """Return the scan of given angle and correlation, by nested bisection."""
    target = face_geometry(clean, face)[0]
    low, high = WINDOWS
    found = clean
    for _ in range(BISECTIONS):
        window, (least, most) = (low + high) / 2, SIZES
        for _ in range(BISECTIONS):
            level = (least * most) ** 0.5
            found = scanned(window, level)
            cosine = (face_geometry(found, face)[0] * target).sum(dim=1).clamp(-1, 1)
            is_less = float(torch.acos(cosine).rad2deg().mean()) < angle
            least, most = (level, most) if is_less else (least, level)
        is_less = neighbor_correlation(found - clean, face) < correlation
        low, high = (window, high) if is_less else (low, window)
    return found


def _view(rng: np.random.Generator) -> Array:
    """Return the axes ``[3, 3]`` of a camera that looks down at a tilt; the last is its sight."""
    tilt, around = np.deg2rad(rng.uniform(*TILTS)), rng.uniform(0, 2 * np.pi)
    sight = -np.array([np.sin(tilt) * np.cos(around), np.sin(tilt) * np.sin(around), np.cos(tilt)])
    right = np.cross([0.0, 0.0, 1.0], sight)
    right = right / np.linalg.norm(right)
    return np.stack([right, np.cross(sight, right), sight])
