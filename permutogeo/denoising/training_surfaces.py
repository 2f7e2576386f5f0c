"""Noisy training surfaces made from clean meshes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.data.geometry import face_geometry
from permutogeo.denoising.cascade import initial_surface
from permutogeo.denoising.noise import (
    KINDS,
    SCAN_KINDS,
    add_noise,
    random_rotation,
)
from permutogeo.denoising.normal_filter import Surface
from permutogeo.denoising.triangles import TriangleElements

# Noise of scanners is smoother, and larger in edge lengths.
SCAN_FACTOR = 1.4


@dataclass
class TrainingSettings:
    """Settings of :func:`permutogeo.denoising.train_denoiser`.

    Args:
        steps: Optimizer steps per stage.
        lr: Maximum learning rate of the one-cycle schedule.
        batch_size: Number of faces per step.
        copies: Number of noisy copies of each mesh.
        faces: Maximum number of faces; larger meshes are cropped to a patch.
        samples: Maximum number of training faces per copy.
        levels: Minimum and maximum noise level, in mean edge lengths.
        scans: Fraction of the meshes with noise as of scanners: correlated, along the line of
            sight, rounded in depth and others.
        clean: Fraction of the meshes without noise.
        stretch: Maximum factor of the random anisotropic scaling of half of the copies.
        hidden_channels: Width of the networks of a new model.
        seed: Seed of noise, patches, batches and initial parameters.
    """

    steps: int = 2000
    lr: float = 3e-3
    batch_size: int = 4096
    copies: int = 2
    faces: int = 6000
    samples: int = 2000
    levels: tuple[float, float] = (0.03, 0.8)
    scans: float = 0.0
    clean: float = 0.0
    stretch: float = 1.5
    hidden_channels: int = 80
    seed: int = 0


@dataclass
class TrainingSurface:
    """A noisy surface in the cascade, with the clean normals as its target.

    Args:
        elements: The triangles.
        pos: Noisy positions in units of the spacing, ``[V, 3]``.
        surface: State of the surface before the stage in training.
        target: Clean normals, ``[N, 3]``.
        weight: 1 for faces with a clean normal, otherwise 0, ``[N]``.
    """

    elements: TriangleElements
    pos: Tensor
    surface: Surface
    target: Tensor
    weight: Tensor


def noisy_mesh(
    mesh: Data, settings: TrainingSettings, generator: torch.Generator
) -> TrainingSurface:
    """Return a randomly rotated patch of a mesh, with noise of a random kind and level."""
    clean, face, transform = _random_patch(mesh, settings, generator)
    sight = None if "sight" not in mesh else mesh["sight"].double() @ transform
    level, kind = _random_noise(settings, generator)
    chance = torch.rand(2, generator=generator)
    if chance[0] < settings.scans or sight is not None:
        kind = SCAN_KINDS[int(torch.randint(len(SCAN_KINDS), (), generator=generator))]
        level *= SCAN_FACTOR
    if chance[1] < settings.clean:
        level = 0.0
    noisy = add_noise(clean, face, level, kind, generator, sight)
    target, _, area = face_geometry(clean, face)
    return _training_surface(TriangleElements(noisy, face), noisy, target, area > 0)


def _random_noise(settings: TrainingSettings, generator: torch.Generator) -> tuple[float, str]:
    """Return a random level and kind; low levels are more frequent, as in scans."""
    low, high = settings.levels
    level = low + (high - low) * float(torch.rand((), generator=generator)) ** 1.5
    return level, KINDS[int(torch.randint(len(KINDS), (), generator=generator))]


def _training_surface(
    elements: TriangleElements, noisy: Tensor, target: Tensor, has_target: Tensor
) -> TrainingSurface:
    pos = (noisy / elements.spacing).float()
    surface = initial_surface(elements, pos)
    return TrainingSurface(elements, pos, surface, target.float(), has_target.float())


def _random_patch(
    mesh: Data, settings: TrainingSettings, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Return positions, faces and the transform ``[3, 3]`` of the mesh, or of the faces nearest to
    a random one."""
    pos, face = mesh["pos"].double(), mesh["face"]
    count = settings.faces
    if face.size(1) > count:
        center = pos[face].mean(dim=0)
        middle = center[int(torch.randint(len(center), (), generator=generator))]
        near = torch.linalg.vector_norm(center - middle, dim=1).topk(count, largest=False).indices
        face = face[:, near.sort().values]
    used, corner = face.unique(return_inverse=True)
    transform = _random_transform(settings.stretch, generator)
    return (pos[used] - pos[used].mean(dim=0)) @ transform, corner, transform


def _random_transform(stretch: float, generator: torch.Generator) -> Tensor:
    """Return a random rotation, combined with an anisotropic scaling in half of all cases.

    The scaling makes triangles uneven.
    """
    rotation = random_rotation(generator)
    if torch.rand((), generator=generator) < 0.5:
        exponent = torch.rand(3, generator=generator, dtype=torch.float64) * 2 - 1
        rotation = random_rotation(generator) @ torch.diag(stretch**exponent) @ rotation
    return rotation
