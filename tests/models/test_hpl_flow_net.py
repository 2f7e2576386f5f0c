"""HPLFlowNet: it learns the motion of rigid clouds, and looks at the second cloud for it."""

import pytest
import torch

from permutogeo import Lattice
from permutogeo.models import HPLFlowNet


def pair(shift, count=150, dtype=torch.float32):
    first = torch.rand(count, 3, dtype=dtype) * 4
    return first, first + torch.as_tensor(shift, dtype=dtype)


def test_str_and_shape():
    model = HPLFlowNet(3, 8, 3, dim=3, depth=1)
    assert str(model) == "HPLFlowNet(3, 8, 3, dim=3, num_layers=1, depth=1)"
    first, second = pair([0.5, 0, 0])
    assert model((first, second[:90]), (first, second[:90])).shape == (150, 3)


def test_given_lattice():
    model = HPLFlowNet(3, 8, 3, dim=3, depth=1).eval()
    both = pair([0.5, 0, 0])
    given = Lattice.build_bipartite(*both)
    assert torch.equal(model(both, None, None, given), model(both, both))
    with pytest.raises(ValueError, match=r"Expected 'lattice' as Lattice\.build_bipartite returns"):
        model(both, None, None, given[0])


def test_graphs_stay_apart():
    model = HPLFlowNet(3, 8, 3, dim=3, depth=1).double().eval()
    pairs = [pair([0.3, 0, 0], 40, torch.float64), pair([0, 0.3, 0], 50, torch.float64)]
    first, second = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    batch = torch.arange(2).repeat_interleave(torch.tensor([40, 50]))
    together = model((first, second), (first, second), (batch, batch))
    alone = torch.cat([model(each, each) for each in pairs])
    torch.testing.assert_close(together, alone, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_learns_translations():
    """Each pair of a batch has a motion of its own, which only the second cloud shows."""
    torch.manual_seed(0)
    model = HPLFlowNet(3, 16, 3, dim=3, depth=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    batch = torch.arange(8).repeat_interleave(60)
    errors = []
    for _ in range(60):
        first = torch.rand(480, 3) * 3
        flow = (torch.randn(8, 3) * 0.5)[batch]
        pair = (first, first + flow)
        loss = (model(pair, pair, (batch, batch)) - flow).square().sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        errors.append(float(loss.detach()))
    assert sum(errors[-10:]) < 0.5 * sum(errors[:10])


def test_errors():
    model = HPLFlowNet(3, 8, 3, dim=3, depth=1)
    first, second = pair([0.5, 0, 0])
    with pytest.raises(ValueError, match="HPLFlowNet: Expected 'x' to be a pair"):
        model(first, (first, second))
    with pytest.raises(ValueError, match="HPLFlowNet: Expected 'feature' to be a pair"):
        model((first, second), first)
    with pytest.raises(ValueError, match=r"Expected 'x\[1\]' of shape \[150, 3\]"):
        model((first, second[:5]), (first, second))
