import numpy as np
import pytest
import torch

from permutogeo.lattice.conjugate_gradient import GraphSums, SolveReport, conjugate_gradient

DOUBLE = torch.float64


def spd(size):
    root = torch.randn(size, size, dtype=DOUBLE)
    return root @ root.T + size * torch.eye(size, dtype=DOUBLE)


def solve(matrix, right, sums=None, tolerance=1e-12, most=200, inverse=None):
    diagonal = 1 / matrix.diagonal()[:, None] if inverse is None else inverse
    start = torch.zeros_like(right)
    sums = sums or GraphSums(None)
    return conjugate_gradient(lambda y: matrix @ y, diagonal, right, start, sums, tolerance, most)


def test_matches_a_dense_solve():
    matrix, right = spd(30), torch.randn(30, 4, dtype=DOUBLE)
    found, report = solve(matrix, right)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), atol=1e-10)
    assert report.converged and 0 < report.iterations <= 35 and report.residual <= 1e-12


def test_graphs_take_their_own_steps():
    """Each block of a block-diagonal system converges as it does alone."""
    blocks, right = [spd(20), 1e4 * spd(30)], torch.randn(50, 3, dtype=DOUBLE)
    together, report = solve(torch.block_diag(*blocks), right, GraphSums([20, 30]))
    alone = [solve(*pair) for pair in zip(blocks, right.split([20, 30]), strict=True)]
    torch.testing.assert_close(together, torch.cat([each[0] for each in alone]))
    assert report.iterations == max(each[1].iterations for each in alone)


def test_rows_without_a_preconditioner_stay():
    matrix, right = spd(10), torch.randn(10, 1, dtype=DOUBLE)
    inverse = (1 / matrix.diagonal()[:, None]).clone()
    inverse[3:5] = 0
    found, _ = solve(matrix, right, inverse=inverse)
    free = [0, 1, 2, 5, 6, 7, 8, 9]
    expected = np.linalg.solve(matrix[free][:, free], right[free])
    np.testing.assert_allclose(found[free], expected, atol=1e-10)
    assert (found[3:5] == 0).all()


@pytest.mark.parametrize("channels", [0, 1, 3])
def test_nothing_to_solve(channels):
    found, report = solve(spd(5), torch.zeros(5, channels, dtype=DOUBLE))
    assert torch.equal(found, torch.zeros(5, channels, dtype=DOUBLE))
    assert report == SolveReport(0, 0.0, True)


def test_report_of_a_failure():
    _, report = solve(spd(50), torch.randn(50, 1, dtype=DOUBLE), most=2)
    assert not report.converged and report.iterations == 2 and report.residual > 1e-12
    assert str(report).startswith("did not converge: relative residual")


@pytest.mark.parametrize("rows", [0, 1, 1023, 1024, 5000])
def test_sums_have_a_fixed_order(rows):
    x = torch.randn(rows, 1)
    before = torch.get_num_threads()
    found = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        found.append(GraphSums(None).dot(x, x))
    torch.set_num_threads(before)
    assert all(torch.equal(found[0], each) for each in found)
    torch.testing.assert_close(found[0][0, 0], x.square().sum())
