"""Other devices, types and modes of torch."""

import copy
import pickle

import pytest
import torch

from permutogeo import Lattice

DOUBLE = torch.float64
FIVE_TAPS = (0.1, 0.6, 1.0, 0.6, 0.1)


def test_to(cloud):
    feature, batch = cloud(graphs=2)
    for lattice in (
        Lattice.build(feature, batch, taps=FIVE_TAPS),
        Lattice.build_bipartite(feature, feature + 1, batch, batch)[0],
    ):
        moved = lattice.to("cpu")
        assert repr(moved) == repr(lattice)
        assert torch.equal(moved.key, lattice.key)
        assert torch.equal(moved.neighbors(), lattice.neighbors())
        x = torch.randn(60, 1, dtype=DOUBLE)
        assert torch.equal(moved.slice(moved.splat(x)), lattice.slice(lattice.splat(x)))
        assert torch.equal(moved.coarsen()[0].key, lattice.coarsen()[0].key)


def test_to_keeps_the_gradient():
    feature = torch.rand(10, 2, requires_grad=True)
    Lattice.build(feature).to("cpu").weight.square().sum().backward()
    assert feature.grad.abs().sum() > 0


def test_copies_and_pickles(cloud):
    lattice = Lattice.build(*cloud(graphs=2))
    lattice.neighbors()
    for other in (copy.deepcopy(lattice), pickle.loads(pickle.dumps(lattice))):
        assert repr(other) == repr(lattice)
        assert torch.equal(other.neighbors(), lattice.neighbors())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    feature = (torch.rand(200, 3) * 5).to(dtype)
    lattice = Lattice.build(feature)
    assert lattice.weight.dtype == torch.float32
    assert torch.equal(lattice.key, Lattice.build(feature.float()).key)
    x, bank = torch.rand(200, 4).to(dtype), torch.rand(15, 4, 2).to(dtype)
    values = lattice.splat(x)
    out = lattice.convolve(lattice.blur(values), bank)
    for result in (values, lattice.blur(values), out, lattice.slice(out)):
        assert result.dtype == dtype
    exact = lattice.convolve(lattice.blur(lattice.splat(x.float())), bank.float())
    torch.testing.assert_close(out.float(), exact, rtol=2e-2, atol=2e-2)


def test_types_mix():
    lattice = Lattice.build(torch.rand(50, 2) * 5)
    x = torch.rand(50, 2, dtype=DOUBLE)
    values = lattice.splat(x)
    assert values.dtype == DOUBLE
    assert lattice.convolve(values, torch.rand(7, 2, 3)).dtype == DOUBLE
    assert lattice.convolve(values.float(), torch.rand(7, 2, 3)).dtype == torch.float32
    assert lattice.convolve(values.half(), torch.rand(7, 2, 3)).dtype == torch.float32
    at = lattice.locate(torch.rand(9, 2, dtype=DOUBLE) * 5)
    assert lattice.slice(values.float(), at).dtype == torch.float32
    lattice, at = Lattice.build_bipartite(torch.rand(9, 2), torch.rand(5, 2, dtype=DOUBLE))
    assert lattice.slice(lattice.splat(torch.rand(9, 1)), at).dtype == torch.float32


def test_autocast():
    """Values in bfloat16 from other layers are accepted; the lattice stays in float32."""
    feature = torch.rand(300, 3, requires_grad=True)
    bank = torch.randn(15, 8, 4, requires_grad=True)
    x = torch.rand(300, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        lattice = Lattice.build(feature * 5)
        out = lattice.slice(lattice.convolve(lattice.blur(lattice.splat(x.bfloat16())), bank))
        assert lattice.weight.dtype == torch.float32
    out.float().square().mean().backward()
    exact = Lattice.build(feature * 5)
    expected = exact.slice(exact.convolve(exact.blur(exact.splat(x)), bank))
    assert torch.equal(exact.key, lattice.key)
    # bfloat16 rounds by 2^-9, four times: after splat, blur, convolve and slice.
    atol = 4 * 2**-9 * float(expected.detach().abs().max())
    torch.testing.assert_close(out.float(), expected, rtol=0, atol=atol)
    for leaf in (feature, bank, x):
        assert leaf.grad is not None and leaf.grad.isfinite().all() and leaf.grad.any()


def everything(lattice, x, bank):
    return lattice.slice(lattice.convolve(lattice.blur(lattice.splat(x)), bank))


def test_autocast_leaves_double_alone(cloud):
    feature, _ = cloud()
    x, bank = torch.randn(60, 2, dtype=DOUBLE), torch.randn(15, 2, 2, dtype=DOUBLE)
    expected = everything(Lattice.build(feature), x, bank)
    with torch.autocast("cpu", torch.bfloat16):
        out = everything(Lattice.build(feature), x, bank)
    assert out.dtype == DOUBLE and torch.equal(out, expected)


def test_noncontiguous(cloud):
    feature, _ = cloud(60, 6)
    lattice = Lattice.build(feature[:, ::2])
    assert torch.equal(lattice.key, Lattice.build(feature[:, ::2].contiguous()).key)
    x = torch.randn(4, 60, dtype=DOUBLE).t()
    values = lattice.splat(x)
    assert torch.equal(values, lattice.splat(x.contiguous()))
    turned = values.t().contiguous().t()
    bank = torch.randn(3, 4, 15, dtype=DOUBLE).permute(2, 1, 0)
    assert torch.equal(lattice.blur(turned), lattice.blur(values))
    assert torch.equal(lattice.slice(turned), lattice.slice(values))
    torch.testing.assert_close(
        lattice.convolve(turned, bank), lattice.convolve(values, bank.contiguous())
    )


@pytest.mark.parametrize("graphs", [None, 0])
def test_empty(graphs):
    batch = None if graphs is None else torch.empty(0, dtype=torch.int64)
    lattice = Lattice.build(torch.empty(0, 3), batch)
    values = lattice.splat(torch.empty(0, 2))
    assert values.shape == (0, 2)
    assert lattice.key.shape == (0, 3) and lattice.vertex_batch.shape == (0,)
    assert lattice.neighbors().shape == (0, 15)
    assert lattice.blur(values).shape == (0, 2)
    assert lattice.convolve(values, torch.rand(15, 2, 5)).shape == (0, 5)
    assert lattice.convolve(values, torch.rand(15), shared=True).shape == (0, 2)
    assert lattice.slice(values).shape == (0, 2)
    assert lattice.incidence_graph()[0].shape == (2, 0)
    assert lattice.neighbor_graph()[0].shape == (2, 0)


def test_no_channels(cloud):
    lattice = Lattice.build(cloud()[0])
    values = lattice.blur(lattice.splat(torch.empty(60, 0)))
    assert lattice.slice(values).shape == (60, 0)
    assert torch.equal(
        lattice.convolve(values, torch.rand(15, 0, 4)), torch.zeros(lattice.num_vertices, 4)
    )


# Inference mode, as an evaluation between two epochs has it


def test_inference_mode():
    feature, x, bank = torch.rand(4000, 3) * 5, torch.rand(4000, 64), torch.rand(15, 64, 64)
    expected = everything(Lattice.build(feature), x, bank)
    with torch.inference_mode():
        out = everything(Lattice.build(feature), x, bank)
    assert torch.equal(out, expected)


def test_first_use_in_inference_mode_leaves_the_lattice_trainable():
    feature = torch.rand(50, 2) * 20
    x, bank = torch.rand(50, 1), torch.rand(7, 1, 1)
    lattice, fresh = Lattice.build(feature), Lattice.build(feature)
    with torch.inference_mode():
        everything(lattice, x, bank)
    x.requires_grad_(), bank.requires_grad_()
    expected = torch.autograd.grad(everything(fresh, x, bank).sum(), (x, bank))
    torch.testing.assert_close(
        torch.autograd.grad(everything(lattice, x, bank).sum(), (x, bank)), expected
    )


# Settings of torch that a program may have made


@pytest.fixture(params=["deterministic", "dtype", "device"])
def setting(request):
    if request.param == "deterministic":  # which also fills new memory with NaN
        torch.use_deterministic_algorithms(True)
        yield
        torch.use_deterministic_algorithms(False)
    elif request.param == "dtype":
        torch.set_default_dtype(DOUBLE)
        yield
        torch.set_default_dtype(torch.float32)
    else:
        with torch.device("meta"):
            yield


def all_of_it():
    generator = torch.Generator().manual_seed(3)
    options = {"generator": generator, "dtype": torch.float32, "device": "cpu"}
    feature = (torch.rand(3000, 3, **options) * 12).requires_grad_()
    x, bank = torch.rand(3000, 4, **options), torch.rand(15, 4, 4, **options).requires_grad_()
    lattice = Lattice.build(feature)
    values = lattice.convolve(lattice.blur(lattice.splat(x)), bank)
    values = lattice.convolve(values, bank[:, 0, 0], shared=True)
    coarse, at = lattice.coarsen()
    sliced = lattice.slice(values, lattice.locate(feature + 0.1))
    total = lattice.slice(values).square().sum() + sliced.sum() + coarse.splat(values, at).sum()
    return lattice.key, lattice.neighbors(), values, *torch.autograd.grad(total, (feature, bank))


@pytest.fixture
def expected():
    return all_of_it()


def test_settings_of_torch_change_nothing(expected, setting):
    for ours, plain in zip(all_of_it(), expected, strict=True):
        assert torch.equal(ours, plain)
