"""PLY headers and elements: counts, types, truncation."""

import time

import pytest

from permutogeo.data import from_mesh, from_point_cloud, to_mesh
from permutogeo.data.formats.ply_elements import read_elements

pytestmark = pytest.mark.filterwarnings("ignore:.*polygons were split")

PLY = """ply
format ascii 1.0
element vertex {vertices}
property float x
property float y
property float z
element face {faces}
property list uchar int vertex_indices
end_header
0 0 0
1 0 {z}
0 1 0
0 0 1
3 0 1 {last}
3 0 2 3
"""


TWICE = PLY.replace("property float z\n", "property float z\nproperty float y\n")


GOOD = {"vertices": 4, "faces": 2, "z": 0, "last": 2}


def test_ascii_ply_with_mixed_polygons(tmp_path):
    text = PLY.format(**{**GOOD, "faces": 2}).replace("3 0 2 3\n", "4 0 1 2 3\n")
    (tmp_path / "a.ply").write_text(text)
    assert from_mesh(tmp_path / "a.ply").face.t().tolist() == [[0, 1, 2], [0, 1, 2], [0, 2, 3]]


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"vertices": 1000000}, ["claims 1000000 of 'vertex'"]),
        ({"vertices": 3}, ["of 'face'"]),
        ({"vertices": 5, "faces": 1}, ["row 4 of 'vertex'"]),
        ({"faces": 1}, ["1 lines follow"]),
        ({"faces": 0}, ["2 lines follow"]),
        ({"last": 4}, ["face indices from 0 to 3", "got 4"]),
        ({"last": "nan"}, ["'vertex_indices' has the value nan, no int32"]),
        ({"last": 1.5}, ["the value 1.5"]),
        ({"last": 5e9}, ["the value 5000000000.0"]),
        ({"z": "1e99"}, ["finite values in 'pos'"]),
        ({"last": -1}, ["face indices from 0 to 3", "got -1"]),
        ({"z": "nan"}, ["finite values in 'pos'", "row 1"]),
        ({"z": "inf"}, ["finite values in 'pos'"]),
        ({"z": "word"}, ["damaged", "word"]),
        ({"vertices": "many"}, ["element vertex many"]),
    ],
)
def test_lying_ascii_ply(tmp_path, change, parts, check_error):
    path = tmp_path / "a.ply"
    path.write_text(PLY.format(**GOOD))
    assert from_mesh(path).face.size(1) == 2
    path.write_text(PLY.format(**{**GOOD, **change}))
    with check_error(ValueError, "a.ply", "Expected", *parts):
        from_mesh(path)


def test_ply_with_a_property_twice(tmp_path, check_error):
    (tmp_path / "a.ply").write_text(TWICE.format(**GOOD))
    with check_error(ValueError, "a.ply", "'y' more than once"):
        from_mesh(tmp_path / "a.ply")


def test_truncated_binary_ply(tmp_path, mesh, check_error):
    content = to_mesh(mesh, tmp_path / "a.ply").read_bytes()
    cut = tmp_path / "cut.ply"
    for length in range(0, len(content), 397):
        cut.write_bytes(content[:length])
        with check_error(ValueError, "cut.ply"):
            from_mesh(cut)
    cut.write_bytes(content + b"more")
    with check_error(ValueError, "cut.ply", "4 bytes follow"):
        from_mesh(cut)
    cut.write_bytes(content.replace(b"element vertex 162", b"element vertex 9999999999"))
    with check_error(ValueError, "cut.ply", "claims 9999999999"):
        from_mesh(cut)


def many_properties(number):
    names = "".join(f"property float p{i}q\n" for i in range(number))
    return f"ply\nformat ascii 1.0\nelement vertex 1\n{names}end_header\n" + "0 " * number + "\n"


def many_elements(number):
    names = "".join(f"element e{i} 1\nproperty float a\n" for i in range(number))
    return f"ply\nformat ascii 1.0\n{names}end_header\n" + "0\n" * number


@pytest.mark.parametrize("text", [many_properties, many_elements])
def test_headers_are_read_in_linear_time(tmp_path, text):
    """Eight times the header takes eight times as long; quadratic reading took 64 times."""

    def seconds(number):
        (tmp_path / "a.ply").write_text(text(number))
        times = []
        for _ in range(3):
            start = time.process_time()
            read_elements(tmp_path / "a.ply")
            times.append(time.process_time() - start)
        return min(times)

    assert seconds(16_000) < 24 * seconds(2_000)


def test_many_columns(tmp_path):
    """40,000 properties took 51 seconds."""
    text = many_properties(40_000)
    for i, name in enumerate("xyz"):
        text = text.replace(f" p{i}q\n", f" {name}\n")
    (tmp_path / "a.ply").write_text(text)
    assert len(from_point_cloud(tmp_path / "a.ply").to_dict()) == 39_998


def test_element_twice(tmp_path, check_error):
    text = PLY.format(**GOOD).replace("element face 2", "element vertex 2")
    (tmp_path / "a.ply").write_text(text)
    with check_error(ValueError, "a.ply", "the element 'vertex' more than once"):
        from_mesh(tmp_path / "a.ply")


def test_list_lengths_are_compared_with_the_size_of_the_file(tmp_path, check_error):
    header = (
        b"ply\nformat binary_little_endian 1.0\nelement vertex 1\nproperty float x\n"
        b"property float y\nproperty float z\nelement face 1\n"
        b"property list uint double vertex_indices\nend_header\n"
    )
    (tmp_path / "a.ply").write_bytes(header + bytes(12) + b"\xff\xff\xff\xff" + bytes(24))
    with check_error(ValueError, "a.ply", "claims 1 of 'face'"):
        from_mesh(tmp_path / "a.ply")
