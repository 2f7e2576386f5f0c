import numpy as np
import pytest
import torch
from torch_geometric.loader import DataLoader

from permutogeo.data.geometry import mean_edge_length
from permutogeo.datasets import DenoisingPairs

VERTICES = np.array([[0, 0, 0], [2, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.uint16)


def write(folder, name="cube_0.3", **changed):
    path = folder / "meshes" / "denoising_pairs.npz"
    path.parent.mkdir(exist_ok=True)
    arrays = {"clean": VERTICES, "noisy": VERTICES + 1, "f": FACES, **changed}
    np.savez(path, **{f"{kind}_{name}": value for kind, value in arrays.items()})
    return path


def test_pairs(tmp_path):
    write(tmp_path, "round_cube_0.3")
    (data,) = DenoisingPairs(tmp_path)
    assert data.name == "round_cube" and data.noise == 0.3
    np.testing.assert_array_equal(data.pos, VERTICES + 1)
    np.testing.assert_array_equal(data.clean_pos, VERTICES)
    np.testing.assert_array_equal(data.face, FACES.T)


def test_pairs_make_batches(tmp_path):
    write(tmp_path)
    data = DenoisingPairs(tmp_path)[0]
    batch = next(iter(DataLoader([data, data], batch_size=2)))
    assert batch.pos.shape == batch.clean_pos.shape == (8, 3)
    assert torch.equal(batch.face[:, 4:], data.face + 4)
    assert batch.name == ["cube", "cube"]


def test_damaged_archives(tmp_path):
    write(tmp_path, clean=VERTICES[:3])
    with pytest.raises(ValueError, match=r"denoising_pairs\.npz': Expected a pair .*'cube_0\.3'"):
        DenoisingPairs(tmp_path)
    write(tmp_path, clean=np.concatenate([VERTICES, VERTICES]))
    with pytest.raises(ValueError, match=r"as many clean as noisy .* \(got 8 and 4\)"):
        DenoisingPairs(tmp_path)
    write(tmp_path, name="cube_loud")
    with pytest.raises(ValueError, match=r"Expected a pair with its noise in the name"):
        DenoisingPairs(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"DenoisingPairs: .*denoising_pairs\.npz"):
        DenoisingPairs(tmp_path / "nowhere")


def test_the_data_themselves(data_dir):
    """The mean distance over the mean edge length is what others measured on these pairs."""
    expected = {
        ("block", 0.4): 0.318,
        ("bunny", 0.2): 0.160,
        ("fandisk", 0.3): 0.238,
        ("fandisk", 0.7): 0.554,
        ("julius", 0.2): 0.156,
        ("sharpsphere", 0.3): 0.241,
        ("trimstar", 0.5): 0.441,
    }
    dataset = DenoisingPairs(data_dir)
    assert str(dataset) == "DenoisingPairs(7)"
    for data in dataset:
        moved = torch.linalg.vector_norm(data.pos - data.clean_pos, dim=1)
        level = moved.mean() / mean_edge_length(data.clean_pos, data.face)
        assert float(level) == pytest.approx(expected.pop((data.name, data.noise)), abs=1e-3)
        assert data.noise == pytest.approx(
            float(moved.square().mean().sqrt() / moved.mean() * level), rel=0.06
        )
    assert not expected
