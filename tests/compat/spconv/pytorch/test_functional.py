import pytest
import torch

import permutogeo.compat.spconv.pytorch as spconv
from permutogeo.compat.spconv.pytorch.functional import sparse_add


def test_sparse_add(sparse):
    x = sparse(3)
    a = x.select_by_index(torch.arange(0, 60))
    b = x.select_by_index(torch.arange(40, 90))
    out = sparse_add(a, b)
    torch.testing.assert_close(out.dense(), a.dense() + b.dense())
    assert len(out.indices) == 90 and out.indice_dict == {}


def test_rules_are_kept_where_one_has_all_voxels(sparse):
    x = spconv.SubMConv3d(5, 5, 3, indice_key="a")(sparse(3))
    part = x.select_by_index(torch.arange(30))
    out = sparse_add(part, x)
    assert out.indice_dict is x.indice_dict and out.indices is x.indices
    torch.testing.assert_close(out.dense(), x.dense() + part.dense())


def test_gradient(sparse):
    x = sparse(2, 2, dtype=torch.float64, shape=(4, 4), batch=1)
    leaf = x.features.clone().requires_grad_()
    half = torch.arange(0, len(leaf), 2)

    def add(features):
        y = x.replace_feature(features)
        return sparse_add(y, y.select_by_index(half)).features

    assert torch.autograd.gradcheck(add, leaf)


def test_other_shapes(sparse):
    with pytest.raises(ValueError, match=r"batch size 2, shape \[9, 10, 8\] and 5 channels"):
        sparse_add(sparse(3), sparse(3, channels=4))
