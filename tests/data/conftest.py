"""What the tests of files and objects share."""

import numpy as np
import pytest
import torch

from permutogeo.data import from_mesh


@pytest.fixture
def mesh():
    """A ball with attributes of all kinds."""
    trimesh = pytest.importorskip("trimesh")
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
    """Whether data came back with these attributes, to the bit."""

    def compare(back, data, names):
        assert set(back.to_dict()) == set(names)
        for name in names:
            assert back[name].dtype == data[name].dtype, name
            assert torch.equal(back[name], data[name]), name

    return compare


@pytest.fixture(scope="session")
def check_error():
    """Expect an error whose message has these parts one after the other."""

    def expect(kind, *parts):
        return pytest.raises(kind, match="(?s)" + ".*".join(map(str, parts)))

    return expect
