"""Wrong calls raise what they raise in pydensecrf, or a ValueError where that package crashes."""

import array  # noqa: F401, for the calls below
from decimal import Decimal  # noqa: F401
from fractions import Fraction  # noqa: F401

import numpy as np
import pytest

F = np.float32
RNG = np.random.default_rng(0)
U = RNG.random((3, 20)).astype(F)
FEATURE = RNG.random((2, 20)).astype(F)
IMAGE = RNG.integers(0, 255, (4, 5, 3)).astype(np.uint8)
READ_ONLY = U.copy()
READ_ONLY.flags.writeable = False

# One call a line, with `crf` over 20 points, `crf2d` over 5 x 4 pixels, 3 labels each.
CALLS = """
crf.setUnaryEnergy(U.astype('f8'))
crf.setUnaryEnergy(U.astype('f2'))
crf.setUnaryEnergy(U.astype('i4'))
crf.setUnaryEnergy(U.astype('>f4'))
crf.setUnaryEnergy(U.astype('c8'))
crf.setUnaryEnergy(np.array(U.tolist(), dtype=object))
crf.setUnaryEnergy(U.reshape(3, 4, 5))
crf.setUnaryEnergy(U[0])
crf.setUnaryEnergy(U.T)
crf.setUnaryEnergy(np.asfortranarray(U))
crf.setUnaryEnergy(U[:, ::2])
crf.setUnaryEnergy(U[:2])
crf.setUnaryEnergy(U[:, :10].copy())
crf.setUnaryEnergy(np.zeros((3, 0), F))
crf.setUnaryEnergy(READ_ONLY)
crf.setUnaryEnergy(None)
crf.setUnaryEnergy(U.tolist())
crf.setUnaryEnergy('abc')
crf.setUnaryEnergy(3)
crf.setUnaryEnergy()
crf.setUnaryEnergy(unary=U)
crf.setUnaryEnergy(bytes(240))
crf.setUnaryEnergy(bytearray(240))
crf.setUnaryEnergy(array.array('f', [0] * 60))
crf.setUnaryEnergy(memoryview(U.T))
crf.setUnaryEnergy(memoryview(READ_ONLY))
crf.setUnaryEnergy(eigen.matrixXf(U))
crf.setUnaryEnergy(U, np.zeros((20, 20)))
crf.setUnaryEnergy(U, np.zeros(20, F))
crf.setUnary(U)
crf.setUnary(3)
crf.setUnary()
densecrf.ConstUnary()
densecrf.ConstUnary(None)
densecrf.ConstUnary(U.astype('f8'))
densecrf.LogisticUnary(U)
densecrf.LogisticUnary(U, None)
densecrf.LogisticUnary(U.astype('f8'), np.zeros((20, 20), F))
crf.inference()
crf.inference('2')
crf.inference(None)
crf.inference(2**40)
crf.inference(np.array([2, 3]))
crf.startInference(1)
crf.stepInference()
crf.stepInference(U, eigen.MatrixXf(), eigen.MatrixXf())
crf.stepInference(eigen.matrixXf(U), U, eigen.MatrixXf())
crf.stepInference(eigen.matrixXf(U), eigen.MatrixXf(), U)
crf.klDivergence(U)
crf.klDivergence()
crf.klDivergence(eigen.vectorXf(U[0]))
crf.addPairwiseEnergy(FEATURE)
crf.addPairwiseEnergy(FEATURE.astype('f8'), 3)
crf.addPairwiseEnergy(FEATURE.T.copy(), 3)
crf.addPairwiseEnergy(FEATURE.T, 3)
crf.addPairwiseEnergy(FEATURE[0], 3)
crf.addPairwiseEnergy(FEATURE[:, :10].copy(), 3)
crf.addPairwiseEnergy(None, 3)
crf.addPairwiseEnergy(FEATURE, None)
crf.addPairwiseEnergy(FEATURE, [1, 2, 3])
crf.addPairwiseEnergy(FEATURE, 'x')
crf.addPairwiseEnergy(FEATURE, 3j)
crf.addPairwiseEnergy(FEATURE, np.bool_(True))
crf.addPairwiseEnergy(FEATURE, np.array(3, F))
crf.addPairwiseEnergy(FEATURE, np.ones(3))
crf.addPairwiseEnergy(FEATURE, np.ones((3, 3)))
crf.addPairwiseEnergy(FEATURE, np.ones((3, 3, 3), F))
crf.addPairwiseEnergy(FEATURE, np.ones(6, F)[::2])
crf.addPairwiseEnergy(FEATURE, np.asfortranarray(U[:, :3]))
crf.addPairwiseEnergy(FEATURE, eigen.matrixXf(np.ones((3, 3), F)))
crf.addPairwiseEnergy(FEATURE, b'abc')
crf.addPairwiseEnergy(FEATURE, READ_ONLY[0, :3])
crf.addPairwiseEnergy(FEATURE, 3, '1', 1)
crf.addPairwiseEnergy(FEATURE, 3, None, 1)
crf.addPairwiseEnergy(FEATURE, 3, 1, None)
crf.addPairwiseEnergy(FEATURE, 3, 2**40, 1)
crf.addPairwiseGaussian(3, 3)
crf2d.addPairwiseGaussian(3)
crf2d.addPairwiseGaussian((3,), 3)
crf2d.addPairwiseGaussian(np.array(3), 3)
crf2d.addPairwiseGaussian(None, 3)
crf2d.addPairwiseGaussian('34', 3)
crf2d.addPairwiseGaussian((None, 1), 3)
crf2d.addPairwiseGaussian(3j, 3)
crf2d.addPairwiseBilateral(3, 3, IMAGE)
crf2d.addPairwiseBilateral(3, (1, 2), IMAGE, 3)
crf2d.addPairwiseBilateral(3, None, IMAGE, 3)
crf2d.addPairwiseBilateral(3, 3, None, 3)
crf2d.addPairwiseBilateral(3, 3, IMAGE.astype('f4'), 3)
crf2d.addPairwiseBilateral(3, 3, IMAGE.astype('i1'), 3)
crf2d.addPairwiseBilateral(3, 3, IMAGE.astype('u2'), 3)
crf2d.addPairwiseBilateral(3, 3, IMAGE[:, :, 0], 3)
crf2d.addPairwiseBilateral(3, 3, IMAGE[..., None], 3)
crf2d.addPairwiseBilateral(3, 3, IMAGE[:, :, :2], 3)
crf2d.addPairwiseBilateral(3, 3, IMAGE[:, :, :2].copy(), 3)
crf2d.addPairwiseBilateral(3, 3, IMAGE[:, :, [0, 1, 2, 2]].copy(), 3)
crf2d.addPairwiseBilateral(3, 3, IMAGE.transpose(1, 0, 2).copy(), 3)
crf2d.addPairwiseBilateral(3, 3, IMAGE[::-1], 3)
crf2d.addPairwiseBilateral(3, 3, IMAGE.tolist(), 3)
crf2d.addPairwiseBilateral(3, 3, IMAGE, np.ones(3))
densecrf.DenseCRF()
densecrf.DenseCRF(20)
densecrf.DenseCRF('20', 3)
densecrf.DenseCRF(None, 3)
densecrf.DenseCRF(2**40, 3)
densecrf.DenseCRF2D()
densecrf.DenseCRF2D(5, 4)
crf.nothing
crf.nothing = 3
eigen.matrixXf(None)
eigen.matrixXf()
eigen.matrixXf(U[0])
eigen.matrixXf(U.astype('f8'))
eigen.vectorXf(None)
eigen.vectorXf(U)
eigen.vectorXf(U[0, ::2])
utils.unary_from_labels(np.array([1, 2, 0]), 2, 1.5)
utils.unary_from_labels(np.array([1, 2, 0]), 2, 1)
utils.unary_from_labels([1, 2, 0], 2, 0.5)
utils.unary_from_labels(np.array([1, 2, 3]), 2, 0.5)
utils.unary_from_labels(np.array([0, 1, 2]), 2, 0.5, False)
utils.unary_from_labels(np.array([0, 1, 1]), 1, 0.5)
utils.unary_from_labels(np.array([0.0, 1, 1]), 2, 0.5)
utils.unary_from_labels(np.array([0, 1]), 2.0, 0.5)
utils.unary_from_softmax(U.tolist())
utils.unary_from_softmax(U, scale=0)
utils.unary_from_softmax(U, scale=1.5)
utils.create_pairwise_gaussian(3, (4, 5))
utils.create_pairwise_gaussian((3, 4, 5), (4, 5))
utils.create_pairwise_gaussian((3, 3), 4)
utils.create_pairwise_gaussian((3, 3), (4.0, 5))
utils.create_pairwise_bilateral((3, 3), (2, 2, 2), IMAGE)
utils.create_pairwise_bilateral((3, 3, 3), (1, 2, 3), IMAGE, 2)
utils.create_pairwise_bilateral((3, 3), (1, 2, 3, 4), IMAGE, 2)
utils.create_pairwise_bilateral((3, 3), (1, 2, 3), IMAGE, 3)
densecrf.KernelType(5)
""".strip().splitlines()

# What pydensecrf takes although it looks odd.
TAKEN = """
crf.setUnaryEnergy(memoryview(U))
crf.setUnaryEnergy(U, f=None)
crf.setUnaryEnergy(U, np.zeros((20, 20), F))
crf.setUnary(densecrf.Unary(3))
crf.inference(2.5)
crf.inference(-3)
crf.inference(np.float32(2))
crf.inference(np.array(2))
crf.inference(True)
crf.addPairwiseEnergy(FEATURE, 3, 7, 9)
crf.addPairwiseEnergy(FEATURE, 3, -1, 1.5)
crf.addPairwiseEnergy(FEATURE, 3, True, np.uint8(2))
crf.addPairwiseEnergy(FEATURE, np.int32(3))
crf.addPairwiseEnergy(FEATURE, Fraction(1, 2))
crf.addPairwiseEnergy(FEATURE, Decimal(2))
crf.addPairwiseEnergy(FEATURE, eigen.vectorXf(np.ones(3, F)))
crf2d.addPairwiseGaussian((3, 4, 5), 3)
crf2d.addPairwiseGaussian({0: 3, 1: 4}, 3)
crf2d.addPairwiseGaussian(np.array([3, 4]), 3)
crf2d.addPairwiseGaussian(float('inf'), 3)
crf2d.addPairwiseGaussian(-3, 3)
crf2d.addPairwiseBilateral(3, (1, 2, 3, 4), IMAGE, 3)
crf2d.addPairwiseBilateral(3, 3, IMAGE.astype(bool), 3)
densecrf.DenseCRF(20, 3, 4, more=5)
densecrf.DenseCRF(nvar=20.0, nlabels=3)
densecrf.DenseCRF2D(5, 4, 3.7, 2)
densecrf.DenseCRF2D(5, h=4, nlabels=3)
eigen.MatrixXf(3, a=4)
bool(eigen.matrixXf(U))
hash(eigen.matrixXf(U))
utils.unary_from_labels(np.array([], int), 2, 0.5)
""".strip().splitlines()


def attempt(package, call):
    """The type of what is raised, or None."""
    names = {**globals(), **vars(package)}
    names["crf"] = package.densecrf.DenseCRF(20, 3)
    names["crf2d"] = package.densecrf.DenseCRF2D(5, 4, 3)
    try:
        exec(call, names)
        for each in ("crf", "crf2d"):
            assert np.isfinite(names[each].inference(2)).all()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("call", CALLS)
def test_the_same_error(call, ours, theirs):
    expected = attempt(theirs, call)
    assert expected is not None
    assert attempt(ours, call) is expected


@pytest.mark.parametrize("call", TAKEN)
def test_what_is_taken(call, ours, theirs):
    assert attempt(theirs, call) is None
    assert attempt(ours, call) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("crf.setUnaryEnergy(np.full((3, 20), np.nan, F))", "without NaN.*nan at point 0"),
        ("crf.setUnaryEnergy(np.full((3, 20), np.inf, F))", "finite least one"),
        ("crf.setUnaryEnergy(np.full((3, 20), -np.inf, F))", "finite least one"),
        ("crf.setUnaryEnergy(U, np.zeros((20, 7), F))", r"shape \[L, 20\]"),
        ("crf.setUnaryEnergy(U, np.zeros((7, 20), F))", "row for each of the 20 columns"),
        ("crf.setUnary(densecrf.ConstUnary(U[:, :7].copy()))", r"shape \[L, 20\]"),
        ("densecrf.LogisticUnary(U, U)", "row for each of the 20 columns"),
        ("crf.addPairwiseEnergy(np.zeros((0, 20), F), 3)", r"shape \[d, 20\]"),
        ("crf.addPairwiseEnergy(np.full((2, 20), np.nan, F), 3)", "finite features .got nan"),
        ("crf.addPairwiseEnergy(np.full((2, 20), 1e30, F), 3)", "keys fit 32 bits"),
        ("crf.addPairwiseEnergy(FEATURE, np.ones(4, F))", r"for 3 labels .got \[4\]"),
        ("crf.addPairwiseEnergy(FEATURE, np.ones((4, 4), F))", r"for 3 labels .got \[4, 4\]"),
        ("crf.addPairwiseEnergy(FEATURE, np.ones((3, 4), F))", "square"),
        ("crf.addPairwiseEnergy(FEATURE, np.nan)", "'compat' to be finite"),
        ("crf.addPairwiseEnergy(FEATURE, np.full(3, np.inf, F))", "'compat' to be finite"),
        ("crf2d.addPairwiseGaussian(0, 3)", "'sxy' to be numbers other than 0"),
        ("crf2d.addPairwiseGaussian((1, np.nan), 3)", "'sxy' to be numbers"),
        ("crf2d.addPairwiseBilateral(1, (1, 0, 1), IMAGE, 3)", "'srgb' to be numbers"),
        ("crf.stepInference(eigen.MatrixXf(), eigen.MatrixXf(), eigen.MatrixXf())", "'Q' as start"),
        ("crf.klDivergence(eigen.matrixXf(U[:, :7].copy()))", r"\[3, 20\] .got \[3, 7\]"),
        ("densecrf.DenseCRF(-1, 3)", "not negative"),
        ("densecrf.DenseCRF(1, -3)", "not negative"),
        ("densecrf.DenseCRF2D(-5, -4, 3)", "not negative"),
    ],
)
def test_what_would_crash_is_refused(call, message, ours):
    names = {**globals(), **vars(ours)}
    names["crf"] = ours.densecrf.DenseCRF(20, 3)
    names["crf2d"] = ours.densecrf.DenseCRF2D(5, 4, 3)
    with pytest.raises(ValueError, match=message):
        exec(call, names)
        names["crf"].inference(1)


@pytest.mark.parametrize("call", ["crf.setUnary(None)", "crf.klDivergence(None)"])
def test_none_is_not_a_matrix(call, ours):
    with pytest.raises(TypeError, match="got NoneType"):
        exec(call, {"crf": ours.densecrf.DenseCRF(20, 3)})


@pytest.mark.parametrize("sxy", ["3", "34", b"3"])
def test_strings_are_no_bandwidths(sxy, ours):
    with pytest.raises(TypeError, match=r"'sxy' to be a number or 2 numbers \(got b?'3"):
        ours.densecrf.DenseCRF2D(5, 4, 3).addPairwiseGaussian(sxy=sxy, compat=3)


def test_read_only_images_are_taken(ours):
    """``np.asarray`` of a PIL image is read-only; pydensecrf refuses it."""
    results = []
    for image in (IMAGE, np.broadcast_to(IMAGE, IMAGE.shape)):
        crf = ours.densecrf.DenseCRF2D(5, 4, 3)
        crf.setUnaryEnergy(U)
        crf.addPairwiseBilateral(3, 13, image, 3)
        results.append(np.array(crf.inference(2)))
    np.testing.assert_array_equal(*results)


def test_messages_say_what_to_do(ours):
    crf = ours.densecrf.DenseCRF(20, 3)
    with pytest.raises(ValueError, match=r"Buffer dtype mismatch.*float64.*u.astype\(np.float32\)"):
        crf.setUnaryEnergy(U.astype(float))
    with pytest.raises(ValueError, match=r"np.ascontiguousarray\(u\)"):
        crf.setUnaryEnergy(np.asfortranarray(U))
    with pytest.raises(ValueError, match=r"expected 'u' of shape \[3, 20\].*got \[20, 3\]"):
        crf.setUnaryEnergy(U.T.copy())
    with pytest.raises(ValueError, match="create_pairwise_bilateral"):
        ours.densecrf.DenseCRF2D(5, 4, 3).addPairwiseBilateral(3, 3, IMAGE[:, :, :1].copy(), 3)


def test_a_refused_call_changes_nothing(ours):
    crf = ours.densecrf.DenseCRF(20, 3)
    crf.setUnaryEnergy(U)
    crf.addPairwiseEnergy(FEATURE, 3)
    before = np.array(crf.inference(3))
    for call in (
        lambda: crf.setUnaryEnergy(U.astype(float)),
        lambda: crf.setUnaryEnergy(np.full((3, 20), np.nan, F)),
        lambda: crf.addPairwiseEnergy(np.full((2, 20), np.nan, F), 3),
        lambda: crf.addPairwiseEnergy(FEATURE, np.ones((3, 4), F)),
    ):
        with pytest.raises(ValueError):
            call()
    np.testing.assert_array_equal(crf.inference(3), before)
