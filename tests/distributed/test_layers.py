"""Layers, models and the dense CRF on a sharded lattice against one lattice over all points."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint

from permutogeo.distributed import ShardedLattice
from permutogeo.functional import gaussian_filter
from permutogeo.lattice import Lattice
from permutogeo.lattice.diagonal import blur_diagonal
from permutogeo.models import BilateralNet, LatticeUNet, SplatNet
from permutogeo.nn import (
    BilateralConv,
    CRFLoss,
    DenseCRF,
    GaussianFilter,
    GaussianKernel,
    LatticeConv,
    LatticeNorm,
    LatticePool,
    LatticeSlice,
    LatticeUnpool,
    LearnedKernel,
)

each_size = pytest.mark.parametrize("size", [1, 2, 4])
COUNT = 80


def same(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


class Case:
    """Points on ranks at random (none on the last of several), and the lattices over them."""

    def __init__(self, group, rank, size, dim=2, spread=6.0, graphs=1):
        self.group, self.size = group, size
        self.feature = torch.rand(COUNT, dim, dtype=torch.float64) * spread
        self.x = torch.randn(COUNT, 4, dtype=torch.float64)
        self.batch = torch.randint(graphs, (COUNT,)) if graphs > 1 else None
        part = torch.randint(max(1, size - 1), (COUNT,))
        self.rows = (part == rank).nonzero()[:, 0]
        self.one = Lattice.build(self.feature, self.batch)
        self.ours = self.shard(self.feature)

    def shard(self, feature):
        batch = None if self.batch is None else self.batch[self.rows]
        return ShardedLattice.build(feature[self.rows], batch, self.group)

    def compare(self, layer, call, at_vertices=False):
        """Compare outputs and gradients in ``x`` and all parameters of ``call(layer, x, lattice)``.

        Args:
            at_vertices: Whether ``x`` and the output are values at vertices.
        """
        twin = copy.deepcopy(layer)
        x = torch.randn(self.one.num_vertices, 4).double() if at_vertices else self.x
        first = self.ours.first_vertex
        rows = torch.arange(first, first + self.ours.num_vertices) if at_vertices else self.rows
        whole, part = x.clone().requires_grad_(), x[rows].clone().requires_grad_()
        expected, found = call(layer, whole, self.one), call(twin, part, self.ours)
        if at_vertices and len(found) != len(rows):  # on the coarse lattice
            coarse = self.ours.coarsen()[0]
            rows = torch.arange(coarse.first_vertex, coarse.first_vertex + coarse.num_vertices)
        same(found, expected[rows])
        probe = torch.randn_like(expected)
        grads = torch.autograd.grad((expected * probe).sum(), [whole, *layer.parameters()])
        ours = torch.autograd.grad((found * probe[rows]).sum(), [part, *twin.parameters()])
        first = (
            rows
            if part.shape[0] == len(rows)
            else slice(self.ours.first_vertex, self.ours.first_vertex + self.ours.num_vertices)
        )
        same(ours[0], grads[0][first])
        for total, gradient in zip(ours[1:], grads[1:], strict=True):
            total = total.clone()
            dist.all_reduce(total, group=self.group)
            torch.testing.assert_close(total, gradient, rtol=1e-11, atol=1e-11)


def run_layers(group, rank, size):
    case = Case(group, rank, size)
    for normalize in (None, "before", "after", "symmetric"):
        conv = BilateralConv(4, 3, dim=2, normalize=normalize, init="kaiming").double()
        case.compare(conv, lambda layer, x, lattice: layer(x, None, None, lattice))
        blur = GaussianFilter(dim=2, normalize=normalize).double()
        case.compare(blur, lambda layer, x, lattice: layer(x, None, None, lattice))
    conv = LatticeConv(4, 4, dim=2, radius=2, groups=2).double()
    case.compare(conv, lambda layer, v, lattice: layer(v, lattice), at_vertices=True)
    slices = LatticeSlice(4, dim=2).double()
    torch.nn.init.normal_(slices.lin_offset.weight)
    case.compare(slices, lambda layer, x, lattice: layer(lattice.splat(x), lattice))
    same(
        gaussian_filter(case.x[case.rows], None, lattice=case.ours),
        gaussian_filter(case.x, None, lattice=case.one)[case.rows],
    )
    same(blur_diagonal(case.ours), blur_diagonal(case.one)[case.rows])


@each_size
def test_layers(on_ranks, size):
    on_ranks(run_layers, size)


def run_pooling(group, rank, size):
    case = Case(group, rank, size)

    def pool(layer, values, lattice):
        return layer(values.relu(), lattice)[0]  # ties at 0

    for aggr in ("max", "mean", "sum", "learned"):
        case.compare(LatticePool(4, 4, dim=2, aggr=aggr).double(), pool, at_vertices=True)

    def unpool(layer, values, lattice):
        coarse, at = lattice.coarsen()
        return layer(coarse.splat(values, at), lattice, coarse, at, skip=values)

    for mode in ("slice", "learned"):
        case.compare(LatticeUnpool(4, 4, dim=2, mode=mode).double(), unpool, at_vertices=True)


@each_size
def test_pooling(on_ranks, size):
    on_ranks(run_pooling, size)


def run_norm(group, rank, size, training, tracked):
    case = Case(group, rank, size)
    options = {"dim": 2, "track_running_stats": tracked}
    norm = LatticeNorm(4, process_group=group, **options).double().train(training)
    single = LatticeNorm(4, **options).double().train(training)
    values = case.one.splat(case.x).requires_grad_()
    ours = case.ours.splat(case.x[case.rows]).detach().requires_grad_()
    rows = slice(case.ours.first_vertex, case.ours.first_vertex + case.ours.num_vertices)
    expected = alone(single, values, case.one)
    found = norm(ours, case.ours)
    same(found, expected[rows])
    probe = torch.randn_like(expected)
    (theirs,) = torch.autograd.grad((expected * probe).sum(), values)
    (mine,) = torch.autograd.grad((found * probe[rows]).sum(), ours)
    same(mine, theirs[rows])
    if tracked:
        same(norm.running_mean, single.running_mean)
        same(norm.running_var, single.running_var)


def alone(norm, values, lattice):
    """Apply the norm as in a program of one process: each rank has the whole lattice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("permutogeo.nn.lattice_norm._several_ranks", lambda group: False)
        return norm(values, lattice)


@each_size
@pytest.mark.parametrize("training, tracked", [(True, True), (False, True), (False, False)])
def test_norm(on_ranks, size, training, tracked):
    on_ranks(run_norm, size, training=training, tracked=tracked)


def run_models(group, rank, size):
    case = Case(group, rank, size, dim=3, spread=4.0, graphs=2)
    unet = LatticeUNet(4, 4, 3, dim=3, pool="learned").double().eval()
    case.compare(unet, lambda model, x, lattice: model(x, None, None, lattice))
    net = BilateralNet(4, 4, 3, dim=3).double().eval()
    case.compare(net, lambda model, x, lattice: model(x, None, None, lattice))
    splat = SplatNet(4, 4, 3, dim=3, scales=(1.0, 0.5)).double().eval()
    halves = {case.one: Lattice.build(case.feature / 2, case.batch)}
    halves[case.ours] = case.shard(case.feature / 2)

    def call(model, x, lattice):
        return model(x, None, None, [lattice, halves[lattice]])

    case.compare(splat, call)
    # The same with activation checkpoints, which exchange again in the backward pass.
    case.compare(
        unet,
        lambda model, x, lattice: checkpoint(model, x, None, None, lattice, use_reentrant=False),
    )
    with pytest.raises(ValueError, match="not sharded"):
        graph = LatticeUNet(4, 4, 3, dim=3, task="graph").double()
        graph(case.x[case.rows], None, None, case.ours)


@each_size
def test_models(on_ranks, size):
    on_ranks(run_models, size)


def run_crf(group, rank, size):
    case = Case(group, rank, size, graphs=2)
    unary = torch.randn(COUNT, 4, dtype=torch.float64)
    kernels = [GaussianKernel(2, weight=2.0, learn_weight=True), LearnedKernel(2, radius=2)]
    batch = case.batch[case.rows]
    for options in (
        {"exclude_self": True},
        {"backward": "checkpoint", "normalize": "after", "compatibility": "full"},
        {"solver": "frank_wolfe", "loose": True},
    ):
        crf = DenseCRF(4, copy.deepcopy(kernels), num_steps=3, **options).double()

        def call(model, x, lattice):
            graphs = case.batch if lattice is case.one else batch
            return model(x, [None, None], graphs, [lattice, lattice])

        case.compare(crf, call)
    with torch.no_grad():
        crf = DenseCRF(4, kernels, num_steps=20, tolerance=1e-3).double()
        expected = crf(unary, [None] * 2, case.batch, [case.one] * 2)
        found = crf(unary[case.rows], [None] * 2, batch, [case.ours] * 2)
        same(found, expected[case.rows])
        # In float32 one lattice would run the fused kernels.
        single = copy.deepcopy(crf).float()
        found = single(unary[case.rows].float(), [None] * 2, batch, [case.ours] * 2)
        torch.testing.assert_close(found.double(), expected[case.rows], rtol=0, atol=1e-4)
        problem = crf.problem(unary, [None] * 2, case.batch, [case.one] * 2)
        ours = crf.problem(unary[case.rows], [None] * 2, batch, [case.ours] * 2)
        same(ours.free_energy(unary[case.rows]), problem.free_energy(unary))
    loss = CRFLoss(kernels, reduction="none").double()
    case.compare(
        loss,
        lambda model, x, lattice: model(x, [None, None], None, [lattice, lattice]).unsqueeze(1),
    )
    with pytest.raises(ValueError, match="all sharded, or none"):
        crf(unary[case.rows], [case.feature[case.rows], None], batch, [None, case.ours])
    with pytest.raises(ValueError, match="implicit"):
        implicit = DenseCRF(4, kernels, backward="implicit").double()
        implicit(unary[case.rows], [None] * 2, batch, [case.ours] * 2)


@each_size
def test_dense_crf(on_ranks, size):
    on_ranks(run_crf, size)
