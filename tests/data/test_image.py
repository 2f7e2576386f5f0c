"""Images to points and back."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch

from permutogeo.data import from_image, to_image


def test_all_pixels(image):
    data = from_image(image)
    assert str(data) == "Data(x=[35, 3], pos=[35, 2], height=5, width=7)"
    assert data.x.dtype == data.pos.dtype == torch.float32
    assert data.pos[8].tolist() == [1.0, 1.0] and data.pos[-1].tolist() == [6.0, 4.0]
    assert np.array_equal(data.x[8].numpy(), (image[1, 1] / 255).astype(np.float32))


def test_mask_and_fill(image):
    mask = np.zeros((5, 7), bool)
    mask[1:3, 2] = mask[4, 6] = True
    data = from_image(image, mask=mask)
    assert data.pos.tolist() == [[2.0, 1.0], [2.0, 2.0], [6.0, 4.0]]
    back = to_image(data, fill=0.5)
    assert np.array_equal(back[mask], (image[mask] / 255).astype(np.float32))
    assert (back[~mask] == 0.5).all()
    nearest = to_image(data, fill="nearest")
    assert np.array_equal(nearest[0, 0], back[1, 2]) and np.array_equal(nearest[4, 5], back[4, 6])


def test_fraction_interpolates():
    y, x = np.mgrid[0:9, 0:12].astype(np.float32)
    plane = np.stack([x, y, 2 * x - 3 * y + 1], axis=-1)  # bilinear values are exact on planes
    data = from_image(plane, fraction=0.6, generator=torch.Generator().manual_seed(0))
    assert data.num_nodes == round(0.6 * 108)
    assert (data.pos != data.pos.round()).any()
    assert data.pos.min() >= 0 and data.pos[:, 0].max() <= 11 and data.pos[:, 1].max() <= 8
    torch.testing.assert_close(data.x[:, :2], data.pos)
    torch.testing.assert_close(data.x[:, 2], 2 * data.pos[:, 0] - 3 * data.pos[:, 1] + 1)
    again = from_image(plane, fraction=0.6, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again.pos, data.pos)


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_superpixels(channels):
    pytest.importorskip("skimage")
    image = np.zeros((20, 30, channels), np.float32)
    image[:, 15:] = 1.0
    data = from_image(image, superpixels=6, compactness=0.1)
    assert data.superpixel_index.shape == (600,)
    assert data.num_nodes == int(data.superpixel_index.max()) + 1 >= 2
    counts = data.superpixel_index.bincount().unsqueeze(1)
    torch.testing.assert_close((data.x * counts).sum(0), torch.full((channels,), 300.0))
    assert np.allclose(to_image(data), image)  # no superpixel crosses the edge
    batch = Batch.from_data_list([data, data])
    assert torch.equal(batch[1].superpixel_index, data.superpixel_index)
    assert int(batch.superpixel_index.max()) == 2 * data.num_nodes - 1
    assert np.array_equal(to_image(batch[1]), to_image(data))


def test_to_image_averages_and_differentiates():
    data = from_image(np.zeros((2, 2), np.uint8))
    data.pos = torch.tensor([[0.2, 0.1], [0.4, -0.3], [1.0, 1.0], [0.9, 1.2]])
    data.x = torch.tensor([[1.0], [3.0], [4.0], [8.0]], requires_grad=True)
    out = to_image(data, kind="tensor")
    assert out.shape == (1, 2, 2)
    assert out.tolist() == [[[2.0, 0.0], [0.0, 6.0]]]
    out.sum().backward()
    assert data.x.grad.flatten().tolist() == [0.5, 0.5, 0.5, 0.5]


def test_other_attributes_and_kinds(image):
    data = from_image(image)
    data.label = torch.arange(35)
    assert to_image(data, attr="label")[:, :, 0].tolist() == data.label.reshape(5, 7).tolist()
    assert np.array_equal(np.asarray(to_image(data, kind="pil")), image)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.floats(0.01, 1.0), st.integers(0, 99))
def test_fraction_property(height, width, fraction, seed):
    """Interpolated values lie between the smallest and the largest pixel."""
    generator = torch.Generator().manual_seed(seed)
    image = torch.rand(2, height, width, generator=generator)
    data = from_image(image, fraction=fraction, generator=generator)
    assert data.num_nodes == max(1, round(fraction * height * width))
    assert data.x.min() >= image.min() - 1e-6 and data.x.max() <= image.max() + 1e-6
    assert to_image(data, fill="nearest", kind="tensor").shape == (2, height, width)


def test_wrong_arguments(image, check_error):
    data = from_image(image)
    with check_error(ValueError, "'mask' and 'fraction'"):
        from_image(image, mask=np.ones((5, 7), bool), fraction=0.5)
    with check_error(ValueError, r"\[5, 7\]", r"\[7, 5\]"):
        from_image(image, mask=np.ones((7, 5), bool))
    with check_error(ValueError, "at least one pixel"):
        from_image(image, mask=np.zeros((5, 7), bool))
    for fraction in (0.0, 1.5, float("nan")):
        with check_error(ValueError, "fraction"):
            from_image(image, fraction=fraction)
    with check_error(ValueError, "superpixels"):
        from_image(image, superpixels=0)
    with check_error(ValueError, "'prediction' in data", "x, pos, height, width"):
        to_image(data, attr="prediction")
    with check_error(ValueError, "'fill'"):
        to_image(data, fill="zero")
    with check_error(ValueError, "'kind'"):
        to_image(data, kind="jax")
    with check_error(ValueError, "within 2 x 2 pixels"):
        to_image(data, height=2, width=2)
    with check_error(ValueError, "unbatch"):
        to_image(Batch.from_data_list([data, data]))
    del data.height
    with check_error(ValueError, "'height'"):
        to_image(data)
