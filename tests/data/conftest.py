"""Fixtures for files and objects."""

import numpy as np
import pytest
import torch
import trimesh

from permutogeo.data import from_mesh, from_point_cloud


@pytest.fixture
def mesh():
    """A sphere with attributes of all kinds."""
    sphere = trimesh.creation.icosphere(subdivisions=2)
    generator = torch.Generator().manual_seed(0)
    data = from_mesh(np.asarray(sphere.vertices), np.asarray(sphere.faces))
    count, faces = data.num_nodes, data.face.size(1)
    data.x = torch.randint(256, (count, 3), generator=generator) / torch.tensor(255.0)
    data.normal = data.pos.clone()
    data.uv = torch.rand(count, 2, generator=generator)
    data.y = torch.arange(count) % 7
    data.quality = torch.rand(count, generator=generator)
    data.descriptor = torch.rand(count, 5, generator=generator)
    data.alpha = torch.randint(255, (count,), generator=generator) / torch.tensor(255.0)
    data.face_label = torch.arange(faces) % 3
    data.face_color = torch.randint(256, (faces, 3), generator=generator) / torch.tensor(255.0)
    return data


@pytest.fixture(scope="session")
def assert_same():
    """Compare data bit by bit; ``names`` are the attributes to expect, by default all."""

    def compare(back, data, names=None):
        names = set(data.to_dict() if names is None else names)
        assert set(back.to_dict()) == names
        for name in names:
            if torch.is_tensor(data[name]):
                assert back[name].dtype == data[name].dtype, name
                assert torch.equal(back[name], data[name]), name
            else:
                assert back[name] == data[name], name

    return compare


@pytest.fixture(scope="session")
def check_error():
    """Expect an error whose message has these parts in order."""

    def expect(kind, *parts):
        return pytest.raises(kind, match="(?s)" + ".*".join(map(str, parts)))

    return expect


@pytest.fixture
def cloud():
    generator = torch.Generator().manual_seed(0)
    data = from_point_cloud(torch.randn(50, 3, generator=generator))
    data.x = torch.randint(256, (50, 3), generator=generator) / torch.tensor(255.0)
    data.normal = torch.nn.functional.normalize(torch.randn(50, 3, generator=generator))
    data.y = torch.arange(50)
    data.intensity = torch.rand(50, generator=generator)
    return data


@pytest.fixture
def image():
    return np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)


@pytest.fixture
def sphere():
    return from_mesh(trimesh.creation.icosphere(subdivisions=3), dtype=torch.float64)


@pytest.fixture
def box():
    return from_mesh(trimesh.creation.box(extents=(1, 2, 3)), dtype=torch.float64)


@pytest.fixture
def damaged():
    """An open sheet, a closed shape, a face twice, two degenerate faces and an unused vertex."""
    closed = trimesh.creation.icosphere(subdivisions=0)
    corner = np.array([0, 1, 2, 4, 5, 6])
    sheet = np.concatenate([np.stack([corner, corner + 1, corner + 5], axis=1),
                            np.stack([corner + 1, corner + 5, corner + 4], axis=1)])  # fmt: skip
    flat = np.array([[0, 0, 1], [3, 3, 3], sheet[4]])
    face = np.concatenate([closed.faces, sheet + 12, flat + 12])
    pos = np.concatenate([closed.vertices, np.random.default_rng(3).random((13, 3))])
    return from_mesh(pos, face, dtype=torch.float64)
