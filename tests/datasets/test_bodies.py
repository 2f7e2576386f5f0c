"""Sources of bodies, and the bodies of the real model."""

import numpy as np
import pytest
import torch
import trimesh

from permutogeo.datasets import Bodies, procedural_body
from permutogeo.datasets.synthetic.body_model import BodyModel
from permutogeo.datasets.synthetic.body_sampling import (
    count_penetrations,
    is_valid_pose,
    random_body,
    random_shape,
)


def test_where_bodies_come_from(tmp_path, monkeypatch, body):
    monkeypatch.delenv("PERMUTOGEO_DATA", raising=False)
    assert Bodies().model == "procedural"
    with pytest.raises(FileNotFoundError, match=r"Bodies: .*makehuman_body\.npz.*put it there"):
        Bodies(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"Bodies: .*other\.npz"):
        Bodies(model=tmp_path / "other.npz")
    path = body.write(tmp_path)
    monkeypatch.setenv("PERMUTOGEO_DATA", str(tmp_path))
    assert Bodies().model == Bodies(tmp_path).model == Bodies(model=path).model == str(path)
    assert Bodies(model="procedural").model == "procedural"
    assert str(Bodies(num_bodies=7)) == "Bodies(7)"
    with pytest.raises(ValueError, match=r"Bodies: Expected a number of 1 or more \(got 0\)"):
        Bodies(num_bodies=0)


def test_a_body_depends_on_seed_and_index_alone(tmp_path, body):
    body.write(tmp_path)
    first, again = Bodies(tmp_path, 10), Bodies(tmp_path, 99)
    assert torch.equal(first[4].pos, again[4].pos)
    assert not torch.equal(first[4].pos, first[5].pos)
    assert not torch.equal(first[4].pos, Bodies(tmp_path, 10, seed=1)[4].pos)
    assert first[4].face.data_ptr() == first[5].face.data_ptr()
    grown = Bodies(
        tmp_path, 10, pre_transform=lambda data: data.clone().update({"pos": 2 * data.pos})
    )
    assert torch.equal(grown[4].pos, 2 * first[4].pos)


@pytest.fixture(scope="module")
def model(data_dir):
    return BodyModel.load(data_dir / "bodies" / "makehuman_body.npz")


def test_the_bodies_themselves(data_dir, model):
    dataset = Bodies(data_dir, 500)
    for k in (0, 250, 499):
        data = dataset[k]
        mesh = trimesh.Trimesh(data.pos, data.face.T, process=False)
        assert data.pos.shape == (13380, 3) and data.face.shape == (3, 26756)
        assert mesh.is_watertight and mesh.is_winding_consistent and mesh.euler_number == 2
        assert 0.03 < mesh.volume < 0.15
        rest, _ = model.apply_shape(random_shape(model, np.random.default_rng([0, k])))
        assert is_valid_pose(model, rest, data.pos.double().numpy())
        assert count_penetrations(model, data.pos.double().numpy()) <= 3
        expected = random_body(model, np.random.default_rng([0, k]))
        np.testing.assert_allclose(data.pos, expected, atol=1e-6)


def test_procedural_bodies_of_the_dataset():
    dataset = Bodies(num_bodies=3, model="procedural", seed=4, resolution=48)
    assert torch.equal(dataset[1].pos, procedural_body([4, 1], resolution=48).pos)
    assert dataset[0].pos.shape != dataset[1].pos.shape
