"""The CRF against dense matrices in float64, made by the oracle or by brute force."""

import copy
import io
import threading

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from permutogeo import Lattice
from permutogeo.nn import DenseCRF, FrankWolfe, GaussianKernel, LearnedKernel
from permutogeo.ops import stencils

DOUBLE = torch.float64
NORMALIZATIONS = [None, "before", "after", "symmetric"]
MU = np.array([[-1.0, 0.3, 0.1], [0.2, -0.7, 0.4], [0.0, 0.5, -1.2]])


def mean_field_by_hand(unary, matrices, mus, steps, exclude_self=False, damping=0.0):
    """Marginals, one step of updates after another."""
    logits = unary
    for _ in range(steps):
        q = softmax(logits, 1)
        update = unary.copy()
        for matrix, mu in zip(matrices, mus, strict=True):
            own = np.diag(np.diag(matrix)) if exclude_self else 0
            update -= (matrix - own) @ q @ mu
        logits = (1 - damping) * update + damping * log_softmax(logits, 1)
    return log_softmax(logits, 1)


def test_str():
    crf = DenseCRF(3, [GaussianKernel(2, weight=2), LearnedKernel(3, radius=2)], loose=True)
    head, *rest = str(crf).splitlines()
    assert head == "DenseCRF("
    assert rest[0].strip() == (
        "3, num_steps=5, normalize=['symmetric', 'symmetric'], loose=True, exclude_self=False, "
        "solver=MeanField(damping=0)"
    )
    assert "GaussianKernel(" in str(crf)
    assert "dim=3, radius=2, weight=1" in str(crf)


@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("normalize", NORMALIZATIONS)
@pytest.mark.parametrize("compatibility", ["potts", MU], ids=["potts", "full"])
def test_is_mean_field_with_dense_matrices(
    points, normalize, compatibility, exclude_self, dense_kernel
):
    unary, features, batch = points
    learned = LearnedKernel(3, radius=1, weight=0.5).double()
    with torch.no_grad():
        learned.filter_weight += 0.1 * torch.randn(15, dtype=DOUBLE)
    given = compatibility if isinstance(compatibility, str) else torch.from_numpy(compatibility)
    crf = DenseCRF(
        3,
        [GaussianKernel(2, [0.5, 2.0], weight=0.7), learned],
        compatibility=given,
        num_steps=3,
        normalize=normalize,
        exclude_self=exclude_self,
    ).double()
    matrices = [
        0.7 * dense_kernel(features[0] / torch.tensor([0.5, 2.0]), batch, normalize),
        0.5
        * dense_kernel(features[1], batch, normalize, 1, learned.filter_weight.detach().numpy()),
    ]
    mu = -np.eye(3) if given is compatibility else MU
    expected = mean_field_by_hand(unary.numpy(), matrices, [mu] * 2, 3, exclude_self)
    np.testing.assert_allclose(crf(unary, features, batch).detach(), expected, atol=1e-9)


def test_compatibility_and_normalization_of_each_kernel(points, dense_kernel):
    unary, features, _ = points
    diagonal = torch.tensor([0.5, -1.0, 2.0])
    crf = DenseCRF(
        3,
        [GaussianKernel(2), GaussianKernel(3)],
        compatibility=[diagonal, torch.from_numpy(MU)],
        normalize=["after", None],
        num_steps=2,
        damping=0.25,
    ).double()
    matrices = [
        dense_kernel(features[0], None, "after"),
        dense_kernel(features[1], None, None),
    ]
    mus = [np.diag(diagonal.numpy()), MU]
    expected = mean_field_by_hand(unary.numpy(), matrices, mus, 2, damping=0.25)
    np.testing.assert_allclose(crf(unary, features), expected, atol=1e-9)


def test_a_batch_is_its_graphs(points):
    unary, features, _ = points
    sizes = [20, 0, 29, 1]  # the second graph is empty
    batch = torch.arange(4).repeat_interleave(torch.tensor(sizes))
    crf = DenseCRF(3, [GaussianKernel(2), LearnedKernel(3)], exclude_self=True).double()
    out = crf(unary, features, batch)
    parts = list(zip(unary.split(sizes), *(f.split(sizes) for f in features), strict=True))
    single = [crf(u, list(f)) for u, *f in parts]
    torch.testing.assert_close(out, torch.cat(single), rtol=1e-10, atol=1e-10)
    energy = crf.problem(unary, features, batch).free_energy(out)
    alone = [
        crf.problem(u, list(f)).free_energy(o) for (u, *f), o in zip(parts, single, strict=True)
    ]
    torch.testing.assert_close(energy, torch.cat(alone), rtol=1e-10, atol=1e-10)
    assert energy[1] == 0


def test_large_graphs_are_solved_one_after_another():
    sizes = [20_000, 30_000, 5]
    unary, feature = torch.randn(sum(sizes), 4), torch.rand(sum(sizes), 2) * 20
    batch = torch.tensor([0, 2, 3]).repeat_interleave(torch.tensor(sizes))
    crf = DenseCRF(4, [GaussianKernel(2, 2.0, 3.0)])
    with torch.no_grad():
        out = crf(unary, [feature], batch)
        single = [
            crf(u, [f]) for u, f in zip(unary.split(sizes), feature.split(sizes), strict=True)
        ]
        assert torch.equal(out, torch.cat(single))
        together = crf(unary, [None], batch, [Lattice.build(feature / 2.0, batch)])
    torch.testing.assert_close(out, together)


def test_tolerance_ends_early(points):
    unary, features, _ = points
    crf = DenseCRF(3, [GaussianKernel(2)], num_steps=1000, tolerance=1e-8).double()
    calls = []
    step = crf.solver.step
    crf.solver.step = lambda *arguments: calls.append(1) or step(*arguments)
    out = crf(unary, features[:1])
    assert 2 < len(calls) < 100
    crf.solver.step = step
    more = torch.log_softmax(crf.solver.step(crf.problem(unary, features[:1]), out, 0), 1)
    torch.testing.assert_close(more.exp(), out.exp(), atol=1e-7, rtol=0)


def test_loose_steps_have_kernels_of_their_own(points, dense_kernel):
    unary, features, _ = points
    kernel = LearnedKernel(2, learn_sigma=True)
    tied = DenseCRF(3, [kernel], num_steps=2, learn_compatibility=True).double()
    loose = DenseCRF(3, [copy.deepcopy(kernel)], num_steps=2, loose=True, learn_compatibility=True)
    loose = loose.double()
    torch.testing.assert_close(loose(unary, features[:1]), tied(unary, features[:1]))
    assert len(list(loose.parameters())) == 2 * len(list(tied.parameters()))
    with torch.no_grad():
        loose.kernels[1][0].filter_weight.mul_(0.5)
        loose.kernels[1][0].bandwidth.log_sigma.add_(0.3)
    first = log_softmax(
        unary.numpy() + dense_kernel(features[0], None, "symmetric", 1) @ softmax(unary.numpy(), 1),
        1,
    )
    half = 0.5 * stencils.gaussian(2, 1).numpy()
    second = dense_kernel(features[0] / np.exp(0.3), None, "symmetric", 1, half)
    expected = log_softmax(unary.numpy() + second @ softmax(first, 1), 1)
    np.testing.assert_allclose(loose(unary, features[:1]).detach(), expected, atol=1e-9)


@pytest.mark.parametrize("solver", ["mean_field", FrankWolfe("l2"), FrankWolfe("entropy")])
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_no_nan_for_extremes(solver, dtype):
    constant = torch.zeros(30, 2, dtype=dtype)
    for labels, count, scale in [(3, 30, 1e4), (1, 30, 1.0), (3, 1, 1e4), (3, 0, 1.0)]:
        unary = (scale * torch.randn(count, labels).sign()).to(dtype).requires_grad_()
        crf = DenseCRF(labels, [GaussianKernel(2, weight=100.0)], solver=solver)
        for exclude_self in (False, True):
            crf.exclude_self = exclude_self
            out = crf(unary, [constant[:count]])
            assert out.shape == unary.shape
            assert not out.isnan().any()
            (gradient,) = torch.autograd.grad(out.exp().square().sum(), unary)
            assert gradient.isfinite().all()
            with torch.no_grad():
                torch.testing.assert_close(crf(unary, [constant[:count]]).exp(), out.exp())


def test_no_kernel_and_no_step(points):
    unary, features, _ = points
    expected = torch.log_softmax(unary, 1)
    assert torch.equal(DenseCRF(3, [])(unary, []), expected)
    assert torch.equal(DenseCRF(3, [GaussianKernel(2)], num_steps=0)(unary, features[:1]), expected)


def test_given_lattices(points):
    unary, features, batch = points
    crf = DenseCRF(3, [GaussianKernel(2, 0.5), LearnedKernel(3)]).double()
    lattices = [Lattice.build(features[0] / 0.5, batch), Lattice.build(features[1], batch)]
    out = crf(unary, features, batch)
    assert torch.equal(crf(unary, features, batch, lattices), out)
    assert torch.equal(crf(unary, [None, None], batch, lattices), out)


def test_half_precision(points):
    unary, features, _ = points
    crf = DenseCRF(3, [GaussianKernel(2)])
    out = crf(unary.half(), [features[0].float()])
    assert out.dtype == torch.float16
    expected = crf(unary.float(), [features[0].float()])
    torch.testing.assert_close(out.float().exp(), expected.exp(), atol=2e-3, rtol=0)


def test_state_survives(points, tmp_path):
    from safetensors.torch import load_file, save_file

    unary, features, _ = points
    make = lambda: DenseCRF(  # noqa: E731
        3, [LearnedKernel(2, learn_sigma=True)], "low_rank", 2, loose=True, learn_compatibility=True
    ).double()
    crf = make()
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter, 0.1, 0.1)
    expected = crf(unary, features[:1])
    save_file(crf.state_dict(), tmp_path / "crf.safetensors")
    other = make()
    other.load_state_dict(load_file(tmp_path / "crf.safetensors"))
    for again in (other, copy.deepcopy(crf)):
        assert torch.equal(again(unary, features[:1]), expected)
    buffer = io.BytesIO()
    torch.save(crf, buffer)
    buffer.seek(0)
    again = torch.load(buffer, weights_only=False)
    assert torch.equal(again(unary, features[:1]), expected)


def test_labels_are_the_most_probable(points):
    unary, features, batch = points
    crf = DenseCRF(3, [GaussianKernel(2)]).double()
    out = crf(unary, features[:1], batch)
    assert torch.equal(crf.labels(unary, features[:1], batch), out.argmax(1))


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        (torch.zeros(40_000, dtype=torch.int32), TypeError, "'batch' to be an int64 tensor"),
        (torch.arange(40_000) // 20_000 - 1, ValueError, "'batch' without negative entries"),
        ([0] * 40_000, TypeError, "'batch' to be an int64 tensor .got list"),
    ],
)
def test_batches_of_large_graphs_are_checked(batch, error, message):
    crf = DenseCRF(2, [GaussianKernel(2)])
    with torch.no_grad(), pytest.raises(error, match=f"^DenseCRF: Expected {message}"):
        crf(torch.randn(40_000, 2), [torch.rand(40_000, 2)], batch)


def test_lattices_are_built_on_the_calling_thread_under_autocast(monkeypatch):
    """Threads of the pool would lose autocast; on CUDA, the current stream too."""
    crf = DenseCRF(2, [GaussianKernel(2), GaussianKernel(2, 2.0)])
    unary, feature = torch.randn(50, 2), torch.rand(50, 2)
    built = []
    original = GaussianKernel.build_lattice

    def build(self, *arguments):
        built.append((threading.current_thread(), torch.is_autocast_enabled("cpu")))
        return original(self, *arguments)

    monkeypatch.setattr(GaussianKernel, "build_lattice", build)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        out = crf(unary, [feature, feature])
    assert built == [(threading.main_thread(), True)] * 2
    with torch.no_grad():
        torch.testing.assert_close(out, crf(unary, [feature, feature]))
