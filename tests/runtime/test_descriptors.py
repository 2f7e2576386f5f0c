"""Descriptors of rows, blocks and columns, and sizes that do not fit."""

import pytest
import torch

from permutogeo.kernels import batch_norm, coarsen, neighbors
from permutogeo.runtime import bridge
from permutogeo.runtime.descriptors import describe_arguments

CPU = torch.device("cpu")


def test_descriptors_of_rows():
    """Blocks of 16, then of 4, then single channels, side by side."""
    mass, rows = torch.zeros(5), torch.zeros(5, 27)
    described = _describe_normalization(mass, rows)[2:6]
    assert [each.ndim for each in described] == [1, 2, 2, 2]
    blocks = [
        (each.shape[0], each.shape[1], each.data - rows.data_ptr()) for each in described[1:4]
    ]
    assert blocks == [(5, 1, 0), (5, 2, 4 * 16), (5, 3, 4 * 24)]


def test_descriptors_of_columns():
    """A table that is stored by column keeps its strides."""
    table = torch.zeros(3, 7, dtype=torch.int32).t()
    code, step = torch.zeros(7, 1, dtype=torch.int64), torch.zeros(1, 1, dtype=torch.int64)
    column = torch.zeros(1, 2, dtype=torch.int32)
    run = bridge.load_kernels(neighbors.make, 1, device=CPU)
    out = describe_arguments(run.merge, (code, step, column, table))[-1]
    assert (out.shape[0], out.shape[1], out.strides[0], out.strides[1]) == (7, 3, 4, 28)


def test_other_numbers_of_axes_are_refused():
    small = torch.zeros(1, 1)
    for shape in [(4,), (2, 4, 3)]:
        with pytest.raises(ValueError, match="unpack"):
            _describe_normalization(small, torch.zeros(shape))
    run = bridge.load_kernels(coarsen.make, 2, device=CPU)
    code = torch.zeros(4, 2, dtype=torch.int64)
    with pytest.raises(ValueError, match="unpack"):
        describe_arguments(
            run.halve, (1, code, code, code, torch.zeros(2, 4, 2, dtype=torch.int64))
        )


def test_sizes_that_do_not_fit_32_bits():
    small = torch.zeros(1, 1)
    for shape in [(2**31, 1), (2, 2**29)]:
        tensor = torch.empty(shape, device="meta")
        with pytest.raises(ValueError, match=r"^Expected a tensor of at most 2147483647 rows"):
            _describe_normalization(small, tensor)
    mass = torch.empty(2**31, device="meta")
    with pytest.raises(ValueError, match=r"\(got shape \[2147483648\]\); work on parts of it$"):
        _describe_normalization(mass, small)


def _describe_normalization(mass, rows):
    """Describe the arguments of a kernel that takes the mass by one index and rows in blocks."""
    kernel = bridge.load_kernels(batch_norm.make, torch.float32, device=CPU).normalize
    small = torch.zeros(2, 27)
    args = (1, 1, mass, rows, small[0], small[0], 0.0, 0.0, *[small] * 6)
    return describe_arguments(kernel, args)
