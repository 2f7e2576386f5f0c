"""Surfaces for training the denoiser, made from other meshes.

Loop subdivision gives the sampling density of scans; quadric decimation then gives irregular
triangles that follow the curvature. Others are coarse, have weak creases, or relief.
"""

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.data import from_mesh, to_mesh
from permutogeo.data.geometry import mean_edge_length, vertex_normals
from permutogeo.data.open3d_loader import load_open3d

o3d = load_open3d()


def patch(mesh, count, rng):
    """Return the ``count`` faces around a random one as an Open3D mesh."""
    center = mesh.pos[mesh.face].mean(dim=0)
    middle = center[int(rng.integers(len(center)))]
    distance = (center - middle).norm(dim=1)
    near = distance.topk(min(count, len(distance)), largest=False).indices
    found = to_mesh(mesh, kind="open3d")
    found.triangles = o3d.utility.Vector3iVector(mesh.face.t()[near.sort().values].int().numpy())
    found.remove_degenerate_triangles()
    found.remove_non_manifold_edges()
    found.remove_unreferenced_vertices()
    return found


def dense(mesh, count, rng):
    """Return a patch subdivided once, with about ``count`` triangles."""
    return _data(_subdivide(patch(mesh, count // 4, rng), 1))


def uneven(mesh, count, rng):
    """Return a patch of ``count`` irregular triangles, two to six times denser than the mesh."""
    part = _subdivide(patch(mesh, round(count / rng.uniform(2, 6)), rng), 2)
    return _data(part.simplify_quadric_decimation(count))


def _subdivide(part, times):
    """Subdivide without Open3D's warnings about non-manifold vertices."""
    with o3d.utility.VerbosityContextManager(o3d.utility.VerbosityLevel.Error):
        return part.subdivide_loop(times)


def _data(found):
    return from_mesh(np.asarray(found.vertices), np.asarray(found.triangles))


def coarse(mesh, count, rng):
    """Return the mesh with 300 to 1500 triangles, which follow its features."""
    found = to_mesh(mesh, kind="open3d")
    found = found.simplify_quadric_decimation(int(rng.integers(300, 1500)))
    found.remove_degenerate_triangles()
    found.remove_unreferenced_vertices()
    return _data(found)


def creased(mesh, count, rng):
    """Return the mesh bent along a few planes, by angles of up to 25 degrees.

    Vertices near a plane are moved onto it, so that edges follow the crease.
    """
    pos = mesh.pos.double()
    edge = float(mean_edge_length(pos, mesh.face))
    for _ in range(int(rng.integers(2, 7))):
        across, along = (torch.from_numpy(v) for v in np.linalg.qr(rng.normal(size=(3, 3)))[0][:2])
        height = pos @ across
        height = height - height.quantile(float(rng.uniform(0.1, 0.9)))
        near = height.abs() < 0.4 * edge
        pos = pos - (height * near).unsqueeze(1) * across
        height = torch.where(near, 0.0, height)
        slope = np.tan(np.radians(rng.uniform(5, 25))) * rng.choice([-1, 1])
        pos = pos + slope * height.clamp(min=0).unsqueeze(1) * along
    return Data(pos=pos.float(), face=mesh.face)


def detailed(mesh, count, rng):
    """Return the mesh with relief: a sum of waves along its normals, a few edges long."""
    pos = mesh.pos.double()
    edge = float(mean_edge_length(pos, mesh.face))
    total = torch.zeros(len(pos), dtype=torch.float64)
    for _ in range(12):
        length = edge * float(np.exp(rng.uniform(np.log(5), np.log(25))))
        direction = torch.from_numpy(rng.normal(size=3))
        phase = pos @ (direction / direction.norm()) * (2 * np.pi / length)
        total += 0.02 * length * float(rng.normal()) * torch.sin(phase + rng.uniform(0, 2 * np.pi))
    where = torch.sigmoid(4 * torch.sin(pos @ torch.from_numpy(rng.normal(size=3)) / (20 * edge)))
    moved = pos + (where * total).unsqueeze(1) * vertex_normals(pos, mesh.face)
    return Data(pos=moved.float(), face=mesh.face)
