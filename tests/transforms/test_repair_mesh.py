"""Repair against plain loops over faces."""

import math
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from permutogeo.testing.mesh import sound
from permutogeo.transforms import RepairMesh, RepairReport


def repaired(data):
    """The result, and what the warning says, or ''."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = RepairMesh()(data)
    assert len(caught) <= 1
    return result, "".join(str(warning.message) for warning in caught)


coordinate = st.sampled_from([0.0, 0.0, 1.0, -2.5, 3.0, math.nan, math.inf, -math.inf])
corner = st.integers(-1, 6)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(coordinate, coordinate, coordinate), min_size=1, max_size=6),
    st.lists(st.tuples(corner, corner, corner), max_size=12),
)
def test_what_stays(pos, face):
    whole, kept = sound(pos, face)
    data = Data(
        pos=torch.tensor(pos),
        face=torch.tensor(face, dtype=torch.int64).reshape(-1, 3).t(),
        y=torch.arange(len(pos)),
        face_label=torch.arange(len(face)),
        title="kept",
    )
    if not whole or (face and not kept):
        with pytest.raises(ValueError, match=r"RepairMesh: Expected a (finite vertex|valid face)"):
            repaired(data)
        return
    result, said = repaired(data)
    assert result.y.tolist() == whole and result.face_label.tolist() == kept
    assert result.pos.tolist() == [list(pos[i]) for i in whole]
    corners = [[whole.index(vertex) for vertex in face[i]] for i in kept]
    assert result.face.t().tolist() == corners
    assert bool(said) == (len(whole) < len(pos) or len(kept) < len(face))
    again, nothing = repaired(result)
    assert nothing == "" and torch.equal(again.pos, result.pos)


def test_counts_in_words():
    pos = torch.eye(5)[:, :3]
    pos[3, 1] = math.nan
    face = [[0, 1, 2], [1, 2, 0], [0, 2, 1], [0, 1, 1], [0, 1, 3], [2, 3, 4], [0, 1, 5], [0, -1, 1]]
    result, said = repaired(Data(pos=pos, face=torch.tensor(face).t()))
    assert result.face.t().tolist() == [[0, 1, 2], [0, 2, 1]]
    assert said == (
        "RepairMesh: dropped 1 non-finite vertex, 2 faces at such vertices, 2 faces with indices "
        "out of range, 1 face with a repeated vertex, 1 duplicate face"
    )


def test_report_counts_without_a_warning():
    pos = torch.eye(5)[:, :3]
    pos[3, 1] = math.nan
    face = [[0, 1, 2], [1, 2, 0], [0, 1, 1], [0, 1, 3], [2, 3, 4], [0, 1, 5], [0, -1, 1]]
    data = Data(pos=pos, face=torch.tensor(face).t(), x=torch.full((5, 1), math.inf))
    before = {name: value.clone() for name, value in data.to_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result, report = RepairMesh().repair(data)
    assert report == RepairReport(1, 2, 2, 1, 1, ("x",))
    assert report and str(report).endswith("1 duplicate face; set non-finite values of 'x' to 0")
    for name, value in before.items():
        assert torch.equal(data[name].nan_to_num(), value.nan_to_num()), name
    again, nothing = RepairMesh().repair(result)
    assert not nothing and str(nothing) == "" and nothing == RepairReport()
    assert torch.equal(again.pos, result.pos)


def test_attributes_that_are_not_finite():
    data = Data(pos=torch.eye(3), face=torch.tensor([[0], [1], [2]]))
    data.normal = torch.full((3, 3), math.nan)
    data.x = torch.tensor([[0.5], [math.inf], [1.0]])
    data.quality = torch.full((3,), math.nan)
    result, said = repaired(data)
    assert said == (
        "RepairMesh: set non-finite values of 'x' to 0; set non-finite values of 'normal' to 0"
    )
    assert result.x.tolist() == [[0.5], [0], [1]] and not result.normal.any()
    assert result.quality.isnan().all()


def test_clouds_lose_points():
    data = Data(pos=torch.eye(4)[:, :2], edge_index=torch.tensor([[0], [1]]), num_nodes=4)
    data.pos[1, 1] = math.inf
    result, said = repaired(data)
    assert said == "RepairMesh: dropped 1 non-finite vertex"
    assert result.pos.tolist() == [[1, 0], [0, 0], [0, 0]]
    assert result.num_nodes == 3 and "edge_index" not in result


def test_what_is_no_damage_stays():
    """Sheets of two sides, stray vertices, edges of three faces, parts, faces of area 0."""
    pos = torch.tensor([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, -1, 0], [2, 0, 0.0]])
    face = torch.tensor([[0, 1, 2], [2, 1, 0], [0, 1, 3], [0, 1, 4], [0, 1, 5]]).t()
    result, said = repaired(Data(pos=torch.cat([pos, pos + 9, pos[:1]]), face=face))
    assert said == "" and torch.equal(result.face, face) and len(result.pos) == 13


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Data(pos=torch.zeros(0, 3)), "finite vertex .got none of 0"),
        (Data(pos=torch.eye(3), face=torch.tensor([[0, 1, 2]])), r"'face' of shape \[3, F\]"),
        (Batch.from_data_list([Data(pos=torch.eye(3))]), "before batching"),
        (
            Data(pos=torch.eye(3), face=torch.tensor([[0], [1], [1]])),
            "a valid face .got 1 face with a repeated vertex",
        ),
    ],
)
def test_errors(data, message):
    with pytest.raises(ValueError, match=message):
        RepairMesh()(data)
