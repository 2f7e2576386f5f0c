"""Training of the cloud denoiser on clean meshes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.denoising.cloud_denoiser import CloudDenoiser
from permutogeo.denoising.cloud_error import bounding_sphere
from permutogeo.denoising.cloud_noise import estimate_noise
from permutogeo.denoising.cloud_stage import Candidates, CloudStage
from permutogeo.denoising.local_fits import neighbor_tree
from permutogeo.denoising.surface_sampling import sample_surface

NOISES = ("gaussian", "gaussian", "gaussian", "laplace", "ball", "ray")
# Dense clean points for each point, which stand for the surface in the loss.
DENSITY = 16


@dataclass
class CloudTrainingSettings:
    """Settings of :func:`train_cloud_denoiser`.

    Args:
        clouds: Number of noisy clouds.
        steps: Optimizer steps per stage, with one cloud each.
        lr: Maximum learning rate of the one-cycle schedule.
        points: Largest number of points; larger clouds are cropped.
        density: Smallest and largest number of points of a whole shape.
        levels: Smallest and largest noise, relative to the radius of the bounding sphere.
        clean: Part of the clouds without noise.
        hidden_channels: Width of the networks.
        seed: Seed of noise, crops, order and initial parameters.
    """

    clouds: int = 160
    steps: int = 2000
    lr: float = 4e-3
    points: int = 5000
    density: tuple[int, int] = (3000, 80000)
    levels: tuple[float, float] = (0.0025, 0.04)
    clean: float = 0.1
    hidden_channels: int = 64
    seed: int = 0


@dataclass
class TrainingCloud:
    """A noisy cloud in units of its spacing, with what the loss compares it with.

    Args:
        pos: Positions before the stage in training ``[N, 3]``.
        clean: Clean positions ``[N, 3]``.
        dense: Points of the clean surface ``[M, 3]``.
        dense_normal: Their normals ``[M, 3]``.
        sigma: Estimated noise.
        worst: Chamfer and surface error of the noisy cloud.
        normal: Normals of the last stage.
    """

    pos: Tensor
    clean: Tensor
    dense: Tensor
    dense_normal: Tensor
    sigma: float
    worst: tuple[float, float] = (1.0, 1.0)
    normal: Tensor | None = None

    def __post_init__(self) -> None:
        self.clean_tree = cKDTree(self.clean.numpy())
        self.dense_tree = cKDTree(self.dense.numpy())
        floor = 0.02  # squared spacings, so that clean clouds have a finite loss
        found = self.errors(self.pos)
        self.worst = (float(found[0]) + floor, float(found[1]) + floor)

    def errors(self, pos: Tensor) -> tuple[Tensor, Tensor]:
        """Return the squared Chamfer distance, and the squared distance to the surface."""
        host = pos.detach().numpy()
        near = torch.from_numpy(self.clean_tree.query(host)[1])
        back = torch.from_numpy(cKDTree(host).query(self.clean.numpy())[1])
        there = (pos - self.clean[near]).square().sum(dim=1).mean()
        chamfer = there + (pos[back] - self.clean).square().sum(dim=1).mean()
        close = torch.from_numpy(self.dense_tree.query(host)[1])
        offset = pos - self.dense[close]
        height = (offset * self.dense_normal[close]).sum(dim=1)
        # Dense points are a fraction of a spacing apart: that much along the surface is no error.
        along = (offset.square().sum(dim=1) - height.square()).clamp(min=1e-12).sqrt()
        beyond = (along - 1.5 / math.sqrt(DENSITY)).clamp(min=0)
        return chamfer, (height.square() + beyond.square()).mean()


def random_cloud(
    mesh: Data, settings: CloudTrainingSettings, rng: np.random.Generator
) -> TrainingCloud:
    """Return a part of a mesh as a cloud of random density, with random noise."""
    low, high = settings.density
    total = round(math.exp(rng.uniform(math.log(low), math.log(high))))
    center, radius = bounding_sphere(mesh["pos"])
    vertex = (mesh["pos"].double() - center) / radius
    even = bool(rng.random() < 0.6)
    many = total if even else round(1.5 * total)
    clean, normal = sample_surface(vertex, mesh["face"], many, rng, even)
    if not even:
        keep = _uneven(clean.numpy(), rng)[:total]
        clean, normal = clean[keep], normal[keep]
    dense, dense_normal = sample_surface(vertex, mesh["face"], DENSITY * total, rng)
    if len(clean) > settings.points:
        middle = clean[int(rng.integers(len(clean)))]
        distance = (clean - middle).norm(dim=1)
        reach = distance.kthvalue(settings.points).values
        clean, normal = clean[distance <= reach], normal[distance <= reach]
        inside = (dense - middle).norm(dim=1) <= reach
        dense, dense_normal = dense[inside], dense_normal[inside]
    level = 0.0
    if rng.random() >= settings.clean:
        smallest, largest = settings.levels
        level = math.exp(rng.uniform(math.log(smallest), math.log(largest)))
    noisy = clean + add_cloud_noise(clean, level, NOISES[int(rng.integers(len(NOISES)))], rng)
    pos = noisy.float()
    sigma, spacing = estimate_noise(pos, neighbor_tree(pos))
    noisy, clean, dense = ((x / spacing).float() for x in (noisy, clean, dense))
    return TrainingCloud(noisy, clean, dense, dense_normal.float(), sigma / spacing)


def _uneven(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a random choice of points, denser on one side in half of the cases."""
    order = rng.permutation(len(points))
    if rng.random() < 0.5:
        return order
    direction = rng.standard_normal(3)
    side = points @ (direction / np.linalg.norm(direction))
    chance = np.exp(-rng.uniform(0.3, 1.2) * (side - side.min()))
    return order[rng.random(len(points)) < chance[order]]


def add_cloud_noise(clean: Tensor, level: float, kind: str, rng: np.random.Generator) -> Tensor:
    """Return displacements of standard deviation ``level`` per axis, or along rays."""
    shape = tuple(clean.shape)
    if kind == "laplace":
        found = rng.laplace(scale=level / math.sqrt(2), size=shape)
    elif kind == "ball":
        found = rng.uniform(-level * math.sqrt(3), level * math.sqrt(3), size=shape)
    elif kind == "ray":
        sensor = rng.standard_normal(3)
        ray = clean.numpy() - 3 * sensor / np.linalg.norm(sensor)
        ray /= np.linalg.norm(ray, axis=1, keepdims=True)
        found = level * math.sqrt(2) * rng.standard_normal((len(clean), 1)) * ray
    else:
        found = level * rng.standard_normal(shape)
    return torch.from_numpy(found)


def train_cloud_denoiser(
    meshes: Sequence[Data],
    settings: CloudTrainingSettings | None = None,
    on_step: Callable[[str], None] | None = None,
) -> CloudDenoiser:
    """Return a cloud denoiser trained on noisy points of clean meshes, stage by stage."""
    settings = settings or CloudTrainingSettings()
    report = on_step or (lambda line: None)
    rng = np.random.default_rng(settings.seed)
    torch.manual_seed(settings.seed)
    model = CloudDenoiser(settings.hidden_channels)
    clouds = []
    for number in range(settings.clouds):
        clouds.append(random_cloud(meshes[number % len(meshes)], settings, rng))
        if number % 20 == 19:
            report(f"{number + 1} clouds")
    for number in range(len(model.stages)):
        _train_stage(model, number, clouds, settings, rng, report)
    return model.eval()


def _train_stage(
    model: CloudDenoiser,
    number: int,
    clouds: list[TrainingCloud],
    settings: CloudTrainingSettings,
    rng: np.random.Generator,
    report: Callable[[str], None],
) -> None:
    stage = model.stages[number]
    assert isinstance(stage, CloudStage)
    inputs: list[tuple[Tensor, Candidates]] = []
    with torch.no_grad():
        for cloud in clouds:
            found = model.candidates(number, cloud.pos, cloud.sigma, cloud.normal)
            inputs.append((stage.features(found), found))
        some = torch.cat([feature[:: max(1, len(feature) // 500)] for feature, _ in inputs])
        stage.mean.copy_(some.mean(dim=0))
        stage.scale.copy_(some.std(dim=0).clamp(min=1e-3))
    optimizer = torch.optim.AdamW(stage.parameters(), lr=settings.lr, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.lr, settings.steps)
    history: list[float] = []
    for step in range(settings.steps):
        pick = int(rng.integers(len(clouds)))
        cloud, (feature, found) = clouds[pick], inputs[pick]
        chamfer, surface = cloud.errors(cloud.pos + stage(feature, found.step))
        loss = chamfer / cloud.worst[0] + 0.5 * surface / cloud.worst[1]
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(stage.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        history.append(float(loss.detach()))
        if step % 250 == 249:
            report(f"stage {number + 1}, step {step + 1}: {np.mean(history[-250:]):.4f}")
    with torch.no_grad():
        for cloud, (feature, found) in zip(clouds, inputs, strict=True):
            cloud.pos = cloud.pos + stage(feature, found.step)
            cloud.normal = found.normal
