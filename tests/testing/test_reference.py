"""The oracle against identities of the lattice, the exact Gaussian, and pydensecrf."""

import numpy as np
import pytest

from permutogeo.testing import reference

DIMS = [1, 2, 3, 5, 8]
NORMALIZATIONS = [None, "before", "after", "symmetric"]


def cloud(num_points: int, dim: int, scale: float = 1.5) -> np.ndarray:
    """Random features [N, d], some of them on faces of the lattice and one at its origin."""
    feature = np.random.default_rng(dim).normal(scale=scale, size=(num_points, dim))
    feature[:10, 0] = 0
    feature[10] = 0
    return feature


def signal(num_points: int, channels: int = 2) -> np.ndarray:
    return np.random.default_rng(7).normal(size=(num_points, channels))


def full_lattice(dim: int, radius: int) -> tuple[reference.ReferenceLattice, int]:
    """Lattice with a point on every lattice point within `radius` of the origin, and the origin."""
    basis = reference.elevate(np.eye(dim)).T
    feature = np.linalg.lstsq(basis, reference.stencil(dim, radius).T, rcond=None)[0].T
    lattice = reference.ReferenceLattice(feature)
    return lattice, lattice.index[0, (0,) * (dim + 1)]


def assert_lattice_points(key: np.ndarray) -> None:
    assert not key.sum(axis=-1).any()
    assert not ((key - key[..., :1]) % key.shape[-1]).any()


@pytest.mark.parametrize(
    ("dim", "counts"), [(1, (3, 5)), (2, (7, 19)), (3, (15, 65)), (4, (31, 211)), (5, (63, 665))]
)
def test_stencil(dim, counts):
    for radius, count in enumerate(counts, start=1):
        offsets = reference.stencil(dim, radius)
        rows = set(map(tuple, offsets.tolist()))
        assert offsets.shape == (count, dim + 1) and len(rows) == count
        assert not offsets[0].any()
        assert rows == set(map(tuple, (-offsets).tolist()))
        assert_lattice_points(offsets)


def test_stencil_order():
    offsets = [[0, 0, 0], [-1, -1, 2], [-1, 2, -1], [-2, 1, 1], [2, -1, -1], [1, -2, 1], [1, 1, -2]]
    assert reference.stencil(2, 1).tolist() == offsets


def test_axis_stencil():
    first = [[0, 0, 0], [2, -1, -1], [-2, 1, 1], [-1, 2, -1], [1, -2, 1], [-1, -1, 2], [1, 1, -2]]
    second = (2 * np.array(first[1:])).tolist()
    assert reference.axis_stencil(2).tolist() == first
    assert reference.axis_stencil(2, 2).tolist() == first + second
    assert reference.axis_stencil(1, 2).tolist() == [[0, 0], [1, -1], [-1, 1], [2, -2], [-2, 2]]


@pytest.mark.parametrize("tap_variance", [0.5, 1.0])
@pytest.mark.parametrize("dim", DIMS)
def test_elevate_is_a_scaled_isometry(dim, tap_variance):
    feature = cloud(100, dim)
    elevated = reference.elevate(feature, tap_variance)
    factor = (dim + 1) * np.sqrt(1 / 6 + tap_variance)
    np.testing.assert_allclose(elevated.sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(elevated @ elevated.T, factor**2 * feature @ feature.T, atol=1e-9)


def test_elevate_formula():
    g = np.array([0.3, -0.7]) * 3 * np.sqrt(2 / 3) / np.sqrt([2, 6])
    expected = [g[0] + g[1], g[1] - g[0], -2 * g[1]]
    np.testing.assert_allclose(reference.elevate([[0.3, -0.7]])[0], expected, rtol=1e-14)


@pytest.mark.parametrize("scale", [0.1, 10.0, 1e4])
@pytest.mark.parametrize("dim", DIMS)
def test_embed_is_barycentric(dim, scale):
    feature = cloud(500, dim, scale)
    key, weight = reference.embed(feature)
    assert key.dtype == np.int64 and weight.dtype == np.float64
    assert (weight >= 0).all()
    np.testing.assert_allclose(weight.sum(axis=1), 1, rtol=1e-14)
    interpolated = np.einsum("nk,nkj->nj", weight, key)
    np.testing.assert_allclose(interpolated, reference.elevate(feature), atol=1e-13 * (1 + scale))
    assert_lattice_points(key)
    assert (key % (dim + 1) == np.arange(dim + 1)[:, None]).all()


@pytest.mark.parametrize("dim", DIMS)
def test_embed_corners_are_adjacent(dim):
    key, _ = reference.embed(cloud(200, dim))
    offsets = set(map(tuple, reference.stencil(dim, 1).tolist()))
    for corner in range(1, dim + 1):
        assert set(map(tuple, (key[:, corner] - key[:, 0]).tolist())) <= offsets


def test_embed_gives_ties_to_the_lower_axis():
    key, weight = reference.embed(np.zeros((1, 2)))
    assert key[0].tolist() == [[0, 0, 0], [1, 1, -2], [2, -1, -1]]
    assert weight[0].tolist() == [1, 0, 0]


def test_vertices_are_unique_and_graphs_apart():
    feature = cloud(60, 2)
    batch = np.arange(60) % 2
    lattice = reference.ReferenceLattice(feature, batch)
    rows = np.column_stack([lattice.vertex_batch, lattice.key])
    assert len(np.unique(rows, axis=0)) == lattice.num_vertices == lattice.vertex.max() + 1
    assert (lattice.vertex_batch[lattice.vertex] == batch[:, None]).all()
    assert (lattice.key[lattice.vertex] == reference.embed(feature)[0]).all()


def test_locate():
    feature = cloud(60, 2)
    lattice = reference.ReferenceLattice(feature)
    vertex, weight = lattice.locate(feature)
    assert (vertex == lattice.vertex).all() and (weight == lattice.weight).all()
    far = lattice.locate(feature + 100)
    assert (far[0] == -1).all()
    assert not lattice.slice(np.ones((lattice.num_vertices, 1)), far).any()
    assert (lattice.locate(feature, np.ones(60, int))[0] == -1).all()


def test_build_bipartite():
    src, dst = cloud(40, 3), cloud(40, 3) + 0.3
    batch_src, batch_dst = np.arange(40) % 2, np.arange(40) % 3
    lattice, at = reference.ReferenceLattice.build_bipartite(src, dst, batch_src, batch_dst)
    assert len(lattice.vertex) == len(src)
    for found, expected in zip(at, lattice.locate(dst, batch_dst), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert (at[0] >= 0).all()
    assert set(lattice.vertex.ravel()) | set(at[0].ravel()) == set(range(lattice.num_vertices))


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_adjoints(dim):
    lattice = reference.ReferenceLattice(cloud(40, dim))
    np.testing.assert_array_equal(lattice.slice_matrix(), lattice.splat_matrix().T)
    blur, reverse = lattice.blur_matrix(), lattice.blur_matrix(reverse=True)
    np.testing.assert_allclose(blur.T, reverse, atol=1e-15)
    offsets = reference.stencil(dim, 1)
    taps, identity = np.random.default_rng(0).normal(size=len(offsets)), np.eye(len(blur))
    forward = lattice.convolve_shared(identity, taps, offsets)
    np.testing.assert_array_equal(forward.T, lattice.convolve_shared(identity, taps, -offsets))


@pytest.mark.parametrize("groups", [1, 2])
def test_convolve(groups):
    rng = np.random.default_rng(0)
    lattice = reference.ReferenceLattice(cloud(30, 2))
    offsets = reference.stencil(2, 1)
    values = rng.normal(size=(lattice.num_vertices, 4))
    bank = rng.normal(size=(len(offsets), 4 // groups, 6))
    expected = np.zeros((lattice.num_vertices, 6))
    for target, key in enumerate(lattice.key):
        for offset, matrix in zip(offsets, bank, strict=True):
            source = np.flatnonzero((lattice.key == key + offset).all(axis=1))
            for out in range(6):
                first = out // (6 // groups) * (4 // groups)
                block = values[source, first : first + 4 // groups]
                expected[target, out] += (block @ matrix[:, out]).sum()
    found = lattice.convolve(values, bank, offsets, groups)
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_convolve_shared_is_a_diagonal_bank():
    lattice = reference.ReferenceLattice(cloud(30, 3))
    offsets, taps = reference.stencil(3, 1), reference.gaussian_stencil(3, 1)
    values = signal(lattice.num_vertices, 3)
    bank = taps[:, None, None] * np.eye(3)
    shared = lattice.convolve_shared(values, taps, offsets)
    np.testing.assert_allclose(lattice.convolve(values, bank, offsets), shared, atol=1e-14)


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 8])
def test_gaussian_stencil_of_radius_1_in_closed_form(dim):
    steps = (reference.stencil(dim, 1) - reference.stencil(dim, 1).min(axis=1, keepdims=True)) > 0
    # A point that is s axes away is reached by s steps forward or by d + 1 - s backward.
    count = steps.sum(axis=1)
    expected = (0.5**count + 0.5 ** (dim + 1 - count)) / (1 + 0.5**dim)
    expected[0] = 1
    np.testing.assert_allclose(reference.gaussian_stencil(dim, 1), expected, rtol=1e-14)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_gaussian_stencil_of_radius_2_is_the_blur_where_neighbors_exist(dim):
    lattice, centre = full_lattice(dim, 4)
    values = signal(lattice.num_vertices)
    taps = reference.gaussian_stencil(dim, 2)
    convolved = lattice.convolve_shared(values, taps, reference.stencil(dim, 2))
    np.testing.assert_allclose(convolved[centre], lattice.blur(values)[centre], rtol=1e-13)
    np.testing.assert_allclose(taps.sum(), 2 ** (dim + 1) / (1 + 0.5**dim), rtol=1e-14)


@pytest.mark.parametrize("taps", [(0.5, 1, 0.5), (0.1, 0.6, 1, 0.6, 0.1)])
def test_blur_has_response_one_at_the_centre(taps):
    lattice, centre = full_lattice(2, 6)
    assert lattice.blur_matrix(taps)[centre, centre] == pytest.approx(1)


@pytest.mark.parametrize("filter", [reference.gaussian_filter, reference.brute_force_filter])
@pytest.mark.parametrize("dim", DIMS)
def test_constant_stays_constant(dim, filter):
    filtered = filter(np.full((200, 2), 3.0), cloud(200, dim))
    np.testing.assert_allclose(filtered, 3, rtol=1e-13)


@pytest.mark.parametrize("normalize", NORMALIZATIONS)
@pytest.mark.parametrize("filter", [reference.gaussian_filter, reference.brute_force_filter])
def test_graphs_of_a_batch_equal_separate_calls(filter, normalize):
    feature, x, batch = cloud(80, 3), signal(80), np.arange(80) % 2
    together = filter(x, feature, batch, normalize=normalize)
    for graph in range(2):
        own = batch == graph
        alone = filter(x[own], feature[own], normalize=normalize)
        np.testing.assert_allclose(together[own], alone, atol=1e-13)


@pytest.mark.parametrize("normalize", NORMALIZATIONS)
def test_filter_equals_the_dense_product(normalize):
    feature, x = cloud(50, 3), signal(50)
    lattice = reference.ReferenceLattice(feature)
    kernel = lattice.slice_matrix() @ lattice.blur_matrix() @ lattice.splat_matrix()
    norm = kernel.sum(axis=1)
    expected = {
        None: kernel @ x,
        "before": kernel / norm @ x,
        "after": kernel / norm[:, None] @ x,
        "symmetric": kernel / np.sqrt(np.outer(norm, norm)) @ x,
    }[normalize]
    found = reference.gaussian_filter(x, feature, normalize=normalize)
    np.testing.assert_allclose(found, expected, atol=1e-13)


@pytest.mark.parametrize(("dim", "gain"), [(1, 0.921), (2, 0.882), (3, 0.832)])
def test_filter_is_close_to_the_exact_gaussian(dim, gain):
    rng = np.random.default_rng(0)
    feature = rng.uniform(-4, 4, size=(2000, dim))
    x = np.sin(feature.sum(axis=1, keepdims=True)) + np.cos(feature[:, :1])
    inside = (np.abs(feature) < 2).all(axis=1)
    error = reference.gaussian_filter(x, feature) - reference.brute_force_filter(x, feature)
    assert np.abs(error[inside]).max() < 0.1
    ones = np.ones_like(x)
    ratio = reference.gaussian_filter(ones, feature, normalize=None) / (
        reference.brute_force_filter(ones, feature, normalize=None)
    )
    assert ratio[inside].mean() == pytest.approx(gain, rel=0.02)


@pytest.mark.parametrize("normalize", NORMALIZATIONS)
@pytest.mark.parametrize("dim", DIMS)
def test_filter_equals_pydensecrf(dim, normalize):
    densecrf = pytest.importorskip("pydensecrf.densecrf")
    kind = {
        None: densecrf.NO_NORMALIZATION,
        "before": densecrf.NORMALIZE_BEFORE,
        "after": densecrf.NORMALIZE_AFTER,
        "symmetric": densecrf.NORMALIZE_SYMMETRIC,
    }[normalize]
    feature = cloud(300, dim).astype(np.float32)
    half_logit = (0.3 * signal(300, 1)[:, 0]).astype(np.float32)
    # Two labels with unaries -u and u start at Q_0 - Q_1 = tanh(u), and after one step
    # log(Q_0 / Q_1) = 2 u + w K tanh(u); the small w keeps the softmax from saturating.
    strength = 0.3
    crf = densecrf.DenseCRF(300, 2)
    crf.setUnaryEnergy(np.stack([-half_logit, half_logit]))
    crf.addPairwiseEnergy(
        np.ascontiguousarray(feature.T),
        compat=strength,
        kernel=densecrf.CONST_KERNEL,
        normalization=kind,
    )
    marginal = np.array(crf.inference(1), dtype=np.float64)
    found = (np.log(marginal[0] / marginal[1]) - 2 * half_logit.astype(np.float64)) / strength
    x = np.tanh(half_logit.astype(np.float64))[:, None]
    expected = reference.gaussian_filter(x, feature, normalize=normalize)[:, 0]
    # float32 sums over 300 points lose a few digits where signs cancel, hence the gross sum.
    gross = reference.gaussian_filter(np.abs(x), feature, normalize=normalize).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * max(1, gross))
