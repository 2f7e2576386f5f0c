"""Local lengths: the orientation and the octaves of edge length of a mesh."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from permutogeo.data.geometry import face_geometry
from permutogeo.denoising.noise_estimate import grouped_quantile
from permutogeo.denoising.triangles import TriangleElements

# Edges of one part that vary by fewer octaves, and those of different parts, are treated as one
# length: networks are trained on meshes of such variation.
UNIFORM, SAME = 4.0, 0.5
# Steps over which edge lengths are averaged, and of context around the faces of a band.
AVERAGED, CONTEXT = 12, 8


@dataclass(frozen=True)
class Band:
    """Faces of about the same edge length, with the faces around them.

    Args:
        vertex: Vertices of the band in the mesh, ``[W]``.
        face: Its faces by vertices of the band, ``[3, G]``.
        index: Its faces in the mesh, ``[G]``.
        weight: Weight of the estimates of these faces, ``[G]``; 0 for the context.
        length: Edge length in units of the positions.
    """

    vertex: Tensor
    face: Tensor
    index: Tensor
    weight: Tensor
    length: float


def bands(elements: TriangleElements, pos: Tensor) -> Iterator[Band]:
    """Yield bands, one per octave of edge length; none if the edges are about equally long.

    The weights of each face sum to 1 over all bands.
    """
    octave = _octaves(elements, pos)
    low, high = _range(octave)
    if high - low < SAME:
        return
    count = 2 + int(high - low)
    place = ((octave - low) / (high - low) * (count - 1)).clamp(0, count - 1)
    for number in range(count):
        weight = (1 - (place - number).abs()).clamp(min=0)
        if bool(weight.any()):
            length = 2.0 ** (low + (high - low) * number / (count - 1))
            yield _band(elements, weight, length)


def _octaves(elements: TriangleElements, pos: Tensor) -> Tensor:
    """Return the logarithm of the edge length around each face, ``[F]``.

    It is the same for all faces of a part, unless its edges vary much.
    """
    edge = elements.local_edge(pos).clamp(min=1e-9).log2().unsqueeze(1)
    octave = elements.update.average(edge, AVERAGED).squeeze(1)[elements.face].mean(dim=0)
    part, count = elements.part[elements.face[0]], elements.num_parts
    low, mid, high = (grouped_quantile(octave, part, count, q) for q in (0.01, 0.5, 0.99))
    return torch.where((high - low < UNIFORM)[part], mid[part], octave)


def _range(octave: Tensor) -> tuple[float, float]:
    ends = octave.sort().values[[int(0.002 * len(octave)), int(0.998 * (len(octave) - 1))]]
    return float(ends[0]), float(ends[1])


def middle(pos: Tensor, face: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return the vertices ``[W]`` and faces ``[3, G]`` of a slab of ``most`` faces at most.

    It is cut across the longest axis of the mesh, at the median.
    """
    longest = (pos.amax(dim=0) - pos.amin(dim=0)).argmax()
    order = pos[face, longest].sum(dim=0).argsort()
    start = max(0, (len(order) - most) // 2)
    vertex, part = face[:, order[start : start + most]].unique(return_inverse=True)
    return vertex, part


def canonical_frame(pos: Tensor, face: Tensor) -> Tensor:
    """Return a rotation ``[3, 3]`` that turns with the mesh: ``pos @ frame`` does not.

    Its axes are the principal axes of the surface, signed by the third moments, followed by a fixed
    rotation that keeps the planes of such shapes apart from the axes of the lattices.
    """
    _, center, area = face_geometry(pos, face)
    total = area.sum().clamp(min=1e-300)
    offset = center - (area.unsqueeze(1) * center).sum(dim=0) / total
    axes = torch.linalg.eigh(offset.t() @ (area.unsqueeze(1) * offset) / total).eigenvectors
    along = offset @ axes
    sign = torch.where((area.unsqueeze(1) * along**3).sum(dim=0) < 0, -1.0, 1.0).to(pos)
    axes = axes * sign
    axes = torch.cat([axes[:, :2], torch.linalg.cross(axes[:, 0], axes[:, 1]).unsqueeze(1)], 1)
    return axes @ _generic_rotation().to(pos)


def _generic_rotation() -> Tensor:
    """Return a fixed rotation without symmetry."""
    matrix = torch.tensor([[1.0, 2.0, -0.7], [0.3, 1.1, 1.9], [-1.3, 0.4, 1.0]]).double()
    q, r = torch.linalg.qr(matrix)
    q = q * torch.diagonal(r).sign()
    return q * torch.linalg.det(q)


def _band(elements: TriangleElements, weight: Tensor, length: float) -> Band:
    near = torch.zeros_like(elements.update.used, dtype=torch.float32)
    near[elements.face[:, weight > 0].reshape(-1)] = 1.0
    near = elements.update.average(near, CONTEXT).squeeze(1) > 0
    index = near[elements.face].all(dim=0).nonzero().squeeze(1)
    vertex, face = elements.face[:, index].unique(return_inverse=True)
    return Band(vertex, face, index, weight[index], length)
