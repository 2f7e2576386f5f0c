"""Tasks of the comparison of models: items to train on, to validate and to test."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from scipy.spatial import cKDTree
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform, Compose

from permutogeo.data import from_mesh, to_mesh
from permutogeo.datasets import (
    LabeledMeshes,
    ModelNet10,
    PartMeshes,
    PrincetonShapes,
    RoomScenes,
    StreetScenes,
)
from permutogeo.train import confusion
from permutogeo.transforms import (
    RandomJitter,
    RandomRotation,
    RandomStretch,
    RandomSubsample,
    VertexNormals,
)

PARTS = ("train", "val", "test")


@dataclass(frozen=True)
class Task:
    """Items of each part, what a network sees at each point, and how it is trained.

    Args:
        kind: ``"graph"`` or ``"point"``, what has a label.
        parts: Items of ``PARTS``.
        augment: Transform of the training items.
        values: Returns the input values of an item, computed after augmentation.
        classes: Number of classes.
        batch_size: Number of items of a step.
        legal: Mask ``[categories, classes]`` of the classes in each category of items, or ``None``.
    """

    kind: str
    parts: list[list[Data]]
    augment: BaseTransform
    values: Callable[[Data], torch.Tensor]
    classes: int
    batch_size: int
    legal: torch.Tensor | None = None

    @property
    def metric(self):
        return "accuracy" if self.kind == "graph" else "mean IoU"

    def logits(self, model, batch):
        """Return the logits of a batch, without the classes that its items cannot have."""
        logits = model(batch)
        if self.legal is None:
            return logits
        return logits.masked_fill(~self.legal[batch.category][batch.batch], -torch.inf)

    def counts(self, batch, answer):
        """Return how often each class got each answer, ``[classes, classes]``; with categories, for
        each item, ``[items, classes, classes]``."""
        if self.legal is None:
            return confusion(answer, batch.y, self.classes)
        items = range(batch.num_graphs)
        pairs = [(answer[batch.batch == i], batch.y[batch.batch == i]) for i in items]
        return torch.stack([confusion(*pair, self.classes) for pair in pairs])


def read_clouds(dataset, quick, few):
    """Return the parts of a dataset with 512 points a cloud; if quick, ``few`` clouds with 64."""
    thin = RandomSubsample(count=64 if quick else 512, seed=0)
    parts = [list(dataset(split=name, transform=thin)) for name in PARTS]
    return [part[:: max(1, len(part) // few) if quick else 1] for part in parts]


def model_net(quick):
    """Clouds of ten classes, 512 points each."""
    parts = read_clouds(ModelNet10, quick, 12)
    parts[1] = parts[1][::4]
    augment = Compose([RandomStretch(), RandomJitter(0.01)])
    return Task("graph", parts, augment, lambda item: item.pos, 10, 16)


def shapes(quick):
    """Clouds of the Princeton Shape Benchmark, 512 points each, seven classes."""
    parts = read_clouds(PrincetonShapes, quick, 12)
    augment = Compose([RandomRotation(15, axis=1), RandomStretch(), RandomJitter(0.01)])
    return Task("graph", parts, augment, lambda item: item.pos, 7, 16)


def parts(quick):
    """Clouds of 19 categories, 512 points each, with 94 parts; the category of a cloud is known."""
    parts = read_clouds(LabeledMeshes, quick, 8)
    augment = Compose([RandomRotation(15, axis=1), RandomStretch()])
    legal = LabeledMeshes(split="val").part_mask
    return Task("point", parts, augment, _pos_and_normal, len(legal.t()), 8, legal)


def _pos_and_normal(item):
    return torch.cat([item.pos, item.normal], 1)


def meshes(quick):
    """Humans and four-legged animals, 40 meshes of 2,000 vertices with 14 parts."""
    items = [_label_vertices(mesh) for mesh in PartMeshes()]
    found = torch.cat([item.y for item in items]).unique()
    for item in items:
        item.y = torch.searchsorted(found, item.y)
    # Of each ten meshes six train, one validates and three test, as in LabeledMeshes.
    role = [0, 0, 2, 0, 0, 1, 0, 2, 0, 2]
    parts = [[item for i, item in enumerate(items) if role[i % 10] == part] for part in range(3)]
    parts = [[_simplify(item, 2000) for item in part[: 2 if quick else None]] for part in parts]
    augment = Compose([RandomRotation(axis=1), RandomStretch()])
    return Task("point", parts, augment, _pos_and_normal, len(found), 4)


def _label_vertices(mesh):
    """Return a mesh with the part that most faces of a vertex have."""
    parts = int(mesh.face_y.max()) + 1
    flat = (mesh.face * parts + mesh.face_y).reshape(-1)
    votes = torch.bincount(flat, minlength=mesh.num_nodes * parts).view(-1, parts)
    return Data(pos=mesh.pos, face=mesh.face, y=votes.argmax(1))


def _simplify(mesh, count):
    """Return a mesh of about so many vertices, each with the label of the nearest one before."""
    simple = to_mesh(mesh, kind="open3d").simplify_quadric_decimation(2 * count)
    found = from_mesh(simple)
    near = cKDTree(mesh.pos.numpy()).query(found.pos.numpy())[1]
    return VertexNormals()(Data(pos=found.pos, face=found.face, y=mesh.y[torch.from_numpy(near)]))


def streets(quick):
    """Generated street scans of 20,000 points, five classes."""
    counts, points = ((2, 2, 2), 600) if quick else ((40, 3, 8), 20_000)
    parts = [list(StreetScenes(n, name, points)) for name, n in zip(PARTS, counts, strict=True)]
    augment = Compose([RandomRotation(axis=2), RandomJitter(0.02)])
    return Task("point", parts, augment, lambda item: item.pos / 10, 5, 1)


def rooms(quick):
    """Generated rooms of 100,000 points in 16 blocks each, eight classes."""
    counts, points = ((1, 1, 1), 2000) if quick else ((24, 1, 4), 100_000)
    parts = [
        [block for room in RoomScenes(n, name, points) for block in _blocks(room, 4)]
        for name, n in zip(PARTS, counts, strict=True)
    ]
    augment = Compose([RandomRotation(axis=2), RandomJitter(0.005)])
    return Task("point", parts, augment, lambda item: item.pos, 8, 2)


def _blocks(data, cuts):
    """Return the halves of the halves of a cloud, cut at the median along its longer side."""
    if cuts == 0:
        center = data.pos.mean(0) * torch.tensor([1.0, 1.0, 0.0])
        return [Data(pos=data.pos - center, y=data.y)]
    extent = data.pos[:, :2].amax(0) - data.pos[:, :2].amin(0)
    place = data.pos[:, int(extent.argmax())]
    left = place <= place.median()
    halves = (Data(pos=data.pos[side], y=data.y[side]) for side in (left, ~left))
    return [block for half in halves for block in _blocks(half, cuts - 1)]


TASKS = {
    "modelnet10": model_net,
    "shapes": shapes,
    "parts": parts,
    "meshes": meshes,
    "streets": streets,
    "rooms": rooms,
}
