import itertools

import pytest
import torch

from permutogeo.ops.strided import StridedKernel, strided_neighbors


def grid(shape, graphs=2, density=0.3):
    generator = torch.Generator().manual_seed(0)
    found = (torch.rand(graphs, *shape, generator=generator) < density).nonzero()
    return torch.cat([found[:, 1:], found[:, :1]], 1)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("size", "stride", "padding", "dilation"),
    [
        ((3, 2), (2, 2), (1, 0), (1, 1)),
        ((2, 3), (1, 3), (1, 2), (2, 1)),
        ((1, 1), (2, 1), (0, 0), (1, 1)),
    ],
)
def test_pairs_match_a_loop(size, stride, padding, dilation, transposed):
    coordinate, extent = grid((7, 6)), (5, 4)
    kernel = StridedKernel(size, stride, padding, dilation, transposed)
    outputs, inputs_of, outputs_of = strided_neighbors(coordinate, kernel, extent, 2)
    expected = set()
    for row, (*place, graph) in enumerate(coordinate.tolist()):
        for tap, k in enumerate(itertools.product(*map(range, size))):
            for out in itertools.product(*map(range, extent)):
                large, small = (out, place) if transposed else (place, out)
                ends = zip(large, small, stride, padding, k, dilation, strict=True)
                if all(i == o * s - p + n * d for i, o, s, p, n, d in ends):
                    expected.add((row, tap, (*out, graph)))
    found = {
        (row, tap, tuple(outputs[out].tolist()))
        for row, line in enumerate(outputs_of.tolist())
        for tap, out in enumerate(line)
        if out >= 0
    }
    assert found == expected
    back = {
        (row, tap, tuple(outputs[out].tolist()))
        for out, line in enumerate(inputs_of.tolist())
        for tap, row in enumerate(line)
        if row >= 0
    }
    assert back == expected
    order = [(graph, *place) for *place, graph in outputs.tolist()]
    assert order == sorted({(out[-1], *out[:-1]) for _, _, out in expected})


def test_empty():
    kernel = StridedKernel([2, 2], [2, 2], [0, 0], [1, 1])
    none = torch.empty(0, 3, dtype=torch.int64)
    outputs, inputs_of, outputs_of = strided_neighbors(none, kernel, [4, 4], 1)
    assert outputs.shape == (0, 3) and inputs_of.shape == (0, 4) and outputs_of.shape == (0, 4)


def test_codes_of_several_words():
    far = 2**31 - 2
    coordinate = torch.tensor([[0, 0, 0, 0], [far, far, far, 0], [far + 1, far, far, 0]])
    kernel = StridedKernel([2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1])
    outputs, *_ = strided_neighbors(coordinate, kernel, [2**31] * 3, 1)
    assert outputs.tolist() == [[0, 0, 0, 0], [far // 2, far // 2, far // 2, 0]]
