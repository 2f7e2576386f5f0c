"""What a page or a picture shows: panels in one frame, and what their errors mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch_geometric.data import Data

from permutogeo._edges import mean_edge_length
from permutogeo.viz._error import distances, mean_spacing, scale_end
from permutogeo.viz._panels import Panel, framed, read_panels, reduced

TRUTH = "ground truth"


@dataclass(frozen=True)
class Scene:
    """Panels within the unit sphere."""

    panels: tuple[Panel, ...]
    measure: str  # what the error of a point is, "" where there is none
    unit: str  # "mean edge"
    unit_length: float  # in the units of the input
    scale_end: float  # the error that has the last color, in units

    @property
    def has_errors(self) -> bool:
        """Whether there is something to compare."""
        return any(panel.error is not None for panel in self.panels)

    @property
    def has_colors(self) -> bool:
        """Whether a mesh brings colors of its own."""
        return any(panel.color is not None for panel in self.panels)

    @property
    def word(self) -> str:
        """What a vertex has: an error, or without the truth no more than a displacement."""
        return "displacement" if self.measure.startswith("Displacement") else "error"

    @property
    def unit_text(self) -> str:
        """What 1 means on the scale of errors."""
        return f"in {self.unit}s of {self.unit_length:.3g}"


def _reference(panels: Sequence[Panel], error: str | None, caller: str) -> tuple[Panel, str]:
    """The panel that errors are measured against, and what they are called."""
    by_name = {panel.name: panel for panel in panels}
    if error is None and TRUTH not in by_name:
        return panels[0], f"Displacement from {panels[0].name}"
    name = TRUTH if error is None else error
    if name not in by_name:
        listed = ", ".join(repr(name) for name in by_name)
        raise ValueError(f"{caller}: Expected 'error' to name one of {listed} (got {error!r})")
    return by_name[name], f"Distance to {name}"


def _measured(panel: Panel, target: Panel, unit: float) -> Panel:
    if panel is target:
        return panel
    error = distances(panel.pos, panel.face, target.pos, target.face) / unit
    mean, largest = float(error.mean()), float(error.max())
    return replace(panel, error=error, error_mean=mean, error_max=largest)


def _unit(target: Panel) -> tuple[str, float]:
    """What errors are counted in, and how long it is."""
    if target.face is None:
        return "mean spacing", mean_spacing(target.pos) or 1.0
    pos, face = torch.from_numpy(target.pos), torch.from_numpy(target.face.T)
    return "mean edge", float(mean_edge_length(pos, face)) or 1.0


def make_scene(meshes: Mapping[str, Data], error: str | None, max_faces: int, caller: str) -> Scene:
    """Read, check, measure, reduce and frame what is to be shown."""
    if max_faces < 1:
        raise ValueError(f"{caller}: Expected 'max_faces' >= 1 (got {max_faces})")
    panels = read_panels(meshes, caller)
    target, measure = _reference(panels, error, caller)
    unit, length = _unit(target)
    panels = [_measured(panel, target, length) for panel in panels]
    end = scale_end([panel.error for panel in panels if panel.error is not None])
    return Scene(tuple(framed(reduced(panels, max_faces))), measure, unit, length, end)
