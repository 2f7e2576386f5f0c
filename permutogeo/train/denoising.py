"""Training of :class:`permutogeo.models.MeshDenoiser`, one stage after the other."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.metrics import normal_angle
from permutogeo.models import MeshDenoiser
from permutogeo.models._cascade import advance
from permutogeo.models._normal_filter import Candidates, NormalStage
from permutogeo.train._cases import Case, Settings, cloud_case, mesh_case

# A trained model moves in small steps.
FINE_TUNING = Settings(steps=500, lr=3e-4)


def train_denoiser(
    meshes: Sequence[Data],
    model: MeshDenoiser | None = None,
    settings: Settings | None = None,
    log: Callable[[str], None] = print,
) -> MeshDenoiser:
    """Train on clean meshes, to which noise of several kinds and levels is added.

    Each stage learns to give the clean normals from what the stages before it leave.

    Args:
        meshes: Clean meshes.
        model: Adapt a copy of this model rather than start anew.
        settings: How.
        log: Called with a line after each stage.
    """
    if len(meshes) == 0:
        raise ValueError("Expected clean meshes to train on (got none)")
    settings = settings or (FINE_TUNING if model else Settings())
    fresh = model is None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        new = MeshDenoiser(hidden_channels=settings.hidden_channels)
    model = new if model is None else copy.deepcopy(model)
    generator = torch.Generator().manual_seed(settings.seed)
    half = (settings.copies + 1) // 2  # clouds come second
    kinds: Any = (
        ("faces", model.stages, mesh_case, settings.copies),
        ("points", model.point_stages, cloud_case, half),
    )
    for name, stages, make, copies in kinds:
        cases = [make(mesh, settings, generator) for mesh in list(meshes) * copies]
        for index, stage in enumerate(stages):
            angle = _train_stage(stage, cases, settings, generator, fresh)
            for case in cases:
                _advance(stage, case)
            log(f"{name}, stage {index + 1}/{len(stages)}: mean angle {angle:.3f} degrees")
    return model.eval()


def evaluate(model: MeshDenoiser, pairs: Sequence[Data]) -> list[float]:
    """The mean angle between normals, in degrees, of each mesh whose ``clean_pos`` is known."""
    return [float(normal_angle(model(p).pos, p.clean_pos, p.face)) for p in pairs]


def _train_stage(
    stage: NormalStage,
    cases: list[Case],
    settings: Settings,
    generator: torch.Generator,
    fresh: bool,
) -> float:
    """Fit the network of a stage; the mean angle in degrees over the last tenth of the steps."""
    rows, inputs, target, weight = _samples(stage, cases, settings, generator)
    if fresh:
        stage.mean.copy_(inputs.mean(dim=0))
        stage.scale.copy_(inputs.std(dim=0) + 1e-6)
    optimizer = torch.optim.Adam(stage.parameters(), settings.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.lr, total_steps=settings.steps
    )
    angles = []
    for _ in range(settings.steps):
        pick = torch.randint(len(rows), (settings.batch_size,), generator=generator)
        normal = stage.mix(rows[pick], inputs[pick])
        # The chord is nearly the angle, which the errors are counted in.
        chord = ((normal - target[pick]).square().sum(dim=1) + 1e-6).sqrt()
        loss = (chord * weight[pick]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        angles.append(float(2 * torch.asin((chord.detach() / 2).clamp(max=1)).mean().rad2deg()))
    tail = angles[-max(1, len(angles) // 10) :]
    return sum(tail) / len(tail)


def _samples(
    stage: NormalStage, cases: list[Case], settings: Settings, generator: torch.Generator
) -> tuple[Candidates, Tensor, Tensor, Tensor]:
    """Faces of all cases: candidates, what the network sees of them, targets and weights."""
    vectors, scalars, targets, weights = [], [], [], []
    for case in cases:
        case.candidates = stage.candidates(case.surface)
        pick = torch.randperm(len(case.target), generator=generator)[: settings.samples]
        vectors.append(case.candidates.vector[pick])
        scalars.append(case.candidates.scalar[pick])
        targets.append(case.target[pick])
        error = torch.linalg.vector_norm(case.surface.estimate - case.target, dim=1).mean()
        # An error counts relative to the mesh's own, so that the worst do not rule.
        weights.append(case.weight[pick] / (error + 0.05))
    rows = Candidates(torch.cat(vectors), torch.cat(scalars))
    weight = torch.cat(weights)
    return rows, stage.inputs(rows), torch.cat(targets), weight / weight.mean()


@torch.no_grad()
def _advance(stage: NormalStage, case: Case) -> None:
    assert case.candidates is not None
    estimate = stage.mix_all(case.candidates)
    case.surface = advance(case.pieces, case.pos, case.surface, estimate)
    case.candidates = None
