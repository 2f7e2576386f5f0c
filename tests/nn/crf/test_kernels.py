"""Pairwise kernels against dense matrices of the reference lattice."""

import numpy as np
import pytest
import torch

from permutogeo.nn import DenseCRF, GaussianKernel, LearnedKernel
from permutogeo.ops import stencils

DOUBLE = torch.float64


@pytest.mark.parametrize("normalize", [None, "before", "after", "symmetric"])
@pytest.mark.parametrize("radius", [None, 1])
def test_operator_is_the_dense_kernel(points, dense_kernel, normalize, radius):
    _, (feature, _), batch = points
    options = {"sigma": 0.8, "weight": 1.5}
    if radius is None:
        kernel = GaussianKernel(2, **options).double()
    else:
        kernel = LearnedKernel(2, radius, **options).double()
    lattice = kernel.build_lattice(feature, batch)
    expected = 1.5 * dense_kernel(feature / 0.8, batch, normalize, radius)
    q = torch.rand(50, 3, dtype=DOUBLE)
    out = kernel.operator(lattice, normalize, dtype=DOUBLE)(q)
    np.testing.assert_allclose(out.detach(), expected @ q.numpy(), atol=1e-7)
    alone = kernel.operator(lattice, normalize, exclude_self=True, dtype=DOUBLE)(q)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(alone.detach(), expected @ q.numpy(), atol=1e-7)


def test_reset_brings_back_the_gaussian(points):
    crf = DenseCRF(3, [LearnedKernel(2, weight=2.0, learn_weight=True)])
    for parameter in crf.parameters():
        torch.nn.init.zeros_(parameter)
    crf.reset_parameters()
    kernel = crf.kernels[0][0]
    torch.testing.assert_close(kernel.filter_weight.double(), stencils.gaussian(2, 1))
    assert kernel.weight == 2


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_weights_are_finite(weight):
    with pytest.raises(ValueError, match=r"^GaussianKernel: Expected a finite 'weight'"):
        GaussianKernel(2, weight=weight)


def test_scalars_of_earlier_state_dicts():
    kernel = GaussianKernel(2, learn_weight=True)
    assert kernel.weight.shape == (1,)  # FSDP2 does not shard scalars
    kernel.load_state_dict({"weight": torch.tensor(3.0)})
    assert kernel.weight.item() == 3


def test_learned_weight_keeps_the_type(points):
    _, (feature, _), _ = points
    kernel = GaussianKernel(2, learn_weight=True).double()
    operator = kernel.operator(kernel.build_lattice(feature), dtype=torch.float32)
    assert operator(torch.rand(50, 3)).dtype == torch.float32
