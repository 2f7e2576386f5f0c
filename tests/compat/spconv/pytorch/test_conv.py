import itertools

import pytest
import torch
from torch.nn import functional

import permutogeo.compat.spconv.pytorch as spconv

DENSE = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
TRANSPOSED = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}
each_dim = pytest.mark.parametrize("ndim", [1, 2, 3])


def make(name, ndim, *args, **options):
    return getattr(spconv, f"{name}{ndim}d")(*args, **options)


def dense_weight(layer):
    """The weight as torch has it, ``[out, in, *kernel]``."""
    return layer.weight.movedim(-1, 1)


def double(layer):
    return layer.double()


def test_str():
    assert str(spconv.SubMConv3d(5, 4, 3, bias=False, groups=1)) == (
        "SubMConv3d(5, 4, kernel_size=[3, 3, 3], stride=[1, 1, 1], padding=[0, 0, 0], "
        "dilation=[1, 1, 1], output_padding=[0, 0, 0], bias=False)"
    )
    assert "groups=2" in str(spconv.SparseConv1d(4, 4, 3, groups=2))


@each_dim
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize(("size", "dilation"), [(3, 1), (5, 1), (3, 2), (1, 1)])
def test_submanifold_is_a_dense_convolution_at_the_voxels(sparse, at, ndim, size, dilation, groups):
    x = sparse(ndim, 4)
    layer = make("SubMConv", ndim, 4, 8, size, dilation=dilation, groups=groups)
    if size == groups == 1:
        pytest.skip("reads the weight as spconv does")
    out = layer(x)
    assert out.indices is x.indices and out.spatial_shape == x.spatial_shape
    padding = dilation * (size // 2)
    options = {"padding": padding, "dilation": dilation, "groups": groups}
    expected = DENSE[ndim](x.dense(), dense_weight(layer), layer.bias, **options)
    torch.testing.assert_close(out.features, at(expected, x), rtol=1e-5, atol=1e-5)


@each_dim
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 2, "stride": 2},
        {"kernel_size": 3, "stride": 3, "padding": 2, "dilation": 2},
        {"kernel_size": 4, "stride": 1, "padding": 1},
        {"kernel_size": 1, "stride": 2},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_strided_is_a_dense_convolution(sparse, at, ndim, options, groups):
    x = sparse(ndim, 4, density=0.1)
    layer = make("SparseConv", ndim, 4, 6, groups=groups, **options)
    out = layer(x)
    weight, settings = dense_weight(layer), dict(options)
    settings.pop("kernel_size")
    expected = DENSE[ndim](x.dense(), weight, layer.bias, groups=groups, **settings)
    assert list(expected.shape[2:]) == out.spatial_shape
    torch.testing.assert_close(out.features, at(expected, out), rtol=1e-5, atol=1e-5)
    # The voxels are those that an input reaches, in ascending order.
    ones = torch.ones_like(weight)[:1, :1]
    present = (x.dense() != 0).any(1, keepdim=True).float()
    reached = DENSE[ndim](present, ones, **settings)[:, 0] > 0.5
    assert torch.equal(reached.nonzero().int(), out.indices)


@each_dim
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(2, 0, 1), (2, 1, 1), (1, 1, 2)])
def test_transposed_is_a_dense_one(sparse, at, ndim, stride, padding, dilation):
    x = sparse(ndim, 4, density=0.1)
    settings = {"stride": stride, "padding": padding, "dilation": dilation}
    layer = make("SparseConvTranspose", ndim, 4, 6, 3, **settings)
    out = layer(x)
    weight = layer.weight.movedim(-1, 0)
    expected = TRANSPOSED[ndim](x.dense(), weight, layer.bias, **settings)
    assert list(expected.shape[2:]) == out.spatial_shape
    torch.testing.assert_close(out.features, at(expected, out), rtol=1e-5, atol=1e-5)


@each_dim
def test_inverse_is_the_transpose_at_the_inputs(sparse, at, ndim):
    x = sparse(ndim, 4)
    down = make("SparseConv", ndim, 4, 6, 3, 2, 1, indice_key="down")
    up = make("SparseInverseConv", ndim, 6, 5, 3, indice_key="down")
    middle = down(x)
    out = up(middle)
    assert out.indices is x.indices and out.spatial_shape == x.spatial_shape
    # Odd extents fit exactly; an even one needs a row more.
    more = [(extent + 1) % 2 for extent in x.spatial_shape]
    options = {"stride": 2, "padding": 1, "output_padding": more}
    expected = TRANSPOSED[ndim](middle.dense(), up.weight.movedim(-1, 0), up.bias, **options)
    torch.testing.assert_close(out.features, at(expected, x), rtol=1e-5, atol=1e-5)


def test_kernel_of_one_reads_its_weight_as_spconv_does(sparse):
    """spconv views the memory of ``[out, 1, 1, 1, in]`` as ``[in, out]``: trained weights rely on
    it."""
    x, layer = sparse(3), spconv.SubMConv3d(5, 4, 1)
    expected = x.features @ layer.weight.detach().view(5, 4) + layer.bias
    torch.testing.assert_close(layer(x).features, expected)


@pytest.mark.parametrize("name", ["SubMConv", "SparseConv", "SparseConvTranspose", "inverse"])
@pytest.mark.parametrize("groups", [1, 2])
def test_gradients(sparse, name, groups):
    x = sparse(2, 2, dtype=torch.float64, shape=(3, 4), density=0.4, batch=1)
    if name == "inverse":
        if groups > 1:
            pytest.skip("an inverse convolution has no groups")
        x = double(spconv.SparseConv2d(2, 2, 3, 2, 1, indice_key="a"))(x)
        layer = spconv.SparseInverseConv2d(2, 2, 3, indice_key="a").double()
    else:
        layer = make(name, 2, 2, 2, 3, 1 if name == "SubMConv" else 2, groups=groups).double()

    def run(features, weight, bias):
        parameters = {"weight": weight, "bias": bias}
        out = torch.func.functional_call(layer, parameters, (x.replace_feature(features),))
        return out.features

    leaves = [x.features, layer.weight, layer.bias]
    leaves = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    assert torch.autograd.gradcheck(run, leaves)
    assert torch.autograd.gradgradcheck(run, leaves)


@pytest.mark.parametrize("frozen", ["input", "weight"])
def test_gradient_of_one_alone(sparse, frozen):
    x, layer = sparse(3), spconv.SubMConv3d(5, 4, 3)
    features = x.features.clone().requires_grad_(frozen != "input")
    layer.weight.requires_grad_(frozen != "weight")
    layer(x.replace_feature(features)).features.sum().backward()
    assert (features.grad is None) == (frozen == "input")
    assert (layer.weight.grad is None) == (frozen == "weight")


def test_rules_are_reused(sparse, monkeypatch):
    from permutogeo.compat.spconv.pytorch import _convolution

    made, original = [], _convolution.submanifold_rule
    monkeypatch.setattr(
        _convolution, "submanifold_rule", lambda *args: made.append(1) or original(*args)
    )
    net = spconv.SparseSequential(
        *(spconv.SubMConv3d(5, 5, 3, indice_key="a") for _ in range(3)),
        spconv.SubMConv3d(5, 5, 3, indice_key="b"),
        spconv.SubMConv3d(5, 5, 3),
    )
    out = net(sparse(3))
    assert len(made) == 3 and set(out.indice_dict) == {"a", "b"}
    rule = out.find_indice_pair("a")
    assert rule.is_subm and rule.ksize == [3, 3, 3] and rule.indices is out.indices


def test_a_rule_is_not_added_to_the_input(sparse):
    x = sparse(3)
    y = spconv.SparseConv3d(5, 4, 2, 2, indice_key="a")(x)
    assert x.indice_dict == {} and y.indice_dict["a"].out_indices is y.indices
    assert spconv.SparseConv3d(5, 4, 2, 2, indice_key="a").is_inverseable()


def test_reuse_is_checked(sparse):
    x = spconv.SubMConv3d(5, 5, 3, indice_key="a")(sparse(3))
    for options, message in (
        ({"kernel_size": 5}, "kernel size .3, 3, 3. as before"),
        ({"kernel_size": 3, "dilation": 2}, "dilation .1, 1, 1. as before"),
    ):
        with pytest.raises(ValueError, match=f"SubMConv3d: Expected {message}"):
            spconv.SubMConv3d(5, 5, indice_key="a", **options)(x)
    with pytest.raises(ValueError, match="SparseConv3d: Expected an unused 'indice_key' 'a'"):
        spconv.SparseConv3d(5, 5, 3, indice_key="a")(x)
    other = spconv.SparseConvTensor(
        x.features, x.indices.flip(0), x.spatial_shape, 2, indice_dict=x.indice_dict
    )
    with pytest.raises(ValueError, match="voxels of 'indice_key' 'a' in the same order"):
        spconv.SubMConv3d(5, 5, 3, indice_key="a")(other)
    same = spconv.SparseConvTensor(
        x.features, x.indices.clone(), x.spatial_shape, 2, indice_dict=x.indice_dict
    )
    assert spconv.SubMConv3d(5, 5, 3, indice_key="a")(same).indice_dict is x.indice_dict


def test_inverse_is_checked(sparse):
    x = sparse(3, density=0.02)
    down = spconv.SparseConv3d(5, 4, 3, 2, 1, indice_key="a")
    y = down(x)
    inverse = spconv.SparseInverseConv3d(4, 4, 3, indice_key="a")
    with pytest.raises(ValueError, match=r"Expected kernel size \[3, 3, 3\] as of"):
        spconv.SparseInverseConv3d(4, 4, 2, indice_key="a")(y)
    with pytest.raises(ValueError, match="'indice_key' 'b' of a strided convolution"):
        spconv.SparseInverseConv3d(4, 4, 3, indice_key="b")(y)
    with pytest.raises(ValueError, match=r"Expected spatial shape \[5, 5, 4\] as the output"):
        inverse(spconv.SparseConv3d(4, 4, 3)(y))
    with pytest.raises(ValueError, match="voxels of 'indice_key' 'a'"):
        inverse(spconv.SparseConv3d(4, 4, 3, 1, 1)(y))
    assert len(inverse(y).indices) == len(x.indices)


@pytest.mark.parametrize("name", ["SubMConv3d", "SparseConv3d", "SparseMaxPool3d"])
def test_empty(name):
    indices = torch.empty(0, 4, dtype=torch.int32)
    x = spconv.SparseConvTensor(torch.empty(0, 5), indices, [8, 8, 8], 2)
    layer = getattr(spconv, name)(*([2] if "Pool" in name else [5, 5, 3]))
    net = spconv.SparseSequential(layer, torch.nn.BatchNorm1d(5))
    out = net(x)
    assert out.features.shape == (0, 5) and out.indices.shape == (0, 4)
    assert not out.dense().any()


def test_inputs_are_unchanged_and_may_be_strided(sparse):
    x, layer = sparse(3), spconv.SparseConv3d(5, 4, 3, 2)
    wide = torch.stack([x.features, x.features], 2)[..., 0]
    indices = x.indices.t().contiguous().t()
    assert not wide.is_contiguous() and not indices.is_contiguous()
    copies = wide.clone(), indices.clone()
    out = layer(spconv.SparseConvTensor(wide, indices, x.spatial_shape, 2))
    assert torch.equal(out.features, layer(x).features)
    assert torch.equal(wide, copies[0]) and torch.equal(indices, copies[1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_types(sparse, dtype):
    x, layer = sparse(3), spconv.SubMConv3d(5, 4, 3)
    expected = layer(x).features
    out = layer.to(dtype)(x.replace_feature(x.features.to(dtype)))
    assert out.features.dtype == dtype
    torch.testing.assert_close(out.features.float(), expected, rtol=0.02, atol=0.02)


def test_autocast(sparse):
    x, layer = sparse(3), spconv.SubMConv3d(5, 4, 3)
    with torch.autocast("cpu", torch.bfloat16):
        half = x.replace_feature(x.features.bfloat16())
        torch.testing.assert_close(layer(half).features, layer(x).features, rtol=0.02, atol=0.02)


def test_a_rule_made_in_inference_mode_serves_training(sparse):
    x, layer = sparse(3), spconv.SubMConv3d(5, 5, 3, indice_key="a")
    with torch.inference_mode():
        rules = layer(x).indice_dict
    again = spconv.SparseConvTensor(x.features, x.indices, x.spatial_shape, 2, indice_dict=rules)
    layer(again).features.sum().backward()
    assert layer.weight.grad is not None


def test_number_of_voxels_is_recorded(sparse):
    layer = spconv.SparseConv3d(5, 4, 3, 2, record_voxel_count=True)
    out = layer(sparse(3))
    assert layer.get_max_num_voxels().tolist() == [len(out.indices)]
    plain = spconv.SparseConv3d(5, 4, 3, 2)
    assert plain.get_max_num_voxels() is None
    state = plain.state_dict()
    layer.load_state_dict(state)  # weights saved without the count
    assert set(state) == {"weight", "bias"}


def test_add_input(sparse):
    x, layer = sparse(3), spconv.SubMConv3d(5, 5, 3)
    torch.testing.assert_close(layer(x, add_input=x).features, layer(x).features + x.features)


def test_initial_parameters_have_spconvs_bounds():
    layer = spconv.SubMConv3d(16, 32, 3)
    bound = (16 * 27) ** -0.5
    for parameter in layer.parameters():
        assert 0.9 * bound < parameter.abs().max() <= bound


@pytest.mark.parametrize(
    ("make_layer", "message"),
    [
        (lambda: spconv.SubMConv3d(4, 4, 2), "SubMConv3d: Expected an odd 'kernel_size'"),
        (lambda: spconv.SubMConv3d(4, 5, 3, groups=2), "'groups' to divide 4 and 5 channels"),
        (lambda: spconv.SparseConv3d(4, 4, 0), "'kernel_size' of at least 1"),
        (lambda: spconv.SparseConv3d(4, 4, 3, stride=0), "'stride' of at least 1"),
        (lambda: spconv.SparseConv3d(4, 4, 3, padding=-1), "'padding' of at least 0"),
        (lambda: spconv.SparseConv3d(0, 4, 3), "'in_channels' of at least 1"),
        (lambda: spconv.SparseConv3d(4, 4, 1, padding=1), "no 'padding' of a kernel of size 1"),
        (lambda: spconv.SparseInverseConv3d(4, 4, 3, indice_key=None), "'indice_key' of the"),
        (lambda: spconv.SparseConv3d(4, 4, (3, 3)), "one number or 3"),
    ],
)
def test_bad_arguments(make_layer, message):
    with pytest.raises(ValueError, match=message):
        make_layer()


def test_bad_inputs(sparse):
    x = sparse(3)
    with pytest.raises(TypeError, match=r"SubMConv3d: Expected a SparseConvTensor \(got Tensor"):
        spconv.SubMConv3d(5, 4, 3)(x.features)
    with pytest.raises(ValueError, match=r"features of shape \[\d+, 6\]"):
        spconv.SubMConv3d(6, 4, 3)(x)
    with pytest.raises(ValueError, match="Expected 2 coordinates"):
        spconv.SubMConv2d(5, 4, 3)(x)
    with pytest.raises(TypeError, match="floating-point"):
        spconv.SubMConv3d(5, 4, 3)(x.replace_feature(x.features.long()))
    with pytest.raises(ValueError, match="leaves an output"):
        spconv.SparseConv3d(5, 4, 11)(x)
    with pytest.raises(ValueError, match=r"features of shape"):
        spconv.SubMConv3d(5, 4, 3)(x.replace_feature(x.features[:3]))
    twice = torch.cat([x.indices, x.indices[:1]])
    features = torch.cat([x.features, x.features[:1]])
    with pytest.raises(ValueError, match=f"in rows 0 and {len(x.indices)}"):
        spconv.SubMConv3d(5, 4, 3)(spconv.SparseConvTensor(features, twice, x.spatial_shape, 2))


def test_every_dimension_has_every_layer():
    names = ("SubMConv", "SparseConv", "SparseInverseConv", "SparseConvTranspose", "SparseMaxPool")
    for name, ndim in itertools.product(names, (1, 2, 3, 4)):
        assert hasattr(spconv, f"{name}{ndim}d")
