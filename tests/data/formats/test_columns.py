"""Point attributes as scalar columns, and back."""

import numpy as np
import pytest

from permutogeo.data.formats.columns import from_columns, to_columns


@pytest.fixture
def fields():
    rng = np.random.default_rng(0)
    return {
        "pos": rng.random((4, 3)),
        "normal": rng.random((4, 3)),
        "uv": rng.random((4, 2)),
        "x": (rng.integers(0, 256, (4, 3)) / 255).astype(np.float32),
        "y": np.arange(4),
        "label_1": np.arange(4),
        "attr_odd": np.arange(4.0),
        "descriptor": rng.random((4, 5)),
    }


def test_round_trip(fields):
    back = from_columns(to_columns(fields))
    assert set(back) == set(fields)
    for name, value in fields.items():
        assert np.array_equal(back[name], value), name


def test_names_of_columns(fields):
    names = list(to_columns(fields))
    assert names[:3] == ["x", "y", "z"]
    for name in ("nx", "u", "red", "attr_y", "attr_label_1", "attr_attr_odd", "descriptor_4"):
        assert name in names


def test_colors_that_bytes_cannot_hold(fields):
    fields["x"] = np.random.default_rng(1).random((4, 3))
    columns = to_columns(fields)
    assert columns["red"].dtype == np.uint8 and "x_0" in columns
    assert np.array_equal(from_columns(columns)["x"], fields["x"])


def test_types():
    pos = np.zeros((2, 2), np.float32)
    columns = to_columns({"pos": pos, "flag": np.array([True, False]), "id": np.array([0, 2**31])})
    assert columns["z"].tolist() == [0, 0]
    assert columns["flag"].dtype == np.uint8 and columns["id"].dtype == np.uint32
    with pytest.raises(ValueError, match="'id' to fit 32-bit integers"):
        to_columns({"pos": pos, "id": np.array([-1, 2**31])})


def test_variants_and_errors():
    zero = np.zeros(2, np.float32)
    pos = {"x": zero, "y": zero, "z": zero}
    fields = from_columns({**pos, "diffuse_red": zero, "diffuse_green": zero, "diffuse_blue": zero})
    assert fields["x"].shape == (2, 3)
    assert "normal" in from_columns({**pos, "normal_x": zero, "normal_y": zero, "normal_z": zero})
    with pytest.raises(ValueError, match="no x, y, z among the columns a"):
        from_columns({"a": zero})
