import os
import subprocess
import sys

import pytest
import torch
from torch.nn import BatchNorm1d

from permutogeo import Lattice
from permutogeo.nn import LatticeNorm

DOUBLE = torch.float64


def test_str():
    assert str(LatticeNorm(8, dim=3)) == (
        "LatticeNorm(8, dim=3, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)"
    )


def repeated(values, count):
    return values.repeat_interleave(count, 0)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_is_batch_norm_over_repeated_rows(momentum):
    lattice = Lattice.build(torch.rand(200, 2, dtype=DOUBLE) * 4)
    # What counts is the mass alone: put whole numbers in its place.
    count = torch.arange(lattice.num_vertices) % 4
    lattice._cache[("mass", DOUBLE)] = count.to(DOUBLE)[:, None]
    norm = LatticeNorm(3, 2, momentum=momentum).double()
    twin = BatchNorm1d(3, momentum=momentum).double()
    for parameter, other in zip(norm.parameters(), twin.parameters(), strict=True):
        torch.nn.init.normal_(parameter)
        other.data.copy_(parameter)
    for _ in range(3):
        values = (torch.randn(len(count), 3, dtype=DOUBLE) * 3 + 1).requires_grad_()
        out, expected = norm(values, lattice), twin(repeated(values, count))
        torch.testing.assert_close(repeated(out, count), expected)
        weight = torch.randn_like(expected)
        total, other = (repeated(out, count) * weight).sum(), (expected * weight).sum()
        leaves = (values, *norm.parameters()), (values, *twin.parameters())
        torch.testing.assert_close(
            torch.autograd.grad(total, leaves[0]), torch.autograd.grad(other, leaves[1])
        )
    for name, value in twin.state_dict().items():
        torch.testing.assert_close(norm.state_dict()[name], value)
    norm.eval(), twin.eval()
    torch.testing.assert_close(norm(values, lattice), twin(values))


@pytest.mark.parametrize("channels", [8, 300])  # by torch and by kernels
def test_relu(channels):
    """Equal to a ReLU that follows, in all modes, with the same running statistics."""
    lattice = Lattice.build(torch.rand(60, 2) * 4)
    values = lattice.splat(torch.randn(60, channels))
    norm, twin = (LatticeNorm(channels, 2) for _ in range(2))
    torch.nn.init.normal_(norm.bias)
    twin.load_state_dict(norm.state_dict())
    for mode in ("training", "messages", "bfloat16", "autocast", "evaluation"):
        norm.train(mode != "evaluation"), twin.train(mode != "evaluation")
        norm.fuse = mode != "messages"
        x = values.bfloat16() if mode == "bfloat16" else values
        with torch.autocast("cpu", torch.bfloat16, enabled=mode == "autocast"):
            out, expected = norm(x, lattice, relu=True), twin(x, lattice).relu()
        torch.testing.assert_close(out, expected)
        assert out.dtype == expected.dtype and (out == 0).any()
    for name, value in twin.state_dict().items():
        torch.testing.assert_close(norm.state_dict()[name], value)


def test_mass_is_what_ones_splat(cloud):
    data = cloud(graphs=2)
    norm = LatticeNorm(4, 3, affine=False).double()
    out = norm(data.values, data.lattice)
    mass = data.lattice.splat(torch.ones(40, 1, dtype=DOUBLE))
    assert mass.sum().item() == pytest.approx(40)
    torch.testing.assert_close((mass * out).sum(0), torch.zeros(4, dtype=DOUBLE))
    variance = (mass * out.square()).sum(0) / 40
    torch.testing.assert_close(variance, torch.ones(4, dtype=DOUBLE), rtol=1e-3, atol=0)


def test_vertices_of_output_points_do_not_count(cloud):
    data = cloud()
    lattice, _ = Lattice.build_bipartite(data.feature, data.other + 100)
    values = torch.randn(lattice.num_vertices, 4, dtype=DOUBLE)
    empty = lattice.splat(torch.ones(40, 1, dtype=DOUBLE))[:, 0] == 0
    assert empty.any()
    other = values.clone()
    other[empty] = 1e6
    norm = LatticeNorm(4, 3).double()
    torch.testing.assert_close(norm(other, lattice)[~empty], norm(values, lattice)[~empty])


def test_without_running_statistics(cloud):
    data = cloud()
    norm = LatticeNorm(4, 3, track_running_stats=False).double()
    assert list(norm.state_dict()) == ["weight", "bias"]
    expected = norm(data.values, data.lattice)
    assert torch.equal(norm.eval()(data.values, data.lattice), expected)


@pytest.mark.parametrize("options", [{}, {"affine": False}, {"track_running_stats": False}])
def test_routes_agree(cloud, same_routes, options):
    """Sums as messages from the vertices to one node; gradients in features too."""
    data = cloud(graphs=2)
    data.feature.requires_grad_(), data.values.requires_grad_()
    lattice = Lattice.build(data.feature, data.batch)
    layer = LatticeNorm(4, 3, **options).double()
    same_routes(layer, data.values, lattice, leaves=(data.values, data.feature))


def test_messages_are_weighted_by_the_mass(cloud):
    data = cloud()
    norm = LatticeNorm(4, 3).double()
    expected = norm(data.values, data.lattice)
    sent = []
    norm.register_message_forward_hook(lambda module, inputs, out: sent.append(out))
    torch.testing.assert_close(norm(data.values, data.lattice), expected, rtol=1e-10, atol=1e-10)
    mass = data.lattice.splat(torch.ones(40, 1, dtype=DOUBLE))
    assert len(sent) == 2  # for the mean and for the variance
    torch.testing.assert_close(sent[0], mass * data.values)
    norm.eval()(data.values, data.lattice)
    assert len(sent) == 2  # running statistics need no messages


def test_hooks_may_change_the_statistics(cloud):
    """Twice the sum of the same mass is twice the mean."""
    data = cloud()
    norm = LatticeNorm(4, 3, momentum=1.0).double()
    norm(data.values, data.lattice)
    mean = norm.running_mean.clone()
    norm.register_message_forward_hook(lambda module, inputs, out: 2 * out)
    norm(data.values, data.lattice)
    torch.testing.assert_close(norm.running_mean, 2 * mean)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("tracked", [True, False])
def test_lazy_in_all_its_parts(cloud, affine, tracked):
    data = cloud(dtype=torch.float32)
    options = {"affine": affine, "track_running_stats": tracked}
    lazy, full = LatticeNorm(-1, 3, **options), LatticeNorm(4, 3, **options)
    assert torch.equal(lazy(data.values, data.lattice), full(data.values, data.lattice))
    assert lazy.in_channels == 4 and str(lazy) == str(full)
    torch.testing.assert_close(lazy.state_dict(), full.state_dict(), rtol=0, atol=0)
    late = LatticeNorm(-1, 3, **options)
    late.load_state_dict(full.state_dict())
    late.eval(), full.eval()
    assert torch.equal(late(data.values, data.lattice), full(data.values, data.lattice))


def test_gradients():
    """In values, and in features through the mass."""
    norm = LatticeNorm(2, 2).double()
    x = torch.randn(6, 2, dtype=DOUBLE, requires_grad=True)
    feature = (torch.rand(6, 2, dtype=DOUBLE) * 3).requires_grad_()

    def call(x, feature, weight, bias):
        lattice = Lattice.build(feature)
        state = {"weight": weight, "bias": bias}
        return torch.func.functional_call(norm, state, (lattice.splat(x), lattice))

    assert torch.autograd.gradcheck(call, (x, feature, *norm.parameters()))


def test_nothing_and_one_point():
    norm = LatticeNorm(2, 2)
    empty = Lattice.build(torch.empty(0, 2))
    assert norm(torch.empty(0, 2), empty).shape == (0, 2)
    assert torch.equal(norm.running_mean, torch.zeros(2))
    assert torch.equal(norm.running_var, torch.ones(2))
    one = Lattice.build(torch.rand(1, 2))
    values = torch.full((3, 2), 7.0, requires_grad=True)
    out = norm(values, one)
    assert torch.equal(out, torch.zeros(3, 2))
    assert torch.autograd.grad(out.sum(), values)[0].isfinite().all()
    assert norm.running_var.isfinite().all()
    norm.reset_parameters()
    assert torch.equal(norm.running_mean, torch.zeros(2)) and norm.num_batches_tracked == 0


# Two ranks

RANK = """
import sys, torch, torch.distributed as dist
from permutogeo import Lattice
from permutogeo.nn import LatticeNorm
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=2)
data = torch.load(f"{folder}/{rank}.pt")
norm = LatticeNorm(3 if rank else -1, 2).double()
norm.load_state_dict(data["state"])
norm.fuse = rank == 0
x, feature = data["x"].requires_grad_(), data["feature"].requires_grad_()
lattice = Lattice.build(feature)
out = norm(lattice.splat(x), lattice)
grads = torch.autograd.grad((lattice.slice(out) * data["weight"]).sum(),
                            (x, feature, norm.weight, norm.bias))
torch.save({"out": out.detach(), "grads": grads, "state": norm.state_dict()},
           f"{folder}/{rank}.out")
dist.destroy_process_group()
"""


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs gloo")
def test_two_ranks_are_one_batch(tmp_path):
    """Of different sizes; results, gradients and running statistics. One rank sends messages, the
    other had to learn its channels."""
    norm = LatticeNorm(3, 2).double()
    torch.nn.init.normal_(norm.weight), torch.nn.init.normal_(norm.bias)
    parts = []
    for rank, count in enumerate((30, 7)):
        x = torch.randn(count, 3, dtype=DOUBLE) + 3 * rank
        feature = torch.rand(count, 2, dtype=DOUBLE) * 4
        parts.append({"x": x, "feature": feature, "weight": torch.randn_like(x)})
        torch.save({**parts[-1], "state": norm.state_dict()}, tmp_path / f"{rank}.pt")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(tmp_path)],
            env=environment,
            stderr=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    for process in ranks:
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error.decode()
    x, feature = (torch.cat([part[name] for part in parts]) for name in ("x", "feature"))
    weight = torch.cat([part["weight"] for part in parts])
    batch = torch.tensor([0] * 30 + [1] * 7)
    lattice = Lattice.build(feature.requires_grad_(), batch)
    out = norm(lattice.splat(x.requires_grad_()), lattice)
    grads = torch.autograd.grad(
        (lattice.slice(out) * weight).sum(), (x, feature, norm.weight, norm.bias)
    )
    results = [torch.load(tmp_path / f"{rank}.out") for rank in range(2)]
    torch.testing.assert_close(torch.cat([each["out"] for each in results]), out.detach())
    ours = [each["grads"] for each in results]
    for i in (0, 1):
        torch.testing.assert_close(torch.cat([each[i] for each in ours]), grads[i])
    for i in (2, 3):  # which data-parallel training sums over ranks
        torch.testing.assert_close(ours[0][i] + ours[1][i], grads[i])
    for each in results:
        torch.testing.assert_close(each["state"], norm.state_dict())


def test_errors(cloud):
    data = cloud(dtype=torch.float32)
    norm = LatticeNorm(4, 3)
    with pytest.raises(ValueError, match=r"^LatticeNorm: Expected 'values' of shape \[.*, 4\]"):
        norm(data.values[:, :3], data.lattice)
    with pytest.raises(ValueError, match=r"^LatticeNorm: Expected 'lattice' of dim=3 .*dim=4"):
        norm(data.values, Lattice.build(data.values))
    with pytest.raises(TypeError, match=r"^LatticeNorm: Expected 'lattice' to be a Lattice"):
        norm(data.values, None)
    with pytest.raises(ValueError, match=r"^LatticeNorm: Expected 'in_channels' "):
        LatticeNorm(0, 3)
    lazy = LatticeNorm(-1, 3)
    with pytest.raises(ValueError, match=r"^LatticeNorm: Expected 'values' of shape \[\d+, C\]"):
        lazy(data.values[:, 0], data.lattice)
    assert lazy.in_channels == -1
    for options in ({"momentum": "fast"}, {"momentum": 2}, {"eps": -1e-5}, {"eps": None}):
        with pytest.raises(ValueError, match=r"^LatticeNorm: Expected '(eps|momentum)' between 0"):
            LatticeNorm(4, 3, **options)
