"""Index arithmetic near 2^31, on sparse memory: operators at the largest sizes that they accept.

Tensors of up to 16 GiB are reserved, not backed by memory; launches run their first and their last
indices alone, so that a few pages are touched. Rows at the far end of every array must be read and
written where they belong. An index expression that wraps reads elsewhere, and shows as a wrong
value or a crash.
"""

import mmap
from unittest import mock

import numpy as np
import torch
import warp as wp

from permutogeo import ops
from permutogeo.runtime import bridge, memory

MAP_NORESERVE = 0x4000  # mmap names it from Python 3.13 on
ENDS = 3
LARGEST = 2**31 - 1
_kept = []


def sparse(*shape: int, dtype: torch.dtype = torch.float32, device=None) -> torch.Tensor:
    """Zeros that take no memory until they are written."""
    count = int(np.prod(shape, dtype=np.int64))
    size = max(1, count * torch.empty(0, dtype=dtype).element_size())
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    pages = mmap.mmap(-1, size, flags=flags)
    _kept.append(pages)
    return torch.frombuffer(pages, dtype=dtype, count=count).view(shape)


def run_ends(kernel, size, *args, device, inner=(), grain=1024):
    """The first and the last indices of a launch."""
    for first, count in ((0, min(ENDS, size)), (max(0, size - ENDS), min(ENDS, size))):
        described = bridge.describe_arguments(kernel, args)
        wp.launch(kernel, (count, *inner), inputs=[first, *described], device="cpu")


def copy_ends(target, source):
    for rows in (slice(0, 64), slice(len(source) - 64, len(source))):
        target[rows] = source[rows]


def far(values: torch.Tensor, *rows: int) -> torch.Tensor:
    """Give rows the values 1, 2, …"""
    for number, row in enumerate(rows):
        values[row] = number + 1
    return values


def check_slice_and_dot() -> None:
    """Points whose corners are the last vertices."""
    points, vertices = 2**30 - 1, LARGEST - 1
    vertex = sparse(points, 2, dtype=torch.int32)
    vertex[points - 1, 0], vertex[points - 1, 1] = vertices - 1, vertices - 2
    weight = sparse(points, 2)
    weight[points - 1] = torch.tensor([0.25, 0.75])
    values = far(sparse(vertices, 1), vertices - 1, vertices - 2)
    out = ops.slice(values, weight, vertex, None, None, None)
    assert float(out[points - 1, 0]) == 0.25 * 1 + 0.75 * 2
    x = sparse(points, 1)
    x[points - 1] = 3.0
    out = ops.dot(x, values, vertex, None, None, None)
    assert out[points - 1].tolist() == [3.0, 6.0]


def check_splat() -> None:
    """The last vertices collect the last corners."""
    points, vertices = 2**30 - 1, LARGEST - 1
    corners = 2 * points
    vertex, weight = sparse(points, 2, dtype=torch.int32), sparse(points, 2)
    begin, order = (sparse(vertices + 1, dtype=torch.int32), sparse(corners, dtype=torch.int32))
    begin[vertices - 1], begin[vertices] = corners - 2, corners
    order[corners - 2], order[corners - 1] = corners - 1, corners - 2
    weight[points - 1] = torch.tensor([0.25, 0.75])
    x = sparse(points, 1)
    x[points - 1] = 4.0
    runs = torch.empty(0, 3, dtype=torch.int32)
    out = ops.splat(x, weight, vertex, vertices, order, begin, runs)
    assert float(out[vertices - 1, 0]) == 4.0


def check_blur(vertices: int) -> None:
    """The separable blur, whose neighbors are stored column by column."""
    neighbors = sparse(3, vertices, dtype=torch.int32).t()
    neighbors[vertices - 1, 1], neighbors[vertices - 1, 2] = vertices - 2, vertices - 3
    values = far(sparse(vertices, 1), vertices - 1, vertices - 2, vertices - 3)
    out = ops.blur(values, neighbors, 1, [0.5, 1.0, 0.5], False)
    # Both axes run, and the gain of each is the root of what the centre gets.
    gain = (0.5**2 + 1 + 0.5**2) ** -0.5
    once = gain * (1 + 0.5 * (2 + 3))
    assert out.shape == (vertices, 1) and float(out[vertices - 1, 0]) > once


def check_convolutions() -> None:
    """Filters of one tap more than the centre, forward and in the filter."""
    vertices = 2**30 - 1
    neighbors = sparse(vertices, 3, dtype=torch.int32)
    last = vertices - 1
    neighbors[last, 0], neighbors[last, 1], neighbors[last, 2] = last, last - 1, last - 2
    opposite = torch.tensor([0, 2, 1])
    values = far(sparse(vertices, 1), last, last - 1, last - 2)
    taps = torch.tensor([[1.0], [10.0], [100.0]])
    out = ops.convolve_channelwise(values, taps, neighbors, opposite)
    assert float(out[last, 0]) == 1 + 20 + 300


def check_neighbors() -> None:
    """Codes of a line of vertices: each has the one before and the one behind."""
    from permutogeo.kernels import neighbors as kernels

    vertices = LARGEST - 1
    code = sparse(vertices, 1, dtype=torch.int64)
    first = (vertices - 1) // kernels.BLOCK * kernels.BLOCK
    # The last block ascends; all codes before it are smaller.
    for row in range(first, vertices):
        code[row, 0] = row
    out = sparse(vertices, 3, dtype=torch.int32)
    offset = torch.tensor([[0], [1]])
    column = torch.tensor([[0, 0], [1, 2]], dtype=torch.int32)
    device = torch.device("cpu")
    run = bridge.load_kernels(kernels.make, 1, device=device)
    described = bridge.describe_arguments(run.merge, (code, offset, column, out))
    blocks = -(-vertices // kernels.BLOCK)
    wp.launch(run.merge, (1, 2), inputs=[blocks - 1, *described], device="cpu")
    assert out[vertices - 2].tolist() == [vertices - 2, vertices - 1, vertices - 3]


def check_runs() -> None:
    """The last of the runs that share a counting sort, or the gradient of a filter."""
    from permutogeo.kernels import convolve_channelwise, plan

    device = torch.device("cpu")
    corners = LARGEST
    vertex = sparse(corners, dtype=torch.int32)
    tools = bridge.load_kernels(plan.make, device=device)
    vertex[corners - 1] = 1
    far_run, number = 2**20, (corners - 1) // 2**20
    counted = sparse(number + 1, 2, dtype=torch.int32)
    args = bridge.describe_arguments(tools.count, (far_run, vertex, counted))
    wp.launch(tools.count, 1, inputs=[number, *args], device="cpu")
    assert counted[number].tolist() == [corners - number * far_run - 1, 1]

    vertices = LARGEST - 1
    last, number = vertices - 1, (vertices - 1) // 2**20
    neighbors = sparse(vertices, 1, dtype=torch.int32)
    neighbors[last, 0] = last
    values, grad = far(sparse(vertices + 1, 1), last), far(sparse(vertices, 1), last)
    tools = bridge.load_kernels(convolve_channelwise.make_shared, torch.float32, device=device)
    out = sparse(number + 1, 1, dtype=torch.float64)
    args = bridge.describe_arguments(tools.correlate, (2**20, neighbors, values, grad, out))
    wp.launch(tools.correlate, 1, inputs=[number, *args], device="cpu")
    assert float(out[number, 0]) == 1.0


def main() -> None:
    bridge.init()
    with (
        mock.patch.object(bridge, "launch", run_ends),
        mock.patch.object(
            memory, "empty", lambda *shape, dtype, device: sparse(*shape, dtype=dtype)
        ),
        mock.patch.object(memory, "copy", copy_ends),
    ):
        check_slice_and_dot()
        check_splat()
        check_convolutions()
        check_blur(2**29 - 1)
    check_neighbors()
    check_runs()
    print("done")


if __name__ == "__main__":
    main()
