import gzip

import numpy as np
import pytest
import torch
from scipy import ndimage

from permutogeo.datasets import SparseMNIST

RNG = np.random.default_rng(0)


def write(path, array, magic):
    head = np.array([magic, *array.shape], ">i4").tobytes()
    with gzip.open(path, "wb") as file:
        file.write(head + array.tobytes())


@pytest.fixture
def digits():
    return RNG.integers(0, 256, (6, 28, 28)).astype(np.uint8)


@pytest.fixture
def root(tmp_path, digits):
    folder = tmp_path / "mnist"
    folder.mkdir()
    classes = np.array([3, 1, 4, 1, 5, 9], np.uint8)
    for part, chosen in (("train", slice(0, 4)), ("t10k", slice(4, 6))):
        write(folder / f"{part}-images-idx3-ubyte.gz", digits[chosen], 2051)
        write(folder / f"{part}-labels-idx1-ubyte.gz", classes[chosen], 2049)
    return tmp_path


def test_original(root, digits):
    data = SparseMNIST(root, "test")
    assert len(data) == 2 and data[1].y.tolist() == [9]
    assert torch.equal(data.image(1)[0], torch.from_numpy(digits[5]).float() / 255)
    torch.testing.assert_close(data[1].x.view(28, 28), data.image(1)[0])
    assert data[1].pos[29].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("fraction", "count"), [(1.0, 784), (0.6, 470), (0.2, 157)])
def test_samples_are_interpolated(root, digits, fraction, count):
    """At continuous positions, with the values that scipy finds there."""
    data = SparseMNIST(root, "test", fraction=fraction)[0]
    assert data.x.shape == (count, 1) and not torch.equal(data.pos, data.pos.round())
    pos = data.pos.double().numpy()
    wanted = ndimage.map_coordinates(digits[4].astype(float) / 255, pos.T[::-1], order=1)
    np.testing.assert_allclose(data.x[:, 0], wanted, atol=1e-5)
    assert pos.min() >= 0 and pos.max() <= 27 and np.ptp(pos, axis=0).min() > 20


def test_seed(root):
    fixed = SparseMNIST(root, "test", fraction=0.2, seed=0)
    assert torch.equal(fixed[0].pos, fixed[0].pos)
    assert not torch.equal(fixed[0].pos, fixed[1].pos)
    assert torch.equal(fixed[1:][0].pos, fixed[1].pos)
    other = SparseMNIST(root, "test", fraction=0.2, seed=1)
    assert not torch.equal(fixed[0].pos, other[0].pos)
    unseeded = SparseMNIST(root, "test", fraction=0.2)
    assert not torch.equal(unseeded[0].pos, unseeded[0].pos)


def test_damaged(root, digits):
    images = root / "mnist" / "t10k-images-idx3-ubyte.gz"
    labels = root / "mnist" / "t10k-labels-idx1-ubyte.gz"
    write(labels, np.array([1], np.uint8), 2049)
    with pytest.raises(ValueError, match="Expected 2 labels"):
        SparseMNIST(root, "test")
    write(labels, np.array([1, 77], np.uint8), 2049)
    with pytest.raises(ValueError, match="labels of 0 to 9"):
        SparseMNIST(root, "test")
    write(labels, np.array([1, 7], np.uint8), 2050)
    with pytest.raises(ValueError, match="Expected a packed idx file"):
        SparseMNIST(root, "test")
    write(images, digits[:2, :, :20], 2051)
    with pytest.raises(ValueError, match="its sizes are"):
        SparseMNIST(root, "test")
    images.write_bytes(b"not packed")
    with pytest.raises(ValueError, match="Expected a packed idx file"):
        SparseMNIST(root, "test")
    whole = gzip.compress(np.array([2051, 3, 28, 28], ">i4").tobytes() + digits[:2].tobytes())
    images.write_bytes(whole)
    with pytest.raises(ValueError, match="Expected 2352 bytes"):
        SparseMNIST(root, "test")
    images.write_bytes(whole[:-20])
    with pytest.raises(ValueError, match="Expected a packed idx file"):
        SparseMNIST(root, "test")


def test_wrong_settings(root, monkeypatch):
    with pytest.raises(ValueError, match="SparseMNIST: Expected 'fraction'"):
        SparseMNIST(root, fraction=1.5)
    with pytest.raises(ValueError, match="SparseMNIST: Expected 'split'"):
        SparseMNIST(root, "half")
    monkeypatch.delenv("PERMUTOGEO_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"SparseMNIST: .*PERMUTOGEO_DATA"):
        SparseMNIST()


def test_the_real_ones(data_dir):
    """The published counts of the test part."""
    test, val = SparseMNIST(data_dir, "test"), SparseMNIST(data_dir, "val")
    assert (len(test), len(val)) == (10000, 5000)
    counts = torch.bincount(test._classes).tolist()
    assert counts == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
