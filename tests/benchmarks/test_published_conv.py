import numpy as np
import torch

from permutogeo.benchmarks.published_conv import PublishedConv
from permutogeo.nn import BilateralConv
from permutogeo.testing import reference


def test_against_the_oracle():
    """The Gaussian in all filters, and both densities of the authors' code."""
    rng = np.random.default_rng(0)
    source, target = 4 * rng.random((30, 2)), 4 * rng.random((40, 2))
    conv = PublishedConv(BilateralConv(1, 3, 2)).double()
    gaussian = conv.gaussian(conv.filter_weight).numpy()
    assert conv.bias is None
    assert (gaussian == conv.effective_filter().detach().numpy()[:, 0].T).all()
    torch.nn.init.normal_(conv.filter_weight)
    pair = tuple(map(torch.from_numpy, (source, target)))
    found = conv(torch.ones(30, 1).double(), pair).detach().numpy()
    lattice, at = reference.ReferenceLattice.build_bipartite(source, target)
    read = [lattice.slice(np.eye(lattice.num_vertices), where) for where in (None, at)]
    offsets = reference.stencil(2, 1)
    before, after = (
        (each @ lattice.convolve_shared(each.sum(0)[:, None], gaussian, offsets)) ** -0.5
        for each in read
    )
    bank = gaussian[:, None, None] + conv.filter_weight.detach().numpy()
    wanted = after * (read[1] @ lattice.convolve(read[0].T @ before, bank, offsets, 1))
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_points_that_are_their_own_outputs():
    """The symmetric normalization of the library, since both densities are one."""
    torch.manual_seed(0)
    plain = BilateralConv(2, 2, 2, bias=False, normalize="symmetric")
    conv = PublishedConv(plain)
    x, feature = torch.rand(30, 2), 4 * torch.rand(30, 2)
    with torch.no_grad():
        conv.filter_weight.copy_(plain.filter_weight - conv.effective_filter())
    torch.testing.assert_close(conv(x, feature), plain(x, feature))
