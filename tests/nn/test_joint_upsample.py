import copy

import numpy as np
import pytest
import torch
from torch.nn import functional

from permutogeo.nn import JointBilateralUpsample
from permutogeo.testing import reference
from permutogeo.train import Trainer


def values(*shape, seed=0):
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def expected(layer, x, guide):
    """The layer on the reference lattice ``[C, H, W]``, NaN where nothing reaches."""
    factor = -(-guide.shape[1] // x.shape[1])
    y, c = np.mgrid[: guide.shape[1], : guide.shape[2]]
    sigma = np.array(layer.bandwidth.initial).reshape(-1, 1, 1)
    fine = torch.from_numpy(np.concatenate([[c, y], guide.numpy()]) / sigma)
    src = functional.avg_pool2d(fine, factor, ceil_mode=True).flatten(1).T
    lattice, at = reference.ReferenceLattice.build_bipartite(src, fine.flatten(1).T)
    dim, radius = len(sigma), layer.conv.radius
    offsets, gaussian = reference.stencil(dim, radius), reference.gaussian_stencil(dim, radius)
    rows = x.flatten(1).T.numpy()
    taps = layer.conv.filter_weight.detach().double().numpy()
    ones = lattice.splat(np.ones((len(rows), 1)))
    norm = lattice.slice(lattice.convolve_shared(ones, gaussian, offsets), at)
    out = lattice.slice(lattice.convolve_shared(lattice.splat(rows), taps, offsets), at)
    out = np.where(norm > 0, out / np.where(norm > 0, norm, 1), np.nan)
    return torch.from_numpy(out.T.reshape(len(x), *guide.shape[1:]))


def test_str():
    layer = JointBilateralUpsample(3, 1, 16.0, 0.05)
    assert str(layer).splitlines() == [
        "JointBilateralUpsample(",
        "  3, 1, sigma_pos=16, sigma_color=0.05",
        "  (bandwidth): Bandwidth()",
        "  (conv): BilateralConv(3, 3, dim=3, radius=2, bias=False, shared=True, "
        "normalize='after')",
        ")",
    ]


@pytest.mark.parametrize(
    ("guides", "factor", "radius"), [(1, 2, 2), (1, 3, 1), (3, 4, 1), (2, 2, 2)]
)
@pytest.mark.parametrize("learned", [False, True])
def test_matches_the_reference(guides, factor, radius, learned):
    guide = values(guides, 12, 14) * 0.5
    x = values(2, -(-12 // factor), -(-14 // factor), seed=1)
    layer = JointBilateralUpsample(2, guides, 3.0, 0.2, radius=radius).double()
    if learned:
        torch.nn.init.normal_(layer.conv.filter_weight)
    wanted, out = expected(layer, x, guide), layer(x, guide)
    reached = ~wanted.isnan()
    assert reached.double().mean() > 0.5
    torch.testing.assert_close(out[reached], wanted[reached], rtol=1e-9, atol=1e-9)
    assert out.isfinite().all()


@pytest.mark.parametrize("factor", [2, 3, 8, 16])
def test_the_gaussian_keeps_constants_everywhere(factor):
    """Also where nothing reaches: bandwidths far below the distance of the values."""
    size = -(-40 // factor)
    for sigma in ((4.0 * factor, 0.1), (0.4, 0.003)):
        layer = JointBilateralUpsample(1, 2, *sigma, radius=1, learn_filter=False)
        x = torch.full((1, 1, size, size), 2.5)
        torch.testing.assert_close(
            layer(x, torch.rand(1, 2, 40, 40)), torch.full((1, 1, 40, 40), 2.5)
        )


def test_what_nothing_reaches_is_a_mean_whatever_is_learned():
    layer = JointBilateralUpsample(1, 1, 0.4, 0.003).double()
    x, guide = values(1, 4, 4), values(1, 32, 32, seed=1)
    lost = expected(layer, x, guide).isnan()
    assert 0.2 < lost.double().mean() < 1
    with torch.no_grad():
        layer.conv.filter_weight.mul_(-100)
    out = layer(x, guide)[lost]
    assert x.min() - 1e-9 < out.min() and out.max() < x.max() + 1e-9


def test_a_filter_of_differences_keeps_constants():
    """Whatever its taps; and elsewhere it is the Gaussian with a response to the differences."""
    x, guide = values(2, 5, 4), values(1, 20, 16, seed=1)
    layer = JointBilateralUpsample(2, 1, 6.0, 0.2, keep_constants=True).double()
    plain = JointBilateralUpsample(2, 1, 6.0, 0.2).double()
    gauss = expected(plain, x, guide)
    torch.testing.assert_close(layer(x, guide), plain(x, guide))
    taps = values(65, seed=2) - 0.4
    with torch.no_grad():
        plain.conv.filter_weight.copy_(taps)
        layer.conv.filter_weight.copy_(taps)
    constant = torch.full_like(x, 3.25)
    torch.testing.assert_close(layer(constant, guide), torch.full((2, 20, 16), 3.25).double())
    response, of_ones = (expected(plain, each, guide) for each in (x, torch.ones_like(x)))
    assert not response.isnan().any()
    wanted = gauss + response - gauss * of_ones
    torch.testing.assert_close(layer(x, guide), wanted)


def test_batch_equals_singles():
    layer = JointBilateralUpsample(2, 3, 5.0, 0.3).double()
    x, guide = values(3, 2, 4, 5), values(3, 3, 16, 20, seed=1)
    out = layer(x, guide)
    singles = torch.stack([layer(a, b) for a, b in zip(x, guide, strict=True)])
    torch.testing.assert_close(out, singles, rtol=1e-12, atol=1e-12)


def test_a_lattice_serves_several_calls():
    layer, other = (JointBilateralUpsample(c, 1, 5.0, 0.3).double() for c in (2, 1))
    x, guide = values(2, 2, 4, 5), values(2, 1, 8, 10, seed=1)
    lattice = layer.build_lattice(guide, (4, 5))
    assert torch.equal(layer(x, guide, lattice), layer(x, guide))
    assert torch.equal(other(x[:, :1], guide, lattice), layer(x, guide)[:, :1])


def test_a_filter_that_mixes_starts_as_the_shared_one():
    x, guide = values(3, 4, 5), values(1, 8, 10, seed=1)
    shared, mixing = (
        JointBilateralUpsample(3, 1, 5.0, 0.3, shared=shared).double() for shared in (True, False)
    )
    assert mixing.conv.filter_weight.shape == (65, 3, 3)
    torch.testing.assert_close(mixing(x, guide), shared(x, guide))


def test_gradients():
    layer = JointBilateralUpsample(1, 1, 1.93, 0.31, radius=1, learn_sigma=True).double()
    x, guide = values(1, 1, 2).requires_grad_(), values(1, 2, 4, seed=1).requires_grad_()
    weight = layer.conv.filter_weight.detach().requires_grad_()

    def call(x, guide, weight):
        return torch.func.functional_call(layer, {"conv.filter_weight": weight}, (x, guide))

    assert torch.autograd.gradcheck(call, (x, guide, weight))
    call(x, guide, weight).square().sum().backward()
    assert layer.bandwidth.log_sigma.grad.abs().min() > 0


def test_a_filter_is_learned():
    """Training from the Gaussian recovers a random filter from its output."""
    guide, x = values(2, 1, 16, 16).float(), values(2, 1, 8, 8, seed=1).float()
    truth = JointBilateralUpsample(1, 1, 4.0, 0.3, radius=1)
    with torch.no_grad():
        truth.conv.filter_weight.mul_(torch.linspace(0.2, 1, 15))
        target = truth(x, guide)
    layer = JointBilateralUpsample(1, 1, 4.0, 0.3, radius=1)
    before = functional.mse_loss(layer(x, guide), target)
    trainer = Trainer(
        layer,
        lambda model, batch: (functional.mse_loss(model(x, guide), target, reduction="sum"), 512),
        "adam",
        lr=0.05,
        epochs=60,
    )
    trainer.fit([0])
    assert functional.mse_loss(layer(x, guide), target) < 0.05 * before


def test_only_the_gaussian_is_not_learned():
    fixed = JointBilateralUpsample(3, 1, 5.0, 0.3, learn_filter=False)
    assert not any(parameter.requires_grad for parameter in fixed.parameters())
    sigma = JointBilateralUpsample(3, 1, 5.0, 0.3, learn_filter=False, learn_sigma=True)
    assert [name for name, p in sigma.named_parameters() if p.requires_grad] == [
        "bandwidth.log_sigma"
    ]


def test_copies_and_files():
    layer = JointBilateralUpsample(2, 1, 5.0, 0.3)
    torch.nn.init.normal_(layer.conv.filter_weight)
    x, guide = torch.rand(2, 3, 3), torch.rand(1, 9, 9)
    twin = JointBilateralUpsample(2, 1, 5.0, 0.3)
    twin.load_state_dict(layer.state_dict())
    for other in (twin, copy.deepcopy(layer)):
        assert torch.equal(other(x, guide), layer(x, guide))
    layer.reset_parameters()
    assert not torch.equal(twin(x, guide), layer(x, guide))


def test_half_precision():
    layer = JointBilateralUpsample(2, 1, 5.0, 0.3)
    x, guide = torch.rand(2, 3, 3), torch.rand(1, 9, 9)
    out = layer(x.half(), guide.half())
    assert out.dtype == torch.float16
    torch.testing.assert_close(out.float(), layer(x, guide), rtol=0.01, atol=0.01)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda u: u(torch.rand(3, 4, 4), torch.rand(1, 8, 9)), ValueError, "one whole factor"),
        (lambda u: u(torch.rand(2, 4, 4), torch.rand(1, 8, 8)), ValueError, r"'x' of shape \[B, 3"),
        (lambda u: u(torch.rand(3, 4, 4), torch.rand(3, 8, 8)), ValueError, r"'guide' of shape"),
        (lambda u: u(torch.rand(4, 4), torch.rand(1, 8, 8)), ValueError, r"got \[4, 4\]"),
        (lambda u: u(torch.rand(2, 3, 4, 4), torch.rand(1, 8, 8)), ValueError, "one batch"),
        (lambda u: u(torch.ones(3, 4, 4).int(), torch.rand(1, 8, 8)), TypeError, "floating"),
        (lambda u: u(None, torch.rand(1, 8, 8)), TypeError, r"'x' to be a tensor \(got NoneType"),
        (lambda u: u(torch.rand(3, 4, 4), torch.full((1, 8, 8), torch.nan)), ValueError, "nan"),
        (lambda u: type(u)(3, 1, 0.0, 1.0), ValueError, "'sigma' to be one positive"),
        (lambda u: type(u)(0, 1, 1.0, 1.0), ValueError, "'in_channels' of at least 1"),
        (lambda u: type(u)(3, 0, 1.0, 1.0), ValueError, "'guide_channels' of at least 1"),
        (
            lambda u: type(u)(3, 1, 1.0, 1.0, shared=False, keep_constants=True),
            ValueError,
            "shared=True",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call(JointBilateralUpsample(3, 1, 4.0, 0.1))
    assert str(caught.value).startswith("JointBilateralUpsample: ")
