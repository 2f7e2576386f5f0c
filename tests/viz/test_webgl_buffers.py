"""Quantized buffers, unpacked again."""

import base64
import gzip

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from permutogeo.viz.scene import make_scene
from permutogeo.viz.webgl_buffers import pack_scene


def unpack(scene):
    """The typed arrays as the script of the page unpacks them."""
    meshes, layout, text = pack_scene(scene)
    data = gzip.decompress(base64.b64decode(text))
    arrays = {}
    for name, where in layout.items():
        dtype = np.dtype(where["type"].removesuffix("Array").lower()).newbyteorder("<")
        assert where["offset"] % dtype.itemsize == 0
        arrays[name] = np.frombuffer(data, dtype, where["length"], where["offset"])
    return meshes, arrays


def test_buffers_hold_the_meshes(trio):
    meshes, arrays = unpack(make_scene(trio, None, 10**6, "x"))
    assert len(meshes) == 3
    whole = torch.cat([data.pos for data in trio.values()]).double().numpy()
    center = (whole.min(axis=0) + whole.max(axis=0)) / 2
    radius = np.linalg.norm(whole - center, axis=1).max()
    for mesh, data in zip(meshes, trio.values(), strict=True):
        pos = arrays[mesh["position"]].reshape(-1, 3) / 65535 * 2 - 1
        np.testing.assert_allclose(pos * radius + center, data.pos, atol=1.1 * radius / 65535)
        np.testing.assert_array_equal(arrays[mesh["face"]].reshape(-1, 3), data.face.t())
    assert len({mesh["face"] for mesh in meshes}) == 1, "equal triangles are held once"
    noisy, _, truth = meshes
    assert "error" not in truth
    distance = torch.linalg.vector_norm(trio["noisy"].pos - trio["ground truth"].pos, dim=1)
    level = arrays[noisy["error"]]
    assert np.corrcoef(level, distance)[0, 1] > 0.99


@pytest.mark.parametrize(("count", "bytes_each"), [(2**16, 2), (2**16 + 1, 4)])
def test_many_vertices_need_wide_indices(count, bytes_each):
    index = torch.arange(count - 2)
    data = Data(pos=torch.rand(count, 3), face=torch.stack([index, index + 1, index + 2]))
    (mesh,), arrays = unpack(make_scene({"a": data}, None, 10**6, "x"))
    face = arrays[mesh["face"]]
    assert face.dtype.itemsize == bytes_each
    np.testing.assert_array_equal(face.reshape(-1, 3), data.face.t())


def test_clouds_and_colors():
    pos, color = torch.rand(50, 3), torch.rand(50, 3)
    scene = make_scene({"cloud": Data(pos=pos, x=color)}, None, 10**6, "x")
    (mesh,), arrays = unpack(scene)
    assert "face" not in mesh and mesh["diameter"] > 0
    np.testing.assert_allclose(arrays[mesh["color"]].reshape(-1, 3) / 255, color, atol=0.003)
    length = np.linalg.norm(arrays[mesh["normal"]].reshape(-1, 3), axis=1)
    np.testing.assert_allclose(length, 127, atol=1)
