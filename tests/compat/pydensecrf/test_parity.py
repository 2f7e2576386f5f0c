"""The same programs in both packages: marginals, steps and divergences agree."""

import numpy as np
import pytest

NORMALIZATIONS = ("NO_NORMALIZATION", "NORMALIZE_BEFORE", "NORMALIZE_AFTER", "NORMALIZE_SYMMETRIC")
KERNELS = ("CONST_KERNEL", "DIAG_KERNEL", "FULL_KERNEL")


def agree(got, wanted, most=1e-3):
    got, wanted = np.array(got), np.array(wanted)
    assert got.dtype == wanted.dtype == np.float32
    assert got.shape == wanted.shape and got.strides == wanted.strides
    assert np.abs(got - wanted).max(initial=0) < most
    # Where two labels are equally probable to the last bits, either may come first.
    best = np.take_along_axis(wanted, got.argmax(0)[None], 0)[0]
    assert (best > wanted.max(0) - 1e-5).mean() > 0.999


def infer(densecrf, energy, feature, compat, steps=5, **how):
    crf = densecrf.DenseCRF(energy.shape[1], len(energy))
    crf.setUnaryEnergy(energy)
    crf.addPairwiseEnergy(feature, compat, **how)
    return crf.inference(steps)


def both(ours, theirs, *args, **kwargs):
    """Message of one pairwise term, computed by either package."""
    return tuple(infer(each.densecrf, *args, **kwargs) for each in (ours, theirs))


def trace(crf, steps=4):
    """Marginals and divergence after each step."""
    q, *scratch = crf.startInference()
    out = []
    for _ in range(steps):
        out.append((np.array(q), crf.klDivergence(q)))
        assert crf.stepInference(q, *scratch) is None
    return [*out, (np.array(q), crf.klDivergence(q))]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed, ours, theirs, program):
    make, _ = program(seed)
    crf, reference = make(ours.densecrf), make(theirs.densecrf)
    agree(crf.inference(5), reference.inference(5))
    for (q, kl), (wanted_q, wanted_kl) in zip(trace(crf), trace(reference), strict=True):
        agree(q, wanted_q)
        assert kl == pytest.approx(wanted_kl, rel=1e-3, abs=1e-3 * q[0].size)
    agree(crf.inference(0), reference.inference(0), 1e-6)


def test_random_programs_cover_the_interface(program):
    calls = [call for seed in range(60) for call in program(seed)[1]]
    methods = {method for method, _ in calls}
    assert methods == {
        "setUnaryEnergy",
        "addPairwiseGaussian",
        "addPairwiseBilateral",
        "addPairwiseEnergy",
    }
    pairwise = [arguments for method, arguments in calls if method != "setUnaryEnergy"]
    seen = {(np.ndim(each["compat"]), each["kernel"], each["normalization"]) for each in pairwise}
    assert len(seen) > 30
    dims = {len(each["features"]) for each in pairwise if "features" in each}
    assert dims == {1, 2, 3, 4, 5, 6}
    counts = [[method for method, _ in program(seed)[1]] for seed in range(60)]
    assert any(not methods for methods in counts)
    assert any(methods.count("setUnaryEnergy") == 2 for methods in counts)
    assert any(len(methods) - methods.count("setUnaryEnergy") == 3 for methods in counts)


@pytest.mark.parametrize("kind", ["number", "vector", "matrix"])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kind_of_term(kernel, normalization, kind, ours, theirs):
    rng = np.random.default_rng(3)
    compat = {
        "number": 2.5,
        "vector": rng.uniform(-3, 1, 4).astype(np.float32),
        "matrix": rng.normal(size=(4, 4)).astype(np.float32),
    }[kind]
    energy = rng.normal(size=(4, 150)).astype(np.float32)
    feature = rng.normal(size=(3, 150)).astype(np.float32)
    how = {
        "kernel": getattr(ours.densecrf, kernel),
        "normalization": getattr(ours.densecrf, normalization),
    }
    assert how["kernel"] == getattr(theirs.densecrf, kernel)
    assert how["normalization"] == getattr(theirs.densecrf, normalization)
    agree(*both(ours, theirs, energy, feature, compat, **how), 1e-4)


def test_grids_of_whole_numbers(ours, theirs):
    """Voxels one bandwidth apart lie on the faces of simplices: only the same rounding, and the
    same choice among equals, gives the same vertices."""
    feature = ours.utils.create_pairwise_gaussian((1, 1, 1), (4, 5, 3))
    sparse = np.ascontiguousarray(feature[:, ::3])
    energy = np.random.default_rng(0).normal(size=(3, sparse.shape[1])).astype(np.float32)
    agree(*both(ours, theirs, energy, sparse, 4), 1e-5)


@pytest.mark.parametrize("points", [1, 2, 3, 4, 5, 97, 98, 99, 100])
def test_points_by_fours(points, ours, theirs):
    """pydensecrf fills up blocks of four points with zeros, whose vertices the blur may cross."""
    rng = np.random.default_rng(points)
    feature = rng.normal(size=(4, points)).astype(np.float32) / 2
    energy = rng.normal(size=(2, points)).astype(np.float32)
    none = ours.densecrf.NO_NORMALIZATION
    agree(*both(ours, theirs, energy, feature, 3, normalization=none), 1e-5)


def test_far_from_the_origin(ours, theirs):
    """Single precision moves points there, in both packages alike."""
    rng = np.random.default_rng(0)
    feature = (rng.normal(size=(3, 200)) + 900).astype(np.float32)
    energy = rng.normal(size=(3, 200)).astype(np.float32)
    agree(*both(ours, theirs, energy, feature, 4), 1e-4)


def test_logistic_unaries(ours, theirs):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(3, 2)).astype(np.float32)
    value = rng.normal(size=(2, 50)).astype(np.float32)
    square = (0.1 * rng.normal(size=(50, 50))).astype(np.float32)
    energy = rng.normal(size=(3, 50)).astype(np.float32)

    def run(densecrf):
        crf = densecrf.DenseCRF(50, 3)
        crf.setUnary(densecrf.LogisticUnary(weight, value))
        crf.addPairwiseEnergy(value, 2)
        first = np.array(crf.inference(3))
        crf.setUnaryEnergy(energy, square)
        return first, crf.inference(3)

    for got, wanted in zip(run(ours.densecrf), run(theirs.densecrf), strict=True):
        agree(got, wanted, 1e-5)


def test_a_unary_is_used_up(ours, theirs):
    """The second CRF gets nothing, and the first one nothing the second time."""
    energy = np.random.default_rng(0).normal(size=(3, 20)).astype(np.float32)

    def run(densecrf):
        unary = densecrf.ConstUnary(energy)
        first, second = densecrf.DenseCRF(20, 3), densecrf.DenseCRF(20, 3)
        first.setUnary(unary)
        second.setUnary(unary)
        before = np.array(first.inference(1)), np.array(second.inference(1))
        first.setUnary(unary)
        return *before, np.array(first.inference(1))

    for got, wanted in zip(run(ours.densecrf), run(theirs.densecrf), strict=True):
        agree(got, wanted, 1e-6)


def test_labels_that_the_unary_brings(ours, theirs):
    """The number of labels given at first counts only without unary energies."""
    rng = np.random.default_rng(0)
    energy = rng.normal(size=(4, 20)).astype(np.float32)
    feature = rng.normal(size=(2, 20)).astype(np.float32)

    def run(densecrf):
        crf = densecrf.DenseCRF(20, 2)
        crf.setUnary(densecrf.ConstUnary(energy))
        crf.addPairwiseEnergy(feature, np.array([-1, -2, -3, -4], np.float32))
        return crf.inference(2)

    agree(run(ours.densecrf), run(theirs.densecrf), 1e-5)


@pytest.mark.parametrize("size", [1e4, np.inf])
def test_extreme_energies(size, ours, theirs):
    """Among energies of 1e4, single precision leaves theirs three digits of the messages."""
    rng = np.random.default_rng(0)
    energy = np.where(rng.random((3, 40)) < 0.3, size, rng.random((3, 40))).astype(np.float32)
    energy[0] = np.where(np.isinf(energy).all(0), 0, energy[0])
    feature = rng.normal(size=(2, 40)).astype(np.float32)
    got, wanted = both(ours, theirs, energy, feature, 3)
    assert np.isfinite(got).all()
    agree(got, wanted)


@pytest.mark.parametrize(("labels", "spread"), [(70, 1), (3, 100)])
def test_without_the_fused_step(labels, spread, ours, theirs):
    """The fused path serves few labels and lattices with fewer vertices than points."""
    rng = np.random.default_rng(0)
    energy = rng.normal(size=(labels, 60)).astype(np.float32)
    feature = spread * rng.normal(size=(2, 60)).astype(np.float32)
    agree(*both(ours, theirs, energy, feature, 3), 1e-5)


def test_terms_added_between_inferences(ours, theirs):
    rng = np.random.default_rng(0)
    energy = rng.normal(size=(3, 80)).astype(np.float32)
    features = [rng.normal(size=(dim, 80)).astype(np.float32) for dim in (2, 3, 2)]

    def run(densecrf):
        crf = densecrf.DenseCRF(80, 3)
        crf.setUnaryEnergy(energy)
        out = [np.array(crf.inference(3))]
        for feature in features:
            crf.addPairwiseEnergy(feature, 2)
            out.append(np.array(crf.inference(3)))
        crf.setUnaryEnergy(-energy)
        return [*out, np.array(crf.inference(3))]

    for got, wanted in zip(run(ours.densecrf), run(theirs.densecrf), strict=True):
        agree(got, wanted, 1e-5)
