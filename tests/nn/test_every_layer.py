"""Properties of every layer: PyG containers, compilation, export, copies, files and types."""

import copy
import pickle
import sys
import types
import warnings

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch_geometric.nn import MessagePassing, Sequential, summary

from permutogeo import Lattice, ScaleWarning, nn

# A layer of float32 parameters, and how it is called with a cloud of 4 channels in 3 dimensions.
CASES = {
    "BilateralConv": (
        lambda c=4: nn.BilateralConv(c, 6, 3, normalize="symmetric"),
        lambda layer, d: layer(d.x, d.feature, d.batch),
    ),
    "BilateralConv pair": (
        lambda c=4: nn.BilateralConv(c, 6, 3, learn_scale=True, residual_to_gaussian=True),
        lambda layer, d: layer(d.x, (d.feature, d.other)),
    ),
    "BilateralConv shared": (
        lambda c=4: nn.BilateralConv(c, 4, 3, shared=True, normalize="after"),
        lambda layer, d: layer(d.x, d.feature, d.batch, d.lattice),
    ),
    "GaussianFilter": (
        lambda: nn.GaussianFilter(3, 0.7, learn_sigma=True),
        lambda layer, d: layer(d.x, d.feature, d.batch),
    ),
    "LatticeConv": (
        lambda c=4: nn.LatticeConv(c, 6, 3, groups=2),
        lambda layer, d: layer(d.values, d.lattice),
    ),
    "LatticeAttention": (
        lambda c=4: nn.LatticeAttention(c, 6, 3, heads=2),
        lambda layer, d: layer(d.values, d.lattice),
    ),
    "LatticeAttention points": (
        lambda c=4: nn.LatticeAttention(c, 6, 3, heads=3, stencil="axis"),
        lambda layer, d: layer(d.values, d.lattice, d.x),
    ),
    "LatticePool max": (
        lambda c=4: nn.LatticePool(c, 4, 3),
        lambda layer, d: layer(d.values, d.lattice)[0],
    ),
    "LatticePool mean": (
        lambda c=4: nn.LatticePool(c, 4, 3, "mean"),
        lambda layer, d: layer(d.values, d.lattice)[0],
    ),
    "LatticePool learned": (
        lambda c=4: nn.LatticePool(c, 6, 3, "learned"),
        lambda layer, d: layer(d.values, d.lattice)[0],
    ),
    "LatticeUnpool": (
        lambda c=4: nn.LatticeUnpool(c, 4, 3),
        lambda layer, d: layer(*coarse(d)),
    ),
    "LatticeUnpool learned": (
        lambda c=4: nn.LatticeUnpool(c, 6, 3, "learned"),
        lambda layer, d: layer(*coarse(d)),
    ),
    "LatticeNorm": (
        lambda c=4: nn.LatticeNorm(c, 3),
        lambda layer, d: layer(d.values, d.lattice),
    ),
    "LatticeSlice": (
        lambda c=4: nn.LatticeSlice(c, 3),
        lambda layer, d: layer(d.values, d.lattice),
    ),
}
LAZY = [name for name in CASES if name != "GaussianFilter"]
each_layer = pytest.mark.parametrize("name", CASES)


def coarse(data):
    lattice, at = data.lattice.coarsen()
    return lattice.splat(data.x), data.lattice, lattice, at


@pytest.fixture
def data(cloud):
    return cloud(graphs=2, dtype=torch.float32)


def changed(layer):
    """The same layer after some training."""
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return layer


# Messages


@each_layer
def test_every_layer_passes_messages(name, data):
    """The route for explainers and hooks gives what the kernels give."""
    make, call = CASES[name]
    layer = changed(make()).double()
    data.x, data.values = data.x.double(), data.values.double()
    assert isinstance(layer, MessagePassing) and layer.fused
    expected = call(layer, data)
    messages = []
    layer.register_message_forward_hook(lambda module, inputs, out: messages.append(len(out)))
    assert not layer.fused
    torch.testing.assert_close(call(layer, data), expected, rtol=1e-10, atol=1e-10)
    assert messages and all(messages)


# Copies


@each_layer
def test_copies_pickles_and_files(name, data, tmp_path):
    make, call = CASES[name]
    layer = changed(make()).eval()
    expected = call(layer, data)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert str(twin) == str(layer)
        assert torch.equal(call(twin, data), expected)
        assert all(a is not b for a, b in zip(twin.parameters(), layer.parameters(), strict=True))
    state = layer.state_dict()
    save_file(state, tmp_path / "layer.safetensors")
    twin = make().eval()
    twin.load_state_dict(load_file(tmp_path / "layer.safetensors"))
    assert torch.equal(call(twin, data), expected)


# Lazy layers


@pytest.mark.parametrize("name", LAZY)
def test_lazy(name, data, tmp_path):
    make, call = CASES[name]
    lazy = make(-1)
    assert lazy.in_channels == -1 and "(-1" in str(lazy)
    copies = [copy.deepcopy(lazy), pickle.loads(pickle.dumps(lazy))]
    waiting = copy.deepcopy(lazy)
    waiting.load_state_dict(lazy.state_dict())  # nothing has a size yet
    for layer in (lazy, waiting, *copies):
        out = call(layer, data)
        assert layer.in_channels == 4 and str(layer) == str(make())
        assert out.shape == call(make(), data).shape
        shapes = [parameter.shape for parameter in layer.parameters()]
        assert shapes == [parameter.shape for parameter in make().parameters()]
    full = changed(make())
    late = make(-1)
    late.load_state_dict(full.state_dict())
    assert torch.equal(call(late, data), call(full, data))
    assert late.in_channels == 4


# PyG's containers


def network():
    return Sequential(
        "x, feature, batch, lattice",
        [
            (nn.BilateralConv(4, 8, 3), "x, feature, batch, lattice -> x"),
            torch.nn.ReLU(),
            (nn.BilateralConv(-1, 2, 3, normalize="after"), "x, feature, batch, lattice -> x"),
        ],
    )


def test_sequential(data):
    model = network()
    out = model(data.x, data.feature, data.batch, data.lattice)
    first, _, last = (model[i] for i in range(3))
    hidden = first(data.x, data.feature, data.batch).relu()
    assert torch.equal(out, last(hidden, data.feature, data.batch))


def test_sequential_on_the_lattice(data):
    model = Sequential(
        "values, lattice",
        [
            (nn.LatticeConv(4, 8, 3), "values, lattice -> fine"),
            (nn.LatticeNorm(8, 3), "fine, lattice -> fine"),
            (nn.LatticePool(8, 8, 3), "fine, lattice -> values, coarse, at"),
            (nn.LatticeConv(8, 8, 3), "values, coarse -> values"),
            (nn.LatticeUnpool(8, 8, 3), "values, lattice, coarse, at, fine -> values"),
            (nn.LatticeSlice(16, 3), "values, lattice -> x"),
        ],
    )
    assert model(data.values, data.lattice).shape == (40, 16)


def test_summary(data, monkeypatch):
    try:
        import tabulate  # noqa: F401
    except ImportError:  # which PyG's summary needs and does not require
        table = types.ModuleType("tabulate")
        table.tabulate = lambda rows, **_: "\n".join(" | ".join(row) for row in rows)
        monkeypatch.setitem(sys.modules, "tabulate", table)
    text = summary(network(), data.x, data.feature, data.batch, data.lattice)
    (line,) = (line for line in text.splitlines() if "module_0" in line)
    assert "BilateralConv" in line and "[40, 4], [40, 3], [40]" in line and "[40, 8]" in line
    assert "488" in line  # 15 taps, 4 to 8 channels, and the bias


# Compiled and exported


@each_layer
def test_compile(name, cloud, data):
    """In one graph, for clouds of any size."""
    make, call = CASES[name]
    layer = changed(make()).eval()
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda d: call(layer, d), fullgraph=True, dynamic=True, backend="eager"
    )
    for each in (data, cloud(28, graphs=2, dtype=torch.float32)):
        torch.testing.assert_close(compiled(each), call(layer, each))


def test_compiled_training(cloud):
    model = torch.nn.ModuleList(
        [nn.LatticeConv(4, 4, 2), nn.LatticeNorm(4, 2), nn.LatticePool(4, 4, 2, "learned")]
    )
    last = nn.BilateralConv(4, 2, 2, normalize="after", learn_scale=True)

    def loss(x, feature, batch):
        lattice = Lattice.build(feature, batch)
        values = model[1](model[0](lattice.splat(x), lattice), lattice).relu()
        pooled, coarse, at = model[2](values, lattice)
        x = lattice.slice(coarse.slice(pooled, at))
        return last(x, feature, batch).square().mean()

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    parameters = [*model.parameters(), *last.parameters()]
    for count in (30, 41):
        data = cloud(count, dim=2, graphs=2, dtype=torch.float32)
        arguments = (data.x, data.feature, data.batch)
        expected = torch.autograd.grad(loss(*arguments), parameters)
        torch.testing.assert_close(torch.autograd.grad(compiled(*arguments), parameters), expected)


@pytest.mark.parametrize("name", ["BilateralConv", "GaussianFilter"])
def test_export(name, data):
    layer = changed(CASES[name][0]()).eval()
    points = torch.export.Dim("points", min=2)
    shapes = {"x": {0: points}, "feature": {0: points}, "batch": {0: points}}
    arguments = (data.x, data.feature, data.batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(layer, arguments, dynamic_shapes=shapes)
    shorter = tuple(argument[:25] for argument in arguments)
    for each in (arguments, shorter):
        torch.testing.assert_close(program.module()(*each), layer(*each))


class UNet(torch.nn.Module):
    """Every layer that works on a lattice: a program takes points, the lattice is made inside."""

    def __init__(self, aggr, mode):
        super().__init__()
        self.first, self.norm = nn.LatticeConv(4, 8, 3), nn.LatticeNorm(8, 3)
        self.pool, self.unpool = nn.LatticePool(8, 8, 3, aggr), nn.LatticeUnpool(8, 8, 3, mode)
        self.last = nn.LatticeSlice(16, 3)

    def forward(self, x, feature, batch):
        lattice = Lattice.build(feature, batch)
        fine = self.norm(self.first(lattice.splat(x), lattice), lattice).relu()
        values, coarse, at = self.pool(fine, lattice)
        return self.last(self.unpool(values, lattice, coarse, at, fine), lattice)


@pytest.mark.parametrize(("aggr", "mode"), [("max", "slice"), ("learned", "learned")])
def test_export_of_lattice_layers(data, aggr, mode):
    model = UNet(aggr, mode).eval()
    points = torch.export.Dim("points", min=2)
    arguments = (data.x, data.feature, data.batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, arguments, dynamic_shapes=({0: points},) * 3)
    shorter = tuple(argument[:25] for argument in arguments)
    torch.testing.assert_close(program.module()(*shorter), model(*shorter))


# Precision


@each_layer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(name, data, dtype):
    """Half precision comes in and goes out; the sums between are in float32."""
    make, call = CASES[name]
    layer = changed(make()).eval()
    half = copy.copy(data)
    half.x, half.values = data.x.to(dtype), data.values.to(dtype)
    wide = copy.copy(data)
    wide.x, wide.values = half.x.float(), half.values.float()
    with torch.autocast("cpu", dtype):
        out = call(layer, half)
        full = call(layer, wide)
    assert out.dtype == dtype and full.dtype == torch.float32
    expected = call(layer, wide)
    assert torch.equal(full, expected)
    if "Unpool" in name:  # whose values are splatted before, and rounded
        expected = call(layer, half)
    assert torch.equal(out, expected.to(dtype))
    layer.train()
    with torch.autocast("cpu", dtype):
        total = call(layer, half).float().square().sum()
    for parameter in layer.parameters():
        (grad,) = torch.autograd.grad(total, parameter, retain_graph=True)
        assert grad.dtype == torch.float32 and grad.isfinite().all()


@each_layer
def test_half_layers(name, data):
    """Parameters and values are rounded; sums are computed in float32."""
    make, call = CASES[name]
    layer = changed(make()).eval()
    half, wide = copy.copy(data), copy.copy(data)
    half.x, half.values = data.x.bfloat16(), data.values.bfloat16()
    wide.x, wide.values = half.x.float(), half.values.float()
    expected = call(copy.deepcopy(layer).bfloat16().float(), wide)
    if name == "LatticeSlice":
        pytest.skip("bfloat16 products of torch itself kill the process on some virtual machines")
    out = call(layer.bfloat16(), half)
    assert out.dtype == torch.bfloat16
    # The splat before an unpooling rounds its result too.
    rounding = 2**-7 if "Unpool" in name else 2**-8
    torch.testing.assert_close(out.float(), expected, rtol=rounding, atol=2**-8)


def test_many_points_in_one_place():
    """A hundred thousand ones do not fit into half precision; their mean does."""
    x = torch.ones(100_000, 1, dtype=torch.float16)
    feature = torch.zeros(100_000, 2)
    conv = nn.BilateralConv(1, 1, 2, normalize="after")
    with pytest.warns(ScaleWarning, match="all points of a graph share a vertex"):
        torch.testing.assert_close(conv(x, feature), x, rtol=1e-3, atol=0)
    torch.testing.assert_close(nn.GaussianFilter(2)(x, feature), x, rtol=1e-3, atol=0)
