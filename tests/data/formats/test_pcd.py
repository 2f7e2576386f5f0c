"""PCD files: fields, colors, compression, wrong headers."""

import tracemalloc

import pytest

from permutogeo.data import from_point_cloud
from permutogeo.data.formats.pcd import lzf_decompress

PCD = """# .PCD v.7
VERSION .7
FIELDS x y z _ rgb
SIZE 4 4 4 1 4
TYPE F F F U U
COUNT 1 1 1 1 1
WIDTH {width}
HEIGHT 1
POINTS {points}
DATA {kind}
0 0 0 0 16711935
1 0 {z} 0 255
"""


def test_pcd_colors_and_padding(tmp_path):
    (tmp_path / "a.pcd").write_text(PCD.format(width=2, points=2, kind="ascii", z=0))
    data = from_point_cloud(tmp_path / "a.pcd")
    assert data.x.tolist() == [[1, 0, 1], [0, 0, 1]] and data.num_nodes == 2


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"points": 1000000, "width": 1000000}, "claims 1000000"),
        ({"points": 1, "width": 1}, "claims 1 rows"),
        ({"points": 3}, "width times height is 2"),
        ({"kind": "binary"}, "claims 2 points"),
        ({"kind": "binary_compressed"}, "packed bytes"),
        ({"kind": "zip"}, "DATA is 'zip'"),
        ({"z": "nan"}, "finite"),
    ],
)
def test_lying_pcd(tmp_path, change, part, check_error):
    values = {"width": 2, "points": 2, "kind": "ascii", "z": 0, **change}
    (tmp_path / "a.pcd").write_text(PCD.format(**values))
    with check_error(ValueError, "a.pcd", "Expected", part):
        from_point_cloud(tmp_path / "a.pcd")


def test_lzf():
    assert lzf_decompress(b"\x02abc\x40\x02", 7) == b"abcabca"
    assert lzf_decompress(b"\x00a\xe0\x03\x00", 13) == b"a" * 13  # a copy of what it writes
    for packed, size in ((b"\x40\x02", 4), (b"\x02abc", 7)):
        with pytest.raises(ValueError, match=r"damaged|claimed"):
            lzf_decompress(packed, size)


@pytest.mark.parametrize("kind", ["ascii", "binary", "binary_compressed"])
def test_count_is_compared_with_the_size_of_the_file(tmp_path, kind, check_error):
    text = PCD.format(width=2, points=2, kind=kind, z=0)
    (tmp_path / "a.pcd").write_text(text.replace("COUNT 1 1 1 1 1", "COUNT 1 1 1 1 400000000"))
    tracemalloc.start()
    with check_error(ValueError, "a.pcd", "rows of 400000004 values"):
        from_point_cloud(tmp_path / "a.pcd")
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("COUNT 1 1 1 1 1", "COUNT 1 1 1 0 1", "COUNT is 0"),
        ("FIELDS x y z _ rgb", "FIELDS x y z x rgb", "'x' more than once"),
        ("TYPE F F F U U", "TYPE F F F Q U", "TYPE Q of SIZE 1"),
        ("SIZE 4 4 4 1 4", "SIZE 4 4 2 1 4", "TYPE F of SIZE 2"),
        ("WIDTH 2", "WIDTH -2", "width times height is 0"),
    ],
)
def test_headers_that_make_no_sense(tmp_path, old, new, part, check_error):
    text = PCD.format(width=2, points=2, kind="ascii", z=0)
    assert old in text
    (tmp_path / "a.pcd").write_text(text.replace(old, new))
    with check_error(ValueError, "a.pcd", part):
        from_point_cloud(tmp_path / "a.pcd")


def test_lzf_stops_at_the_claimed_size():
    packed = b"\x00a" + b"\xe0\xff\x00" * 100_000  # 26 MB of output
    tracemalloc.start()
    with pytest.raises(ValueError, match="100 bytes are claimed"):
        lzf_decompress(packed, 100)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
