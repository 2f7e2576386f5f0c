"""Matrices and vectors as buffers and in numpy functions."""

import numpy as np
import pytest

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


def test_marginals_are_column_major_labels_by_points(crf, ours):
    q = crf.inference(2)
    assert type(q) is ours.eigen.MatrixXf
    view = memoryview(q)
    assert (view.format, view.shape, view.strides) == ("f", (3, 40), (4, 12))
    assert view.f_contiguous and not view.readonly
    copy = np.array(q)
    assert type(copy) is np.ndarray and copy.flags.f_contiguous and copy.flags.owndata
    np.testing.assert_allclose(copy.sum(0), 1, rtol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda q: np.argmax(q, axis=0),
        lambda q: np.array(q).reshape(3, 8, 5),
        lambda q: np.asarray(q),
        lambda q: np.log(q),
        lambda q: np.stack([q, q]),
        lambda q: np.split(q, [1], axis=1)[1],
        lambda q: np.max(q, axis=0),
        lambda q: np.transpose(q),
        lambda q: np.ones((3, 40), F) + q,
    ],
)
def test_numpy_makes_plain_arrays_of_it(function, crf):
    q = crf.inference(2)
    out = function(q)
    assert type(out) is np.ndarray
    np.testing.assert_array_equal(out, function(np.array(q)))


def test_numpy_makes_numbers_of_it(crf):
    assert type(np.max(crf.inference(1))) is np.float32
    assert type(np.add.reduce(crf.inference(1), axis=None)) is np.float32


def test_copies_of_arrays(ours):
    array = np.arange(6, dtype=F).reshape(2, 3)
    matrix, vector = ours.eigen.matrixXf(array), ours.eigen.vectorXf(array[0])
    assert np.array(matrix).flags.f_contiguous
    np.testing.assert_array_equal(matrix, array)
    np.testing.assert_array_equal(vector, array[0])
    array[:] = 0
    assert np.array(matrix).any() and np.array(vector).any()
    assert np.array(ours.eigen.MatrixXf()).shape == (0, 0)
    assert np.array(ours.eigen.VectorXf()).shape == (0,)
