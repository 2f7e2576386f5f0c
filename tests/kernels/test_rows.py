import warp as wp

from permutogeo.kernels import rows


def test_blocks():
    assert [each._length_ for each in rows.types(wp.float32)] == list(rows.BLOCKS) == [16, 4, 1]
    assert rows.per_block(wp.float64, lambda block: block) == rows.types(wp.float64)
