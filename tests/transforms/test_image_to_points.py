"""Images as points."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from permutogeo.transforms import (
    ImageToPoints,
)


def test_image_in_data():
    data = Data(image=torch.rand(1, 3, 4, 5), y=torch.tensor([2]))
    out = ImageToPoints()(data)
    assert str(out) == "Data(y=[1], x=[20, 3], pos=[20, 2], height=4, width=5)"
    assert torch.equal(out.x, data.image[0].permute(1, 2, 0).reshape(-1, 3))
    data.mask = torch.zeros(4, 5, dtype=torch.bool)
    data.mask[1, 2] = True
    assert ImageToPoints()(data).pos.tolist() == [[2, 1]]


@pytest.mark.parametrize("image", [np.zeros((4, 5), np.uint8), Image.new("L", (5, 4))], ids=type)
def test_image_itself(image):
    assert str(ImageToPoints()(image)) == "Data(x=[20, 1], pos=[20, 2], height=4, width=5)"


def test_dataset_of_images():
    images = [ImageToPoints(0.2)(torch.rand(1, 28, 28)) for _ in range(4)]
    batch = next(iter(DataLoader(images, batch_size=4)))
    assert batch.x.shape == (4 * 157, 1) and batch.width.tolist() == [28] * 4
