"""OFF files: headers and colors."""

import numpy as np
import pytest
import torch
import trimesh

from permutogeo.data import from_mesh, to_mesh
from permutogeo.data.open3d_loader import load_open3d

pytestmark = pytest.mark.filterwarnings("ignore:.*polygons were split")


@pytest.mark.parametrize(
    "head", ["OFF\n4 2 0\n", "OFF 4 2 0\n", "OFF4 2 0\n", "# a\nOFF\n\n4 2 0\n"]
)
def test_off_headers(tmp_path, head):
    (tmp_path / "a.off").write_text(
        head + "0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 1 2 3\n3 0 1 2 255 0 0\n"
    )
    assert from_mesh(tmp_path / "a.off").face.t().tolist() == [[0, 1, 2], [0, 2, 3], [0, 1, 2]]


def test_off_keeps_colors(tmp_path, assert_same):
    sphere = trimesh.creation.icosphere(1)
    data = from_mesh(np.asarray(sphere.vertices), np.asarray(sphere.faces))
    for x in (
        torch.randint(256, (42, 3)) / torch.tensor(255.0),
        torch.rand(42, 3),
        torch.randint(3, (42, 3)) / torch.tensor(255.0),
    ):
        data.x, data.face_color = x, x.repeat(2, 1)[:80]
        assert_same(from_mesh(to_mesh(data, tmp_path / "a.off")), data)
    data.x = torch.randint(256, (42, 3)) / torch.tensor(255.0)
    del data.face_color
    theirs = load_open3d().io.read_triangle_mesh(str(to_mesh(data, tmp_path / "a.off")))
    np.testing.assert_allclose(np.asarray(theirs.vertex_colors), data.x.numpy(), atol=1e-6)
