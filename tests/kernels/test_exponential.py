"""Exponentials by products alone, against NumPy's."""

import numpy as np
import warp as wp

from permutogeo.kernels.exponential import larger, make_exponential
from permutogeo.kernels.module import kernel, named


def test_exponentials_and_maxima():
    Row = wp.types.vector(length=8, dtype=wp.float32)
    exponential = make_exponential(8)
    module = named("test_exponential")

    @kernel(module)
    def compute(
        x: wp.array1d(dtype=Row),
        power: wp.array1d(dtype=Row),
        top: wp.array1d(dtype=wp.float32),
    ):
        i = wp.tid()
        power[i] = exponential(x[i])
        top[i] = larger(x[i][0], x[i][7])

    x = -np.random.default_rng(0).uniform(0, 30, (500, 8)).astype(np.float32)
    x[0, :2] = -np.inf, 0
    given = wp.array(x, dtype=Row, device="cpu")
    power, top = wp.zeros(500, dtype=Row, device="cpu"), wp.zeros(500, dtype=float, device="cpu")
    wp.launch(compute, 500, [given], [power, top], device="cpu")
    assert np.abs(power.numpy() - np.exp(x.astype(np.float64))).max() < 1e-6
    np.testing.assert_array_equal(top.numpy(), np.maximum(x[:, 0], x[:, 7]))
