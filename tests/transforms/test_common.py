"""All transforms: repr, no mutation, errors, doctests, batches."""

import copy
import doctest
import importlib
import pickle
import pkgutil

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import BaseTransform, Compose

import permutogeo.data
import permutogeo.transforms as T

FACE = torch.tensor([[0, 0, 0, 1], [1, 2, 3, 2], [2, 3, 1, 3]])

CASES = [
    (T.ImageToPoints(), "ImageToPoints(fraction=None, superpixels=None, seed=None)"),
    (
        T.ImageToPoints(fraction=0.5, seed=1),
        "ImageToPoints(fraction=0.5, superpixels=None, seed=1)",
    ),
    (T.BilateralFeature(pos=16.0, rgb=0.1), "BilateralFeature(pos=16.0, rgb=0.1)"),
    (
        T.BilateralFeature("other", normal=(1, 2, 3), lab=4.0),
        "BilateralFeature('other', normal=(1, 2, 3), lab=4.0)",
    ),
    (T.RandomSubsample(0.5), "RandomSubsample(fraction=0.5, replace=False, seed=None)"),
    (
        T.RandomSubsample(count=3, replace=True, seed=7),
        "RandomSubsample(count=3, replace=True, seed=7)",
    ),
    (T.RandomRotation(), "RandomRotation(degrees=180.0, axis=None, seed=None)"),
    (T.RandomRotation(30, axis=1, seed=2), "RandomRotation(degrees=30, axis=1, seed=2)"),
    (T.RandomStretch(), "RandomStretch(low=0.8, high=1.25, seed=None)"),
    (T.RandomJitter(0.1), "RandomJitter(std=0.1, normal_std=0.0, seed=None)"),
    (T.RandomDrop(), "RandomDrop(most=0.5, seed=None)"),
    (T.FaceNormals(), "FaceNormals()"),
    (T.VertexNormals("angle"), "VertexNormals(weight='angle')"),
    (T.SmoothNormals(3), "SmoothNormals(iterations=3, neighbors='vertex', keep=None)"),
    (
        T.SmoothNormals(1, neighbors="edge", keep="noisy"),
        "SmoothNormals(iterations=1, neighbors='edge', keep='noisy')",
    ),
    (T.NormalNoise(0.3, keep="y"), "NormalNoise(std=0.3, keep='y', seed=None)"),
    (T.Displacement("normal", attr="y"), "Displacement(to='normal', attr='y')"),
    (T.IsomapFeature(dim=2), "IsomapFeature(dim=2, landmarks=64)"),
    (T.IsomapFeature(3, 9, "geo"), "IsomapFeature(dim=3, landmarks=9, attr='geo')"),
    (T.FacesToPoints(), "FacesToPoints()"),
    (T.NormalizeScale(), "NormalizeScale(by='radius')"),
    (T.NormalizeScale("edge"), "NormalizeScale(by='edge')"),
    (T.RepairMesh(), "RepairMesh()"),
    (T.KNNGraph(2), "KNNGraph(k=2)"),
    (T.KeepAttributes("x", "pos"), "KeepAttributes('x', 'pos')"),
]
IDS = [text for _, text in CASES]


def make_data():
    generator = torch.Generator().manual_seed(0)
    return Data(
        x=torch.rand(4, 3, generator=generator),
        pos=torch.rand(4, 3, generator=generator),
        normal=torch.rand(4, 3, generator=generator),
        face=FACE.clone(),
        face_normal=torch.rand(4, 3, generator=generator),
        image=torch.rand(3, 5, 6, generator=generator),
    )


def test_every_transform_is_covered():
    classes = {getattr(T, name) for name in T.__all__} - {T.RepairReport}
    assert classes == {type(transform) for transform, _ in CASES}
    assert all(issubclass(kind, BaseTransform) for kind in classes)


@pytest.mark.parametrize(("transform", "text"), CASES, ids=IDS)
def test_repr(transform, text):
    assert str(transform) == text


@pytest.mark.parametrize("transform", [t for t, _ in CASES], ids=IDS)
def test_input_is_never_changed(transform):
    data = make_data()
    before = {name: (value, value.clone()) for name, value in data.to_dict().items()}
    transform(data)
    assert list(data.to_dict()) == list(before)
    for name, (tensor, values) in before.items():
        assert data[name] is tensor and torch.equal(tensor, values), name


@pytest.mark.parametrize("transform", [t for t, _ in CASES], ids=IDS)
def test_copies_and_pickles(transform):
    for other in (copy.deepcopy(transform), pickle.loads(pickle.dumps(transform))):
        assert str(other) == str(transform)


@pytest.mark.parametrize("transform", [t for t, _ in CASES], ids=IDS)
def test_missing_attributes(transform):
    if isinstance(transform, T.RandomSubsample):
        pytest.skip("needs points, but no attribute of a certain name")
    kind = type(transform).__name__
    with pytest.raises(ValueError, match=rf"{kind}: Expected '.*' in data \(it has thing, other\)"):
        transform(Data(thing=torch.zeros(2), other=1))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"face": FACE + 1}, "'face' indices from 0 to 3 (got 4)"),
        ({"face": FACE - 1}, "'face' indices from 0 to 3 (got -1)"),
        ({"face": FACE[:2]}, "'face' of shape [3, F] and type int64 (got [2, 4] torch.int64)"),
        ({"face": FACE.float()}, "(got [3, 4] torch.float32)"),
        ({"pos": torch.zeros(4, 2)}, "'pos' of shape [N, 3] (got [4, 2] torch.float32)"),
        ({"pos": torch.zeros(4, 3).long()}, "floating 'pos'"),
    ],
)
def test_wrong_meshes(change, text):
    data = make_data().update(change)
    meshes = (T.FaceNormals(), T.VertexNormals(), T.SmoothNormals(), T.NormalNoise())
    for transform in (*meshes, T.IsomapFeature(), T.FacesToPoints(), T.NormalizeScale("edge")):
        with pytest.raises(ValueError, match=type(transform).__name__) as error:
            transform(data)
        assert text in str(error.value) or "pos" in text


@pytest.mark.parametrize("transform", [T.FaceNormals(), T.BilateralFeature(pos=1.0)], ids=str)
def test_no_data(transform):
    with pytest.raises(TypeError, match=r"Expected torch_geometric\.data\.Data"):
        transform({"pos": 1})


def test_batches_where_points_stay():
    """A transform of a batch is the batch of the transforms."""
    data = [make_data(), make_data()]
    data[1].pos = data[1].pos * 2 + 1
    for transform in (T.FaceNormals(), T.VertexNormals(), T.SmoothNormals(2)):
        together = transform(Batch.from_data_list(data))
        for i in range(2):
            alone = transform(data[i])
            for name in ("pos", "normal", "face_normal"):
                torch.testing.assert_close(together[i][name], alone[name])
    for transform in (T.RandomSubsample(0.5), T.FacesToPoints()):
        with pytest.raises(ValueError, match="before batching"):
            transform(Batch.from_data_list(data))


def test_an_image_a_mesh_and_a_cloud_in_one_batch():
    image = permutogeo.data.from_image(np.random.default_rng(0).random((5, 6, 3), np.float32))
    mesh = permutogeo.data.from_mesh(torch.eye(4)[:, :3], FACE, x=torch.rand(4, 3))
    cloud = permutogeo.data.from_point_cloud(torch.rand(9, 2), x=torch.rand(9, 3))
    keep = T.KeepAttributes("x", "feature")
    samples = [
        Compose([T.BilateralFeature(pos=2.0, rgb=0.2), keep])(image),
        Compose([T.IsomapFeature(dim=2), T.BilateralFeature(intrinsic=0.5, lab=9.0), keep])(mesh),
        Compose([T.BilateralFeature(pos=(1.0, 2.0), rgb=0.3), keep])(cloud),
    ]
    batch = next(iter(DataLoader(samples, batch_size=3)))
    assert batch.x.shape == (43, 3) and batch.feature.shape == (43, 5)
    assert batch.batch.bincount().tolist() == [30, 4, 9]
    images = next(iter(DataLoader([image, image], batch_size=2)))
    assert images.height.tolist() == [5, 5]
    assert np.array_equal(permutogeo.data.to_image(images[1]), permutogeo.data.to_image(image))
    meshes = next(iter(DataLoader([mesh, mesh], batch_size=2)))
    assert torch.equal(meshes.face[:, 4:], FACE + 4)


def modules():
    for package in (permutogeo.data, T):
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            yield info.name


@pytest.mark.parametrize("name", list(modules()))
def test_examples_run(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
