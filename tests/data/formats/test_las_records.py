"""Point records and headers of LAS as fields."""

import numpy as np
import pytest

from permutogeo.data.formats import las_records
from permutogeo.data.formats.las import read_las

pytest.importorskip("laspy")


def test_names_and_columns():
    fields = {
        "pos": np.random.default_rng(0).random((4, 3)),
        "x": np.array([[0, 0.5, 1]] * 4, np.float32),
        "intensity": np.array([0.1, 0.2, 0.3, 0.4]),
        "classification": np.array([1, 2, 3, 4]),
    }
    columns = las_records.las_columns(fields)
    assert columns["red"].dtype == np.uint16
    assert "x_1" in columns  # 0.5 is not exact in 16 bits
    points, header = las_records.fields_to_records(fields)
    assert header.point_format.id == 7 and list(points["classification"]) == [1, 2, 3, 4]
    back = las_records.records_to_fields(points)
    assert np.array_equal(back["intensity"], fields["intensity"])
    assert np.array_equal(back["x"], fields["x"])


def test_a_header_survives_packing(las_file):
    fields = read_las(las_file())
    header = las_records.unpack_header(fields["las_header"])
    assert las_records.coordinate_system(header) == fields["crs"][0]
    assert [v.user_id for v in header.evlrs] == ["after"]
    with pytest.raises(ValueError, match="Expected 'las_header' of a LAS file"):
        las_records.unpack_header(np.array(["hello", ""]))


def test_the_reference_system_of_another_format():
    fields = {"pos": np.zeros((1, 3)), "crs": np.array(['GEOGCS["WGS 84"]'])}
    _, header = las_records.fields_to_records(fields)
    assert las_records.coordinate_system(header) == 'GEOGCS["WGS 84"]'
    assert header.global_encoding.wkt


def test_a_value_out_of_range_of_the_file(las_file):
    fields = read_las(las_file(version="1.2", point_format=3))
    _, header = las_records.fields_to_records(fields)
    fields["classification"] = np.full(len(fields["pos"]), 40)  # 5 bits
    with pytest.raises(ValueError, match=r"Expected integers from 0 to 31 in 'classification'"):
        las_records.fields_to_records(fields, header)


def test_long_names_are_refused():
    fields = {"pos": np.zeros((1, 3)), "a" * 40: np.zeros(1)}
    with pytest.raises(ValueError, match="names of at most 32 bytes"):
        las_records.fields_to_records(fields)
