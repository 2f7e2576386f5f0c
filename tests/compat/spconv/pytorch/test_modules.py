from collections import OrderedDict

import pytest
import torch
from torch import nn

import permutogeo.compat.spconv.pytorch as spconv
from permutogeo.compat.spconv.pytorch.modules import is_sparse_conv, is_spconv_module


def test_sequential_takes_modules_in_three_ways():
    conv, relu = spconv.SubMConv3d(5, 4, 3), nn.ReLU()
    for net in (
        spconv.SparseSequential(conv, relu),
        spconv.SparseSequential(OrderedDict(a=conv, b=relu)),
        spconv.SparseSequential(a=conv, b=relu),
    ):
        assert len(net) == 2 and net[0] is conv and net[-1] is relu
    net.add(nn.Identity())
    net.add(nn.Identity(), name="last")
    assert list(net._modules) == ["a", "b", "2", "last"]
    with pytest.raises(IndexError):
        net[4]
    with pytest.raises(ValueError, match="'0' twice"):
        spconv.SparseSequential(conv, **{"0": relu})


def test_sequential_gives_features_to_dense_layers(sparse):
    x = sparse(3)
    conv, norm = spconv.SubMConv3d(5, 4, 3), nn.BatchNorm1d(4)
    net = spconv.SparseSequential(conv, norm, nn.ReLU(), spconv.ToDense(), nn.Conv3d(4, 2, 3))
    middle = conv(x)
    middle = middle.replace_feature(norm(middle.features).relu())
    torch.testing.assert_close(net(x), net[-1](middle.dense()))


def test_layers_of_features(sparse):
    x = sparse(3)
    for layer in (spconv.SparseReLU(), spconv.SparseIdentity(), spconv.SparseBatchNorm(5)):
        out = layer(x)
        assert torch.equal(out.features, layer(x.features)) and out.indices is x.indices
        assert is_spconv_module(layer)
    assert spconv.Identity()(x) is x
    assert x.grid is not None and spconv.RemoveGrid()(x).grid is None and x.grid is not None


def test_kinds():
    conv = spconv.SubMConv3d(1, 1, 3)
    assert is_sparse_conv(conv) and is_spconv_module(conv)
    assert not is_sparse_conv(nn.ReLU()) and not is_spconv_module(nn.ReLU())
    net = nn.Sequential(conv)
    spconv.assign_name_for_sparse_modules(net)
    assert conv._sparse_unique_name == "0"


def test_own_modules(sparse):
    class Twice(spconv.SparseModule):
        def forward(self, x):
            return x + x

    x = sparse(3)
    assert torch.equal(spconv.SparseSequential(Twice())(x).features, 2 * x.features)
