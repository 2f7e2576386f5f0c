"""Baselines of the comparison of models: networks of PyG's layers on graphs of the points.

Graphs, samplings and eigenvectors are computed once for each item by :func:`prepare` and stored
with it, so that training does not spend time on them.
"""

import math
import warnings
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from scipy.spatial import cKDTree
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

LEVELS = 2
EIGENVECTORS = 48
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

    def __inc__(self, key, value, *args, **kwargs):
        if key in ("near", "near0", "pick0"):
            return self.num_nodes
        if key in ("near1", "pick1", "back0"):
            return len(self.pick0)
        if key == "back1":
            return len(self.pick1)
        return super().__inc__(key, value, *args, **kwargs)


def prepare(item, name, neighbors=12):
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


def _nearest(place, query, count):
    near = cKDTree(place).query(query, range(1, min(count, len(place)) + 1))[1]
    return torch.from_numpy(near).int()


def farthest_points(place, count):
    """Return the indices of a farthest point sample."""
    chosen = np.empty(count, np.int64)
    distance = np.full(len(place), np.inf, place.dtype)
    chosen[0] = 0
    for i in range(1, count):
        np.minimum(distance, ((place - place[chosen[i - 1]]) ** 2).sum(1), out=distance)
        chosen[i] = distance.argmax()
    return chosen


def _edges(near):
    """Return edges from the neighbors ``[N, k]`` of each point to the point."""
    target = torch.arange(len(near)).repeat_interleave(near.shape[1])
    return torch.stack([near.reshape(-1).long(), target])


class GraphNet(torch.nn.Module):
    """Three layers of PyG on a graph of nearest neighbors, with global context.

    With EdgeConv, a DGCNN whose graph is that of the positions in all layers.
    """

    def __init__(self, name, in_channels, hidden_channels, out_channels, task):
        super().__init__()
        width = [in_channels, *[hidden_channels] * 3]
        self.task = task
        self.convs = torch.nn.ModuleList(FLAT[name](a, b) for a, b in pairwise(width))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(b) for b in width[1:])
        read = (2 if task == "graph" else 3) * sum(width[1:])
        self.predict = MLP([read, hidden_channels, out_channels], **PER_NODE)

    def forward(self, data):
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

    def __init__(self, name, in_channels, hidden_channels, out_channels, task):
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

    def forward(self, data):
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


class DiffusionNet(torch.nn.Module):
    """Diffusion with learned times, spatial gradients and MLPs on a mesh or cloud, after the
    "DiffusionNet" paper (https://arxiv.org/abs/2012.00888)."""

    def __init__(self, name, in_channels, hidden_channels, out_channels, task):
        super().__init__()
        c = hidden_channels
        self.task = task
        self.lift = torch.nn.Linear(in_channels, c)
        self.times = torch.nn.ParameterList(
            torch.nn.Parameter(torch.linspace(math.log(1e-3), math.log(1e-1), c)) for _ in range(3)
        )
        self.turns = torch.nn.ModuleList(torch.nn.Linear(c, 2 * c, bias=False) for _ in range(3))
        self.mlps = torch.nn.ModuleList(MLP([3 * c, c, c], norm=None) for _ in range(3))
        self.predict = torch.nn.Linear(c, out_channels)

    def forward(self, data):
        parts = data.x.split(data.ptr.diff().tolist())
        x = torch.cat([self.of_shape(x, own) for x, own in zip(parts, data.spectrum, strict=True)])
        return self.predict(x if self.task == "point" else global_mean_pool(x, data.batch))

    def of_shape(self, x, own):
        """Return values at the vertices of one shape, given its spectrum."""
        x = self.lift(x)
        for log_time, turn, mlp in zip(self.times, self.turns, self.mlps, strict=True):
            modes = own.vector.t() @ (own.mass[:, None] * x)
            faded = torch.exp(-own.value[:, None] * log_time.exp()) * modes
            spread = own.vector @ faded
            u, v = own.along @ spread, own.across @ spread
            # Complex products of the gradients, which do not depend on the tangent frame.
            (a, b), (c, d) = turn(u).chunk(2, 1), turn(v).chunk(2, 1)
            inner = torch.tanh(u * (a - d) + v * (b + c))
            x = x + mlp(torch.cat([x, spread, inner], 1))
        return x


@dataclass(frozen=True)
class Spectrum:
    """The smallest eigenvalues and eigenvectors of the Laplacian of a surface, the mass of its
    points, and the matrices of the gradient along two tangents."""

    value: torch.Tensor
    vector: torch.Tensor
    mass: torch.Tensor
    along: torch.Tensor
    across: torch.Tensor


def spectrum(item, neighbors=12):
    """Return the :class:`Spectrum` of a mesh, or of a cloud by its nearest neighbors."""
    pos = item.pos.double().numpy()
    count = len(pos)
    if item.face is not None:
        face = item.face.t().numpy()
        edges = np.concatenate([face[:, [i, j]] for i in range(3) for j in range(3) if i != j])
        stiffness, mass = _mesh_laplacian(pos, face)
    else:
        distance, near = cKDTree(pos).query(pos, range(2, min(neighbors, count - 1) + 2))
        edges = np.stack([np.repeat(np.arange(count), near.shape[1]), near.reshape(-1)], 1)
        stiffness, mass = _cloud_laplacian(edges, distance[:, -1], near.shape[1])
    normal = _normals(pos, edges) if item.get("normal") is None else item.normal.double().numpy()
    value, vector = scipy.sparse.linalg.eigsh(
        stiffness,
        min(EIGENVECTORS, count - 2),
        scipy.sparse.diags(mass),
        sigma=-1e-6,
        v0=np.ones(count),
    )
    gradients = _gradients(pos, normal, edges)
    tensors = [torch.from_numpy(each).float() for each in (value.clip(0), vector, mass)]
    return Spectrum(*tensors, *gradients)


def _mesh_laplacian(pos, face):
    """Return the cotangent stiffness matrix and the mass of each vertex."""
    count, rows, columns, entries = len(pos), [], [], []
    mass = np.zeros(count)
    for i in range(3):
        a, b, c = (face[:, (i + k) % 3] for k in range(3))
        left, right = pos[a] - pos[c], pos[b] - pos[c]
        area = np.linalg.norm(np.cross(left, right), axis=1)
        weight = 0.5 * (left * right).sum(1) / np.maximum(area, 1e-10)
        weight = weight.clip(-50, 50)
        rows += [a, b, a, b]
        columns += [b, a, a, b]
        entries += [-weight, -weight, weight, weight]
        np.add.at(mass, a, area / 6)
    shape = (count, count)
    index = np.concatenate(rows), np.concatenate(columns)
    stiffness = scipy.sparse.coo_matrix((np.concatenate(entries), index), shape).tocsc()
    return stiffness + 1e-8 * scipy.sparse.identity(count), mass + 1e-8


def _cloud_laplacian(edges, radius, neighbors):
    """Return stiffness and mass of points that are evenly spread over a disc of their neighbors.

    The disc has the area of all its points, and the differences to its ``k`` points sum to
    ``k r^2 / 8`` times the Laplacian.
    """
    mass = np.maximum(math.pi * radius**2 / neighbors, 1e-8)
    count = len(mass)
    weight = np.full(len(edges), 4 * math.pi / neighbors**2)  # half, for both directions
    one_way = scipy.sparse.coo_matrix((weight, edges.T), (count, count))
    both = (one_way + one_way.T).tocsc()
    degree = scipy.sparse.diags(np.asarray(both.sum(1)).reshape(-1) + 1e-8)
    return (degree - both).tocsc(), mass


def _normals(pos, edges):
    """Return the direction of least spread of each point's neighbors, away from the center."""
    step = pos[edges[:, 1]] - pos[edges[:, 0]]
    spread = np.zeros((len(pos), 3, 3))
    np.add.at(spread, edges[:, 0], step[:, :, None] * step[:, None])
    normal = np.linalg.eigh(spread)[1][:, :, 0]
    outside = ((pos - pos.mean(0)) * normal).sum(1, keepdims=True)
    return np.where(outside < 0, -normal, normal)


def _gradients(pos, normal, edges):
    """Return the matrices that fit the gradient of a function to its differences along edges."""
    start, end = np.unique(edges, axis=0).T
    helper = np.where(np.abs(normal[:, :1]) < 0.9, [[1.0, 0, 0]], [[0, 1.0, 0]])
    first = np.cross(normal, helper)
    first /= np.linalg.norm(first, axis=1, keepdims=True).clip(1e-9)
    frame = np.stack([first, np.cross(normal, first)], 1)
    flat = np.einsum("eij,ej->ei", frame[start], pos[end] - pos[start])
    scale = np.mean(flat**2)
    moment = np.zeros((len(pos), 2, 2)) + 1e-3 * scale * np.eye(2)
    np.add.at(moment, start, flat[:, :, None] * flat[:, None])
    fit = np.einsum("eij,ej->ei", np.linalg.inv(moment)[start], flat)
    found = []
    for axis in range(2):
        index = np.concatenate([start, start]), np.concatenate([end, start])
        entries = np.concatenate([fit[:, axis], -fit[:, axis]]).astype(np.float32)
        matrix = scipy.sparse.coo_matrix((entries, index), (len(pos), len(pos))).tocsr()
        parts = (matrix.indptr, matrix.indices, matrix.data)
        tensors = [torch.from_numpy(each) for each in parts]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse", UserWarning)
            found.append(torch.sparse_csr_tensor(*tensors, size=matrix.shape))
    return found


BASELINES = {
    "PointNet++": PointUNet,
    "DGCNN": GraphNet,
    "PointTransformer": PointUNet,
    "SAGE": GraphNet,
    "GAT": GraphNet,
    "GCN": GraphNet,
    "DiffusionNet": DiffusionNet,
}
