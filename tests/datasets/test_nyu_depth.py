"""NYU Depth from files and from the original."""

import numpy as np
import pytest
import torch

from permutogeo.datasets import NYUDepth, nyu_depth


def equal(a, b):
    return a.keys() == b.keys() and all(
        torch.equal(a[k], b[k]) if torch.is_tensor(a[k]) else a[k] == b[k] for k in a.to_dict()
    )


def nyu_files(make):
    depth = np.random.default_rng(0).integers(0, 256, (480, 640)).astype(np.uint8)
    deep = np.random.default_rng(0).integers(0, 9999, (480, 640)).astype(np.uint16)
    files = {
        "rgb/9.jpg": make.photograph(shape=(480, 640)),
        "rgb/10.png": make.photograph(".png", (480, 640)),
        "rgb/11.png": make.photograph(".png", (480, 640)),
        "depth/9.png": make.encoded(depth, ".png"),
        "depth/10.png": make.encoded(deep, ".png"),
    }
    return files, depth * np.float32(10 / 255), deep * np.float32(0.001)


def test_nyu(tmp_path, make):
    files, depth, deep = nyu_files(make)
    make.zip(tmp_path / "nyu_depth_v2" / "train.zip", files)
    make.folder(tmp_path / "nyu_depth_v2" / "test", files)
    dataset = NYUDepth(tmp_path)
    assert str(dataset) == "NYUDepth(2)"
    assert dataset.names == ["9", "10"]  # 11 has no depth
    np.testing.assert_allclose(dataset.depth(0)[0], depth, atol=1e-6)
    np.testing.assert_allclose(dataset.depth(1)[0], deep, atol=1e-6)
    assert torch.equal(dataset[1].y, dataset.depth(1).reshape(-1))
    assert all(equal(a, b) for a, b in zip(dataset, NYUDepth(tmp_path, "test"), strict=True))
    assert len(NYUDepth(tmp_path, "all")) == 4
    cropped = NYUDepth(tmp_path, crop=True)
    assert cropped.image(1).shape == (3, 427, 561)
    assert torch.equal(cropped.image(1), dataset.image(1)[:, 44:471, 40:601])
    assert torch.equal(cropped[1].y, dataset.depth(1)[0, 44:471, 40:601].reshape(-1))


def test_nyu_original(tmp_path):
    h5py = pytest.importorskip("h5py", reason="the original needs h5py, which is optional")
    from scipy.io import savemat

    images = np.random.default_rng(0).integers(0, 256, (3, 480, 640, 3)).astype(np.uint8)
    depths = np.random.default_rng(0).random((3, 480, 640)).astype(np.float32)
    with h5py.File(tmp_path / nyu_depth.MAT, "w") as file:  # MATLAB keeps columns first
        file["images"] = images.transpose(0, 3, 2, 1)
        file["depths"] = depths.transpose(0, 2, 1)
    savemat(tmp_path / nyu_depth.SPLITS, {"trainNdxs": [[3], [1]], "testNdxs": [[2]]})
    train, test = NYUDepth(tmp_path), NYUDepth(tmp_path, "test")
    assert train.names == ["0", "2"] and test.names == ["1"]
    np.testing.assert_allclose(train.image(1).permute(1, 2, 0), images[2] / 255, atol=1e-6)
    assert np.array_equal(test.depth(0)[0], depths[1])


def test_nyu_itself(data_dir):
    assert [len(NYUDepth(data_dir, s)) for s in ("train", "test", "all")] == [50, 118, 168]
    dataset = NYUDepth(data_dir, "test", crop=True)
    assert dataset.names[:2] == ["0", "15"]
    data = dataset[0]
    assert data.y.shape == (427 * 561,) and 0.5 < float(data.y.mean()) < 10
    white = (NYUDepth(data_dir, "test").image(0)[:, :5] > 0.9).float().mean()
    assert white > 0.99 > float((dataset.image(0) > 0.9).float().mean())
