"""The helper functions, number by number."""

import logging

import numpy as np
import pytest

RNG = np.random.default_rng(0)
IMAGE = RNG.integers(0, 256, (4, 5, 3)).astype(np.uint8)
VOLUME = RNG.random((3, 4, 2, 5)).astype(np.float32)
LABELS = RNG.integers(0, 4, (6, 7))
SOFTMAX = RNG.dirichlet(np.ones(3), (4, 5)).transpose(2, 0, 1)

CALLS = [
    ("unary_from_labels", (LABELS, 3, 0.7), {}),
    ("unary_from_labels", (LABELS, 4, 0.7), {"zero_unsure": False}),
    ("unary_from_labels", (LABELS[0], 3), {"gt_prob": 0.01, "zero_unsure": True}),
    ("unary_from_labels", (np.array([-1, 1, 2]), 2, 0.5), {}),
    ("unary_from_labels", (np.array([], int), 2, 0.5), {}),
    ("compute_unary", (LABELS, 3), {}),
    ("compute_unary", (), {"labels": LABELS, "M": 3, "GT_PROB": 0.9}),
    ("unary_from_softmax", (SOFTMAX,), {}),
    ("unary_from_softmax", (SOFTMAX.astype(np.float32),), {"scale": 0.6}),
    ("unary_from_softmax", (SOFTMAX,), {"scale": 1, "clip": 0.2}),
    ("unary_from_softmax", (SOFTMAX.round(1), 0.5, None), {}),
    ("unary_from_softmax", (np.ascontiguousarray(SOFTMAX),), {"clip": 1e-2}),
    ("softmax_to_unary", (SOFTMAX,), {}),
    ("softmax_to_unary", (), {"sm": SOFTMAX, "GT_PROB": 0.5}),
    ("create_pairwise_gaussian", ((3, 4), (5, 6)), {}),
    ("create_pairwise_gaussian", (), {"sdims": (3, 4.5, 1), "shape": (2, 3, 4)}),
    ("create_pairwise_gaussian", ([2], [7]), {}),
    ("create_pairwise_gaussian", ((2,), (3, 4)), {}),
    ("create_pairwise_bilateral", ((3, 4), (1, 2, 3), IMAGE), {"chdim": 2}),
    ("create_pairwise_bilateral", ((3, 4), 13, IMAGE, 2), {}),
    ("create_pairwise_bilateral", ((3, 4), (7,), IMAGE[:, :, 0]), {}),
    ("create_pairwise_bilateral", ((3, 4), 7, IMAGE[:, :, 0], -1), {}),
    ("create_pairwise_bilateral", ((3, 4), (1, 2), IMAGE, 2), {}),
    ("create_pairwise_bilateral", ((3, 4), (1, 2, 3), IMAGE.transpose(2, 0, 1), 0), {}),
    ("create_pairwise_bilateral", ((1, 2, 3), (0.1, 0.2, 0.3), VOLUME), {"chdim": 0}),
    ("create_pairwise_bilateral", ((3, 4), (1, 2, 3, 1, 1), IMAGE, -2), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS)
def test_equal_to_the_last_bit_or_two(name, args, kwargs, ours, theirs):
    before = [np.copy(each) for each in args]
    got = getattr(ours.utils, name)(*args, **kwargs)
    wanted = getattr(theirs.utils, name)(*args, **kwargs)
    assert type(got) is np.ndarray and got.dtype == wanted.dtype
    assert got.shape == wanted.shape and got.strides == wanted.strides
    np.testing.assert_array_max_ulp(got, wanted, 1)
    for each, old in zip(args, before, strict=True):
        np.testing.assert_array_equal(each, old)


@pytest.mark.parametrize("name", ["compute_unary", "softmax_to_unary"])
def test_old_names_are_logged(name, ours, caplog):
    argument = {"compute_unary": (LABELS, 3), "softmax_to_unary": (SOFTMAX,)}[name]
    with caplog.at_level(logging.WARNING):
        getattr(ours.utils, name)(*argument)
    (record,) = caplog.records
    assert name in record.getMessage() and "deprecated" in record.getMessage()
    assert record.name == "root"


def test_labels_of_unsigned_types(ours):
    """Theirs take 0 - 1 for 255 and fail."""
    labels = np.array([0, 1, 2], np.uint8)
    wanted = ours.utils.unary_from_labels(labels.astype(int), 2, 0.5)
    np.testing.assert_array_equal(ours.utils.unary_from_labels(labels, 2, 0.5), wanted)


def test_unsure_points_are_even(ours):
    unary = ours.utils.unary_from_labels(np.array([0, 2]), 4, 0.7)
    np.testing.assert_allclose(np.exp(-unary[:, 0]), 0.25)
    np.testing.assert_allclose(np.exp(-unary[:, 1]), [0.1, 0.7, 0.1, 0.1], rtol=1e-6)
