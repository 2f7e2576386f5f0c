import os

import numpy as np
import pytest
import torch

from permutogeo.datasets import PartMeshes

FILE = "labeled_meshes/human_fourleg_meshes.npz"
FACES = np.array([[0, 1, 2], [0, 2, 3]])


def write(folder, **changes):
    arrays = {
        "part_name": np.array(["Human/head", "Human/foot"]),
        "v_Human_1": np.random.default_rng(0).random((4, 3)),
        "f_Human_1": FACES,
        "y_Human_1": np.array([1, 0], np.uint8),
    }
    path = folder / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{**arrays, **changes})
    return folder


def test_reads_what_was_written(tmp_path):
    dataset = PartMeshes(write(tmp_path))
    assert len(dataset) == 1
    assert dataset.part_names == ["Human/head", "Human/foot"]
    mesh = dataset[0]
    assert mesh.name == "Human_1"
    assert torch.equal(mesh.face_y, torch.tensor([1, 0]))
    assert torch.equal(mesh.face, torch.from_numpy(FACES.T))


@pytest.mark.parametrize("label", [np.array([0, 2]), np.array([0])])
def test_wrong_labels(tmp_path, label):
    with pytest.raises(ValueError, match=r"a part below 2 for each of the 2 faces of 'Human_1'"):
        PartMeshes(write(tmp_path, y_Human_1=label))


def test_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="PartMeshes"):
        PartMeshes(tmp_path)


@pytest.mark.skipif(not os.environ.get("PERMUTOGEO_DATA"), reason="PERMUTOGEO_DATA is not set")
def test_the_real_ones():
    dataset = PartMeshes()
    assert len(dataset) == 40
    mesh = dataset[-1]
    assert len(mesh.face_y) == mesh.face.shape[1]
    parts = {dataset.part_names[i].split("/")[0] for i in mesh.face_y.unique().tolist()}
    assert parts == {mesh.name.split("_")[0]}
