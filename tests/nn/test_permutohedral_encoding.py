import copy

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.autograd import gradcheck, gradgradcheck

from permutogeo import Lattice
from permutogeo.nn import PermutohedralEncoding

DOUBLE = torch.float64
KINDS = {
    "exact": {},
    "table": {"table_size": 64},
    "points": {"points": torch.linspace(0, 1, 60).view(30, 2)},
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def make(kind, dim=2):
    torch.manual_seed(0)
    options = {"points": torch.rand(50, dim)} if kind == "points" else KINDS[kind]
    encode = PermutohedralEncoding(dim, 3, 2, 4, 1.7, **options).double()
    torch.nn.init.normal_(encode.values)
    return encode


def test_str():
    encode = PermutohedralEncoding(3, 4, 2, 8, 2.0, table_size=2**10)
    assert str(encode) == (
        "PermutohedralEncoding(3, num_levels=4, features_per_level=2, base_resolution=8, "
        "growth_factor=2, table_size=1024, rows=4096)"
    )
    assert encode.out_channels == 8


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_levels_are_lattices(dim):
    """Values that are linear in the vertices' positions are interpolated exactly."""
    encode = make("exact", dim) if dim < 5 else PermutohedralEncoding(dim, 2, 1, 2, 1.5).double()
    position = torch.rand(40, dim, dtype=DOUBLE)
    feature, level = encode._on_levels(position)
    lattice = Lattice.build(feature, level)
    at = encode._locate(feature, level)
    torch.testing.assert_close(at.weight, lattice.weight, rtol=0, atol=1e-14)
    # One row for each vertex, and one vertex for each row.
    pairs = torch.stack([at.vertex.flatten(), lattice.vertex.flatten()], 1).unique(dim=0)
    assert len(pairs) == len(pairs[:, 0].unique()) == len(pairs[:, 1].unique())
    rows = torch.zeros(lattice.num_vertices, encode.features_per_level, dtype=DOUBLE)
    rows[lattice.vertex.flatten().long()] = encode.values[at.vertex.flatten().long()].detach()
    expected = lattice.slice(rows).view(encode.num_levels, 40, -1).movedim(0, 1).flatten(1)
    torch.testing.assert_close(encode(position), expected)


@pytest.mark.parametrize("dim", [2, 3])
def test_resolution_counts_vertices(dim):
    """A level of resolution r has about as many vertices as a grid of r cells a side."""
    encode = PermutohedralEncoding(dim, 1, 1, 20)
    feature, level = encode._on_levels(torch.rand(200000, dim))
    found = Lattice.build(feature, level).num_vertices
    assert 0.9 < found / 20**dim < 1.5


@each_kind
def test_gradients_to_second_order(kind):
    encode = PermutohedralEncoding(2, 2, 1, 2, 1.7, **KINDS[kind]).double()
    torch.nn.init.normal_(encode.values)
    position = torch.rand(5, 2, dtype=DOUBLE, requires_grad=True)

    def call(position, values):
        return torch.func.functional_call(encode, {"values": values}, (position,))

    assert gradcheck(call, (position, encode.values))
    assert gradgradcheck(call, (position, encode.values), fast_mode=True)


def test_eikonal_loss_reaches_the_values():
    encode = make("table")
    position = torch.rand(8, 2, dtype=DOUBLE, requires_grad=True)
    (slope,) = torch.autograd.grad(encode(position).sum(), position, create_graph=True)
    (slope.norm(dim=1) - 1).square().mean().backward()
    assert encode.values.grad.abs().sum() > 0


def test_sparse_tables_agree_with_dense_ones():
    points = torch.rand(50, 2)
    sparse, dense = make("points"), make("exact")
    assert len(sparse.values) < len(dense.values)
    sparse = PermutohedralEncoding(2, 3, 2, 4, 1.7, points=points).double()
    feature, level = dense._on_levels(points.double())
    with torch.no_grad():
        rows = dense._locate(feature, level).vertex.flatten().long()
        sparse.values[sparse._locate(feature, level).vertex.flatten().long()] = dense.values[rows]
    torch.testing.assert_close(sparse(points.double()), dense(points.double()))
    far = torch.full((1, 2), 5.0, dtype=DOUBLE)
    assert torch.equal(sparse(far), torch.zeros(1, 6, dtype=DOUBLE))


def test_tables_are_bounded_and_collide():
    encode = PermutohedralEncoding(3, 6, 2, 4, 2.0, table_size=500)
    assert len(encode.values) <= 6 * 500
    feature, level = encode._on_levels(torch.rand(5000, 3))
    row = encode._locate(feature, level).vertex.view(6, -1)
    for i, (first, size, _) in enumerate(encode.table.tolist()):
        assert first <= row[i].min() and row[i].max() < first + size
    assert len(row[5].unique()) > 450
    assert encode(torch.rand(7, 3) * 100 - 50).isfinite().all()


@each_kind
def test_copies_and_files(kind, tmp_path):
    encode = make(kind)
    position = torch.rand(20, 2, dtype=DOUBLE)
    expected = encode(position)
    assert torch.equal(copy.deepcopy(encode)(position), expected)
    save_file(encode.state_dict(), tmp_path / "encoding.safetensors")
    twin = make(kind)
    twin.reset_parameters()
    twin.load_state_dict(load_file(tmp_path / "encoding.safetensors"))
    assert torch.equal(twin(position), expected)


def test_learns_a_function():
    encode = PermutohedralEncoding(2, 6, 2, 4, 1.6)
    position = torch.rand(2000, 2)
    target = torch.sin(12 * position[:, :1]) * position[:, 1:]
    head = torch.nn.Linear(encode.out_channels, 1)
    optimizer = torch.optim.Adam([*encode.parameters(), *head.parameters()], lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        loss = (head(encode(position)) - target).square().mean()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.02 * float(target.var())


def test_empty_and_float32():
    encode = PermutohedralEncoding(2, 3, table_size=100)
    assert encode(torch.empty(0, 2)).shape == (0, 6)
    assert encode(torch.rand(4, 2)).dtype == torch.float32


BAD = [
    (lambda: PermutohedralEncoding(0), "'dim' of at least 1"),
    (lambda: PermutohedralEncoding(2, 0), "'num_levels'"),
    (lambda: PermutohedralEncoding(2, growth_factor=-1.0), "'growth_factor' greater than 0"),
    (lambda: PermutohedralEncoding(2, table_size=0), "'table_size' to be a positive integer"),
    (lambda: PermutohedralEncoding(3), "'table_size' to share rows, or 'points'"),
    (
        lambda: PermutohedralEncoding(2, table_size=9, points=torch.rand(3, 2)),
        "'table_size' or 'points', not both",
    ),
    (lambda: make("table")(torch.rand(3, 3)), r"'position' of shape \[N, 2\] \(got \[3, 3\]\)"),
    (lambda: make("table")(torch.full((3, 2), torch.nan)), "finite 'position'"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
