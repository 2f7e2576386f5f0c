"""The bilateral stem of grid networks."""

import numpy as np
import pytest
import torch

from permutogeo import Lattice
from permutogeo.models import BNNDeepCNet, BNNLeNet
from permutogeo.testing.reference import ReferenceLattice

DOUBLE = torch.float64


def test_the_first_layer_reads_the_grid(reference, drawings):
    response, normalizer = reference
    """Against the reference, over input and grid together; rows are along the second feature."""
    options = {"depth": 1, "hidden_channels": 3, "normalize": "after"}
    model = BNNDeepCNet(1, 5, extent=20.0, **options).double()
    x, feature, _ = drawings(1)
    place = (np.arange(4) + 1) * 20 / 5
    grid = np.array([[across, down] for down in place for across in place])
    lattice = ReferenceLattice(np.concatenate([feature.numpy(), grid]))
    everything = np.concatenate([x.numpy(), np.zeros((16, 1))])
    conv = model.first.conv
    weight, bias = (p.detach().numpy() for p in (conv.filter_weight, conv.bias))
    is_input = (np.arange(len(everything)) < len(x))[:, None].astype(float)
    norm, out = normalizer(lattice, is_input), response(lattice, everything, weight)
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = np.where(norm > 0, out / norm, 0.0) + bias
    got = model.first(x, feature, None)[0].detach().numpy()
    np.testing.assert_allclose(got, wanted[-16:].T.reshape(3, 4, 4), rtol=1e-9, atol=1e-12)


def test_far_from_ink_is_nothing():
    """Normalizing the first layer after filtering removes the signal, as ink is 1 everywhere."""
    first = BNNLeNet(1, 5, extent=20.0, side=28).first.double()
    ones, feature = torch.ones(50, 1, dtype=DOUBLE), 5 + torch.rand(50, 2, dtype=DOUBLE)
    out = first(ones, feature, None)[0] - first.conv.bias.view(-1, 1, 1)
    near, far = out[:, 4:7, 4:7].abs().amax(), out[:, 12:, 12:].abs().amax()
    assert near > 0.1 and far == 0
    ring = out[:, 8:10, 8:10].abs().amax()
    assert 0 < ring < 0.1 * near


@pytest.mark.parametrize(
    "model",
    [BNNLeNet(1, 5, extent=20.0, side=28), BNNDeepCNet(1, 5, 20.0, depth=2, hidden_channels=4)],
    ids=["BNNLeNet", "BNNDeepCNet"],
)
def test_given_lattice(model, drawings):
    model = model.double().eval()
    x, feature, batch = drawings()
    expected = model(x, feature, batch)
    lattice = model.build_lattice(feature, batch)
    assert torch.equal(model(x, None, None, lattice), expected)
    assert torch.equal(model(x, feature, batch, lattice), expected)
    alone = model(x[:40], None, None, model.build_lattice(feature[:40]))
    torch.testing.assert_close(alone, expected[:1])


def test_errors(drawings):
    model = BNNLeNet(1, 5, extent=20.0, side=28)
    x, feature, batch = drawings(dtype=torch.float32)
    lattice = model.build_lattice(feature, batch)
    with pytest.raises(ValueError, match="BNNLeNet: Expected 'lattice' as build_lattice returns"):
        model(x, feature, batch, lattice[0])
    with pytest.raises(ValueError, match=r"Expected a multiple of the 576 points .*\(got 10\)"):
        model(x, None, None, Lattice.build_bipartite(feature, feature[:10]))
    with pytest.raises(ValueError, match="Expected 'lattice' built from the points of 'feature'"):
        model(x, feature + 1, batch, lattice)
    with pytest.raises(TypeError, match=r"BNNLeNet: Expected 'x' of torch.float32 like the param"):
        model(x.double(), feature, batch)
