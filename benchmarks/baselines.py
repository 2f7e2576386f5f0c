"""Baselines of the comparison of models: networks of PyG's layers on graphs of the points.

Graphs, samplings and eigenvectors are computed once for each item by :func:`prepare` and stored
with it, so that training does not spend time on them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import (
    MLP,
    EdgeConv,
    GATv2Conv,
    GCNConv,
    PointNetConv,
    PointTransformerConv,
    SAGEConv,
    global_max_pool,
    global_mean_pool,
)

from permutogeo.benchmarks.diffusion_net import DiffusionNet, spectrum

LEVELS = 2
# Batch norm would remove the context of a batch of one graph.
PER_NODE = {"norm": "layer_norm", "norm_kwargs": {"mode": "node"}}
FLAT = {
    "DGCNN": lambda a, b: EdgeConv(MLP([2 * a, b, b], plain_last=False)),
    "GAT": lambda a, b: GATv2Conv(a, b // 4, heads=4),
    "SAGE": SAGEConv,
    "GCN": GCNConv,
}
DEEP = {
    "PointNet++": lambda a, b: PointNetConv(
        MLP([a + 3, b, b], plain_last=False), add_self_loops=False
    ),
    "PointTransformer": lambda a, b: PointTransformerConv(a, b, add_self_loops=False),
}


class PreparedData(Data):
    """An item with the neighbors of its points, ``near``, of every fourth and sixteenth of them,
    ``near0`` and ``near1``, the samples ``pick0`` and ``pick1``, and the three samples next to
    each point, ``back0`` and ``back1``."""

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        if key in ("near", "near0", "pick0"):
            return self.num_nodes
        if key in ("near1", "pick1", "back0"):
            return len(self.pick0)
        if key == "back1":
            return len(self.pick1)
        return super().__inc__(key, value, *args, **kwargs)


def prepare(item: Data, name: str, neighbors: int = 12) -> PreparedData:
    """Return an item with what a baseline needs."""
    out = PreparedData(**item.to_dict())
    place = item.pos.numpy()
    if name in FLAT:
        out.near = _nearest(place, place, neighbors)
    elif name in DEEP:
        for level in range(LEVELS):
            chosen = farthest_points(place, max(1, len(place) // 4))
            out[f"pick{level}"] = torch.from_numpy(chosen)
            out[f"near{level}"] = _nearest(place, place[chosen], neighbors)
            out[f"back{level}"] = _nearest(place[chosen], place, 3)
            place = place[chosen]
    elif name == "DiffusionNet":
        out.spectrum = spectrum(item)
    return out


def _nearest(place: np.ndarray, query: np.ndarray, count: int) -> Tensor:
    near = cKDTree(place).query(query, range(1, min(count, len(place)) + 1))[1]
    return torch.from_numpy(near).int()


def farthest_points(place: np.ndarray, count: int) -> np.ndarray:
    """Return the indices of a farthest point sample."""
    chosen = np.empty(count, np.int64)
    distance = np.full(len(place), np.inf, place.dtype)
    chosen[0] = 0
    for i in range(1, count):
        np.minimum(distance, ((place - place[chosen[i - 1]]) ** 2).sum(1), out=distance)
        chosen[i] = distance.argmax()
    return chosen


def _edges(near: Tensor) -> Tensor:
    """Return edges from the neighbors ``[N, k]`` of each point to the point."""
    target = torch.arange(len(near)).repeat_interleave(near.shape[1])
    return torch.stack([near.reshape(-1).long(), target])


class GraphNet(torch.nn.Module):
    """Three layers of PyG on a graph of nearest neighbors, with global context.

    With EdgeConv, a DGCNN whose graph is that of the positions in all layers.
    """

    def __init__(
        self, name: str, in_channels: int, hidden_channels: int, out_channels: int, task: str
    ):
        super().__init__()
        width = [in_channels, *[hidden_channels] * 3]
        self.task = task
        self.convs = torch.nn.ModuleList(FLAT[name](a, b) for a, b in pairwise(width))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(b) for b in width[1:])
        read = (2 if task == "graph" else 3) * sum(width[1:])
        self.predict = MLP([read, hidden_channels, out_channels], **PER_NODE)

    def forward(self, data: Data) -> Tensor:
        x, outs, edge_index = data.x, [], _edges(data.near)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = norm(conv(x, edge_index)).relu()
            outs.append(x)
        x = torch.cat(outs, 1)
        whole = torch.cat([global_mean_pool(x, data.batch), global_max_pool(x, data.batch)], 1)
        if self.task == "point":
            whole = torch.cat([x, whole[data.batch]], 1)
        return self.predict(whole)


class PointUNet(torch.nn.Module):
    """PointNet++ (https://arxiv.org/abs/1706.02413), or with attention the Point Transformer
    (https://arxiv.org/abs/2012.09164): layers on farthest point samples of a quarter and a
    sixteenth of the points, interpolated back with skip connections."""

    def __init__(
        self, name: str, in_channels: int, hidden_channels: int, out_channels: int, task: str
    ):
        super().__init__()
        width = [hidden_channels * 2**level for level in range(LEVELS + 1)]
        self.task = task
        self.lift = MLP([in_channels, width[0]], plain_last=False)
        self.convs = torch.nn.ModuleList(DEEP[name](a, b) for a, b in pairwise(width))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(b) for b in width[1:])
        self.ups = torch.nn.ModuleList(
            MLP([a + b, a], plain_last=False) for a, b in pairwise(width if task == "point" else [])
        )
        read = 2 * width[-1] + (width[0] if task == "point" else 0)
        self.predict = MLP([read, 2 * width[0], out_channels], **PER_NODE)

    def forward(self, data: Data) -> Tensor:
        x, pos, batch = self.lift(data.x), data.pos, data.batch
        levels = [(x, pos)]
        for level, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            chosen = data[f"pick{level}"]
            edge_index = _edges(data[f"near{level}"])
            # PyG's attention needs values at the targets too.
            pair = (x, x[chosen]) if isinstance(conv, PointTransformerConv) else (x, None)
            x = norm(conv(pair, (pos, pos[chosen]), edge_index)).relu()
            pos, batch = pos[chosen], batch[chosen]
            levels.append((x, pos))
        whole = torch.cat([global_mean_pool(x, batch), global_max_pool(x, batch)], 1)
        if self.task == "graph":
            return self.predict(whole)
        for level in reversed(range(LEVELS)):
            skip, place = levels[level]
            near = data[f"back{level}"].long()
            distance = (place[:, None] - levels[level + 1][1][near]).square().sum(-1)
            weight = functional.normalize(1 / distance.clamp(min=1e-12), p=1, dim=1)
            x = (weight[..., None] * x[near]).sum(1)
            x = self.ups[level](torch.cat([skip, x], 1))
        return self.predict(torch.cat([x, whole[data.batch]], 1))


BASELINES = {
    "PointNet++": PointUNet,
    "DGCNN": GraphNet,
    "PointTransformer": PointUNet,
    "SAGE": GraphNet,
    "GAT": GraphNet,
    "GCN": GraphNet,
    "DiffusionNet": DiffusionNet,
}
