"""Every kernel compiles for CUDA, though no GPU is needed here: cubins of two architectures."""

import pytest
import warp as wp

from permutogeo.kernels import (
    blur,
    build,
    convolve,
    convolve_channelwise,
    convolve_edges,
    dot,
    embed,
    hash_locate,
    mean_field,
    mean_field_blur,
    mean_field_pair,
    mean_field_points,
    midpoints,
    neighbors,
    plan,
    segment_max,
    single_precision,
    slice,
    splat,
    table,
)
from permutogeo.runtime import resources

ARCHITECTURES = [80, 90]
PER_POINT = {
    "embed": lambda dim, dtype, words: embed.make(dim, dtype),
    "build": build.make,
    "hash locate": lambda dim, dtype, words: hash_locate.make(dim, dtype),
    "slice": lambda dim, dtype, words: slice.make(dim + 1, dtype),
    "splat": lambda dim, dtype, words: splat.make(dim + 1, dtype),
    "dot": lambda dim, dtype, words: dot.make(dim + 1, dtype),
    "mean field": lambda dim, dtype, words: mean_field.make(dim + 1, 16 >> words, words > 1),
    "single precision": lambda dim, dtype, words: single_precision.make(dim),
    "mean field of two labels": lambda dim, dtype, words: mean_field_pair.make(dim + 1),
    "mean field corners": lambda dim, dtype, words: mean_field_points.make_corners(dim + 1, dtype),
    "mean field slots": lambda dim, dtype, words: mean_field_points.make_slots(dim + 1),
}
PER_DTYPE = {
    "combine": splat.make_combine,
    "blur": lambda dtype: blur.make(dtype, 1),
    "wide blur": lambda dtype: blur.make(dtype, 2),
    "blur of blocks": lambda dtype: blur.make_blocks(dtype, 1, 8),
    "convolve": convolve.make,
    "edges": convolve_edges.make,
    "shared": convolve_channelwise.make_shared,
    "segment max": lambda dtype: segment_max.make(2, dtype),
    "depthwise": convolve_channelwise.make_depthwise,
}
PER_WORDS = {"table": table.make, "neighbors": neighbors.make, "midpoints": midpoints.make}
DTYPES = {"float32": wp.float32, "float64": wp.float64}


# Kernels that index a vector of `dim` doubles by an axis known at run time only.
INDEXED = {"adjoint", "tangent"}


def assert_compiles(made, folder, dim=8):
    """Every kernel compiles, and up to eight dimensions none spills registers."""
    cubins = resources.compile_cubins(made.module, ARCHITECTURES, folder)
    assert [path.suffix for path in cubins] == [".cubin"] * len(ARCHITECTURES)
    assert all(path.stat().st_size > 0 for path in cubins)
    if resources.find_cuobjdump() is None or dim > 8:
        return
    for path in cubins:
        for name, usage in resources.read_usage(path).items():
            assert usage.local <= (8 * dim if name in INDEXED else 0), (path.name, name, usage)
            assert usage.registers <= 128, (path.name, name, usage)


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
    assert_compiles(PER_POINT[name](dim, DTYPES[dtype], words), tmp_path, dim)


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


@pytest.mark.parametrize(("lanes", "many"), [(1, False), (24, False), (16, True)])
def test_blur_of_mean_field(tmp_path, lanes, many):
    assert_compiles(mean_field_blur.make(lanes, many, 1), tmp_path)


def test_lists_of_mean_field(tmp_path):
    assert_compiles(mean_field_points.make_lists(), tmp_path)
    assert_compiles(mean_field_blur.make_reach(2), tmp_path)


def test_sorting_of_edges(tmp_path):
    assert_compiles(convolve_edges.make_sort(), tmp_path)
