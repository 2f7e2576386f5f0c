"""Properties of all models."""

import copy
import pickle
import warnings

import pytest
import torch
from torch.nn import functional
from torch_geometric.data import Data

from permutogeo import Lattice, ScaleWarning
from permutogeo.models import (
    BilateralNet,
    BilateralTransformer,
    LatticeNet,
    LatticeUNet,
    SplatNet,
)

DOUBLE = torch.float64
CASES = [
    (
        lambda c=4: BilateralNet(c, 8, 5, dim=3, num_layers=2),
        "BilateralNet(4, 8, 5, dim=3, num_layers=2, radius=1)",
    ),
    (
        lambda c=4: SplatNet(c, 8, 5, dim=3, num_layers=2, scales=(1, 0.5)),
        "SplatNet(4, 8, 5, dim=3, num_layers=2, scales=(1.0, 0.5))",
    ),
    (
        lambda c=4: LatticeUNet(c, 8, 5, dim=3, num_layers=2),
        "LatticeUNet(4, 8, 5, dim=3, num_layers=2, depth=2, task='point')",
    ),
    (
        lambda c=4: LatticeNet(c, 8, 5, dim=3, num_layers=1, depth=1, context=True),
        "LatticeNet(4, 8, 5, dim=3, num_layers=1, depth=1, task='point', splat='pointnet', "
        "slice='learned', context=True)",
    ),
    (
        lambda c=4: BilateralTransformer(c, 8, 5, dim=3, depth=1),
        "BilateralTransformer(4, 8, 5, dim=3, num_layers=1, depth=1, task='point', "
        "block='attention', splat='pointnet')",
    ),
    (
        lambda c=4: SplatNet(c, 8, 5, dim=3, num_layers=1, scales=(1, 0.5), context=True),
        "SplatNet(4, 8, 5, dim=3, num_layers=1, scales=(1.0, 0.5), context=True)",
    ),
    (
        lambda c=4: BilateralNet(c, 8, 5, dim=3, num_layers=1, context=True),
        "BilateralNet(4, 8, 5, dim=3, num_layers=1, radius=1, context=True)",
    ),
    (
        lambda c=4: LatticeUNet(c, 8, 5, dim=3, depth=1, task="graph"),
        "LatticeUNet(4, 8, 5, dim=3, num_layers=1, depth=1, task='graph')",
    ),
    (
        lambda c=4: SplatNet(c, 8, 5, dim=3, num_layers=1, scales=(1, 0.5), task="graph"),
        "SplatNet(4, 8, 5, dim=3, num_layers=1, scales=(1.0, 0.5), task='graph')",
    ),
    (
        lambda c=4: BilateralNet(c, 8, 5, dim=3, num_layers=1, task="graph"),
        "BilateralNet(4, 8, 5, dim=3, num_layers=1, radius=1, task='graph')",
    ),
]
NAMES = [
    shown.split("(")[0] + "-graph" * ("graph" in shown) + "-context" * ("context" in shown)
    for _, shown in CASES
]
MAKES = [make for make, _ in CASES]
POINT = sum("graph" not in name for name in NAMES)
each_model = pytest.mark.parametrize("make", MAKES, ids=NAMES)
each_point_model = pytest.mark.parametrize("make", MAKES[:POINT], ids=NAMES[:POINT])


def make_points(count=60, channels=4, dim=3, dtype=torch.float32):
    return torch.randn(count, channels, dtype=dtype), torch.randn(count, dim, dtype=dtype) * 2


@pytest.mark.parametrize(("make", "shown"), CASES, ids=NAMES)
def test_str(make, shown):
    assert str(make()) == shown


@each_point_model
@pytest.mark.parametrize("batched", [False, True])
def test_point_output(make, batched):
    x, feature = make_points()
    batch = torch.arange(3).repeat_interleave(20) if batched else None
    out = make()(x, feature, batch)
    assert out.shape == (60, 5) and out.dtype == x.dtype
    assert out.isfinite().all()


@each_model
def test_three_graphs_equal_three_calls(make):
    model = make().double().eval()
    clouds = [make_points(40 + i, dtype=DOUBLE) for i in range(3)]
    batch = torch.arange(3).repeat_interleave(torch.tensor([len(x) for x, _ in clouds]))
    x, feature = (torch.cat(parts) for parts in zip(*clouds, strict=True))
    together = model(x, feature, batch)
    alone = torch.cat([model(*cloud) for cloud in clouds])
    torch.testing.assert_close(together, alone, rtol=1e-12, atol=1e-12)


@each_point_model
def test_permuted_points_permute_the_output(make):
    model = make().double().eval()
    x, feature = make_points(dtype=DOUBLE)
    order = torch.randperm(len(x))
    torch.testing.assert_close(model(x[order], feature[order]), model(x, feature)[order])


@each_model
def test_a_few_steps_lower_the_loss(make):
    model = make()
    x, feature = make_points(120)
    batch = torch.arange(6).repeat_interleave(20)
    graphs = getattr(model, "task", "point") == "graph"
    y = torch.arange(6) % 5 if graphs else (x[:, 0] > 0).long() + 2 * (feature[:, 0] > 0).long()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x, feature, batch), y)
        loss.backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.8 * losses[0]


@each_model
def test_gradient_reaches_the_features(make):
    x, feature = make_points()
    feature.requires_grad_()
    make()(x, feature).square().sum().backward()
    assert feature.grad.abs().max() > 0


@each_model
def test_input_channels_from_the_first_call(make):
    x, feature = make_points()
    model = make(-1)
    out = model(x, feature)
    assert out.isfinite().all()
    assert not any(torch.nn.parameter.is_lazy(p) for p in model.parameters())


@each_model
def test_copies_and_state(make):
    model = make().eval()
    x, feature = make_points()
    out = model(x, feature)
    other = make().eval()
    other.load_state_dict(model.state_dict())
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), other):
        assert torch.equal(twin(x, feature), out)


@each_model
def test_reset_parameters(make):
    model = make()
    torch.manual_seed(3)
    model.reset_parameters()
    first = copy.deepcopy(model.state_dict())
    model(*make_points())
    torch.manual_seed(3)
    model.reset_parameters()
    for name, value in model.state_dict().items():
        assert torch.equal(value, first[name]), name


@each_model
def test_one_point_trains(make):
    out = make()(*make_points(1))
    assert out.isfinite().all()


@each_model
def test_no_points(make):
    model = make()
    for mode in (True, False):
        out = model.train(mode)(*make_points(0), torch.zeros(0, dtype=torch.int64))
        assert out.shape == (0, 5)


@each_model
def test_graphs_without_points(make):
    """They do not change the others, and have a prediction of their own in graph tasks."""
    model = make().double().eval()
    x, feature = make_points(40, dtype=DOUBLE)
    batch = torch.arange(2).repeat_interleave(20)
    out, spread = model(x, feature, batch), model(x, feature, 2 * batch)
    assert spread.isfinite().all()
    torch.testing.assert_close(spread if len(out) == 40 else spread[[0, 2]], out)


@each_model
def test_wrong_input(make):
    model, (x, feature) = make(), make_points()
    name = type(model).__name__
    with pytest.raises(ValueError, match=rf"{name}: Expected 'feature' of shape \[N, 3\].*60, 2"):
        model(x, feature[:, :2])
    with pytest.raises(ValueError, match=rf"{name}: Expected 'x' of shape \[60, 4\].*60, 3"):
        model(x[:, :3], feature)
    with pytest.raises(ValueError, match=rf"{name}: Expected 'x' of shape \[60, 4\].*50, 4"):
        model(x[:50], feature)
    with pytest.raises(TypeError, match=rf"{name}: Expected 'batch' to be an int64 tensor"):
        model(x, feature, torch.zeros(60))
    for dtype in (torch.float64, torch.float16):
        with pytest.raises(
            TypeError, match=rf"{name}: Expected 'x' of torch.float32 .*got {dtype}"
        ):
            model(x.to(dtype), feature)
    with torch.autocast("cpu", torch.bfloat16):
        assert model(x.bfloat16(), feature).isfinite().all()


# Other output points, given lattices, scales


@each_point_model
def test_output_points_of_their_own(make):
    """At the input points the answer is close to that without a pair; graphs stay apart."""
    model = make().double().eval()
    x, feature = make_points(dtype=DOUBLE)
    other = feature[:20] + 0.01
    batch = torch.arange(3).repeat_interleave(20), torch.arange(2).repeat_interleave(10)
    assert model(x, (feature, other)).shape == (20, 5)
    out = model(x, (feature, other), batch)
    assert out.shape == (20, 5) and out.isfinite().all()
    first = model(x[:20], (feature[:20], other[:10]), (batch[0][:20], batch[1][:10]))
    torch.testing.assert_close(out[:10], first, rtol=1e-10, atol=1e-10)


@each_model
def test_given_lattice(make):
    model = make().double().eval()
    x, feature = make_points(dtype=DOUBLE)
    expected = model(x, feature)
    given = Lattice.build(feature)
    if isinstance(model, SplatNet):
        given = [given, Lattice.build(feature / 2)]
        with pytest.raises(ValueError, match=r"Expected 2 'lattices', one for each scale"):
            model(x, feature, None, given[:1])
        with pytest.raises(ValueError, match=r"one for each scale \(got Lattice\)"):
            model(x, feature, None, given[0])
    assert torch.equal(model(x, None, None, given), expected)
    assert torch.equal(model(x, feature, None, given), expected)


def test_graph_models_have_no_output_points():
    x, feature = make_points()
    with pytest.raises(ValueError, match="Expected no output points, since it predicts for gr"):
        MAKES[-1]()(x, (feature, feature))


@each_model
def test_scale_multiplies_the_features(make):
    model = make().double().eval()
    x, feature = make_points(dtype=DOUBLE)
    expected = model(x, feature * 2)
    model.scale = 2.0
    torch.testing.assert_close(model(x, feature), expected)
    assert str(model).endswith("scale=2.0)")
    with pytest.raises(ValueError, match=r"positive 'scale' \(got 0\)"):
        LatticeUNet(4, 8, 5, dim=3, scale=0)


@pytest.mark.parametrize(
    "model", [LatticeUNet, LatticeNet, BilateralTransformer, SplatNet, BilateralNet]
)
def test_from_data(model):
    points = [
        Data(x=torch.rand(300, 2), pos=torch.rand(300, 3) * 50, y=torch.arange(300) % 4)
        for _ in range(4)
    ]
    made = model.from_data(points, 8)
    assert (made.in_channels, made.out_channels, made.dim) == (2, 4, 3)
    lattice, _ = made.resolve(points[0].x, points[0].pos)
    assert lattice.num_points / lattice.num_vertices == pytest.approx(3, rel=0.1)
    for item in points:
        item.y = torch.tensor([2])
    made = model.from_data(points, 8)
    assert made.task == "graph" and made.out_channels == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScaleWarning)
        assert made(points[0].x, points[0].pos).shape == (1, 3)
