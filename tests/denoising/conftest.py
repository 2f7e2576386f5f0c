import numpy as np
import pytest
import torch
import trimesh
from torch_geometric.data import Data


@pytest.fixture
def icosphere():
    """Positions and faces of a sphere, with isotropic noise."""
    generator = torch.Generator().manual_seed(0)

    def make(times=3, noise=0.0):
        mesh = trimesh.creation.icosphere(times)
        pos = torch.from_numpy(np.array(mesh.vertices)).float()
        pos = pos + noise * torch.randn(pos.shape, generator=generator)
        return pos, torch.from_numpy(np.array(mesh.faces).T.copy()).long()

    return make


@pytest.fixture
def cube():
    """A cube of 768 faces."""

    def make():
        mesh = trimesh.creation.box().subdivide().subdivide().subdivide()
        pos = torch.from_numpy(np.array(mesh.vertices)).float()
        return Data(pos=pos, face=torch.from_numpy(np.array(mesh.faces).T.copy()).long())

    return make
