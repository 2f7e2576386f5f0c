"""Access to arrays without strides."""

import numpy as np
import warp as wp

from permutogeo.kernels.module import kernel, named
from permutogeo.kernels.unstrided import reader, writer


def test_reads_and_writes_rows():
    Row = wp.types.vector(length=3, dtype=wp.float32)
    read, write = reader(Row), writer(Row)
    module = named("test_unstrided")

    @kernel(module)
    def reverse(given: wp.array1d(dtype=Row), out: wp.array1d(dtype=Row)):
        i = wp.tid()
        write(out, i, read(given, given.shape[0] - 1 - i) * 2.0)

    given = np.arange(12, dtype=np.float32).reshape(4, 3)
    out = wp.zeros(4, dtype=Row, device="cpu")
    wp.launch(reverse, 4, [wp.array(given, dtype=Row, device="cpu")], [out], device="cpu")
    np.testing.assert_array_equal(out.numpy(), 2 * given[::-1])
