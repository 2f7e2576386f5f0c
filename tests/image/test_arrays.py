"""Images come back in the kind, layout and type in which they went in."""

import numpy as np
import pytest
import torch
from PIL import Image

from permutogeo.image import bilateral_filter


def picture(height=12, width=15, channels=3, seed=0):
    """Two flat regions with noise, ``[H, W, C]`` float64 in [0, 1]."""
    rng = np.random.default_rng(seed)
    image = np.where(np.arange(width) < width // 2, 0.25, 0.75)[None, :, None]
    image = image + rng.normal(0, 0.05, (height, width, channels))
    return image.clip(0, 1)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(9, 7), (9, 7, 1), (9, 7, 3), (9, 7, 4)])
def test_arrays_come_back_as_they_went_in(shape, dtype):
    image = (np.random.default_rng(0).random(shape) * 255).astype(dtype)
    before = image.copy()
    out = bilateral_filter(image, 2, 50)
    assert isinstance(out, np.ndarray)
    assert out.shape == shape and out.dtype == dtype
    assert not np.shares_memory(out, image)
    np.testing.assert_array_equal(image, before)
    assert (out != image).any()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 9, 7), (3, 9, 7), (2, 3, 9, 7), (1, 1, 9, 7)])
def test_tensors_come_back_as_they_went_in(shape, dtype):
    image = (torch.rand(shape) * 255).to(dtype)
    before = image.clone()
    out = bilateral_filter(image, 2, 50)
    assert isinstance(out, torch.Tensor)
    assert out.shape == shape and out.dtype == dtype
    assert torch.equal(image, before)
    assert (out != image).any()


def test_array_and_tensor_agree():
    image = picture()
    out = bilateral_filter(image, 3, 0.2)
    tensor = bilateral_filter(torch.from_numpy(image).permute(2, 0, 1), 3, 0.2)
    np.testing.assert_array_equal(out, tensor.permute(1, 2, 0))
    gray = bilateral_filter(image[..., 0], 3, 0.2)
    np.testing.assert_array_equal(gray, bilateral_filter(image[..., :1], 3, 0.2)[..., 0])


@pytest.mark.parametrize("view", [np.s_[::-1], np.s_[:, ::2], np.s_[..., ::-1], np.s_[2:, 3:]])
def test_views_of_arrays(view):
    image = picture()[view]
    np.testing.assert_array_equal(
        bilateral_filter(image, 3, 0.2), bilateral_filter(image.copy(), 3, 0.2)
    )


def test_uint8_extremes_do_not_wrap():
    image = np.full((6, 6, 3), 255, np.uint8)
    np.testing.assert_array_equal(bilateral_filter(image, 2, 20), image)
    image[:] = 0
    np.testing.assert_array_equal(bilateral_filter(image, 2, 20), image)


def test_read_only_arrays():
    """What ``np.asarray`` makes of a PIL image cannot be written to."""
    array = np.asarray(Image.fromarray((picture() * 255).astype(np.uint8)))
    assert not array.flags.writeable
    out = bilateral_filter(array, 3, 40)
    np.testing.assert_array_equal(out, bilateral_filter(array.copy(), 3, 40))
    assert out.flags.writeable


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 5, 3), (5, 0, 3), (0, 0, 1)])
def test_empty_arrays(shape):
    assert bilateral_filter(np.zeros(shape, np.float32), 2, 0.1).shape == shape


@pytest.mark.parametrize("shape", [(3, 0, 5), (3, 5, 0), (0, 3, 4, 5)])
def test_empty_tensors(shape):
    assert bilateral_filter(torch.zeros(shape), 2, 0.1).shape == shape


def test_one_error_names_the_pixel(monkeypatch):
    """The guide is looked at once, by the lattice."""
    image = picture().astype(np.float32)
    looked = []
    original = torch.isfinite
    monkeypatch.setattr(torch, "isfinite", lambda x: looked.append(x.shape) or original(x))
    bilateral_filter(image, 3, 0.2)
    assert not any(len(shape) == 4 for shape in looked)
    image[2, 3, 1] = np.inf
    with pytest.raises(ValueError, match=r"finite 'image' .got inf in image 0, row 2, column 3"):
        bilateral_filter(image, 3, 0.2)
