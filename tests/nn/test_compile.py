"""``torch.compile`` with changing sizes; ``torch.export`` and ``torch.vmap`` of the layers that
depend on data.

Compiled programs run in processes of their own: a crash in one does not end the tests. Most are
compiled for any size at once; in default mode (``dynamic=None``) Dynamo compiles twice.
"""

import subprocess
import sys
import textwrap

import pytest
import torch

from permutogeo import nn

PRELUDE = """
import copy, re, torch
import torch._dynamo.guards
from permutogeo import Lattice, models, nn
from permutogeo.compat.spconv import pytorch as spconv

# Dynamo empties the processor's caches to time the guards of each frame, a fifth of its time.
torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0

class OnPoints(torch.nn.Module):
    def __init__(self, crf):
        super().__init__()
        self.crf = crf

    def forward(self, x, feature, batch):
        kernels = self.crf.kernels
        count = len(kernels[0]) if isinstance(kernels[0], torch.nn.ModuleList) else len(kernels)
        return self.crf(x, [feature] * count, batch)

class OnLattice(torch.nn.Module):
    def __init__(self, aggr, mode):
        super().__init__()
        self.conv, self.norm = nn.LatticeConv(4, 4, 2), nn.LatticeNorm(4, 2)
        self.pool, self.unpool = nn.LatticePool(4, 4, 2, aggr), nn.LatticeUnpool(4, 4, 2, mode)
        self.slice = nn.LatticeSlice(4, 2)

    def forward(self, x, feature, batch):
        lattice = Lattice.build(feature, batch)
        fine = self.norm(self.conv(lattice.splat(x), lattice), lattice)
        values, coarse, at = self.pool(fine, lattice)
        return self.slice(self.unpool(values, lattice, coarse, at), lattice)

class Splatted(torch.nn.Module):
    def __init__(self, layer, splat=True):
        super().__init__()
        self.layer, self.splat = layer, splat

    def forward(self, x, feature, batch):
        lattice = Lattice.build(feature, batch)
        return self.layer(lattice.splat(x) if self.splat else x, lattice)

class OnVoxels(torch.nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = spconv.SparseSequential(*layers)

    def forward(self, x, indices):
        return self.layers(spconv.SparseConvTensor(x, indices, [9, 10, 8], 2)).features

class First(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *arguments):
        return self.model(*arguments)[0]

def points(count):
    return torch.randn(count, 4), 2 * torch.randn(count, 2), torch.arange(count) % 2

def images(count):
    return torch.rand(1, 2, count // 8, 4), torch.rand(1, 1, count // 8 * 3, 12)

def two_clouds(count):
    counts = (count, count + 5)
    return tuple(torch.randn(n, 3) for n in counts), tuple(torch.randn(n, 3) for n in counts)

def cloud_and_image(count):
    return *two_clouds(count), torch.randn(count + 5, 2)

def positions(count):
    return (torch.rand(count, 3),)

def measurements(count):
    x, feature, batch = points(count)
    return x, torch.rand(count) + 0.1, feature, batch

def labels(count):
    _, feature, batch = points(count)
    return torch.arange(count) // 2 % 4 - 1, feature, batch

def voxels(count):
    indices = (torch.rand(2, 9, 10, 8) < count / 200).nonzero().int()
    return torch.randn(len(indices), 4), indices

# Operators whose output sizes depend on data, where Dynamo breaks the graph unless fullgraph=True;
# models with a prediction for each graph read the number of graphs by item().
NAMED = {"build", "coarsen", "plan", "splat_plan", "hash_codes", "nonzero", "item"}
SOLVER = {"_unique2", "bincount", "repeat_interleave"}
VOXELS = {"sort_edges", "strided_pairs", "_local_scalar_dense", "is_inference"}

def check(module, make=points, backend="eager", further=frozenset(), dynamic=True):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(module, backend=backend, dynamic=dynamic)
    for count in (40, 56):
        arguments = make(count)
        twin = copy.deepcopy(module)
        results = []
        for call, owner in ((twin, twin), (compiled, module)):
            out = call(*arguments)
            parameters = [p for p in owner.parameters() if p.requires_grad]
            gradients = torch.autograd.grad(out.square().sum(), parameters, materialize_grads=True)
            results.append([out, *gradients])
        torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-4)
    breaks = set()
    for reason in torch._dynamo.utils.counters["graph_break"]:
        found = re.search(r"Operator `(?:permutogeo|aten)\\.(\\w+)", reason)
        hidden = re.search(r"Skip calling function `<function _(\\w+)", reason)
        if "Unsupported Tensor.item() call" in reason:
            breaks.add("item")
        elif "tensor.is_inference()" in reason:
            breaks.add("is_inference")
        else:
            breaks.add((found or hidden).group(1) if found or hidden else reason)
    assert breaks <= NAMED | further, breaks - NAMED - further
"""
PROGRAMS = {
    "layers": """
        check(nn.BilateralConv(4, 6, 2, normalize="symmetric"), backend="aot_eager")
        check(nn.GaussianFilter(2, 0.7, learn_sigma=True))
        check(OnLattice("max", "slice"), dynamic=None)
        check(OnLattice("learned", "learned"))
    """,
    "models": """
        check(models.BilateralNet(4, 8, 5, dim=2, num_layers=1), backend="aot_eager")
        check(models.SplatNet(4, 8, 5, dim=2, num_layers=1, scales=(1.0, 0.5)))
        check(models.LatticeUNet(4, 4, 5, dim=2, depth=1), dynamic=None)
        check(models.LatticeCNet(4, 4, 5, dim=2, extent=9.0, depth=1, read=2))
        check(models.BNNDeepCNet(4, 5, extent=9.0, depth=1, hidden_channels=2))
        check(models.BNNLeNet(4, 5, extent=9.0, side=28))
        check(models.BilateralTransformer(4, 4, 5, dim=2, depth=1))
        check(models.LatticeNet(4, 4, 5, dim=2, num_layers=1, depth=1))
    """,
    "attention, encoding, solver": """
        check(Splatted(nn.LatticeAttention(4, 6, 2, heads=2)))
        check(Splatted(nn.PointNetSplat(4, 6, 2), splat=False))
        check(nn.PermutohedralEncoding(3, num_levels=2), positions)
        check(nn.BilateralSolver(2, learn_lam=True), measurements, further=SOLVER)
        propagation = nn.BilateralLabelPropagation(3, 2, learn_lam=True)
        check(propagation, labels, further=SOLVER)
    """,
    "voxels": """
        down = spconv.SparseConv3d(4, 6, 3, 2, 1, indice_key="down")
        up = spconv.SparseInverseConv3d(6, 4, 3, indice_key="down")
        check(OnVoxels(spconv.SubMConv3d(4, 4, 3), down, up), voxels, further=VOXELS)
        pooled = OnVoxels(spconv.SubMConv3d(4, 4, 3), spconv.SparseMaxPool3d(3, 2, 1))
        check(pooled, voxels, further=VOXELS, dynamic=None)
    """,
    "models of two clouds": """
        check(models.HPLFlowNet(3, 8, 3, dim=3).eval(), two_clouds)
        check(First(models.SplatNet2D3D((3, 3), 8, (4, 4))).eval(), cloud_and_image)
    """,
    "crf": """
        kernels = [nn.GaussianKernel(2, learn_weight=True), nn.LearnedKernel(2)]
        check(OnPoints(nn.DenseCRF(4, kernels, "full", 2, learn_compatibility=True)))
        check(OnPoints(nn.CRFLoss([nn.GaussianKernel(2, learn_weight=True)])), backend="aot_eager")
    """,
    "upsampling": """
        check(nn.JointBilateralUpsample(2, 1, 8.0, 0.2), images)
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_changing_sizes(name):
    program = PRELUDE + textwrap.dedent(PROGRAMS[name]) + "print('ok')"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0 and done.stdout.endswith("ok\n"), done.stderr[-3000:]
    assert "recompile_limit" not in done.stderr


class OnPoints(torch.nn.Module):
    def __init__(self, layer, count):
        super().__init__()
        self.layer, self.count = layer, count

    def forward(self, x, feature, batch):
        return self.layer(x, [feature] * self.count, batch)


CRFS = {
    "DenseCRF": lambda: OnPoints(
        nn.DenseCRF(3, [nn.GaussianKernel(2, weight=2.0), nn.LearnedKernel(2)], num_steps=2), 2
    ),
    "CRFLoss": lambda: OnPoints(nn.CRFLoss([nn.GaussianKernel(2)]), 1),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CRFS)
def test_export(name):
    layer = CRFS[name]()
    points = torch.export.Dim("points", min=2)
    arguments = [(torch.randn(n, 3), 2 * torch.randn(n, 2), torch.arange(n) % 2) for n in (40, 57)]
    program = torch.export.export(layer, arguments[0], dynamic_shapes=({0: points},) * 3)
    for each in arguments:
        torch.testing.assert_close(program.module()(*each), layer(*each))


@pytest.mark.filterwarnings("ignore")
def test_export_and_one_graph_of_upsampling():
    """Also where bandwidths must be doubled: a guide of noise."""
    layer = nn.JointBilateralUpsample(2, 1, 2.0, 0.05)
    x, guide = torch.rand(1, 2, 4, 3), torch.rand(1, 1, 16, 12)
    expected = layer(x, guide)
    program = torch.export.export(layer, (x, guide))
    torch.testing.assert_close(program.module()(x, guide), expected)
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    out = compiled(x, guide)
    torch.testing.assert_close(out, expected)
    weight = layer.conv.filter_weight
    gradients = [torch.autograd.grad(each.square().sum(), weight) for each in (out, expected)]
    torch.testing.assert_close(*gradients)


def test_vmap_is_refused_in_one_sentence():
    x, feature, batch = torch.randn(2, 10, 3), torch.rand(10, 2), torch.zeros(10, dtype=torch.long)
    for name, make in CRFS.items():
        layer = make()
        with pytest.raises(RuntimeError, match=f"^{name}: Expected a call outside of torch.vmap"):
            torch.vmap(lambda each, layer=layer: layer(each, feature, batch))(x)
    layer, guide = nn.JointBilateralUpsample(2, 1, 8.0, 0.2), torch.rand(1, 8, 8)
    with pytest.raises(RuntimeError, match=r"^JointBilateralUpsample: .* outside of torch.vmap"):
        torch.vmap(lambda each: layer(each, guide))(torch.rand(3, 2, 4, 4))
