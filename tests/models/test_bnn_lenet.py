import pytest
import torch
from torch_geometric.data import Batch

from permutogeo import weights
from permutogeo.datasets import Assamese
from permutogeo.models import BNNLeNet
from permutogeo.transforms import BilateralFeature

DOUBLE = torch.float64


def test_sizes_of_the_paper():
    # 7 taps, and the other layers of LeNet-7.
    count = sum(p.numel() for p in BNNLeNet(1, 183).parameters())
    assert count == 7 * 8 + 8 + 36 * 192 + 24 + 36 * 2400 + 100 + 101 * 183


def test_pretrained_characters(data_dir):
    """On every fifth character of a writer that it was not trained with."""
    model = BNNLeNet.from_pretrained("assamese")
    feature = BilateralFeature(pos=95 / 20)
    characters = Assamese(data_dir, "test", crop=True, transform=feature)
    batch = Batch.from_data_list([characters[i] for i in range(0, 183, 5)])
    with torch.no_grad():
        found = model(batch.x, batch.feature, batch.batch).argmax(1)
    assert float((found == batch.y).float().mean()) > 0.5
    assert all(
        (weights.FOLDER / f"{n}.safetensors").stat().st_size < 1.5e6 for n in weights.names()
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BNNLeNet(1, 5, side=32), "BNNLeNet: Expected 'side'"),
        (lambda: BNNLeNet(0, 5), "BNNLeNet: Expected 'in_channels'"),
        (lambda: BNNLeNet(1, 5, extent=0.0), "BNNLeNet: Expected 'extent' above 0"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
