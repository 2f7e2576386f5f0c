"""Memory: what is copied, what is shared, and in which order."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

from permutogeo.testing import reference

F = np.float32


@pytest.fixture
def energy():
    return np.random.default_rng(0).normal(size=(3, 40)).astype(F)


@pytest.fixture
def feature():
    return np.random.default_rng(1).normal(size=(2, 40)).astype(F)


@pytest.fixture
def crf(ours, energy, feature):
    crf = ours.densecrf.DenseCRF(40, 3)
    crf.setUnaryEnergy(energy)
    crf.addPairwiseEnergy(feature, 3)
    return crf


def test_mean_field_in_double_precision(crf, energy, feature):
    """Against the dictionary lattice, without pydensecrf."""
    points = feature.T.astype(float)

    def softmax(logits):
        out = np.exp(logits - logits.max(1, keepdims=True))
        return out / out.sum(1, keepdims=True)

    q = softmax(-energy.T.astype(float))
    for _ in range(5):
        q = softmax(-energy.T + 3 * reference.gaussian_filter(q, points, normalize="symmetric"))
    np.testing.assert_allclose(np.array(crf.inference(5)), q.T, atol=1e-5)


def test_steps_change_the_matrix_itself(crf):
    q, tmp1, tmp2 = crf.startInference()
    view = np.asarray(q)
    before = view.copy()
    for _ in range(3):
        crf.stepInference(q, tmp1, tmp2)
    assert np.abs(view - before).max() > 0.01
    assert np.shares_memory(view, q)
    np.testing.assert_allclose(view, crf.inference(3), atol=1e-6)
    assert np.array(tmp1).shape == np.array(tmp2).shape == (0, 0)


def test_the_caller_may_set_the_marginals(crf, ours, theirs, energy, feature):
    reference = theirs.densecrf.DenseCRF(40, 3)
    reference.setUnaryEnergy(energy)
    reference.addPairwiseEnergy(feature, 3)
    start = np.random.default_rng(2).dirichlet(np.ones(3), 40).T.astype(F).copy()
    matrices = []
    for package, each in ((ours, crf), (theirs, reference)):
        q = package.eigen.matrixXf(start)
        np.asarray(q)[:, 0] = [1, 0, 0]
        each.stepInference(q, package.eigen.MatrixXf(), package.eigen.MatrixXf())
        matrices.append(np.array(q))
    np.testing.assert_allclose(*matrices, atol=1e-5)


def test_scratch_of_the_right_shape_is_filled(ours, theirs, energy, feature):
    """The logits, and the last term's energies."""
    rng = np.random.default_rng(3)
    mix = rng.normal(size=(3, 3)).astype(F)
    filled = []
    for package in (ours, theirs):
        crf = package.densecrf.DenseCRF(40, 3)
        crf.setUnaryEnergy(energy)
        crf.addPairwiseEnergy(feature, 2)
        crf.addPairwiseEnergy(2 * feature, mix)
        q, *_ = crf.startInference()
        scratch = [package.eigen.matrixXf(np.zeros((3, 40), F)) for _ in range(2)]
        crf.stepInference(q, *scratch)
        filled.append([np.array(each) for each in (q, *scratch)])
    for got, wanted in zip(*filled, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_arguments_are_copied(ours, energy, feature):
    """Arrays may be changed after the call: they were copied."""
    compat = -np.eye(3, dtype=F)
    image = np.random.default_rng(4).integers(0, 256, (8, 5, 3)).astype(np.uint8)
    arrays = [energy, feature, compat, image]

    def make():
        crf = ours.densecrf.DenseCRF2D(5, 8, 3)
        unary = ours.densecrf.ConstUnary(energy)
        crf.addPairwiseEnergy(feature, compat)
        crf.addPairwiseBilateral(3, 13, image, 2)
        return crf, unary

    crf, unary = make()
    crf.setUnary(unary)
    wanted = np.array(crf.inference(2))
    crf, unary = make()
    saved = [each.copy() for each in arrays]
    for each in arrays:
        each[...] = 0
    crf.setUnary(unary)
    got = np.array(crf.inference(2))
    for each, old in zip(arrays, saved, strict=True):
        each[...] = old
    np.testing.assert_array_equal(got, wanted)


def test_arguments_are_left_alone(crf, energy, feature):
    before = energy.copy(), feature.copy()
    crf.inference(3)
    np.testing.assert_array_equal(energy, before[0])
    np.testing.assert_array_equal(feature, before[1])


def test_results_stay_when_the_crf_goes_on(crf):
    first = crf.inference(1)
    kept = np.array(first)
    crf.inference(4)
    np.testing.assert_array_equal(first, kept)


def test_inference_repeats_to_the_bit(crf):
    np.testing.assert_array_equal(crf.inference(5), crf.inference(5))


def test_threads_do_not_matter(ours):
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (150, 200, 3)).astype(np.uint8)
    image = np.ascontiguousarray(np.sort(image, axis=0))
    energy = rng.normal(size=(4, 30000)).astype(F)

    def infer():
        crf = ours.densecrf.DenseCRF2D(200, 150, 4)
        crf.setUnaryEnergy(energy)
        crf.addPairwiseGaussian(3, 3)
        crf.addPairwiseBilateral(30, 20, image, 5)
        return np.array(crf.inference(3))

    threads = torch.get_num_threads()
    try:
        out = []
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            out.append(infer())
    finally:
        torch.set_num_threads(threads)
    np.testing.assert_array_equal(out[0], out[1])
    np.testing.assert_array_equal(out[0], out[2])


@pytest.mark.parametrize("shape", [(0, 3), (5, 0), (0, 0)])
def test_nothing_to_infer(shape, ours):
    points, labels = shape
    crf = ours.densecrf.DenseCRF(points, labels)
    assert np.array(crf.inference(2)).shape == (labels, points)
    assert crf.klDivergence(crf.startInference()[0]) == 0


def test_without_unaries_inference_starts_even_and_steps_start_at_zero(ours, feature):
    crf = ours.densecrf.DenseCRF(40, 4)
    np.testing.assert_array_equal(crf.inference(0), np.full((4, 40), 0.25, F))
    assert not np.array(crf.startInference()[0]).any()


def test_subclasses_work(ours, energy):
    class Mine(ours.densecrf.DenseCRF):
        pass

    crf = Mine(40, 3)
    crf.setUnaryEnergy(energy)
    crf.note = "subclasses have attributes"
    assert np.array(crf.inference(1)).shape == (3, 40)


def test_kernels_are_numbers(ours):
    densecrf = ours.densecrf
    assert [densecrf.CONST_KERNEL, densecrf.DIAG_KERNEL, densecrf.FULL_KERNEL] == [0, 1, 2]
    assert densecrf.NormalizationType.NORMALIZE_SYMMETRIC is densecrf.NORMALIZE_SYMMETRIC
    assert densecrf.NORMALIZE_SYMMETRIC == 3 and densecrf.KernelType(1) is densecrf.DIAG_KERNEL


@pytest.mark.parametrize("steps", [None, 2])
def test_pickles_before_and_after_inference(steps, crf):
    if steps is not None:
        crf.inference(steps)
    again = pickle.loads(pickle.dumps(crf))
    np.testing.assert_array_equal(again.inference(3), crf.inference(3))
    copied = copy.deepcopy(crf)
    np.testing.assert_array_equal(copied.inference(3), crf.inference(3))


def test_forked_children_do_not_hang():
    """At a size for which torch starts threads, in a parent that used them."""
    program = """
import multiprocessing, numpy as np
import permutogeo.compat.pydensecrf.densecrf as dcrf

def infer(seed):
    rng = np.random.default_rng(seed)
    crf = dcrf.DenseCRF2D(160, 120, 5)
    crf.setUnaryEnergy(rng.random((5, 160 * 120), np.float32))
    crf.addPairwiseGaussian(sxy=3, compat=3)
    image = np.ascontiguousarray(rng.integers(0, 255, (120, 160, 3)).astype(np.uint8) // 8)
    crf.addPairwiseBilateral(sxy=40, srgb=13, rgbim=image, compat=5)
    q, *scratch = crf.startInference()
    crf.stepInference(q, *scratch)
    return np.array(crf.inference(3)), np.array(q), crf.klDivergence(q)

wanted = [infer(seed) for seed in range(2)]
with multiprocessing.get_context("fork").Pool(2) as pool:
    found = pool.map_async(infer, range(2)).get(timeout=90)
for a, b in zip(wanted, found):
    np.testing.assert_array_equal(a[0], b[0])
    np.testing.assert_allclose(a[1], b[1], rtol=1e-5)
print("ok")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "ok", done.stderr
