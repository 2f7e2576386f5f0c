"""Checks of attributes that transforms and models need."""

import pytest
import torch
from torch_geometric.data import Batch, Data

from permutogeo.data.require import (
    is_point_attribute,
    missing_attribute,
    require,
    require_faces,
    require_mesh,
    require_pos,
    require_single,
)


class Owner:
    """Stands for a transform: its class name precedes each message."""


FACE = torch.tensor([[0], [1], [2]])


def test_attributes_are_returned_as_they_are():
    data = Data(pos=torch.rand(3, 3), face=FACE)
    assert require(Owner(), data, "pos") is data.pos
    assert require_pos(Owner(), data) is data.pos
    pos, face = require_mesh(Owner(), data)
    assert pos is data.pos and face is data.face


def test_missing_attribute_lists_the_others():
    error = missing_attribute(Owner(), "y", Data(x=torch.zeros(1), title="a"))
    assert str(error) == "Owner: Expected 'y' in data (it has x, title)"
    with pytest.raises(ValueError, match=r"Owner: Expected 'title' in data \(it has title\)"):
        require(Owner(), Data(title="no tensor"), "title")
    with pytest.raises(TypeError, match=r"Owner: Expected torch_geometric.data.Data \(got dict\)"):
        require(Owner(), {}, "pos")


@pytest.mark.parametrize(
    ("pos", "got"),
    [
        (torch.zeros(4), "[4] torch.float32"),
        (torch.zeros(4, 5), "[4, 5] torch.float32"),
        (torch.zeros(4, 3, dtype=torch.int64), "[4, 3] torch.int64"),
    ],
)
def test_positions(pos, got):
    with pytest.raises(ValueError, match="Expected floating 'pos'") as error:
        require_pos(Owner(), Data(pos=pos))
    assert str(error.value).endswith(f"of shape [N, 2|3] (got {got})")
    with pytest.raises(ValueError, match=r"shape \[N, 3\] \(got \[4, 2\]"):
        require_pos(Owner(), Data(pos=torch.zeros(4, 2)), dims=(3,))


def test_faces():
    assert require_faces(Owner(), Data(face=FACE + 7)).tolist() == (FACE + 7).tolist()
    for face in (FACE.t(), FACE.int(), FACE[:, 0]):
        with pytest.raises(ValueError, match=r"'face' of shape \[3, F\] and type int64"):
            require_faces(Owner(), Data(face=face))
    pos = torch.zeros(3, 3)
    for face, worst in ((FACE + 1, 3), (FACE - 1, -1)):
        with pytest.raises(ValueError, match=rf"'face' indices from 0 to 2 \(got {worst}\)"):
            require_mesh(Owner(), Data(pos=pos, face=face))
    assert require_mesh(Owner(), Data(pos=pos, face=FACE[:, :0]))[1].shape == (3, 0)


def test_batches():
    data = Data(pos=torch.zeros(3, 3))
    require_single(Owner(), data)
    with pytest.raises(ValueError, match="Owner: Expected one graph, before batching"):
        require_single(Owner(), Batch.from_data_list([data]))


def test_point_attributes():
    value = torch.zeros(4, 2)
    assert is_point_attribute("x", value, 4)
    assert not is_point_attribute("x", value, 3)
    assert not is_point_attribute("face_label", value, 4)
    assert not is_point_attribute("edge_index", value, 4)
    assert not is_point_attribute("title", "abcd", 4)
    assert not is_point_attribute("scale", torch.tensor(4.0), 4)
