import math

import numpy as np
import pytest
import torch

from permutogeo.datasets import GuidedSamples, RandomParts
from permutogeo.datasets.guided_samples import fill_unknown


def pairs(*sizes):
    generator = torch.Generator().manual_seed(0)
    return [
        tuple(torch.rand(channels, *size, generator=generator) for channels in (3, 1))
        for size in sizes
    ]


def test_low_resolution_is_the_mean_of_blocks():
    samples = GuidedSamples(pairs((32, 48)), factor=8)
    sample = samples[0]
    assert len(samples) == 1 and sample["number"] == 0
    for row, column in np.ndindex(4, 6):
        block = sample["target"][:, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
        torch.testing.assert_close(sample["small"][:, row, column], block.mean((1, 2)))
    assert (sample["known"] == 1).all()


def test_all_factors_see_the_same_pixels():
    data = pairs((45, 70))
    one, other = (GuidedSamples(data, factor)[0] for factor in (2, 16))
    assert one["target"].shape == (3, 32, 64) and one["guide"].shape == (1, 32, 64)
    assert torch.equal(one["target"], other["target"])
    assert torch.equal(one["target"], data[0][0][:, 6:38, 3:67])
    small = GuidedSamples(data, 4, side=16)[0]
    assert torch.equal(small["guide"], data[0][1][:, 14:30, 27:43])


@pytest.mark.parametrize("missing", [0.0, -1.0, math.nan])
def test_unknown_pixels_do_not_count(missing):
    target, guide = pairs((16, 16))[0]
    target = target.clone() + 1
    unknown = torch.zeros_like(target, dtype=torch.bool)
    unknown[:, :6, :4] = True  # a whole block, and a part of another
    target[unknown] = missing
    sample = GuidedSamples([(target, guide)], 4, 4, missing=missing)[0]
    assert torch.equal(sample["known"], (~unknown).float())
    assert (sample["target"][unknown] == 0).all()
    assert torch.equal(sample["target"][~unknown], target[~unknown])
    torch.testing.assert_close(sample["small"][:, 1, 0], target[:, 6:8, :4].mean((1, 2)))
    # The nearest blocks with known pixels are the one below and the one beside it.
    first = sample["small"][:, 0, 0]
    assert first.equal(sample["small"][:, 1, 0]) or first.equal(sample["small"][:, 0, 1])


def test_fill_unknown_against_brute_force():
    generator = torch.Generator().manual_seed(1)
    image = torch.rand(2, 7, 9, generator=generator)
    known = torch.rand(2, 7, 9, generator=generator) < 0.3
    found = fill_unknown(image, known)
    assert found[known].equal(image[known])
    for channel, row, column in (~known).nonzero().tolist():
        place = known[channel].nonzero()
        distance = (place - torch.tensor([row, column])).square().sum(1)
        nearest = place[distance == distance.min()]
        values = image[channel, nearest[:, 0], nearest[:, 1]]
        assert float(found[channel, row, column]) in values.tolist()
    assert fill_unknown(image, torch.ones_like(known)) is image


def test_random_parts_stay_aligned():
    """A crop of all four images is at one place, mirrored or not."""
    samples = GuidedSamples(pairs((64, 96), (16, 16)), factor=4)
    parts = RandomParts(samples, 4, 32)
    torch.manual_seed(0)
    places, whole = set(), samples[0]
    for _ in range(30):
        part = parts[0]
        assert part["small"].shape == (3, 8, 8) and part["known"].shape == (3, 32, 32)
        assert torch.allclose(part["small"], torch.nn.functional.avg_pool2d(part["target"], 4))
        first = (whole["target"][0] == part["target"][0, 0, 0]).nonzero()[0]
        assert whole["guide"][0, first[0], first[1]] == part["guide"][0, 0, 0]
        places.add(tuple(first.tolist()))
    assert len(places) > 10
    assert parts[1]["target"].shape == (3, 16, 16)  # smaller than a crop


def test_errors():
    with pytest.raises(ValueError, match=r"'factor' that divides 'multiple' \(got 3 and 16\)"):
        GuidedSamples(pairs((16, 16)), 3)
