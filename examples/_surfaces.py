"""Dense smooth surfaces for training the denoiser, made from coarse meshes.

Loop subdivision gives the sampling density of scans; quadric decimation then gives irregular
triangles that follow the curvature.
"""

import numpy as np

from permutogeo.data import from_mesh, to_mesh
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
