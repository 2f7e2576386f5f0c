"""Networks written for spconv learn, and do not depend on threads or on the order of voxels."""

import pytest
import torch

import permutogeo.compat.spconv.pytorch as spconv

NAMES = ["unet", "transformer"]
each_network = pytest.mark.parametrize("name", NAMES)


@each_network
def test_learns(networks, name):
    torch.manual_seed(0)
    model = getattr(networks, name)(spconv)
    features, indices, *rest = networks.voxels(3)
    label = (indices[:, 1] > 4).long()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(10):
        out = model(spconv.SparseConvTensor(features, indices, *rest))
        loss = torch.nn.functional.cross_entropy(out.features, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]


@each_network
def test_order_of_voxels(networks, name):
    model = getattr(networks, name)(spconv).double().eval()
    features, indices, *rest = networks.voxels(3)
    features, order = features.double(), torch.randperm(len(indices))
    out = model(spconv.SparseConvTensor(features, indices, *rest))
    other = model(spconv.SparseConvTensor(features[order], indices[order], *rest))
    assert torch.equal(other.indices, indices[order])
    torch.testing.assert_close(other.features, out.features[order], rtol=1e-12, atol=1e-12)


@each_network
def test_two_grids_of_a_batch_are_two_calls(networks, name):
    model = getattr(networks, name)(spconv).double().eval()
    features, indices, shape, _ = networks.voxels(3)
    features = features.double()
    together = model(spconv.SparseConvTensor(features, indices, shape, 2)).features
    for batch in (0, 1):
        mine = indices[:, 0] == batch
        alone = indices[mine].clone()
        alone[:, 0] = 0
        out = model(spconv.SparseConvTensor(features[mine], alone, shape, 1))
        torch.testing.assert_close(out.features, together[mine], rtol=1e-12, atol=1e-12)


def test_threads_do_not_change_bits(networks):
    """Enough voxels for several blocks; spconv's own results are wrong on two threads."""
    features, *rest = networks.voxels(3, 5, density=0.4, shape=(20, 20, 20))
    assert len(features) > 5000
    model = networks.unet(spconv)
    before, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3, 8):
            torch.set_num_threads(count)
            model.zero_grad()
            leaf = features.clone().requires_grad_()
            # Without the normalization, whose sums torch splits over its own threads.
            x = model.stem[0](spconv.SparseConvTensor(leaf, *rest))
            y = model.up[0][0](model.down[0][0](x))
            (x.features + y.features).square().sum().backward()
            gradients = [model.stem[0].weight.grad, model.down[0][0].weight.grad, leaf.grad]
            found.append([y.features.detach(), *(each.clone() for each in gradients)])
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))
