import numpy as np
import pytest
import torch

from permutogeo.data import from_mesh, to_mesh
from permutogeo.datasets import MeshFolder
from permutogeo.transforms import NormalizeScale

VERTICES = np.array([[0.0, 0, 0], [2, 0, 0], [0, 1, 0], [0, 0, 1]])
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])


def write(folder, counts=None):
    for name, count in (counts or {"cone": 4, "box": 3}).items():
        for i in range(count):
            path = folder / name / f"{i:02}.off"
            path.parent.mkdir(parents=True, exist_ok=True)
            to_mesh(from_mesh(VERTICES * (i + 1), FACES), path)
    return folder


def test_labels_and_points(tmp_path):
    (write(tmp_path) / "cone" / "readme.txt").write_text("no mesh")
    dataset = MeshFolder(tmp_path, num_points=50)
    assert str(dataset) == "MeshFolder(7)"
    assert dataset.classes == ["box", "cone"] and dataset.num_classes == 2
    assert [int(data.y) for data in dataset] == [0, 0, 0, 1, 1, 1, 1]
    data = dataset[1]
    assert data.pos.shape == data.normal.shape == (50, 3)
    assert data.path.endswith("01.off")
    # All points lie on one of the four planes, with its normal.
    inside = data.pos @ torch.tensor([0.5, 1.0, 1.0]) / 2
    on_plane = torch.cat([data.pos.abs(), (inside - 1).abs().unsqueeze(1)], 1).min(1).values
    assert on_plane.max() < 1e-5
    torch.testing.assert_close(data.normal.norm(dim=1), torch.ones(50))


def test_points_are_drawn_by_area(tmp_path):
    write(tmp_path, {"one": 1})
    data = MeshFolder(tmp_path, num_points=20_000)[0]
    corner = torch.tensor(VERTICES)[torch.tensor(FACES)]
    a, b, c = corner.unbind(1)
    area = torch.linalg.cross(b - a, c - a)
    share = area.norm(dim=1) / area.norm(dim=1).sum()
    normal = (area / area.norm(dim=1, keepdim=True)).float()
    nearest = (data.normal @ normal.T).argmax(1)
    drawn = torch.bincount(nearest, minlength=4) / 20_000
    assert (drawn - share).abs().max() < 0.02
    for k in range(4):
        centroid = data.pos[nearest == k].double().mean(0)
        assert (centroid - corner[k].mean(0)).abs().max() < 0.05


def test_splits_share_no_mesh_and_points_do_not_depend_on_them(tmp_path):
    write(tmp_path, {"a": 12})
    whole = {data.path: data.pos for data in MeshFolder(tmp_path, 16)}
    seen = []
    for split, size in (("train", 8), ("val", 1), ("test", 3)):
        dataset = MeshFolder(tmp_path, 16, split)
        assert len(dataset) == size
        for data in dataset:
            assert torch.equal(data.pos, whole[data.path])
            seen.append(data.path)
    assert sorted(seen) == sorted(whole)
    other = MeshFolder(tmp_path, 16, seed=1)[0]
    assert not torch.equal(other.pos, whole[other.path])


def test_pre_transform(tmp_path):
    dataset = MeshFolder(write(tmp_path), 16, pre_transform=NormalizeScale())
    assert all(abs(float(data.pos.norm(dim=1).max()) - 1) < 1e-5 for data in dataset)


def test_hidden_names_are_skipped_and_subfolders_searched(tmp_path):
    """Temporary files that a killed program left are not read."""
    write(tmp_path, {"cube": 2})
    mesh = next(path for path in (tmp_path / "cube").iterdir())
    deep = tmp_path / "cube" / "more" / "deep.ply"
    deep.parent.mkdir()
    content = mesh.read_bytes()
    for path in (deep.with_suffix(mesh.suffix),
                 tmp_path / "cube" / f".out.0123456789abcdef{mesh.suffix}",
                 tmp_path / "cube" / ".cache" / f"a{mesh.suffix}",
                 tmp_path / ".hidden" / f"a{mesh.suffix}"):  # fmt: skip
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    dataset = MeshFolder(tmp_path, num_points=4)
    assert dataset.classes == ["cube"]
    assert len(dataset) == 3
    assert not any("/." in data.path.removeprefix(str(tmp_path)) for data in dataset)
    # A hidden folder above the root does not matter.
    hidden = tmp_path / ".home" / "data" / "cube"
    hidden.mkdir(parents=True)
    (hidden / mesh.name).write_bytes(content)
    assert len(MeshFolder(tmp_path / ".home" / "data", num_points=4)) == 1


def test_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"MeshFolder: Expected the folder '.*nowhere'"):
        MeshFolder(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"Expected meshes \(\.ply.*one for each class"):
        MeshFolder(tmp_path)
    write(tmp_path)
    with pytest.raises(ValueError, match="Expected 'split'"):
        MeshFolder(tmp_path, split="half")
    with pytest.raises(ValueError, match="Expected 'num_points' >= 1"):
        MeshFolder(tmp_path, num_points=0)
    flat = tmp_path / "cone" / "flat.off"
    to_mesh(from_mesh(VERTICES * [1, 0, 0], FACES), flat)
    with pytest.raises(ValueError, match=r"flat\.off': Expected a mesh with some area"):
        MeshFolder(tmp_path)
    flat.write_text("OFF\n3 1 0\n0 0 0\n")
    with pytest.raises(ValueError, match=r"flat\.off'"):
        MeshFolder(tmp_path)
