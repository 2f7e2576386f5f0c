import pytest
import torch
from torch.nn import functional

import permutogeo.compat.spconv.pytorch as spconv

MAX = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
AVERAGE = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}
each_dim = pytest.mark.parametrize("ndim", [1, 2, 3])
SETTINGS = [(2, None, 0), (3, 2, 1), (3, 1, 1)]
each_setting = pytest.mark.parametrize(("size", "stride", "padding"), SETTINGS)


def test_str():
    assert str(spconv.SparseMaxPool2d(3, 2)) == (
        "SparseMaxPool2d(kernel_size=[3, 3], stride=[2, 2], padding=[0, 0], dilation=[1, 1])"
    )


@each_dim
@each_setting
def test_max(sparse, at, ndim, size, stride, padding):
    """The largest of the voxels that are present, also where all are negative."""
    x = sparse(ndim)
    out = getattr(spconv, f"SparseMaxPool{ndim}d")(size, stride, padding)(x)
    present = x.replace_feature(torch.ones_like(x.features)).dense() > 0
    dense = torch.where(present, x.dense(), -torch.inf)
    expected = MAX[ndim](dense, size, stride, padding)
    assert list(expected.shape[2:]) == out.spatial_shape
    assert torch.equal(out.features, at(expected, out)) and (out.features < 0).any()


@each_dim
@each_setting
def test_average(sparse, at, ndim, size, stride, padding):
    """The mean of the voxels that are present."""
    x = sparse(ndim)
    out = getattr(spconv, f"SparseAvgPool{ndim}d")(size, stride, padding)(x)
    ones = x.replace_feature(torch.ones_like(x.features)).dense()
    pooled = [AVERAGE[ndim](dense, size, stride, padding) for dense in (x.dense(), ones)]
    expected = at(pooled[0], out) / at(pooled[1], out)
    torch.testing.assert_close(out.features, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["SparseMaxPool2d", "SparseAvgPool2d"])
def test_gradients(sparse, name):
    x = sparse(2, 2, dtype=torch.float64, shape=(4, 4), density=0.4, batch=1)
    layer = getattr(spconv, name)(3, 2, 1)
    leaf = x.features.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda f: layer(x.replace_feature(f)).features, leaf)
    assert torch.autograd.gradgradcheck(lambda f: layer(x.replace_feature(f)).features, leaf)


def test_equal_voxels_all_get_the_gradient(sparse):
    """As in spconv; zeros after a ReLU are equal."""
    indices = torch.tensor([[0, 0], [0, 1]], dtype=torch.int32)
    features = torch.zeros(2, 1, requires_grad=True)
    x = spconv.SparseConvTensor(features, indices, [2], 1)
    spconv.SparseMaxPool1d(2)(x).features.sum().backward()
    assert features.grad.tolist() == [[1.0], [1.0]]


def test_an_inverse_convolution_of_a_pooling(sparse):
    x = sparse(3)
    y = spconv.SparseMaxPool3d(2, indice_key="p")(x)
    out = spconv.SparseInverseConv3d(5, 4, 2, indice_key="p")(y)
    assert out.indices is x.indices
    with pytest.raises(ValueError, match=r"unused 'indice_key' \(got 'p'"):
        spconv.SparseMaxPool3d(2, indice_key="p")(y)


def test_at_the_inputs_voxels(sparse, at):
    from permutogeo.compat.spconv.pytorch.pool import SparseMaxPool

    x = sparse(2)
    out = SparseMaxPool(2, 3, subm=True)(x)
    assert out.indices is x.indices
    present = x.replace_feature(torch.ones_like(x.features)).dense() > 0
    dense = torch.where(present, x.dense(), -torch.inf)
    assert torch.equal(out.features, at(MAX[2](dense, 3, 1, 1), x))


def test_global(sparse):
    x = sparse(3)
    rows = [x.features[x.indices[:, 0] == batch] for batch in (0, 1)]
    expected = torch.stack([row.amax(0) for row in rows])
    assert torch.equal(spconv.SparseGlobalMaxPool()(x), expected)
    expected = torch.stack([row.mean(0) for row in rows])
    torch.testing.assert_close(spconv.SparseGlobalAvgPool()(x), expected)


def test_errors(sparse):
    x = sparse(3)
    with pytest.raises(TypeError, match="SparseMaxPool3d: Expected a SparseConvTensor"):
        spconv.SparseMaxPool3d(2)(x.features)
    with pytest.raises(ValueError, match="Expected 2 coordinates"):
        spconv.SparseMaxPool2d(2)(x)
    with pytest.raises(ValueError, match="leaves an output"):
        spconv.SparseMaxPool3d(20)(x)
    with pytest.raises(ValueError, match="'kernel_size' of at least 1"):
        spconv.SparseMaxPool3d(0)
