"""Errors for bad arguments of the CRF."""

import pytest
import torch

from permutogeo import Lattice
from permutogeo.nn import (
    Compatibility,
    DenseCRF,
    FrankWolfe,
    GaussianKernel,
    LearnedKernel,
    MeanField,
)

DOUBLE = torch.float64


NAN = torch.zeros(50, 3, dtype=DOUBLE)
NAN[7, 1] = float("nan")


@pytest.mark.parametrize(
    ("unary", "features", "message"),
    [
        (NAN, None, r"finite 'unary' \(got \[0.0, nan, 0.0\] in row 7\).*-1e4"),
        (torch.zeros(50, 4), None, r"'unary' of shape \[N, 3\] \(got \[50, 4\]\)"),
        (None, [torch.zeros(50, 2)], r"one for each of the 2 kernels \(got 1\)"),
        (None, torch.zeros(50, 2), r"one for each of the 2 kernels \(got 1\)"),
        (
            None,
            [torch.zeros(49, 2), torch.zeros(50, 3)],
            r"'features\[0\]' of shape \[50, 2\].*\(got \[49, 2\]\)",
        ),
        (
            None,
            [torch.zeros(50, 2), torch.zeros(50, 2)],
            r"'features\[1\]' of shape \[50, 3\].*\(got \[50, 2\]\)",
        ),
        (None, [None, torch.zeros(50, 3)], r"a tensor or a lattice for kernel 0 \(got neither\)"),
        (None, [torch.zeros(50, 2), 1.0], r"'features\[1\]' to be a tensor \(got float\)"),
    ],
)
def test_wrong_calls(points, unary, features, message):
    crf = DenseCRF(3, [GaussianKernel(2), GaussianKernel(3)]).double()
    unary = points[0] if unary is None else unary
    features = points[1] if features is None else features
    with pytest.raises((ValueError, TypeError), match=f"^DenseCRF: .*{message}"):
        crf(unary, features)


def test_wrong_batch_and_lattice(points):
    unary, features, batch = points
    crf = DenseCRF(3, [GaussianKernel(2)]).double()
    with pytest.raises(ValueError, match=r"^DenseCRF: .*'batch' of shape \[50\].*\(got \[49\]\)"):
        crf(unary, features[:1], batch[1:])
    other = Lattice.build(features[0][:20])
    with pytest.raises(ValueError, match=r"'lattices\[0\]' of the 50 points.*\(got one of 20"):
        crf(unary, [None], lattices=[other])
    learned = DenseCRF(3, [GaussianKernel(2, learn_sigma=True)]).double()
    with pytest.raises(ValueError, match="no lattice with learn_sigma=True"):
        learned(unary, features[:1], lattices=[Lattice.build(features[0])])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianKernel(2, -1.0), r"GaussianKernel: .*'sigma'.*positive.*\(got -1.0\)"),
        (lambda: GaussianKernel(2, [1, 2, 3]), r"one for each of the 2 features"),
        (lambda: LearnedKernel(2, weight="a"), r"LearnedKernel: .*'weight' to be a number"),
        (lambda: LearnedKernel(2, radius=-1), r"LearnedKernel: .*'radius' of at least 0"),
        (lambda: DenseCRF(0, []), r"'num_classes' of at least 1 \(got 0\)"),
        (lambda: DenseCRF(3, [torch.nn.Linear(1, 1)]), r"GaussianKernel or LearnedKernel"),
        (lambda: DenseCRF(3, [GaussianKernel(2)], normalize="max"), r"'normalize'"),
        (lambda: DenseCRF(3, [GaussianKernel(2)], torch.ones(3, 4)), r"\[3, 3\] for 3 labels"),
        (lambda: DenseCRF(3, [GaussianKernel(2)], Compatibility(4)), r"of 3 labels \(got one of 4"),
        (lambda: DenseCRF(3, [GaussianKernel(2)], ["potts"] * 2), r"each of the 1 kernels"),
        (lambda: DenseCRF(3, [], tolerance=-1.0), r"'tolerance' of at least 0"),
        (lambda: DenseCRF(3, [], loose=True, tolerance=0.1), r"no 'tolerance' with loose=True"),
        (lambda: DenseCRF(3, [], damping=1.0), r"'damping' in \[0, 1\) \(got 1.0\)"),
        (lambda: DenseCRF(3, [], damping=0.5, solver=FrankWolfe()), r"'damping' with solver"),
        (lambda: DenseCRF(3, [], solver=FrankWolfe(), backward="implicit"), "a fixed point"),
        (lambda: DenseCRF(3, [], solver="newton"), r"'solver' to be 'mean_field' or 'frank_wolfe'"),
        (lambda: FrankWolfe("l3"), r"'regularizer' to be 'entropy' or 'l2'"),
        (lambda: FrankWolfe(strength=0.0), r"positive 'strength'"),
        (lambda: FrankWolfe(step_size=2.0), r"'step_size' in \(0, 1\]"),
        (lambda: MeanField(-0.1), r"'damping' in \[0, 1\)"),
    ],
)
def test_wrong_settings(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
