"""Properties that hold for every cloud, over sizes and features drawn by hypothesis."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import permutogeo as pg
from permutogeo import Lattice
from permutogeo.functional import gaussian_filter
from permutogeo.testing import reference

DOUBLE = torch.float64
# Whole multiples of 1/4 fall on faces of simplices more often than random numbers do.
COORDINATE = st.one_of(
    st.floats(-20, 20, width=32),
    st.integers(-40, 40).map(lambda i: i / 4),
    st.floats(-1e4, 1e4, width=32),
)

# A run is the same everywhere, and kernels that compile on first use take their time.
draws = settings(max_examples=50, deadline=None, derandomize=True, database=None)


@st.composite
def features(draw, dims=(1, 2, 3), most=12):
    dim, count = draw(st.sampled_from(dims)), draw(st.integers(1, most))
    rows = draw(
        st.lists(st.lists(COORDINATE, min_size=dim, max_size=dim), min_size=count, max_size=count)
    )
    return torch.tensor(rows, dtype=DOUBLE)


def values(rows, channels=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, channels, dtype=DOUBLE, generator=generator)


def filter_bank(dim):
    return values(2 ** (dim + 1) - 1, 6, seed=5).view(-1, 2, 3)


@draws
@given(features(), st.floats(-100, 100), st.sampled_from(["float32", "float64"]))
def test_a_constant_stays_constant(feature, constant, dtype):
    dtype = getattr(torch, dtype)
    x = torch.full((len(feature), 1), constant, dtype=dtype)
    out = gaussian_filter(x, feature.to(dtype))
    torch.testing.assert_close(out, x, rtol=1e-5, atol=1e-30)


@draws
@given(features(), st.floats(-3, 3), st.sampled_from([None, "before", "after", "symmetric"]))
def test_the_filter_is_linear(feature, factor, normalize):
    x, y = values(len(feature)), values(len(feature), seed=1)
    both = gaussian_filter(x + factor * y, feature, normalize=normalize)
    parts = [gaussian_filter(z, feature, normalize=normalize) for z in (x, y)]
    torch.testing.assert_close(both, parts[0] + factor * parts[1], rtol=1e-10, atol=1e-10)


@draws
@given(features(), st.randoms(use_true_random=False))
def test_permuting_points_permutes_results(feature, random):
    order = list(range(len(feature)))
    random.shuffle(order)
    x = values(len(feature))
    batch = torch.arange(len(feature)) % 2
    lattice, permuted = Lattice.build(feature, batch), Lattice.build(feature[order], batch[order])
    assert torch.equal(permuted.key, lattice.key)
    assert torch.equal(permuted.vertex_batch, lattice.vertex_batch)
    assert torch.equal(permuted.vertex, lattice.vertex[order])
    assert torch.equal(permuted.weight, lattice.weight[order])
    assert torch.equal(permuted.neighbors(), lattice.neighbors())
    out = gaussian_filter(x, feature, batch)
    torch.testing.assert_close(gaussian_filter(x[order], feature[order], batch[order]), out[order])


@draws
@given(st.sampled_from([1, 2, 3, 5]), st.integers(0, 2**31), st.integers(0, 2**31))
def test_translation_by_a_lattice_vector(dim, seed, where):
    """Keys shift, weights stay: the lattice looks the same from each of its points."""
    generator = torch.Generator().manual_seed(seed)
    feature = torch.randn(10, dim, dtype=DOUBLE, generator=generator) * 5
    offsets = pg.stencil(dim)
    steps = torch.randint(-20, 20, (len(offsets),), generator=generator.manual_seed(where))
    shift = (steps.unsqueeze(1) * offsets).sum(0)
    matrix = reference.elevate(np.eye(dim)).T
    moved = feature + torch.from_numpy(np.linalg.lstsq(matrix, shift.numpy(), rcond=None)[0])
    lattice, other = Lattice.build(feature), Lattice.build(moved)
    assert torch.equal(other.key.long(), lattice.key + shift[:-1])
    assert torch.equal(other.vertex, lattice.vertex)
    torch.testing.assert_close(other.weight, lattice.weight, rtol=0, atol=1e-10)


@draws
@given(features(), features(), st.booleans())
def test_graphs_do_not_see_each_other(first, second, interleave):
    if first.shape[1] != second.shape[1]:
        second = first.flip(0) + 0.5
    sizes = [len(first), len(second)]
    feature, batch = (
        torch.cat([first, second]),
        torch.arange(2).repeat_interleave(torch.tensor(sizes)),
    )
    place = torch.arange(len(feature))
    if interleave:
        place = torch.randperm(len(feature), generator=torch.Generator().manual_seed(7))
        # Points keep their order within a graph.
        place = torch.cat([place[: sizes[0]].sort()[0], place[sizes[0] :].sort()[0]])
    mixed_feature, mixed_batch = feature.clone(), batch.clone()
    mixed_feature[place], mixed_batch[place] = feature, batch
    x = values(len(feature))
    mixed_x = x.clone()
    mixed_x[place] = x
    both = Lattice.build(mixed_feature, mixed_batch)
    splat = both.splat(mixed_x)
    blurred = both.blur(splat)
    sliced = both.slice(blurred)[place]
    bank = filter_bank(feature.shape[1])
    convolved = both.convolve(splat, bank)
    start = 0
    for graph, points in enumerate((first, second)):
        rows, vertices = batch == graph, both.vertex_batch == graph
        alone = Lattice.build(points)
        assert torch.equal(both.key[vertices], alone.key)
        assert torch.equal(both.vertex[place][rows] - start, alone.vertex)
        assert torch.equal(both.weight[place][rows], alone.weight)
        values_alone = alone.splat(x[rows])
        assert torch.equal(splat[vertices], values_alone)
        assert torch.equal(blurred[vertices], alone.blur(values_alone))
        assert torch.equal(sliced[rows], alone.slice(alone.blur(values_alone)))
        torch.testing.assert_close(
            convolved[vertices], alone.convolve(values_alone, bank), rtol=1e-12, atol=1e-12
        )
        start += alone.num_vertices


@draws
@given(features(), features())
def test_splat_and_slice_are_adjoint(feature, other):
    lattice = Lattice.build(feature)
    at = lattice.locate(other) if other.shape == feature.shape else None
    x, y = values(len(feature)), values(lattice.num_vertices, seed=1)
    left, right = lattice.splat(x, at) * y, x * lattice.slice(y, at)
    torch.testing.assert_close(left.sum(), right.sum(), rtol=1e-10, atol=1e-10)


@draws
@given(features())
def test_blur_and_convolution_have_adjoints(feature):
    lattice = Lattice.build(feature)
    a, b = values(lattice.num_vertices), values(lattice.num_vertices, seed=1)
    left, right = lattice.blur(a) * b, a * lattice.blur(b, transpose=True)
    torch.testing.assert_close(left.sum(), right.sum(), rtol=1e-10, atol=1e-10)
    a.requires_grad_()
    out = lattice.convolve(a, filter_bank(feature.shape[1]))
    (adjoint,) = torch.autograd.grad(out, a, values(lattice.num_vertices, 3, seed=2))
    inner = (out * values(lattice.num_vertices, 3, seed=2)).sum()
    torch.testing.assert_close((adjoint * a).sum(), inner, rtol=1e-10, atol=1e-10)


@draws
@given(features(dims=(1, 2, 3, 5)), st.sampled_from(["float32", "float64"]))
def test_weights_are_barycentric(feature, dtype):
    lattice = Lattice.build(feature.to(getattr(torch, dtype)))
    assert (lattice.weight >= 0).all()
    torch.testing.assert_close(lattice.weight.sum(1), torch.ones_like(lattice.weight[:, 0]))
    key = lattice.key.double()
    key = torch.cat([key, -key.sum(1, keepdim=True)], 1)[lattice.vertex.long()]
    elevated = (lattice.weight.double().unsqueeze(-1) * key).sum(1)
    scale = 1 + feature.abs().max().item()
    np.testing.assert_allclose(
        elevated, reference.elevate(feature), atol=(1e-5 if dtype == "float32" else 1e-12) * scale
    )


@draws
@given(features())
def test_splat_keeps_the_mass(feature):
    x = values(len(feature))
    lattice = Lattice.build(feature, torch.arange(len(feature)) % 3)
    torch.testing.assert_close(lattice.splat(x).sum(0), x.sum(0), rtol=1e-10, atol=1e-10)


@draws
@given(features())
def test_a_coarser_lattice_interpolates_alike(feature):
    lattice = Lattice.build(feature)
    coarse, at = lattice.coarsen()
    assert (at.vertex >= 0).all()
    on_coarse = values(coarse.num_vertices)
    nested = lattice.slice(coarse.slice(on_coarse, at))
    torch.testing.assert_close(nested, coarse.slice(on_coarse), rtol=0, atol=1e-7)


@draws
@given(features())
def test_the_filter_is_the_references(feature):
    x = values(len(feature))
    expected = reference.gaussian_filter(x, feature)
    np.testing.assert_allclose(gaussian_filter(x, feature), expected, rtol=1e-6, atol=1e-7)
