import numpy as np
import pytest

from permutogeo.datasets import ModelNet10


def write(folder, count=40):
    path = folder / "modelnet10" / "modelnet10_points.npz"
    path.parent.mkdir(exist_ok=True)
    np.savez(
        path,
        points=np.random.default_rng(0).integers(-2047, 2048, (count, 64, 3)).astype(np.int16),
        label=(np.arange(count) % 4).astype(np.int8),
        train=np.arange(count) < 30,
        class_name=np.array(["bed", "chair", "desk", "sofa"]),
    )
    return folder


def test_split_and_labels(tmp_path):
    root = write(tmp_path)
    sizes = {"train": 27, "val": 3, "trainval": 30, "test": 10, "all": 40}
    for split, size in sizes.items():
        assert len(ModelNet10(root, split)) == size
    dataset = ModelNet10(root, "all")
    assert dataset.num_classes == 4 and dataset.classes[1] == "chair"
    assert [int(data.y) for data in dataset[:5]] == [0, 1, 2, 3, 0]
    assert dataset[0].pos.shape == (64, 3) and dataset[0].pos.abs().max() <= 1


def test_errors(tmp_path):
    with pytest.raises(ValueError, match="Expected 'split'"):
        ModelNet10(write(tmp_path), "validation")
    with pytest.raises(FileNotFoundError, match=r"modelnet10_points\.npz.*ModelNet10"):
        ModelNet10(tmp_path / "nowhere")


def test_the_data_themselves(data_dir):
    arrays = np.load(data_dir / "modelnet10" / "modelnet10_points.npz")
    dataset = ModelNet10(data_dir, "all")
    assert len(dataset) == 4899 and dataset.num_classes == 10
    assert len(ModelNet10(data_dir, "test")) == int((~arrays["train"].astype(bool)).sum())
    for k in range(0, 4899, 611):
        np.testing.assert_allclose(dataset[k].pos, arrays["points"][k] / 2047.0, atol=1e-6)
        assert int(dataset[k].y) == arrays["label"][k]
