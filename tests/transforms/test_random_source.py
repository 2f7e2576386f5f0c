"""Seeds and generators of transforms."""

import pytest
import torch

from permutogeo.transforms import (
    ImageToPoints,
)


def test_image_to_points_is_random_or_seeded():
    image = torch.rand(1, 8, 8)
    fresh, seeded = ImageToPoints(0.5), ImageToPoints(0.5, seed=3)
    assert not torch.equal(fresh(image).pos, fresh(image).pos)
    assert torch.equal(seeded(image).pos, seeded(image).pos)
    stream = ImageToPoints(0.5, generator=torch.Generator().manual_seed(3))
    assert torch.equal(stream(image).pos, seeded(image).pos)
    assert not torch.equal(stream(image).pos, seeded(image).pos)
    with pytest.raises(ValueError, match="ImageToPoints: Expected 'seed' or 'generator'"):
        ImageToPoints(0.5, seed=1, generator=torch.Generator())
