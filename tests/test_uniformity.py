"""One model serves images, meshes and point clouds: the rooms below know only points."""

import ast
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull
from torch.nn import functional
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import Compose

from permutogeo.data import from_image, from_mesh, from_point_cloud
from permutogeo.models import BilateralNet, LatticeUNet, SplatNet
from permutogeo.transforms import BilateralFeature, KeepAttributes, NormalizeScale, VertexNormals

KEEP = KeepAttributes("x", "feature", "y")
BELOW = ("models", "nn", "functional.py", "lattice", "ops")
MODELS = [
    lambda: BilateralNet(3, 8, 2, dim=3, num_layers=2),
    lambda: SplatNet(3, 8, 2, dim=3, num_layers=1, scales=(1.0, 0.5)),
    lambda: LatticeUNet(3, 8, 2, dim=3),
]
each_model = pytest.mark.parametrize("make", MODELS, ids=lambda make: type(make()).__name__)


def make_image():
    rng = np.random.default_rng(0)
    color = rng.random((14, 11, 3), np.float32)
    data = from_image(color)
    data.y = (data.pos[:, 0] > 5).long()
    return Compose([BilateralFeature(pos=2.0, intensity=0.3), KEEP])(data)


def make_mesh():
    direction = np.random.default_rng(1).standard_normal((120, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    data = VertexNormals()(from_mesh(direction, ConvexHull(direction).simplices.astype(np.int64)))
    data.x, data.y = data.normal, (data.pos[:, 2] > 0).long()
    return Compose([NormalizeScale(), BilateralFeature(pos=0.2), KEEP])(data)


def make_cloud():
    points = np.random.default_rng(2).random((90, 3)).astype(np.float32)
    data = from_point_cloud(points, x=points)
    data.y = (data.pos[:, 0] > 0.5).long()
    return Compose([NormalizeScale(), BilateralFeature(pos=0.3), KEEP])(data)


def things():
    return [make_image(), make_mesh(), make_cloud()]


@each_model
def test_one_instance_runs_on_each(make):
    model = make()
    for data in things():
        out = model(data.x, data.feature)
        assert out.shape == (data.num_nodes, 2)
        assert out.isfinite().all()


@each_model
def test_an_image_and_a_mesh_in_one_batch(make):
    """A mixed batch from PyG's loader gives what each gives alone."""
    pair = [make_image(), make_mesh()]
    model = make().double().eval()
    (batch,) = DataLoader(pair, batch_size=2)
    assert batch.num_graphs == 2
    together = model(batch.x.double(), batch.feature.double(), batch.batch)
    alone = [model(data.x.double(), data.feature.double()) for data in pair]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-12, atol=1e-12)


@each_model
def test_one_instance_learns_on_all_at_once(make):
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(15):
        for data in DataLoader(things(), batch_size=3, shuffle=True):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(data.x, data.feature, data.batch), data.y)
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]


def test_a_graph_task_over_all():
    model = LatticeUNet(3, 8, 3, dim=3, task="graph")
    (batch,) = DataLoader(things(), batch_size=3)
    assert model(batch.x, batch.feature, batch.batch).shape == (3, 3)


def test_lower_rooms_know_only_points():
    """No identifier below data/ and transforms/ names images, meshes or clouds."""
    package = Path(__file__).parent.parent / "permutogeo"
    for name in BELOW:
        path = package / name
        assert path.exists()
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                word = getattr(node, "id", None) or getattr(node, "attr", None)
                word = word or getattr(node, "arg", None)
                if isinstance(word, str):
                    parts = set(word.lower().split("_"))
                    assert not parts & {"image", "mesh", "cloud", "face", "pixel"}, (file, word)
