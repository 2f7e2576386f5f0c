import pytest
import torch
from torch_geometric.data import Batch

from permutogeo import Lattice, weights
from permutogeo.datasets import Assamese, SparseMNIST
from permutogeo.models import LatticeCNet
from permutogeo.transforms import BilateralFeature

DOUBLE = torch.float64


def test_pretrained_characters(data_dir):
    """On every fifth character of a writer that it was not trained with."""
    model = LatticeCNet.from_pretrained("assamese")
    feature = BilateralFeature(pos=95 / 48)
    characters = Assamese(data_dir, "test", crop=True, transform=feature)
    batch = Batch.from_data_list([characters[i] for i in range(0, 183, 5)])
    with torch.no_grad():
        found = model(batch.x, batch.feature, batch.batch).argmax(1)
    assert float((found == batch.y).float().mean()) > 0.8
    assert all(
        (weights.FOLDER / f"{n}.safetensors").stat().st_size < 1.5e6 for n in weights.names()
    )


@pytest.mark.parametrize(("fraction", "least"), [(None, 0.95), (0.6, 0.95), (0.2, 0.8)])
def test_pretrained_digits(fraction, least, data_dir):
    """Trained on samples of 60 %, good for all of the pixels and for fewer samples as well."""
    model = LatticeCNet.from_pretrained("digits")
    feature = BilateralFeature(pos=27 / 20)
    digits = SparseMNIST(data_dir, "test", fraction, seed=0, transform=feature)
    batch = Batch.from_data_list([digits[i] for i in range(0, 10_000, 50)])
    with torch.no_grad():
        found = model(batch.x, batch.feature, batch.batch).argmax(1)
    assert float((found == batch.y).float().mean()) > least


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LatticeCNet(1, 6, 5, 2, -1.0), "LatticeCNet: Expected 'extent' above 0"),
        (lambda: LatticeCNet(1, 6, 5, 2, 9.0, read=0), "LatticeCNet: Expected 'read'"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_given_lattice(drawings):
    model = LatticeCNet(1, 6, 5, 2, extent=20.0, depth=2).double().eval()
    x, feature, batch = drawings()
    expected, lattice = model(x, feature, batch), Lattice.build(feature, batch)
    assert torch.equal(model(x, None, None, lattice), expected)
    assert torch.equal(model(x, feature, batch, lattice), expected)
    with pytest.raises(ValueError, match="LatticeCNet: Expected no output points"):
        model(x, None, None, Lattice.build_bipartite(feature, feature))
