"""Base classes of the layers: hooks, explainers and lazy channels."""

import pytest
import torch
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks

from permutogeo import nn


def bilateral():
    return nn.BilateralConv(4, 6, 3, init="kaiming", normalize="after").double()


HOOKS = [
    "register_propagate_forward_pre_hook",
    "register_propagate_forward_hook",
    "register_message_forward_pre_hook",
    "register_message_forward_hook",
    "register_aggregate_forward_pre_hook",
    "register_aggregate_forward_hook",
]


@pytest.mark.parametrize("register", HOOKS)
def test_hooks_are_called(cloud, register):
    data = cloud()
    layer = bilateral()
    expected = layer(data.x, data.feature)
    calls = []
    handle = getattr(layer, register)(lambda module, *rest: calls.append(module))
    assert not layer.fused
    torch.testing.assert_close(layer(data.x, data.feature), expected, rtol=1e-10, atol=1e-10)
    assert calls == [layer] * 3  # splat, convolve, slice
    handle.remove()
    assert layer.fused
    assert torch.equal(layer(data.x, data.feature), expected)
    assert len(calls) == 3


def test_hooks_may_change_messages(cloud):
    data = cloud()
    layer = nn.LatticeConv(4, 6, 3, bias=False).double()
    expected = layer(data.values, data.lattice)
    layer.register_message_forward_hook(lambda module, inputs, out: 2 * out)
    torch.testing.assert_close(layer(data.values, data.lattice), 2 * expected)


def test_an_edge_mask_belongs_to_the_splat(cloud):
    """Without the edges of a point, the point has no values."""
    data = cloud()
    layer = bilateral()
    edge_index, _ = data.lattice.incidence_graph()
    mask = (edge_index[0] != 7).double()
    set_masks(layer, mask, edge_index, apply_sigmoid=False)
    assert not layer.fused
    masked = layer(data.x, data.feature)
    clear_masks(layer)
    assert layer.fused
    data.x[7] = 0
    torch.testing.assert_close(masked, layer(data.x, data.feature))


def test_an_edge_mask_of_vertices(cloud):
    data = cloud()
    layer = nn.LatticeConv(4, 6, 3).double()
    edge_index, edge_type = data.lattice.neighbor_graph()
    set_masks(layer, (edge_type == 0).double(), edge_index, apply_sigmoid=False)
    masked = layer(data.values, data.lattice)
    clear_masks(layer)
    expected = data.values @ layer.filter_weight[0] + layer.bias
    torch.testing.assert_close(masked, expected)


@pytest.mark.parametrize("training", [True, False])
def test_an_edge_mask_leaves_norms_alone(cloud, training):
    """A mask of the edges between vertices goes through a stack that has a norm."""
    data = cloud()
    stack = torch.nn.ModuleList([nn.LatticeConv(4, 6, 3), nn.LatticeNorm(6, 3)]).double()
    stack.train(training)
    conv, norm = stack
    edge_index, edge_type = data.lattice.neighbor_graph()
    set_masks(stack, (edge_type == 0).double(), edge_index, apply_sigmoid=False)
    masked = norm(conv(data.values, data.lattice), data.lattice)
    clear_masks(stack)
    expected = norm(data.values @ conv.filter_weight[0] + conv.bias, data.lattice)
    torch.testing.assert_close(masked, expected, rtol=1e-10, atol=1e-10)


def test_an_edge_mask_of_another_graph(cloud):
    data = cloud()
    stack = torch.nn.ModuleList([nn.LatticeConv(4, 6, 3), nn.LatticePool(6, 6, 3)]).double()
    edge_index, edge_type = data.lattice.neighbor_graph()
    mask = torch.ones(len(edge_type), dtype=torch.float64)
    set_masks(stack, mask, edge_index, apply_sigmoid=False)
    values = stack[0](data.values, data.lattice)
    with pytest.raises(
        ValueError, match=rf"^LatticePool: .*edge mask .*got {len(mask)}\); set 'ex"
    ):
        stack[1](values, data.lattice)
    clear_masks(stack)
    stack[1].explain = False
    set_masks(stack, mask, edge_index, apply_sigmoid=False)
    assert stack[1](values, data.lattice)[0].isfinite().all()


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.BilateralConv(4, 3, 3, normalize="after")

    def forward(self, x, edge_index, lattice):
        return self.conv(x, None, lattice=lattice)


def test_gnn_explainer(cloud):
    data = cloud(dtype=torch.float32)
    edge_index, _ = data.lattice.incidence_graph()
    explainer = Explainer(
        Classifier(),
        GNNExplainer(epochs=3),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "node",
            "return_type": "raw",
        },
    )
    explanation = explainer(data.x, edge_index, lattice=data.lattice, index=5)
    assert explanation.edge_mask.shape == (edge_index.shape[1],)
    assert explanation.node_mask.shape == (40, 4)
    assert explanation.edge_mask.any()


def test_lazy_with_wrong_channels(cloud):
    data = cloud(dtype=torch.float32)
    with pytest.raises(ValueError, match=r"^BilateralConv: .*'groups' to divide the 4 input"):
        nn.BilateralConv(-1, 6, 3, groups=3)(data.x, data.feature)
    with pytest.raises(ValueError, match=r"^LatticePool: .*'out_channels' equal to the 4 input"):
        nn.LatticePool(-1, 6, 3)(data.values, data.lattice)


def test_decomposed_layers_need_channels_apart(cloud):
    data = cloud()
    layer = nn.LatticeConv(4, 4, 3, shared=True).double()
    expected = layer(data.values, data.lattice)
    layer.decomposed_layers = 2
    assert not layer.fused
    torch.testing.assert_close(layer(data.values, data.lattice), expected)
    layer = nn.LatticeConv(4, 4, 3).double()
    layer.decomposed_layers = 2
    with pytest.raises(ValueError, match=r"'decomposed_layers' of 1, since .*got 2"):
        layer(data.values, data.lattice)
