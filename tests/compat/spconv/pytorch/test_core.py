import pytest
import torch

from permutogeo.compat.spconv.pytorch import SparseConvTensor, SubMConv3d
from permutogeo.compat.spconv.pytorch.core import expand_nd


def tensor(rows, shape=(4, 5), batch_size=2, dtype=torch.int32):
    indices = torch.tensor(rows, dtype=dtype)
    return SparseConvTensor(torch.ones(len(indices), 3), indices, shape, batch_size)


def test_attributes(sparse):
    x = sparse(3)
    count = len(x.indices)
    assert str(x) == f"SparseConvTensor[shape={torch.Size([count, 5])}]"
    assert x.spatial_shape == [9, 10, 8] and x.batch_size == 2 and x.spatial_size == 720
    assert x.indice_dict == {} and x.find_indice_pair("a") is None and not x.is_quantized


def test_replace_feature_shares_voxels(sparse):
    x = sparse(3)
    y = x.replace_feature(x.features + 1)
    assert y.indices is x.indices and y.indice_dict is x.indice_dict
    assert torch.equal(x.features + 1, y.features)
    x.voxels()
    assert x.shadow_copy().voxels() is x.voxels()
    with pytest.raises(ValueError, match="replace_feature"):
        x.features = y.features


@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
def test_dense_and_back(sparse, ndim, networks):
    x = sparse(ndim)
    dense = x.dense()
    assert dense.shape == (2, 5, *networks.SHAPES[ndim])
    assert torch.equal(x.dense(channels_first=False), dense.movedim(1, -1))
    assert int((dense != 0).any(1).sum()) == len(x.indices)
    back = SparseConvTensor.from_dense(dense.movedim(1, -1).contiguous())
    assert torch.equal(back.dense(), dense)
    for row in (0, 7, len(x.indices) - 1):
        batch, *place = x.indices[row].tolist()
        assert torch.equal(dense[(batch, slice(None), *place)], x.features[row])


def test_dense_has_a_gradient(sparse):
    x = sparse(2, 2, dtype=torch.float64, shape=(4, 4), batch=1)
    features = x.features.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda f: x.replace_feature(f).dense(), features)


def test_sums(sparse):
    x = sparse(2)
    for y in (x + x, x + x.features):
        assert torch.equal(y.features, 2 * x.features)
    before = x.features.clone()
    y = x
    y += x
    assert torch.equal(x.features, before) and torch.equal(y.features, 2 * before)
    assert torch.equal(x.minus().features, -before)


def test_select_by_index(sparse):
    x = sparse(3)
    x = SubMConv3d(5, 4, 3, indice_key="a")(x)
    half = x.select_by_index(x.features[:, 0] > 0)
    assert len(half.indices) == int((x.features[:, 0] > 0).sum())
    assert half.indice_dict == {} and "a" in x.indice_dict


def test_64_bit_indices_are_accepted():
    x = tensor([[0, 1, 2], [1, 3, 4]], dtype=torch.int64)
    assert x.indices.dtype == torch.int32
    assert x.dense().sum() == 6


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0, 1, 2], [0, 4, 0]], r"coordinate 0 in 0 \.\. 3 \(got \[0, 4, 0\] in row 1\)"),
        ([[0, -1, 2]], r"coordinate 0 in 0 \.\. 3 \(got \[0, -1, 2\] in row 0\)"),
        ([[0, 0, 5]], r"coordinate 1 in 0 \.\. 4"),
        ([[2, 0, 0]], r"a batch index in 0 \.\. 1 \(got \[2, 0, 0\] in row 0\)"),
        ([[-1, 0, 0]], r"a batch index in 0 \.\. 1"),
        ([[0, 1, 2], [1, 1, 2], [0, 1, 2]], r"distinct .*\[0, 1, 2\] in rows 0 and 2"),
    ],
)
def test_bad_voxels(rows, message):
    with pytest.raises(ValueError, match=message):
        tensor(rows).dense()


def test_voxels_outside_of_32_bits():
    with pytest.raises(ValueError, match=r"got \[0, 4294967297, 0\] in row 1"):
        tensor([[0, 1, 0], [0, 2**32 + 1, 0]], shape=(2**31 - 1, 5), dtype=torch.int64)
    with pytest.raises(ValueError, match=r"'spatial_shape' of 1 \.\. 2147483647"):
        tensor([[0, 1, 0]], shape=(2**31, 5))
    # The largest voxel there is, in a code of several words.
    most = 2**31 - 2
    indices = torch.tensor([[0, most, most, most], [0, most, most, 0]], dtype=torch.int32)
    x = SparseConvTensor(torch.ones(2, 1), indices, [2**31 - 1] * 3, 1)
    layer = SubMConv3d(1, 1, 3, bias=False)
    torch.testing.assert_close(layer(x).features, layer.weight[:, 1, 1, 1].expand(2, 1))


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"features": [1.0]}, TypeError, "'features' to be a tensor"),
        ({"features": torch.ones(3, 1)}, ValueError, r"shape \[2, C\].*got \[3, 1\]"),
        ({"indices": torch.ones(2, 3)}, TypeError, "int32 .got torch.float32"),
        ({"indices": [[0, 0]]}, TypeError, "'indices' to be a tensor"),
        ({"indices": torch.ones(2, dtype=torch.int32)}, ValueError, r"\[N, 1 \+ d\]"),
        ({"spatial_shape": [3]}, ValueError, "of 2 numbers"),
        ({"spatial_shape": [3, 0]}, ValueError, r"got \[3, 0\]"),
        ({"batch_size": 0}, ValueError, "'batch_size' of at least 1"),
    ],
)
def test_bad_arguments(change, kind, message):
    indices = torch.tensor([[0, 0, 0], [0, 1, 1]], dtype=torch.int32)
    arguments = {"features": torch.ones(2, 1), "indices": indices, "spatial_shape": [3, 3]}
    with pytest.raises(kind, match=message):
        SparseConvTensor(**(arguments | {"batch_size": 1} | change))


def test_changed_indices_are_sorted_again():
    x = tensor([[0, 1, 2], [0, 1, 3]])
    x.dense()
    x.indices[1, 2] = 2
    with pytest.raises(ValueError, match="distinct"):
        x.dense()


def test_expand_nd():
    assert expand_nd(3, 2) == [2, 2, 2] and expand_nd(2, (1, 3)) == [1, 3]
    with pytest.raises(ValueError, match="one number or 3"):
        expand_nd(3, [1, 2])
