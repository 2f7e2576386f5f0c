"""XYZ files and their variants."""

import numpy as np
import pytest

from permutogeo.data.formats.xyz import read_xyz, write_xyz


@pytest.mark.parametrize(
    ("name", "text", "extra"),
    [
        ("a.xyz", "1 2 3\n4 5 6\n", None),
        ("a.txt", "# x y z\n1, 2, 3\n\n4, 5, 6 # last\n", None),
        ("a.xyz", "1\t2\t3\t.5\n4 5 6 .25\n", "x"),
        ("a.xyzn", "1 2 3 0 0 1\n4 5 6 0 1 0\n", "normal"),
        ("a.xyzrgb", "1 2 3 0 0 1\n4 5 6 0 1 0\n", "x"),
    ],
)
def test_rows(tmp_path, name, text, extra):
    (tmp_path / name).write_text(text)
    fields = read_xyz(tmp_path / name)
    assert fields["pos"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert set(fields) == {"pos"} | ({extra} if extra else set())


def test_writers_need_the_attribute_of_the_suffix(tmp_path):
    fields = {"pos": np.zeros((2, 3)), "x": np.zeros((2, 4))}
    with pytest.raises(ValueError, match=r"'normal' in data to write .xyzn"):
        write_xyz(tmp_path / "a.xyzn", fields)
    with pytest.raises(ValueError, match=r"'x' of shape \[N, 3\] \(got \[2, 4\]\)"):
        write_xyz(tmp_path / "a.xyzrgb", fields)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_digits_are_exact(tmp_path, dtype):
    pos = np.random.default_rng(0).random((20, 3)).astype(dtype)
    write_xyz(tmp_path / "a.xyz", {"pos": pos})
    assert np.array_equal(read_xyz(tmp_path / "a.xyz")["pos"].astype(dtype), pos)


@pytest.mark.parametrize("text", ["1,5 2,5 3,5\n", "1,5\t2,5\t3,5\n", "1 2,5 3\n", "1,2 3,4 5,6\n"])
def test_decimal_commas_are_refused(tmp_path, text):
    (tmp_path / "a.xyz").write_text("0 0 0\n" + text)
    with pytest.raises(ValueError, match=r"row 1 has '.,.', a decimal comma"):
        read_xyz(tmp_path / "a.xyz")


@pytest.mark.parametrize("text", ["1,2,3", "1, 2, 3", "1 ,2 ,3", "1,2,3,", "1 , 2 , 3"])
def test_commas_between_columns(tmp_path, text):
    (tmp_path / "a.xyz").write_text(text)
    assert read_xyz(tmp_path / "a.xyz")["pos"].tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("text", ["X Y Z\n1 2 3\n", "//x,y,z\n1,2,3\n"])
def test_headers_are_named(tmp_path, text):
    (tmp_path / "a.xyz").write_text(text)
    with pytest.raises(ValueError, match=r"a header '.*'; begin that line with '#'"):
        read_xyz(tmp_path / "a.xyz")
    (tmp_path / "a.xyz").write_text(f"#{text}")
    assert read_xyz(tmp_path / "a.xyz")["pos"].tolist() == [[1, 2, 3]]
