"""Stage-by-stage training of :class:`permutogeo.denoising.MeshDenoiser`.

This does not use :class:`permutogeo.train.Trainer`: a stage trains for minutes on rows of
precomputed tensors drawn with replacement, so there are no epochs or loaders, a snapshot after
each stage is enough to resume, and ``OneCycleLR`` also cycles the momentum, which the trainer's
schedules do not.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.denoising.cascade import update_surface
from permutogeo.denoising.mesh_denoiser import MeshDenoiser
from permutogeo.denoising.mesh_error import normal_angle
from permutogeo.denoising.normal_filter import Candidates, NormalStage
from permutogeo.denoising.training_surfaces import (
    TrainingSettings,
    TrainingSurface,
    noisy_mesh,
)

# Default settings if a trained model is given.
FINE_TUNING = TrainingSettings(steps=500, lr=3e-4)
# Number of rows whose mean and deviation standardize the inputs of a new stage.
STANDARDIZED = 50_000


def train_denoiser(
    meshes: Sequence[Data],
    model: MeshDenoiser | None = None,
    settings: TrainingSettings | None = None,
    log: Callable[[str], None] = print,
    device: str | torch.device = "cpu",
    snapshot: str | os.PathLike[str] | None = None,
) -> MeshDenoiser:
    """Train a denoiser on clean meshes, to which noise of several kinds and levels is added.

    Each stage is trained to predict the clean normals from the output of the stages before it.

    Args:
        meshes: Clean meshes.
        model: Model to fine-tune; it is copied. By default a new model is trained.
        settings: Training settings; by default :data:`FINE_TUNING` if ``model`` is given.
        log: Called with a line of text after each stage.
        device: Device of the networks in training; geometry and lattices stay on the CPU.
        snapshot: A ``.safetensors`` file written after each stage. If it exists and is of the same
            model, its stages are not trained again: an interrupted run continues.
    """
    if len(meshes) == 0:
        raise ValueError("Expected clean meshes to train on (got none)")
    settings = settings or (FINE_TUNING if model else TrainingSettings())
    is_new = model is None or not _is_trained(model.stages[0])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        new = MeshDenoiser(hidden_channels=settings.hidden_channels)
    model = (new if model is None else copy.deepcopy(model)).to(device)
    done = _restore(model, snapshot)
    generator = torch.Generator().manual_seed(settings.seed)
    copies = list(meshes) * settings.copies
    surfaces = [noisy_mesh(mesh, settings, generator) for mesh in copies]
    stages: Any = model.stages
    for index, stage in enumerate(stages):
        # Each stage has random numbers of its own, whether or not others were restored.
        generator.manual_seed(1000 * settings.seed + index)
        if index < done:
            log(f"stage {index + 1}/{len(stages)}: from the snapshot")
        else:
            angle = _train_stage(stage, surfaces, settings, generator, is_new)
            log(f"stage {index + 1}/{len(stages)}: mean angle {angle:.3f} degrees")
            if snapshot is not None:
                model.save_pretrained(snapshot)
        if index + 1 < len(stages):
            for surface in surfaces:
                _apply_stage(stage, surface)
    return model.cpu().eval()


def _restore(model: MeshDenoiser, snapshot: str | os.PathLike[str] | None) -> int:
    """Load the stages of a snapshot; return how many of them are trained."""
    if snapshot is None or not os.path.exists(snapshot):
        return 0
    saved = MeshDenoiser.from_pretrained(snapshot)
    if saved.settings != model.settings:
        raise ValueError(f"Expected a snapshot of the same model (got '{snapshot}')")
    model.load_state_dict(saved.state_dict())
    stages: Any = model.stages
    return next((i for i, each in enumerate(stages) if not _is_trained(each)), len(stages))


def _is_trained(stage: Any) -> bool:
    """Return whether the inputs of a stage are standardized, which training does first."""
    return bool(stage.scale.ne(1).any())


def evaluate_denoiser(model: MeshDenoiser, pairs: Sequence[Data]) -> list[float]:
    """Return the mean normal angle in degrees for each noisy mesh with known ``clean_pos``."""
    return [float(normal_angle(model(p).pos, p.clean_pos, p.face)) for p in pairs]


def _train_stage(
    stage: NormalStage,
    surfaces: list[TrainingSurface],
    settings: TrainingSettings,
    generator: torch.Generator,
    is_new: bool,
) -> float:
    """Train one stage; return the mean angle in degrees over the last tenth of the steps."""
    rows, target, weight = _training_rows(stage, surfaces, settings, generator)
    device = stage.mean.device
    rows, target, weight = rows.to(device), target.to(device), weight.to(device)
    if is_new:
        some = torch.randperm(len(rows), generator=generator)[:STANDARDIZED]
        inputs = stage.inputs(rows[some])
        stage.mean.copy_(inputs.mean(dim=0))
        stage.scale.copy_(inputs.std(dim=0) + 1e-6)
    optimizer = torch.optim.Adam(stage.parameters(), settings.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.lr, total_steps=settings.steps
    )
    angles = []
    for _ in range(settings.steps):
        pick = torch.randint(len(rows), (settings.batch_size,), generator=generator)
        normal = stage.mix(rows[pick])
        # The chord approximates the angle, the error measure of the evaluation.
        chord = ((normal - target[pick]).square().sum(dim=1) + 1e-6).sqrt()
        loss = (chord * weight[pick]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        angles.append(float(2 * torch.asin((chord.detach() / 2).clamp(max=1)).mean().rad2deg()))
    tail = angles[-max(1, len(angles) // 10) :]
    return sum(tail) / len(tail)


def _training_rows(
    stage: NormalStage,
    surfaces: list[TrainingSurface],
    settings: TrainingSettings,
    generator: torch.Generator,
) -> tuple[Candidates, Tensor, Tensor]:
    """Return candidates, targets and weights of elements of all surfaces."""
    normals, statistics, targets, weights = [], [], [], []
    for each in surfaces:
        pick = torch.randperm(len(each.target), generator=generator)[: settings.samples]
        found = stage.candidates(each.surface)[pick]
        normals.append(found.normals)
        statistics.append(found.statistics)
        targets.append(each.target[pick])
        error = torch.linalg.vector_norm(each.surface.estimate - each.target, dim=1).mean()
        # Relative to the surface's own error, so that the noisiest do not dominate.
        weights.append(each.weight[pick] / (error + 0.05))
    rows = Candidates(torch.cat(normals), torch.cat(statistics))
    weight = torch.cat(weights)
    return rows, torch.cat(targets), weight / weight.mean()


@torch.no_grad()
def _apply_stage(stage: NormalStage, each: TrainingSurface) -> None:
    """Update a surface by a trained stage."""
    # Kept for all surfaces, the candidates would take gigabytes.
    candidates = stage.candidates(each.surface).to(stage.mean.device)
    estimate = stage.mix_in_chunks(candidates).cpu()
    each.surface = update_surface(each.elements, each.pos, each.surface, estimate)
