"""Smooth surfaces for the training of the denoiser: finer versions of coarse meshes.

Scans are sampled densely, far more so than the meshes at hand: Loop's subdivision rounds these off,
and quadric decimation gives them uneven triangles, which follow the curvature.
"""

import numpy as np

from permutogeo.data import from_mesh, to_mesh
from permutogeo.data._open3d import load_open3d

o3d = load_open3d()


def patch(mesh, count, rng):
    """The ``count`` faces around one that is chosen at random, as an Open3D mesh."""
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
    """A patch with four times as many triangles, ``count`` of them or so."""
    return _data(_rounded(patch(mesh, count // 4, rng), 1))


def uneven(mesh, count, rng):
    """A patch of ``count`` triangles of uneven size and shape, two to six times as dense."""
    part = _rounded(patch(mesh, round(count / rng.uniform(2, 6)), rng), 2)
    return _data(part.simplify_quadric_decimation(count))


def _rounded(part, times):
    """Without words about vertices where surfaces touch."""
    with o3d.utility.VerbosityContextManager(o3d.utility.VerbosityLevel.Error):
        return part.subdivide_loop(times)


def _data(found):
    return from_mesh(np.asarray(found.vertices), np.asarray(found.triangles))
