import numpy as np
import pytest
from torch_geometric.loader import DataLoader

from permutogeo.datasets import PrincetonShapes


def write(folder, count=40):
    path = folder / "psb" / "psb_points.npz"
    path.parent.mkdir(exist_ok=True)
    labels = np.array(["-1", "animal", "vehicle"])[np.arange(count) % 3]
    np.savez(
        path,
        points=np.random.default_rng(0).integers(-2047, 2048, (count, 6, 3)).astype(np.int16),
        is_test=np.arange(count) >= count // 2,
        model_id=np.arange(count).astype(np.int16),
        base=labels,
        coarse1=labels,
        coarse2=labels,
    )
    return folder


def test_split_and_labels(tmp_path):
    root = write(tmp_path)
    sizes = {"train": 16, "val": 4, "trainval": 20, "test": 20, "all": 40}
    for split, size in sizes.items():
        assert len(PrincetonShapes(root, split)) == size
    assert [data.model_id for data in PrincetonShapes(root, "val")] == [0, 5, 10, 15]
    dataset = PrincetonShapes(root, "all")
    assert str(dataset) == "PrincetonShapes(40)"
    assert dataset.num_classes == 3
    assert [int(data.y) for data in dataset[:4]] == [0, 1, 2, 0]
    batch = next(iter(DataLoader(dataset, batch_size=4)))
    assert batch.y.tolist() == [0, 1, 2, 0]


def test_without_miscellaneous(tmp_path):
    dataset = PrincetonShapes(write(tmp_path), "all", miscellaneous=False)
    assert dataset.classes == ["animal", "vehicle"]
    assert len(dataset) == 26 and int(dataset[0].y) == 0


def test_errors(tmp_path):
    root = write(tmp_path)
    with pytest.raises(ValueError, match="Expected 'split'"):
        PrincetonShapes(root, "validation")
    with pytest.raises(ValueError, match="Expected 'level' in base, coarse1, coarse2"):
        PrincetonShapes(root, level="coarse3")
    with pytest.raises(FileNotFoundError, match=r"psb_points\.npz.*Princeton Shape Benchmark"):
        PrincetonShapes(tmp_path / "nowhere")


def test_the_data_themselves(data_dir):
    arrays = np.load(data_dir / "psb" / "psb_points.npz")
    dataset = PrincetonShapes(data_dir, "all")
    assert len(dataset) == 1814 and dataset.num_classes == 7
    assert len(PrincetonShapes(data_dir, "trainval")) == 907
    assert len(PrincetonShapes(data_dir, "test")) == 907
    label = np.unique(arrays["coarse2"], return_inverse=True)[1]
    points = arrays["points"]
    for k in range(0, 1814, 181):
        np.testing.assert_allclose(dataset[k].pos, points[k] / 2047.0, atol=1e-6)
        assert int(dataset[k].y) == label[k]
        assert dataset[k].model_id == arrays["model_id"][k]
