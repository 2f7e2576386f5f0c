"""Simulated range camera: the mesh that a depth image of a shape gives."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.data.open3d_loader import load_open3d
from permutogeo.typing import Array

# Distance of the camera from the center, in radii of the shape.
DISTANCES = (2.5, 6.0)
# Pixels are joined unless their depths differ by more than this many widths of a pixel.
LARGEST_STEP = 4.0
# Number of directions to look from until a quarter of the faces is seen.
ATTEMPTS = 30


def range_scan(mesh: Data, num_faces: int, rng: np.random.Generator) -> Data:
    """Return what a range camera sees of a mesh from a random direction, without noise.

    Each pixel that hits the surface is a vertex; neighboring pixels are joined by triangles where
    the depth is continuous, so that the result has holes, ragged borders and stretched triangles
    where the surface is seen at a slant.

    Args:
        mesh: Mesh with ``pos`` and ``face``.
        num_faces: Approximate number of faces of the result.
        rng: Random numbers.

    Returns:
        Data with ``pos``, ``face`` and the direction ``sight`` ``[3]`` in which the camera looks.
    """
    seen = mesh["pos"].numel() > 0 and bool((mesh["pos"] != mesh["pos"][0]).any())
    for _ in range(ATTEMPTS if seen else 0):  # a flat piece may be seen from its edge
        scan = _scan(mesh, num_faces, rng)
        if scan["face"].size(1) > num_faces // 4:
            return scan
    raise ValueError(f"Expected a surface that a camera sees (got {mesh})")


def _scan(mesh: Data, num_faces: int, rng: np.random.Generator) -> Data:
    pos = mesh["pos"].double().numpy()
    center = (pos.min(axis=0) + pos.max(axis=0)) / 2
    radius = np.linalg.norm(pos - center, axis=1).max()
    axes = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    axes[2] *= np.linalg.det(axes)  # right-handed: triangles face the camera
    eye = center - rng.uniform(*DISTANCES) * radius * axes[2]
    # The first image, of few pixels, tells how many of them hit the shape.
    hits = np.isfinite(ray_depth(mesh, eye, camera_rays(axes, eye, center, radius, 64))).mean()
    size = int(np.sqrt(num_faces / 2 / max(hits, 0.02)))
    ray = camera_rays(axes, eye, center, radius, size)
    depth = ray_depth(mesh, eye, ray)
    hit = eye + np.where(np.isfinite(depth), depth, 0)[..., None] * ray
    # Width of a pixel at the depth of the center.
    pixel = 2 * radius / size
    face = join_pixels(np.where(np.isfinite(depth), (hit - eye) @ axes[2], np.inf), pixel)
    used, corner = np.unique(face, return_inverse=True)
    place = torch.from_numpy(hit.reshape(-1, 3)[used]).float()
    triangles = torch.from_numpy(corner.reshape(face.shape).T.copy())
    return Data(pos=place, face=triangles, sight=torch.from_numpy(axes[2].copy()))


def camera_rays(axes: Array, eye: Array, center: Array, radius: float, size: int) -> Array:
    """Return unit directions ``[size, size, 3]`` through the disk around the center."""
    side = (np.arange(size) + 0.5) / size * 2 - 1
    x, y = np.meshgrid(side, side, indexing="ij")
    target = center + radius * (x[..., None] * axes[0] + y[..., None] * axes[1])
    ray = target - eye
    return ray / np.linalg.norm(ray, axis=2, keepdims=True)


def ray_depth(mesh: Data, eye: Array, ray: Array) -> Array:
    """Return the distance of the first hit along each ray, infinite if there is none."""
    open3d = load_open3d()
    tensor = open3d.core.Tensor
    scene = open3d.t.geometry.RaycastingScene()
    face = mesh["face"].t().numpy().astype(np.uint32)
    scene.add_triangles(tensor(mesh["pos"].float().numpy()), tensor(face))
    start = np.broadcast_to(eye, ray.shape)
    rays = tensor(np.concatenate([start, ray], axis=2).astype(np.float32))
    return np.asarray(scene.cast_rays(rays)["t_hit"].numpy(), dtype=np.float64)


def join_pixels(depth: Array, pixel: float) -> Array:
    """Return triangles ``[F, 3]`` of pixels of continuous depth ``[H, W]``, facing the camera."""
    number = np.arange(depth.size).reshape(depth.shape)
    a, b = number[:-1, :-1].ravel(), number[1:, :-1].ravel()
    c, d = number[1:, 1:].ravel(), number[:-1, 1:].ravel()
    corners = np.concatenate([np.stack([a, c, b], 1), np.stack([a, d, c], 1)])
    value = depth.ravel()[corners]
    kept = np.isfinite(value).all(axis=1)
    kept[kept] = np.ptp(value[kept], axis=1) < LARGEST_STEP * pixel
    return corners[kept]
