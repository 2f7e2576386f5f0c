"""DiffusionNet, and the spectra of meshes and clouds that it reads."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from scipy.spatial import cKDTree
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import MLP, global_mean_pool

EIGENVECTORS = 48


class DiffusionNet(torch.nn.Module):
    """Diffusion with learned times, spatial gradients and MLPs on a mesh or cloud, after the
    "DiffusionNet" paper (https://arxiv.org/abs/2012.00888)."""

    def __init__(
        self, name: str, in_channels: int, hidden_channels: int, out_channels: int, task: str
    ):
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

    def forward(self, data: Data) -> Tensor:
        parts = data.x.split(data.ptr.diff().tolist())
        x = torch.cat([self.of_shape(x, own) for x, own in zip(parts, data.spectrum, strict=True)])
        return self.predict(x if self.task == "point" else global_mean_pool(x, data.batch))

    def of_shape(self, x: Tensor, own: Spectrum) -> Tensor:
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

    value: Tensor
    vector: Tensor
    mass: Tensor
    along: Tensor
    across: Tensor


def spectrum(item: Data, neighbors: int = 12) -> Spectrum:
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


def _mesh_laplacian(pos: np.ndarray, face: np.ndarray) -> tuple[Any, np.ndarray]:
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


def _cloud_laplacian(
    edges: np.ndarray, radius: np.ndarray, neighbors: int
) -> tuple[Any, np.ndarray]:
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


def _normals(pos: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the direction of least spread of each point's neighbors, away from the center."""
    step = pos[edges[:, 1]] - pos[edges[:, 0]]
    spread = np.zeros((len(pos), 3, 3))
    np.add.at(spread, edges[:, 0], step[:, :, None] * step[:, None])
    normal = np.linalg.eigh(spread)[1][:, :, 0]
    outside = ((pos - pos.mean(0)) * normal).sum(1, keepdims=True)
    return np.where(outside < 0, -normal, normal)


def _gradients(pos: np.ndarray, normal: np.ndarray, edges: np.ndarray) -> list[Tensor]:
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
