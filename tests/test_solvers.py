import warnings

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from permutogeo import Lattice
from permutogeo.solvers import bilateral_label_propagation, bilateral_solve
from permutogeo.testing.reference import ReferenceLattice

DOUBLE = torch.float64


def make(count=60, dim=3, channels=2, spread=4.0):
    feature = torch.rand(count, dim, dtype=DOUBLE) * spread
    confidence = torch.rand(count, dtype=DOUBLE)
    confidence[::3] = 0
    return torch.randn(count, channels, dtype=DOUBLE), confidence, feature


def dense_solution(target, confidence, feature, lam, hard=None, steps=10):
    """The same by dense matrices of the oracle."""
    lattice = ReferenceLattice(feature, None)
    splat, blur = lattice.splat_matrix(), lattice.blur_matrix()
    blur = (blur + blur.T) / 2
    mass = np.maximum(splat.sum(1), 1e-6)
    n = np.ones(len(mass))
    for _ in range(steps):
        n = np.sqrt(n * mass / (blur @ n))
    kernel = n[:, None] * blur * n
    target = target.numpy()
    soft = confidence.numpy() if hard is None else np.where(hard, 0, confidence)
    matrix = lam * (np.diag(kernel.sum(1)) - kernel) + np.diag(splat @ soft)
    right = splat @ (soft[:, None] * target)
    if hard is None:
        return splat.T @ np.linalg.solve(matrix, right)
    held = splat @ hard.numpy().astype(float)
    y = splat @ (hard[:, None].numpy() * target) / np.where(held > 0, held, 1)[:, None]
    free = held == 0
    right = right - matrix @ y
    y[free] = np.linalg.solve(matrix[free][:, free], right[free])
    return np.where(hard[:, None], target, splat.T @ y)


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
@pytest.mark.parametrize("lam", [0.1, 10.0])
def test_matches_a_dense_solve(dim, lam):
    target, confidence, feature = make(dim=dim, spread=4.0 if dim < 4 else 1.5)
    report = []
    found = bilateral_solve(target, confidence, feature, None, lam, tolerance=1e-12, report=report)
    expected = dense_solution(target, confidence, feature, lam)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    assert report[0].converged and report[0].residual < 1e-12 and report[0].iterations > 1


def test_hard_constraints():
    target, confidence, feature = make()
    hard = torch.arange(60) % 7 == 0
    found = bilateral_solve(target, confidence, feature, None, 2.0, hard, tolerance=1e-12)
    expected = dense_solution(target, confidence, feature, 2.0, hard)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    assert torch.equal(found[hard], target[hard])
    # The limit of infinite confidence, where nothing shares their vertices.
    strong = torch.where(hard, 1e9, confidence)
    limit = bilateral_solve(target, strong, feature, None, 2.0, tolerance=1e-14)
    torch.testing.assert_close(limit[~hard], found[~hard], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("constrained", [False, True])
def test_gradgradcheck(constrained):
    target, confidence, feature = make(7, 2, 1, 3.0)
    lam = torch.tensor(1.5, dtype=DOUBLE, requires_grad=True)
    hard = torch.arange(7) % 4 == 1 if constrained else None

    def call(target, confidence, feature, lam):
        return bilateral_solve(target, confidence, feature, None, lam, hard, tolerance=1e-13)

    confidence = confidence + 0.1
    inputs = (target.requires_grad_(), confidence.requires_grad_(), feature.requires_grad_(), lam)
    assert gradcheck(call, inputs)
    assert gradgradcheck(call, inputs, fast_mode=True)


def test_confidence_for_each_channel():
    target, confidence, feature = make()
    both = torch.stack([confidence, confidence.flip(0) + 0.1], 1)
    found = bilateral_solve(target, both, feature, tolerance=1e-12)
    single = [
        bilateral_solve(target[:, [i]], both[:, i], feature, tolerance=1e-12) for i in range(2)
    ]
    torch.testing.assert_close(found, torch.cat(single, 1))


def test_a_batch_is_several_calls():
    parts = [make(40 + 5 * i) for i in range(3)]
    sizes = torch.tensor([len(part[0]) for part in parts])
    batch = torch.arange(3).repeat_interleave(sizes)
    joined = [torch.cat(each) for each in zip(*parts, strict=True)]
    together = bilateral_solve(*joined, batch, tolerance=1e-12)
    alone = torch.cat([bilateral_solve(*part, tolerance=1e-12) for part in parts])
    torch.testing.assert_close(together, alone)
    mixed = torch.randperm(len(batch))
    shuffled = bilateral_solve(*(each[mixed] for each in joined), batch[mixed], tolerance=1e-12)
    torch.testing.assert_close(shuffled, together[mixed])


def test_constants_and_the_range_of_targets_are_kept():
    target, confidence, feature = make()
    ones = torch.ones(60, 1, dtype=DOUBLE)
    torch.testing.assert_close(bilateral_solve(ones, confidence, feature, tolerance=1e-12), ones)
    found = bilateral_solve(target, confidence, feature, tolerance=1e-12)
    known = target[confidence > 0]
    assert (found >= known.amin(0) - 1e-9).all() and (found <= known.amax(0) + 1e-9).all()


def test_unknown_targets_may_be_anything_and_nothing_is_changed():
    target, confidence, feature = make()
    expected = bilateral_solve(target, confidence, feature)
    target[confidence == 0] = torch.nan
    copies = [each.clone() for each in (target, confidence, feature)]
    assert torch.equal(bilateral_solve(target, confidence, feature), expected)
    for each, copy in zip((target, confidence, feature), copies, strict=True):
        torch.testing.assert_close(each, copy, rtol=0, atol=0, equal_nan=True)


def test_other_output_points():
    target, confidence, feature = make(spread=1.0)
    other = feature[:10] + 0.01
    lattice = Lattice.build_bipartite(feature, other)
    found = bilateral_solve(target, confidence, (feature, other))
    assert found.shape == (10, 2)
    assert torch.equal(bilateral_solve(target, confidence, None, lattice=lattice), found)
    near = bilateral_solve(target, confidence, feature)[:10]
    torch.testing.assert_close(found, near, rtol=0.2, atol=0.2)


def test_parts_without_a_target_are_filled():
    """Two far clusters, targets in one of them only."""
    feature = torch.cat([torch.rand(50, 2), torch.rand(50, 2) + 100])
    confidence = (torch.arange(100) < 50).float()
    target = torch.full((100, 1), 3.0)
    target[50:] = -7
    torch.testing.assert_close(
        bilateral_solve(target, confidence, feature), torch.full((100, 1), 3.0)
    )
    found = bilateral_solve(target, confidence, (feature, feature[[0, 99]]))
    torch.testing.assert_close(found, torch.full((2, 1), 3.0))


def test_warns_with_the_residual():
    target, confidence, feature = make()
    with pytest.warns(RuntimeWarning, match=r"relative residual [\d.e-]+ after 2 iterations"):
        bilateral_solve(target, confidence, feature, tolerance=1e-10, max_iterations=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bilateral_solve(target, confidence, feature)


def test_bits_do_not_depend_on_threads():
    target, confidence, feature = (each.float() for each in make(20000, 3, 3, 20.0))
    before = torch.get_num_threads()
    found = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        found.append(bilateral_solve(target, confidence, feature))
    torch.set_num_threads(before)
    assert torch.equal(*found)


def test_empty():
    assert bilateral_solve(torch.empty(0, 3), None, torch.empty(0, 2)).shape == (0, 3)
    none = torch.empty(0, dtype=torch.int64)
    assert bilateral_label_propagation(none, torch.empty(0, 2)).shape == (0, 1)


X, F, C = torch.rand(10, 2), torch.rand(10, 3), torch.rand(10)
BAD = [
    ((X[:9], C, F), ValueError, r"'target' of shape \[10, C\]"),
    ((X, C[:9], F), ValueError, r"'confidence' of shape \[10\] or \[10, 2\] \(got \[9\]\)"),
    ((X, C - 2, F), ValueError, r"'confidence' of finite numbers of at least 0 .* in row 0"),
    ((X, C * torch.nan, F), ValueError, r"'confidence' of finite"),
    ((X, C.long(), F), TypeError, r"'confidence' to be a floating-point tensor"),
    ((X, 0 * C, F), ValueError, r"at least one known point"),
    ((X, C * (torch.arange(10) > 4), F, torch.arange(10) // 5), ValueError, r"none in graph 0"),
    ((X * torch.inf, C, F), ValueError, r"finite 'target'"),
    ((X, C, F, None, 0.0), ValueError, r"'lam' greater than 0"),
    ((X, C, F, None, "a"), TypeError, r"'lam' to be a number"),
    ((X, C, F, None, 1.0, C), ValueError, r"'hard' to be a bool tensor of shape \[10\]"),
    ((X, C, F, None, 1.0, None, 2.0), ValueError, r"'tolerance' greater than 0 and less than 1"),
    ((X, C, F, None, 1.0, None, 0.1, 0), ValueError, r"'max_iterations' of at least 1"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        bilateral_solve(*arguments)


def test_labels_are_probabilities():
    _, _, feature = make()
    label = torch.full((60,), -1)
    label[[0, 7, 9]] = torch.tensor([2, 0, 2])
    found = bilateral_label_propagation(label, feature, num_classes=4, balance=0.0)
    torch.testing.assert_close(found.sum(1), torch.ones(60, dtype=DOUBLE))
    assert found.shape == (60, 4) and (found >= 0).all() and (found[:, [1, 3]] == 0).all()
    one_hot = torch.nn.functional.one_hot(label.clamp_min(0), 3).double()
    known = (label >= 0).double()
    expected = dense_solution(one_hot, known, feature, 1.0)
    exact = bilateral_label_propagation(label, feature, balance=0.0, tolerance=1e-12)
    np.testing.assert_allclose(exact, expected, atol=1e-8)
    frequency = torch.tensor([1 / 3, 1e-12, 2 / 3], dtype=DOUBLE)
    balanced = bilateral_label_propagation(label, feature, balance=0.5, tolerance=1e-12)
    expected = torch.from_numpy(expected) / frequency.sqrt()
    torch.testing.assert_close(balanced, expected / expected.sum(1, keepdim=True))


def test_hard_labels_are_kept():
    feature = torch.rand(50, 2) * 0.1
    label = torch.where(torch.arange(50) < 49, 0, 1)
    assert bilateral_label_propagation(label, feature)[49].argmax() == 0
    assert bilateral_label_propagation(label, feature, hard=True)[49].argmax() == 1


def test_labels_of_a_batch():
    feature, batch = torch.rand(60, 2), torch.arange(60) % 2
    label = torch.full((60,), -1)
    label[:2] = torch.tensor([0, 1])
    found = bilateral_label_propagation(label, feature, batch).argmax(1)
    assert torch.equal(found, batch)


L = torch.arange(10) % 3
BAD_LABELS = [
    ((L - 2, F), ValueError, r"'label' from 0 to \d+, or -1 for none \(got -2 in row 0\)"),
    ((L, F, None, 2), ValueError, r"'label' from 0 to 1, .*\(got 2 in row 2\)"),
    ((0 * L - 1, F), ValueError, "at least one label"),
    ((L.float(), F), TypeError, "'label' to be an int64 tensor"),
    ((L[:9], F), ValueError, r"'label' of shape \[10\]"),
    ((L, F, None, 3, 1.0, False, 2.0), ValueError, "'balance' from 0 to 1"),
    ((L * 0 - 1 + L // 2, F, L), ValueError, "none in graph 0"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD_LABELS)
def test_errors_of_labels(arguments, error, message):
    with pytest.raises(error, match=message):
        bilateral_label_propagation(*arguments)
