"""glTF through trimesh; test_mesh.py has the round trip of GLB."""

import base64
import json

import pytest
import torch
import trimesh

from permutogeo.data import from_mesh, to_mesh


@pytest.mark.parametrize("suffix", ["glb", "gltf"])
def test_round_trip(tmp_path, mesh, suffix, assert_same):
    path = to_mesh(mesh, tmp_path / f"a.{suffix}")
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    back = from_mesh(path)
    assert_same(back, mesh, set(back.to_dict()))
    assert {"pos", "face", "x", "normal"} <= set(back.to_dict())
    theirs = trimesh.load_mesh(path, process=False)
    assert len(theirs.vertices) == mesh.num_nodes


def test_nothing_outside_of_the_folder_is_read(tmp_path, mesh):
    """A buffer is found in the folder of the file, and nowhere else."""
    (tmp_path / "in").mkdir()
    path = to_mesh(mesh, tmp_path / "in" / "a.gltf")
    tree = json.loads(path.read_text())
    buffer = base64.b64decode(tree["buffers"][0]["uri"].partition(",")[2])
    for place, uri in (("in", "buffer.bin"), (".", "../buffer.bin")):
        (tmp_path / place / "buffer.bin").write_bytes(buffer)
        tree["buffers"][0]["uri"] = uri
        path.write_text(json.dumps(tree))
        if place == "in":
            torch.testing.assert_close(from_mesh(path).pos, mesh.pos)
            (tmp_path / place / "buffer.bin").unlink()
        else:
            with pytest.raises(ValueError, match=r"a.gltf': Expected"):
                from_mesh(path)
