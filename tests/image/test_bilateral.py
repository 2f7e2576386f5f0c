import numpy as np
import pytest
import torch

from permutogeo.image import bilateral_filter
from permutogeo.testing import reference


def picture(height=12, width=15, channels=3, seed=0):
    """Two flat regions with noise, ``[H, W, C]`` float64 in [0, 1]."""
    rng = np.random.default_rng(seed)
    image = np.where(np.arange(width) < width // 2, 0.25, 0.75)[None, :, None]
    image = image + rng.normal(0, 0.05, (height, width, channels))
    return image.clip(0, 1)


def exact(image, sigma_pos, sigma_color, guide=None, filter=reference.brute_force_filter):
    """The oracle's filter of an image ``[H, W, C]``."""
    guide = image if guide is None else guide
    y, x = np.mgrid[: image.shape[0], : image.shape[1]]
    position = np.stack([x, y], -1).reshape(-1, 2) / sigma_pos
    color = guide.reshape(-1, guide.shape[-1]) / sigma_color
    feature = np.concatenate([position, color], 1)
    return filter(image.reshape(-1, image.shape[-1]), feature).reshape(image.shape)


def test_matches_the_reference_lattice():
    image = picture()
    expected = exact(image, 3, 0.2, filter=reference.gaussian_filter)
    np.testing.assert_allclose(bilateral_filter(image, 3, 0.2), expected, atol=1e-10)
    sides = exact(image, 3, 0.2, guide=image[..., :1] ** 2, filter=reference.gaussian_filter)
    guided = bilateral_filter(image, 3, 0.2, guide=image[..., :1] ** 2)
    np.testing.assert_allclose(guided, sides, atol=1e-10)


def test_close_to_the_exact_bilateral_filter():
    image = picture(32, 32)
    expected = exact(image, 4, 0.3)
    error = bilateral_filter(image, 4, 0.3) - expected
    assert 10 * np.log10(1 / np.mean(error**2)) > 40
    assert np.mean(error**2) < 0.02 * np.mean((image - expected) ** 2) + 1e-4


def test_smooths_within_edges():
    image = picture(24, 24)
    out = bilateral_filter(image, 4, 0.2)
    for side in (np.s_[:, :12], np.s_[:, 12:]):
        assert out[side].std() < 0.5 * image[side].std()
    step = out[:, 12:].mean() - out[:, :12].mean()
    assert step > 0.95 * (image[:, 12:].mean() - image[:, :12].mean())


def test_positions_are_pixels_of_both_axes():
    """On a tall image of one color channel the two axes are not exchanged."""
    image = picture(20, 6, 1)
    expected = exact(image, 2, 0.5, filter=reference.gaussian_filter)
    np.testing.assert_allclose(bilateral_filter(image, 2, 0.5), expected, atol=1e-10)


def test_uint8_has_its_own_units():
    image = (picture() * 255).round().astype(np.uint8)
    scaled = bilateral_filter(image.astype(np.float32), 3, 40)
    np.testing.assert_array_equal(bilateral_filter(image, 3, 40), scaled.round().astype(np.uint8))
    unit = bilateral_filter(image / np.float32(255), 3, 40 / 255)
    np.testing.assert_allclose(255 * unit, scaled, atol=0.05)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8])
def test_batch_equals_singles(dtype):
    images = torch.stack([torch.from_numpy(picture(seed=i)).permute(2, 0, 1) for i in range(3)])
    images = (images * 255).to(dtype)
    singles = [bilateral_filter(image, 3, 50.0) for image in images]
    assert torch.equal(bilateral_filter(images, 3, 50.0), torch.stack(singles))


def test_guide_decides_the_edges():
    noise = np.random.default_rng(0).random((24, 24, 1))
    edges = np.zeros((24, 24, 3), np.uint8)
    edges[:, 12:] = 255
    noise[:, 12:] += 5
    out = bilateral_filter(noise, 4, 20, guide=edges)
    assert out[:, :12].max() < 1.01 and out[:, 12:].min() > 4.99
    mixed = bilateral_filter(noise, 4, 20, guide=np.zeros_like(edges))
    assert mixed[:, 11:13].mean() == pytest.approx(3, abs=0.7)


def test_guide_of_another_type():
    image = (picture() * 255).astype(np.uint8)
    guide = picture(seed=1)
    assert bilateral_filter(image, 3, 0.2, guide=guide).dtype == np.uint8
    assert bilateral_filter(guide, 3, 20, guide=image).dtype == np.float64
    batch = torch.rand(2, 5, 12, 15)
    guides = torch.rand(2, 1, 12, 15)
    assert bilateral_filter(batch, 3, 0.2, guide=guides).shape == batch.shape


def test_gradients():
    image = torch.rand(1, 4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda image: bilateral_filter(image, 1.5, 0.4), (image,))


IMAGE = picture().astype(np.float32)
TENSOR = torch.rand(2, 3, 6, 7)
NAN = IMAGE.copy()
NAN[2, 3, 1] = np.nan


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("photo.png", 2, 0.1), TypeError, r"'image' to be an array or a tensor \(got str\)"),
        (([[1.0]], 2, 0.1), TypeError, r"'image' to be an array or a tensor \(got list\)"),
        ((IMAGE[0, 0], 2, 0.1), ValueError, r"'image' of shape \[H, W\] or \[H, W, C\] \(got \[3"),
        ((TENSOR.numpy(), 2, 0.1), ValueError, r"'image' of shape .*\(got \[2, 3, 6, 7\]\)"),
        ((TENSOR[0, 0], 2, 0.1), ValueError, r"'image' of shape \[C, H, W\] or .*\(got \[6, 7\]"),
        ((IMAGE.astype(int), 2, 0.1), TypeError, r"'image' of type uint8 or float \(got .*int64"),
        ((IMAGE > 0.5, 2, 0.1), TypeError, r"'image' of type uint8 or float \(got .*bool"),
        ((IMAGE.astype(np.uint16), 2, 0.1), TypeError, r"'image' of type uint8 .*\(got .*uint16"),
        ((TENSOR.long(), 2, 0.1), TypeError, r"'image' of type uint8 or float \(got .*int64"),
        ((IMAGE, 0, 0.1), ValueError, r"'sigma_pos' greater than 0 \(got 0\)"),
        ((IMAGE, 2, -1), ValueError, r"'sigma_color' greater than 0 \(got -1\)"),
        ((IMAGE, np.nan, 1), ValueError, r"'sigma_pos' greater than 0 \(got nan\)"),
        ((IMAGE, 2, 0.1, IMAGE[1:]), ValueError, r"'guide' of .*\[1, 12, 15\].*got \[1, 11, 15\]"),
        ((TENSOR, 2, 0.1, TENSOR[:1]), ValueError, r"'guide' of .*\[2, 6, 7\].*got \[1, 6, 7\]"),
        ((IMAGE, 2, 0.1, "guide"), TypeError, r"'guide' to be an array or a tensor \(got str\)"),
        ((IMAGE, 2, 0.1, IMAGE > 0), TypeError, r"'guide' of type uint8 or float \(got .*bool"),
        ((NAN, 2, 0.1), ValueError, r"'image'.*nan"),
        ((IMAGE, 2, 0.1, NAN), ValueError, r"'guide'.*nan"),
        ((IMAGE, 2, 1e-12), ValueError, r"'sigma_color'"),
    ],
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        bilateral_filter(*arguments)
