"""Shaded pictures of meshes, and square crops of photographs."""

import numpy as np
from PIL import Image

from permutogeo.data.open3d_loader import load_open3d

LIGHTS = (((-0.3, 0.7, 0.75), 0.75), ((0.8, 0.15, 0.4), 0.3), ((0.0, -1.0, 0.2), 0.08))


def rotation(azimuth, elevation):
    """Return the rotation of a camera that looks along -z, from angles in degrees."""
    a, e = np.radians([azimuth, elevation])
    turn = np.array([[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]])
    tilt = np.array([[1, 0, 0], [0, np.cos(e), -np.sin(e)], [0, np.sin(e), np.cos(e)]])
    return tilt @ turn


def shade(mesh, size, view=(30, 25), zoom=1.0, color=(0.93, 0.87, 0.78), samples=3):
    """Return a flat-shaded picture ``[size, size, 4]`` of a mesh, in [0, 1]."""
    open3d = load_open3d()
    pos = mesh.pos.numpy().astype(np.float64)
    pos = (pos - (pos.min(0) + pos.max(0)) / 2) @ rotation(*view).T
    face = mesh.face.t().numpy().astype(np.uint32)
    scene = open3d.t.geometry.RaycastingScene()
    scene.add_triangles(open3d.core.Tensor(pos.astype(np.float32)), open3d.core.Tensor(face))
    grid = (np.arange(size * samples) + 0.5) / (size * samples) * 2 - 1
    half = 1.08 * abs(pos[:, :2]).max() / zoom
    x, y = np.meshgrid(grid * half, -grid * half)
    start = np.stack([x, y, np.full_like(x, 10)], -1)
    rays = np.concatenate([start, np.broadcast_to([0, 0, -1], start.shape)], -1)
    hit = scene.cast_rays(open3d.core.Tensor(rays.astype(np.float32)))
    normal = hit["primitive_normals"].numpy()
    seen = np.isfinite(hit["t_hit"].numpy())
    normal *= np.sign(normal[..., 2:] + 1e-9)
    light = sum(
        power * np.clip(normal @ (np.array(way) / np.linalg.norm(way)), 0, None)
        for way, power in LIGHTS
    )
    picture = np.concatenate(
        [(0.3 + 0.85 * light)[..., None] * np.array(color), seen[..., None]], -1
    )
    picture[~seen] = 0
    picture = picture.reshape(size, samples, size, samples, 4).mean((1, 3))
    picture[..., :3] /= np.maximum(picture[..., 3:], 1e-6)
    return picture.clip(0, 1)


def photograph(size):
    """Return a square crop of the photograph of an astronaut (NASA, public domain)."""
    from skimage import data

    image = Image.fromarray(data.astronaut()).crop((40, 0, 440, 400))
    return np.asarray(image.resize((size, size), Image.Resampling.LANCZOS)) / np.float32(255)
