"""Sizes in LAZ files that the decoder would believe."""

import struct

import pytest

from permutogeo.data import from_point_cloud
from permutogeo.data.formats.laz_chunks import check_chunks

laspy = pytest.importorskip("laspy")


def places(path):
    """Return the first byte of the points, of the table of chunks and of the layer sizes."""
    with laspy.open(path) as reader:
        start, size = reader.header.offset_to_point_data, reader.header.point_format.size
    table = struct.unpack_from("<q", path.read_bytes(), start)[0]
    return start, table, start + 8 + size + 4


@pytest.mark.parametrize(
    ("where", "kind", "value"),
    [
        ("table", "<I", 2**32 - 1),  # number of chunks: 64 GB for the decoder
        ("start", "<q", 2**60),
        ("start", "<q", -5),
        ("layers", "<I", 2**32 - 1),  # 4 GB for the decoder
    ],
)
def test_claims_that_would_end_the_process(las_file, where, kind, value):
    path = las_file()
    start, table, layers = places(path)
    content = bytearray(path.read_bytes())
    struct.pack_into(kind, content, {"table": table + 4, "start": start, "layers": layers}[where],
                     value)  # fmt: skip
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a.laz': Expected a point cloud"):
        from_point_cloud(path)


@pytest.mark.parametrize("layout", [{}, {"point_format": 6}, {"version": "1.2", "point_format": 3}])
def test_valid_files_pass(las_file, layout):
    path = las_file(**layout)
    with open(path, "rb") as file, laspy.open(path) as reader:
        check_chunks(file, reader.header)


def test_a_streamed_file_has_its_table_at_the_end(las_file):
    path = las_file(version="1.2", point_format=3)
    start, table, _ = places(path)
    content = bytearray(path.read_bytes())
    struct.pack_into("<q", content, start, -1)
    path.write_bytes(bytes(content) + struct.pack("<q", table))
    assert from_point_cloud(path).num_nodes == 500


def test_older_chunks_of_many_points(las_file):
    path = las_file(version="1.2", point_format=3)
    content = bytearray(path.read_bytes())
    at = content.find(b"laszip encoded") - 2 + 54 + 12  # the chunk size of the record
    struct.pack_into("<I", content, at, 2**31)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a.laz': Expected a point cloud"):
        from_point_cloud(path)
