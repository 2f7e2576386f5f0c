import re

import numpy as np
import pytest
import torch

from permutogeo.datasets import OpenMeshes
from permutogeo.datasets.open_meshes import TERMS

VERTICES = np.array([[0, 0, 0], [2, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.uint16)
NAMES = ("spot", "bunny", "human_man", "lionstatue", "mystery", "plane", "boat")


def write(folder, names=NAMES, vertices=VERTICES, faces=FACES):
    path = folder / "meshes" / "open_meshes.npz"
    path.parent.mkdir(exist_ok=True)
    arrays = {f"v_{name}": vertices * (k + 1) for k, name in enumerate(names)}
    np.savez(path, **arrays, **{f"f_{name}": faces for name in names})
    return path


def test_names_and_terms(tmp_path):
    write(tmp_path)
    dataset = OpenMeshes(tmp_path)
    assert str(dataset) == "OpenMeshes(7)"
    assert dataset.names == list(NAMES)
    assert dataset[4].terms == "unknown" and dataset[5].terms == "CC BY 3.0"
    assert dataset[1].pos.dtype == torch.float32 and dataset[1].face.dtype == torch.int64
    np.testing.assert_array_equal(dataset[1].pos, 2 * VERTICES)
    np.testing.assert_array_equal(dataset[1].face, FACES.T)
    assert OpenMeshes(tmp_path, terms="free").names == ["spot", "plane", "boat"]


def test_filters_and_transforms(tmp_path):
    write(tmp_path)

    def double(data):
        data.pos = 2 * data.pos
        return data

    dataset = OpenMeshes(
        tmp_path,
        transform=double,
        pre_transform=double,
        pre_filter=lambda data: data.name.startswith("b"),
    )
    assert dataset.names == ["bunny", "boat"]
    np.testing.assert_array_equal(dataset[0].pos, 8 * VERTICES)
    np.testing.assert_array_equal(dataset[0].pos, 8 * VERTICES)


def test_errors(tmp_path, monkeypatch):
    with pytest.raises(
        ValueError, match=r"OpenMeshes: Expected 'terms' in any, free \(got 'all'\)"
    ):
        OpenMeshes(tmp_path, terms="all")
    with pytest.raises(FileNotFoundError, match=r"OpenMeshes: .*open_meshes\.npz.*put it there"):
        OpenMeshes(tmp_path)
    monkeypatch.delenv("PERMUTOGEO_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="PERMUTOGEO_DATA"):
        OpenMeshes()
    write(tmp_path)
    monkeypatch.setenv("PERMUTOGEO_DATA", str(tmp_path))
    assert len(OpenMeshes()) == 7


def test_damaged_archives(tmp_path):
    path = write(tmp_path, ["spot"], faces=FACES + 1)
    with pytest.raises(
        ValueError, match=r"open_meshes\.npz': Expected a mesh as 'spot' .*face ind"
    ):
        OpenMeshes(tmp_path)
    np.savez(path, points=VERTICES)
    with pytest.raises(ValueError, match=r"Expected arrays named 'v_<mesh>' \(found points\)"):
        OpenMeshes(tmp_path)
    np.savez(path, v_spot=VERTICES)
    with pytest.raises(ValueError, match=r"open_meshes\.npz': Expected an archive with .*f_spot"):
        OpenMeshes(tmp_path)
    np.savez(path, v_spot=np.array([object()]), f_spot=FACES)  # would run code when loaded
    with pytest.raises(ValueError, match=r"open_meshes\.npz': Expected an archive"):
        OpenMeshes(tmp_path)
    path.write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"open_meshes\.npz': Expected an archive of meshes"):
        OpenMeshes(tmp_path)


def test_the_data_themselves(data_dir):
    arrays = np.load(data_dir / "meshes" / "open_meshes.npz")
    dataset = OpenMeshes(data_dir)
    assert len(dataset) == 32 and set(dataset.names) == set(TERMS)
    for data in dataset:
        np.testing.assert_array_equal(data.pos, arrays[f"v_{data.name}"])
        np.testing.assert_array_equal(data.face, arrays[f"f_{data.name}"].T)


def test_terms_are_those_of_the_list(data_dir):
    """The list of terms that comes with the data says the same."""
    readme = (data_dir / "README.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", readme.split("## Terms of the open")[1], re.M)
    listed = {}
    for terms, names in rows[1:]:
        listed |= dict.fromkeys(re.findall(r"[a-z]+(?:_[a-z]+)*(?=[, ]|$)", names), terms)
    smpl = {"human_man", "human_woman", "human_neutral"}
    free = {name for name in TERMS if re.match(r"CC BY \d|public", listed[name])} - smpl
    assert len(free) == 24 and not free & {"armadillo", "bunny", "bunny_hr", "lionstatue"}
    assert set(OpenMeshes(data_dir, terms="free").names) == free
