import numpy as np
import pytest
import torch
from torch_geometric.loader import DataLoader

from permutogeo.datasets import LabeledMeshes
from permutogeo.transforms import BilateralFeature, RandomSubsample


def write(folder, categories=("Ant", "Cup"), count=20, points=8):
    """A small archive of the same layout; ids descend, so that the order of the file is another."""
    rng = np.random.default_rng(0)
    total = count * len(categories)
    path = folder / "labeled_meshes" / "points.npz"
    path.parent.mkdir(exist_ok=True)
    category = np.repeat(categories, count)
    np.savez(
        path,
        points=rng.integers(-2047, 2048, (total, points, 3)).astype(np.int16),
        normals=rng.integers(-127, 128, (total, points, 3)).astype(np.int8),
        part=(2 * np.repeat(np.arange(len(categories)), count)[:, None] + np.arange(points) % 2)
        .astype(np.uint8),
        category=category,
        mesh_id=np.arange(total, 0, -1).astype(np.int16),
        part_name=np.array([f"{name}/{part}" for name in categories for part in ("a", "b")]),
    )  # fmt: skip
    return folder


def test_split_and_labels(tmp_path):
    root = write(tmp_path)
    sizes = {"train": 24, "val": 4, "trainval": 28, "test": 12, "all": 40}
    ids = {}
    for split, size in sizes.items():
        dataset = LabeledMeshes(root, split=split)
        assert len(dataset) == size
        ids[split] = {data.mesh_id for data in dataset}
        assert len(ids[split]) == size
    assert not ids["train"] & ids["val"] and not ids["trainval"] & ids["test"]
    assert ids["trainval"] | ids["test"] == ids["all"]
    # Ids 21 to 40 are ants: by the pattern of the docstring the 3rd, 8th and 10th of each ten test.
    assert {i for i in ids["test"] if i > 20} == {23, 28, 30, 33, 38, 40}


def test_str_and_sizes(tmp_path):
    dataset = LabeledMeshes(write(tmp_path), split="test")
    assert str(dataset) == "LabeledMeshes(12)"
    assert dataset.num_classes == 4
    assert dataset.categories == ["Ant", "Cup"]
    assert dataset.part_mask.tolist() == [[True, True, False, False], [False, False, True, True]]


def test_filters_transforms_and_categories(tmp_path):
    root = write(tmp_path)
    dataset = LabeledMeshes(
        root,
        "all",
        categories=["Cup"],
        transform=BilateralFeature(pos=0.1),
        pre_transform=RandomSubsample(count=4, seed=0),
        pre_filter=lambda data: data.mesh_id > 5,
    )
    assert len(dataset) == 15
    assert dataset[0].feature.shape == (4, 3)
    assert "feature" not in dataset.get(0)
    batch = next(iter(DataLoader(dataset, batch_size=3)))
    assert batch.category.tolist() == [1, 1, 1]
    assert batch.y.shape == (12,)
    dataset[0].pos = None
    assert dataset[0].pos is not None


def test_errors(tmp_path, monkeypatch):
    root = write(tmp_path)
    with pytest.raises(ValueError, match=r"Expected 'split' in train, .*got 'tset'"):
        LabeledMeshes(root, split="tset")
    with pytest.raises(ValueError, match=r"Expected 'categories' among Ant, Cup \(got Dog\)"):
        LabeledMeshes(root, categories=["Dog"])
    with pytest.raises(FileNotFoundError, match=r"LabeledMeshes: .*nowhere.*put it there"):
        LabeledMeshes(tmp_path / "nowhere")
    monkeypatch.delenv("PERMUTOGEO_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"PERMUTOGEO_DATA.*labeled_meshes/points\.npz"):
        LabeledMeshes()
    monkeypatch.setenv("PERMUTOGEO_DATA", str(root))
    assert len(LabeledMeshes()) == 24


def test_damaged_archives(tmp_path):
    path = write(tmp_path) / "labeled_meshes" / "points.npz"
    whole = dict(np.load(path))
    np.savez(path, **{**whole, "points": whole["points"][..., :2]})
    with pytest.raises(ValueError, match=r"points\.npz': Expected 'points' of shape"):
        LabeledMeshes(tmp_path)
    del whole["normals"]
    np.savez(path, **whole)
    with pytest.raises(ValueError, match=r"points\.npz': Expected an archive with points, normals"):
        LabeledMeshes(tmp_path)
    # An object array would run code when loaded.
    np.savez(path, points=np.array([object()], dtype=object))
    with pytest.raises(ValueError, match="Expected an archive"):
        LabeledMeshes(tmp_path)


def test_the_data_themselves(data_dir):
    arrays = np.load(data_dir / "labeled_meshes" / "points.npz")
    dataset = LabeledMeshes(data_dir, split="all")
    assert len(dataset) == 380 and dataset.num_classes == 94
    assert len(dataset.categories) == 19
    assert [len(LabeledMeshes(data_dir, s)) for s in ("train", "val", "test")] == [228, 38, 114]
    names = zip(arrays["category"].tolist(), arrays["mesh_id"].tolist(), strict=True)
    row = {name: k for k, name in enumerate(names)}
    points, normals, part = arrays["points"], arrays["normals"], arrays["part"]
    for data in dataset[::37]:
        k = row[dataset.categories[data.category], data.mesh_id]
        np.testing.assert_allclose(data.pos, points[k] / 2047.0, atol=1e-6)
        np.testing.assert_allclose(data.normal, normals[k] / 127.0, atol=1e-6)
        assert torch.equal(data.y, torch.from_numpy(part[k].astype(np.int64)))
        assert dataset.part_mask[data.category][data.y].all()
