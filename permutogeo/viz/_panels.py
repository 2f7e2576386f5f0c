"""The meshes and clouds of a page or a picture: read, checked, reduced, in one frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import cKDTree
from torch_geometric.data import Data

from permutogeo.data._fields import Array, byte_colors, from_data
from permutogeo.viz._error import mean_spacing, same_faces
from permutogeo.viz._limit import coarser, sample

MOST_PANELS = 8
NEIGHBORS = 12
DISC_RADIUS = 1.2  # in spacings


@dataclass(frozen=True)
class Panel:
    """One mesh or cloud."""

    name: str
    pos: Array  # [N, 3] float64
    face: Array | None  # [F, 3]; panels with the same triangles share one array
    color: Array | None  # [N, 3] uint8
    normal: Array | None  # [N, 3] of the points of a cloud, either way round
    num_points: int  # of the whole, where less is drawn
    num_faces: int
    error: Array | None = None  # [N], in units of the scene
    error_mean: float = 0.0  # of the whole
    error_max: float = 0.0
    spacing: float = 0.0  # between the points of a cloud

    @property
    def radius(self) -> float:
        """Of the discs that points are drawn as; 0 for a mesh."""
        return DISC_RADIUS * self.spacing

    @property
    def is_reduced(self) -> bool:
        """Whether less is drawn than there is."""
        if self.face is None:
            return len(self.pos) < self.num_points
        return len(self.face) < self.num_faces

    @property
    def counts(self) -> str:
        """How much there is, for a caption."""
        if self.face is None:
            return f"{self.num_points:,} points"
        return f"{self.num_points:,} vertices · {self.num_faces:,} triangles"


def _read(name: str, data: Data, caller: str) -> Panel:
    origin = f"{caller}, '{name}'"
    if not isinstance(data, Data):
        raise TypeError(f"{origin}: Expected torch_geometric.data.Data (got {type(data).__name__})")
    is_mesh = data.get("face") is not None and data["face"].numel() > 0
    fields = from_data(data, origin, mesh=is_mesh)
    pos = fields["pos"].astype(np.float64)
    color = byte_colors(fields["x"]) if "x" in fields else None
    if not is_mesh:
        return Panel(name, pos, None, color, fields.get("normal"), len(pos), 0)
    # Vertices of no triangle are not seen, and must not widen the frame.
    used = np.zeros(len(pos), bool)
    used[fields["face"]] = True
    face = (np.cumsum(used) - 1)[fields["face"]]
    color = None if color is None else color[used]
    return Panel(name, pos[used], face, color, None, len(pos), len(face))


def _sharing(panel: Panel, others: Sequence[Panel]) -> Panel:
    """The panel with the triangles of one of the others, where they are the same."""
    for other in others:
        if same_faces(panel.face, other.face):
            return replace(panel, face=other.face)
    return panel


def read_panels(meshes: Mapping[str, Data], caller: str) -> list[Panel]:
    """Check the arguments of a page or a picture."""
    if not 1 <= len(meshes) <= MOST_PANELS:
        raise ValueError(f"{caller}: Expected 1 to {MOST_PANELS} 'meshes' (got {len(meshes)})")
    panels: list[Panel] = []
    for name, data in meshes.items():
        panels.append(_sharing(_read(str(name), data, caller), panels))
    return panels


def _part(panel: Panel, keep: Array, face: Array | None) -> Panel:
    """The panel with some of its points, and triangles among these."""
    parts = {name: getattr(panel, name) for name in ("pos", "color", "normal", "error")}
    parts = {name: None if value is None else value[keep] for name, value in parts.items()}
    return replace(panel, face=face, **parts)


def reduced(panels: Sequence[Panel], most: int) -> list[Panel]:
    """Panels of at most so many triangles or points each; equal triangles stay equal."""
    # Of panels with the same triangles the last decides, which is the truth or a result: noise
    # would fold triangles over.
    meshes = {id(panel.face): panel for panel in panels if panel.face is not None}
    coarse = {
        key: coarser(panel.pos, panel.face, most)
        for key, panel in meshes.items()
        if panel.face is not None and len(panel.face) > most
    }
    out = []
    for panel in panels:
        if id(panel.face) in coarse:
            panel = _part(panel, *coarse[id(panel.face)])
        elif panel.face is None and len(panel.pos) > most:
            panel = _part(panel, sample(len(panel.pos), most), None)
        out.append(panel)
    return out


def framed(panels: Sequence[Panel]) -> list[Panel]:
    """All panels moved and scaled alike into the unit sphere."""
    low = np.min([panel.pos.min(axis=0) for panel in panels], axis=0)
    high = np.max([panel.pos.max(axis=0) for panel in panels], axis=0)
    center = (low + high) / 2
    radius = max(float(np.linalg.norm(panel.pos - center, axis=1).max()) for panel in panels)
    return [_ready(replace(p, pos=(p.pos - center) / (radius or 1.0))) for p in panels]


def _ready(panel: Panel) -> Panel:
    """A cloud with what its points are drawn with: normals for the light, and their spacing."""
    if panel.face is not None:
        return panel
    normal = _estimated_normals(panel.pos) if panel.normal is None else panel.normal
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    normal = np.where(length > 0, normal / np.where(length > 0, length, 1.0), [0.0, 0.0, 1.0])
    return replace(panel, normal=normal, spacing=mean_spacing(panel.pos))


def _estimated_normals(pos: Array) -> Array:
    """The direction in which each point's neighbors extend least; its sign means nothing."""
    near = cKDTree(pos).query(pos, k=[*range(1, min(NEIGHBORS, len(pos)) + 1)])[1]
    around = pos[near] - pos[near].mean(axis=1, keepdims=True)
    return np.linalg.eigh(np.einsum("nki,nkj->nij", around, around))[1][:, :, 0]
