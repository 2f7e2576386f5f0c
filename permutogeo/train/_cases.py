"""Noisy surfaces to learn from."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.models._cascade import Pieces, begin
from permutogeo.models._normal_filter import Candidates, Surface
from permutogeo.models._samples import Samples
from permutogeo.models._triangles import Triangles
from permutogeo.train._noise import KINDS, add_noise, move, rotation
from permutogeo.transforms._mesh import face_geometry


@dataclass
class Settings:
    """How a denoiser is trained.

    Args:
        steps: Steps of the optimizer for each stage.
        lr: The largest learning rate; it rises to it and falls to zero.
        batch_size: Faces of a step.
        copies: How often each mesh is taken, with new noise.
        faces: Meshes with more are cut down to a patch of so many.
        samples: Faces of a mesh that are learned from.
        levels: The least and the largest noise, relative to the mean edge.
        stretch: By how much half of the meshes are stretched or squeezed, at most.
        hidden_channels: Width of the networks of a new model.
        seed: Of noise, patches, order and the start of the networks.
    """

    steps: int = 2000
    lr: float = 3e-3
    batch_size: int = 4096
    copies: int = 2
    faces: int = 6000
    samples: int = 2000
    levels: tuple[float, float] = (0.03, 0.8)
    stretch: float = 1.5
    hidden_channels: int = 80
    seed: int = 0


@dataclass
class Case:
    """A noisy surface on its way through the cascade, and the normals that it should have."""

    pieces: Pieces
    pos: Tensor
    surface: Surface
    target: Tensor
    weight: Tensor
    candidates: Candidates | None = field(default=None, repr=False)


def mesh_case(mesh: Data, settings: Settings, generator: torch.Generator) -> Case:
    """A patch of a mesh, turned at random, with noise of a random kind and level."""
    clean, face = _patch(mesh, settings, generator)
    noisy = add_noise(clean, face, *_noise(settings, generator), generator)
    pieces = Triangles(noisy, face)
    target, _, area = face_geometry(clean, face)
    return _case(pieces, noisy, target, area > 0)


def cloud_case(mesh: Data, settings: Settings, generator: torch.Generator) -> Case:
    """Points of such a patch, drawn at random or one on each face, with noise."""
    clean, face = _patch(mesh, settings, generator)
    normal, pos, area = face_geometry(clean, face)
    if torch.rand((), generator=generator) < 0.5:
        pick = torch.multinomial(area, face.size(1), replacement=True, generator=generator)
        share = torch.rand(3, face.size(1), 1, generator=generator, dtype=torch.float64).log()
        pos, normal = (clean[face[:, pick]] * share / share.sum(dim=0)).sum(dim=0), normal[pick]
    level, kind = _noise(settings, generator)
    noisy = move(pos, normal, level * Samples(pos, normal).spacing, kind, generator)
    return _case(Samples(noisy, normal), noisy, normal, normal.any(dim=1))


def _noise(settings: Settings, generator: torch.Generator) -> tuple[float, str]:
    """A random level and kind; low levels are the more frequent, as they are in scans."""
    low, high = settings.levels
    level = low + (high - low) * float(torch.rand((), generator=generator)) ** 1.5
    return level, KINDS[int(torch.randint(len(KINDS), (), generator=generator))]


def _case(pieces: Pieces, noisy: Tensor, target: Tensor, counts: Tensor) -> Case:
    pos = (noisy / pieces.spacing).float()
    return Case(pieces, pos, begin(pieces, pos), target.float(), counts.float())


def _patch(mesh: Data, settings: Settings, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The mesh, or the faces around one where there are more than allowed, turned at random."""
    pos, face = mesh["pos"].double(), mesh["face"]
    count = settings.faces
    if face.size(1) > count:
        center = pos[face].mean(dim=0)
        middle = center[int(torch.randint(len(center), (), generator=generator))]
        near = torch.linalg.vector_norm(center - middle, dim=1).topk(count, largest=False).indices
        face = face[:, near.sort().values]
    used, corner = face.unique(return_inverse=True)
    return (pos[used] - pos[used].mean(dim=0)) @ _turn(settings.stretch, generator), corner


def _turn(stretch: float, generator: torch.Generator) -> Tensor:
    """A random rotation, in half of all cases after a stretch: that makes uneven triangles."""
    turn = rotation(generator)
    if torch.rand((), generator=generator) < 0.5:
        factor = torch.rand(3, generator=generator, dtype=torch.float64) * 2 - 1
        turn = rotation(generator) @ torch.diag(stretch**factor) @ turn
    return turn
