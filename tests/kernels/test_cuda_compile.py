"""Every kernel compiles for CUDA, though no GPU is needed here: cubins of two architectures."""

from unittest import mock

import pytest
import warp as wp

from permutogeo.kernels import (
    blur,
    build,
    convolve,
    convolve_channelwise,
    dot,
    embed,
    mean_field,
    neighbors,
    plan,
    slice,
    splat,
    table,
)
from permutogeo.runtime import bridge

ARCHITECTURES = [80, 90]
PER_POINT = {
    "embed": lambda dim, dtype, words: embed.make(dim, dtype),
    "build": build.make,
    "slice": lambda dim, dtype, words: slice.make(dim + 1, dtype),
    "splat": lambda dim, dtype, words: splat.make(dim + 1, dtype),
    "dot": lambda dim, dtype, words: dot.make(dim + 1, dtype),
    "mean field": lambda dim, dtype, words: mean_field.make(dim + 1, 16 >> words),
}
PER_DTYPE = {
    "combine": splat.make_combine,
    "blur": lambda dtype: blur.make(dtype, 1),
    "wide blur": lambda dtype: blur.make(dtype, 2),
    "blur of blocks": lambda dtype: blur.make_blocks(dtype, 1, 8),
    "convolve": convolve.make,
    "shared": convolve_channelwise.make_shared,
    "depthwise": convolve_channelwise.make_depthwise,
}
PER_WORDS = {"table": table.make, "neighbors": neighbors.make}
DTYPES = {"float32": wp.float32, "float64": wp.float64}


def assert_compiles(made, folder):
    bridge.init()
    # What a launch on CUDA uses; the options belong to a module that other tests run on the CPU.
    with mock.patch.dict(made.module.options, block_dim=256), bridge._quiet():
        cubins = wp.compile_aot_module(
            made.module, arch=ARCHITECTURES, module_dir=folder, use_ptx=False
        )
    assert [path.suffix for path in cubins] == [".cubin"] * len(ARCHITECTURES)
    assert all(path.stat().st_size > 0 for path in cubins)


# Only `build` depends on the scalar type and on the words of a code, and uses them in different
# statements: two of the four pairs hold every statement in both forms. Sixteen dimensions differ
# from eight in the length of unrolled loops alone, so one pair is enough.
@pytest.mark.parametrize(
    ("dim", "dtype", "words"),
    [(dim, *pair) for dim in (2, 3, 5, 8) for pair in [("float32", 1), ("float64", 2)]]
    + [(16, "float32", 3)],
)
@pytest.mark.parametrize("name", PER_POINT)
def test_kernels_of_a_dimension(tmp_path, name, dim, dtype, words):
    assert_compiles(PER_POINT[name](dim, DTYPES[dtype], words), tmp_path)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PER_DTYPE)
def test_kernels_of_any_dimension(tmp_path, name, dtype):
    assert_compiles(PER_DTYPE[name](DTYPES[dtype]), tmp_path)


@pytest.mark.parametrize("words", [1, 2, 3])
@pytest.mark.parametrize("name", PER_WORDS)
def test_kernels_of_codes(tmp_path, name, words):
    assert_compiles(PER_WORDS[name](words), tmp_path)


def test_plan(tmp_path):
    assert_compiles(plan.make(), tmp_path)
