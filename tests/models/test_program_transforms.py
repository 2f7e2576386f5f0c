"""Models under torch.export, torch.func, forward-mode derivatives, autocast, on the meta device."""

import pytest
import torch
from torch import func

from permutogeo.models import (
    BilateralNet,
    BilateralTransformer,
    BNNDeepCNet,
    BNNLeNet,
    HPLFlowNet,
    LatticeCNet,
    LatticeNet,
    LatticeUNet,
    SplatNet,
    SplatNet2D3D,
)

DOUBLE = torch.float64


class Flow(torch.nn.Module):
    """Scene flow from a cloud to itself, in another order."""

    def __init__(self):
        super().__init__()
        self.model = HPLFlowNet(4, 8, 3, dim=3, depth=1)

    def forward(self, x, feature, batch):
        return self.model((x, x.flip(0)), (feature, feature.flip(0)), (batch, batch.flip(0)))

    def reset_parameters(self):
        self.model.reset_parameters()


class Joint(torch.nn.Module):
    """Points in space, which are samples of a view too."""

    def __init__(self):
        super().__init__()
        self.model = SplatNet2D3D((4, 4), 8, (3, 3), num_layers=1)

    def forward(self, x, feature, batch):
        both = self.model((x, x), (feature, feature), feature[:, :2], (batch, batch))
        return torch.cat(both)

    def reset_parameters(self):
        self.model.reset_parameters()


MODELS = {
    "BilateralNet": lambda: BilateralNet(4, 8, 5, dim=3, num_layers=1),
    "SplatNet": lambda: SplatNet(4, 8, 5, dim=3, num_layers=1, scales=(1, 0.5)),
    "SplatNet-graph": lambda: SplatNet(4, 8, 5, dim=3, num_layers=1, scales=(1, 0.5), task="graph"),
    "LatticeUNet": lambda: LatticeUNet(4, 8, 5, dim=3, depth=1),
    "LatticeUNet-graph": lambda: LatticeUNet(4, 8, 5, dim=3, depth=1, task="graph"),
    "LatticeUNet-context": lambda: LatticeUNet(4, 8, 5, dim=3, depth=1, context=True),
    "LatticeNet": lambda: LatticeNet(4, 8, 5, dim=3, num_layers=1, depth=1),
    "BilateralTransformer": lambda: BilateralTransformer(4, 8, 5, dim=3, depth=1),
    "HPLFlowNet": Flow,
    "SplatNet2D3D": Joint,
    "LatticeCNet": lambda: LatticeCNet(4, 4, 5, dim=2, extent=9.0, depth=1, read=2),
    "BNNLeNet": lambda: BNNLeNet(4, 5, extent=28.0),
    "BNNDeepCNet": lambda: BNNDeepCNet(4, 5, extent=9.0, depth=1, hidden_channels=2),
}
PLANE = {"LatticeCNet", "BNNLeNet", "BNNDeepCNet"}
each_model = pytest.mark.parametrize("name", MODELS)


def points(name, count=12, dtype=DOUBLE):
    dim = 2 if name in PLANE else 3
    place = 2 * torch.randn(count, dim, dtype=dtype)
    return torch.randn(count, 4, dtype=dtype), place, torch.arange(count) % 2


@pytest.mark.slow
@each_model
def test_export_with_dynamic_sizes(name):
    model, size = MODELS[name]().eval(), torch.export.Dim("points", min=8)
    shapes = ({0: size},) * 3
    program = torch.export.export(
        model, points(name, 40, torch.float32), dynamic_shapes=shapes, strict=False
    )
    for count in (24, 56):
        arguments = points(name, count, torch.float32)
        torch.testing.assert_close(
            program.module()(*arguments), model(*arguments), rtol=1e-4, atol=1e-5
        )


@each_model
def test_functional_gradients(name):
    model, arguments = MODELS[name]().double().eval(), points(name)
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())

    def loss(parameters):
        return func.functional_call(model, (parameters, buffers), arguments).square().sum()

    found = func.grad(loss)(parameters)
    model(*arguments).square().sum().backward()
    for key, value in parameters.items():
        torch.testing.assert_close(found[key], value.grad)


@each_model
def test_jacobian(name):
    model, (x, feature, batch) = MODELS[name]().double().eval(), points(name, 6)
    found = func.jacrev(lambda x: model(x, feature, batch))(x)
    expected = torch.autograd.functional.jacobian(lambda x: model(x, feature, batch), x)
    torch.testing.assert_close(found, expected)


@each_model
def test_forward_mode(name):
    """Along a direction of values and features, against central differences."""
    torch.manual_seed(0)
    model, (x, feature, batch) = MODELS[name]().double().eval(), points(name)
    along = torch.randn_like(x), torch.randn_like(feature)
    _, tangent = func.jvp(lambda x, f: model(x, f, batch), (x, feature), along)
    step = 1e-6
    ends = [
        model(x + sign * step * along[0], feature + sign * step * along[1], batch)
        for sign in (1, -1)
    ]
    torch.testing.assert_close(tangent, (ends[0] - ends[1]) / (2 * step), rtol=1e-4, atol=1e-5)


@each_model
def test_vmap_over_values(name):
    """Several sets of values at the same points; points that differ make lattices that differ."""
    model, (x, feature, batch) = MODELS[name]().double().eval(), points(name)
    several = torch.stack([x, 2 * x])
    found = torch.vmap(lambda x: model(x, feature, batch))(several)
    torch.testing.assert_close(found[1], model(2 * x, feature, batch))


@each_model
def test_meta_device(name):
    with torch.device("meta"):
        model = MODELS[name]()
    assert all(tensor.is_meta for tensor in [*model.parameters(), *model.buffers()])
    model = model.to_empty(device="cpu")
    torch.manual_seed(0)
    model.reset_parameters()
    arguments = points(name, dtype=torch.float32)
    torch.manual_seed(0)
    expected = MODELS[name]()
    expected.reset_parameters()  # the constructors of some layers draw numbers too
    torch.manual_seed(0)
    expected.reset_parameters()
    torch.testing.assert_close(model.eval()(*arguments), expected.eval()(*arguments))


@pytest.mark.skipif(
    not torch.cpu._is_avx512_bf16_supported(),
    reason="bfloat16 products end torch on some processors",
)
@each_model
def test_autocast(name):
    """Reduced precision where torch has it; lattices stay in single precision."""
    model, arguments = MODELS[name]().eval(), points(name, 40, torch.float32)
    expected = model(*arguments)
    with torch.autocast("cpu", torch.bfloat16):
        found = model(*arguments)
    assert (found.float() - expected).abs().max() < 0.1 * expected.abs().max() + 0.05
    found.float().square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
