"""Every kernel that a GPU runs compiles for CUDA, though no GPU is needed here."""

import pytest
import warp as wp

from permutogeo.kernels import (
    blur,
    build,
    coarsen,
    convolve,
    convolve_channelwise,
    convolve_edges,
    dot,
    embed,
    hash_locate,
    insert,
    mean_field,
    mean_field_blur,
    mean_field_pair,
    mean_field_points,
    neighbors,
    segment_max,
    single_precision,
    slice,
    splat,
    table,
)
from permutogeo.runtime import resources

# Doubles differ in the width of registers alone, and other dimensions than these in the length of
# loops: one architecture is enough for them.
ARCHITECTURES, ONE_ARCHITECTURE = [80, 90, 120], [90]
DIMENSIONS = (3, 5, 8)
# Channels of 16 bytes, which a thread reads at once.
WIDE = {wp.float32: 4, wp.float64: 2}
PER_POINT = {
    "embed": lambda dim, dtype, words: embed.make(dim, dtype),
    "build": build.make,
    "insert": lambda dim, dtype, words: insert.make(dim, dtype, words, words == 1),
    "hash locate": lambda dim, dtype, words: hash_locate.make(dim, dtype),
    "slice": lambda dim, dtype, words: slice.make_gpu(dim + 1, dtype, WIDE[dtype]),
    "splat": lambda dim, dtype, words: splat.make_gpu(dim + 1, dtype, WIDE[dtype]),
    "dot": lambda dim, dtype, words: dot.make_gpu(dim + 1, dtype, WIDE[dtype]),
    "mean field": lambda dim, dtype, words: mean_field.make(dim + 1, 16 >> words, words > 1),
    "single precision": lambda dim, dtype, words: single_precision.make(dim),
    "mean field of two labels": lambda dim, dtype, words: mean_field_pair.make(dim + 1),
    "mean field corners": lambda dim, dtype, words: mean_field_points.make_corners(dim + 1, dtype),
    "mean field slots": lambda dim, dtype, words: mean_field_points.make_slots(dim + 1),
}
PER_DTYPE = {
    "combine": splat.make_combine,
    "wide blur": lambda dtype: blur.make_gpu(dtype, 2, WIDE[dtype]),
}
# On a GPU, by the channels that a thread reads at once.
PER_LANES = {
    "blur": lambda dtype, lanes: blur.make_gpu(dtype, 1, lanes),
    "convolve": convolve.make_gpu,
    "edges": convolve_edges.make_gpu,
    "shared": convolve_channelwise.make_shared_gpu,
    "segment max": lambda dtype, lanes: segment_max.make_gpu(2, dtype, lanes),
    "depthwise": convolve_channelwise.make_depthwise_gpu,
}
# Kernels that read rows of channels most.
HOT = {
    "slice": lambda: slice.make_gpu(4, wp.float32, 4),
    "splat": lambda: splat.make_gpu(4, wp.float32, 4),
    "blur": lambda: blur.make_gpu(wp.float32, 1, 4),
    "convolve": lambda: convolve.make_gpu(wp.float32, 4),
}
PER_WORDS = {
    "table": table.make,
    "insert": lambda words: insert.make_tools(words, words == 1),
    "neighbors": neighbors.make,
    "coarsen": coarsen.make,
}
DTYPES = {"float32": wp.float32, "float64": wp.float64}


def assert_compiles(made, folder, dim=8, dtype="float32"):
    """Every kernel compiles; up to eight dimensions none spills registers, beyond a little."""
    every = dtype == "float32" and dim in DIMENSIONS
    architectures = ARCHITECTURES if every else ONE_ARCHITECTURE
    cubins = resources.compile_cubins(made.module, architectures, folder)
    assert [path.suffix for path in cubins] == [".cubin"] * len(architectures)
    assert all(path.stat().st_size > 0 for path in cubins)
    if resources.find_cuobjdump() is None:
        return
    spilled, registers = (0, 128) if dim <= 8 else (24 * dim, 192)
    for path in cubins:
        for name, usage in resources.read_usage(path).items():
            assert usage.local <= spilled, (path.name, name, usage)
            assert usage.registers <= registers, (path.name, name, usage)


# Only `build` depends on the scalar type and on the words of a code, and uses them in different
# statements: two of the four pairs hold every statement in both forms. Sixteen dimensions differ
# from eight in the length of unrolled loops alone, so one pair is enough.
@pytest.mark.parametrize(
    ("dim", "dtype", "words"),
    [(dim, *pair) for dim in (2, *DIMENSIONS) for pair in [("float32", 1), ("float64", 2)]]
    + [(16, "float32", 3)],
)
@pytest.mark.parametrize("name", PER_POINT)
def test_kernels_of_a_dimension(tmp_path, name, dim, dtype, words):
    assert_compiles(PER_POINT[name](dim, DTYPES[dtype], words), tmp_path, dim, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PER_DTYPE)
def test_kernels_of_any_dimension(tmp_path, name, dtype):
    assert_compiles(PER_DTYPE[name](DTYPES[dtype]), tmp_path, dtype=dtype)


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 4), ("float32", 1), ("float64", 2)])
@pytest.mark.parametrize("name", PER_LANES)
def test_kernels_of_rows(tmp_path, name, dtype, lanes):
    assert_compiles(PER_LANES[name](DTYPES[dtype], lanes), tmp_path, dtype=dtype)


@pytest.mark.parametrize("made", [slice, splat, dot], ids=["slice", "splat", "dot"])
def test_kernels_of_rows_of_any_width(tmp_path, made):
    assert_compiles(made.make_gpu(9, wp.float32, 1), tmp_path)


@pytest.mark.parametrize("name", HOT)
def test_rows_are_read_and_written_128_bits_at_a_time(tmp_path, name):
    """Threads of consecutive indices then read and write consecutive 16 bytes of a row."""
    if resources.find_cuobjdump() is None:
        pytest.skip("needs nvidia-cuda-cuobjdump")
    (cubin,) = resources.compile_cubins(HOT[name]().module, [80], tmp_path)
    accesses = resources.read_accesses(cubin)
    if accesses is None:
        pytest.skip("needs nvidia-cuda-nvdisasm")
    for kernel, counts in accesses.items():
        assert counts["load", 128] >= 1, (kernel, counts)
        assert {bits for kind, bits in counts if kind == "store"} == {128}, (kernel, counts)


@pytest.mark.parametrize("words", [1, 2, 3])
@pytest.mark.parametrize("name", PER_WORDS)
def test_kernels_of_codes(tmp_path, name, words):
    assert_compiles(PER_WORDS[name](words), tmp_path)


@pytest.mark.parametrize(("lanes", "many"), [(1, False), (24, False), (16, True)])
def test_blur_of_mean_field(tmp_path, lanes, many):
    assert_compiles(mean_field_blur.make(lanes, many, 1), tmp_path)


def test_lists_of_mean_field(tmp_path):
    assert_compiles(mean_field_points.make_lists(), tmp_path)
    assert_compiles(mean_field_blur.make_reach(2), tmp_path)
