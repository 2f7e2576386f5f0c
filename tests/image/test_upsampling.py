import numpy as np
import pytest
import torch

from permutogeo.image import (
    bilateral_filter,
    bilateral_solver_upsample,
    joint_bilateral_upsample,
)
from permutogeo.testing import reference


def scene(height=24, width=30, channels=1, seed=0):
    """A guide of two shaded regions with some noise, ``[H, W, G]`` float64 in [0, 1]."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    guide = np.where(x + 0.4 * y < 0.6 * width, 0.25, 0.7)[..., None] + 0.004 * y[..., None]
    return (guide + rng.normal(0, 0.01, (height, width, channels))).clip(0, 1)


def reduced(image, factor):
    """Means over blocks, some cut off, ``[ceil(H / f), ceil(W / f), C]``."""
    height, width = image.shape[:2]
    return np.array(
        [
            [image[y : y + factor, x : x + factor].mean((0, 1)) for x in range(0, width, factor)]
            for y in range(0, height, factor)
        ]
    )


def features(guide, factor, sigma_pos, sigma_color):
    """Features of the small and of the large pixels, ``[n, d]`` and ``[N, d]``."""
    y, x = np.mgrid[: guide.shape[0], : guide.shape[1]]
    fine = np.dstack([x / sigma_pos, y / sigma_pos, guide / sigma_color])
    dim = fine.shape[-1]
    return reduced(fine, factor).reshape(-1, dim), fine.reshape(-1, dim)


def brute_force(image, guide, sigma_pos, sigma_color, factor):
    """Kopf et al.'s sum, over all pixels."""
    src, dst = features(guide, factor, sigma_pos, sigma_color)
    weight = np.exp(-0.5 * ((dst[:, None] - src[None]) ** 2).sum(-1))
    out = weight @ image.reshape(len(src), -1) / weight.sum(1, keepdims=True)
    return out.reshape(*guide.shape[:2], -1)


def on_reference_lattice(image, guide, sigma_pos, sigma_color, factor):
    """The lattice's answer, with doubled bandwidths where nothing reaches."""
    src, dst = features(guide, factor, sigma_pos, sigma_color)
    x = np.concatenate([image.reshape(len(src), -1), np.ones((len(src), 1))], 1)
    out = np.full((len(dst), x.shape[1] - 1), np.nan)
    rounds = 0
    while np.isnan(out).any():
        rows = np.isnan(out).any(1).nonzero()[0]
        scale = 0.5**rounds
        lattice, at = reference.ReferenceLattice.build_bipartite(src * scale, dst[rows] * scale)
        sums = lattice.slice(lattice.blur(lattice.splat(x)), at)
        found = sums[:, -1] > 0
        out[rows[found]] = sums[found, :-1] / sums[found, -1:]
        rounds += 1
    return out.reshape(*guide.shape[:2], -1), rounds


def psnr(a, b):
    return -10 * np.log10(np.mean((a - b) ** 2))


@pytest.mark.parametrize(
    ("channels", "factor", "sigmas", "rounds"),
    [
        (1, 2, (6.0, 0.1), 1),
        (1, 3, (2.0, 0.03), 1),
        (3, 4, (0.9, 0.006), 2),
        (1, 5, (0.8, 0.004), 3),
    ],
)
def test_matches_the_reference_lattice(channels, factor, sigmas, rounds):
    guide = scene(22, 27, channels)
    image = reduced(scene(22, 27, 2, seed=1), factor)
    expected, used = on_reference_lattice(image, guide, *sigmas, factor)
    assert used >= rounds
    out = joint_bilateral_upsample(image, guide, *sigmas)
    np.testing.assert_allclose(out, expected, atol=1e-10)


@pytest.mark.parametrize(("channels", "factor"), [(1, 2), (3, 4), (1, 8)])
def test_close_to_brute_force(channels, factor):
    guide = scene(48, 48, channels)
    image = reduced(scene(48, 48, 3, seed=2), factor)
    sigmas = (2.0 * factor, 0.1)
    expected = brute_force(image, guide, *sigmas, factor)
    out = joint_bilateral_upsample(image, guide, *sigmas)
    assert psnr(out, expected) > 38
    blocks = image.repeat(factor, 0).repeat(factor, 1)
    assert psnr(out, expected) > psnr(blocks, expected) + 8


@pytest.mark.parametrize("factor", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("sigmas", [(1e3, 1e3), (8.0, 0.1), (0.4, 0.002)])
def test_a_constant_stays_constant_everywhere(factor, sigmas):
    guide = np.random.default_rng(0).random((37, 50, 2))
    image = np.full((-(-37 // factor), -(-50 // factor), 2), [0.3, -7.0])
    out = joint_bilateral_upsample(image, guide, *sigmas)
    assert out.shape == (37, 50, 2)
    np.testing.assert_allclose(out, np.broadcast_to([0.3, -7.0], out.shape), rtol=1e-12)


def test_a_ramp_stays_a_ramp():
    """Positions are right: on a flat guide the middle of a ramp is what it was, on both axes."""
    y, x = np.mgrid[:64, :96].astype(float)
    ramp = np.dstack([x, 100 - y])
    out = joint_bilateral_upsample(reduced(ramp, 4), np.zeros((64, 96)), 6, 1)
    error = (out - ramp)[24:-24, 24:-24]
    assert abs(error).max() < 0.4
    assert abs(error.mean((0, 1))).max() < 0.02


def test_every_pixel_is_a_mean_of_small_ones():
    """All outputs are finite for bandwidths far below the distance of the pixels."""
    rng = np.random.default_rng(0)
    image, guide = rng.random((6, 8, 3)), rng.random((48, 64, 3))
    out = joint_bilateral_upsample(image, guide, 0.3, 0.001)
    assert np.isfinite(out).all()
    assert image.min() - 1e-9 <= out.min() and out.max() <= image.max() + 1e-9


def test_follows_the_edges_of_the_guide():
    guide = np.zeros((32, 32, 3), np.uint8)
    guide[:, 13:] = 255
    depth = np.where(np.arange(32) < 13, 1.0, 5.0)[None].repeat(32, 0)
    out = joint_bilateral_upsample(reduced(depth, 8), guide, 12, 30)
    # The block that the edge crosses has a mean of both sides, at a gray that no pixel has.
    np.testing.assert_allclose(out, depth, atol=0.05)
    blind = joint_bilateral_upsample(reduced(depth, 8), np.zeros_like(guide), 12, 30)
    assert abs(blind - depth).max() > 1


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (5, 7, 3)])
def test_arrays_come_back_as_they_went_in(shape, dtype):
    rng = np.random.default_rng(0)
    image, guide = (rng.random(shape) * 255).astype(dtype), rng.random((10, 14))
    before = image.copy()
    out = joint_bilateral_upsample(image, guide, 4, 0.5)
    assert isinstance(out, np.ndarray) and out.dtype == dtype
    assert out.shape == (10, 14, *shape[2:])
    np.testing.assert_array_equal(image, before)
    assert out.std() > 0


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 3, 5, 7)])
def test_tensors_come_back_as_they_went_in(shape, dtype):
    image = (torch.rand(shape) * 255).to(dtype)
    guide = torch.rand(*shape[:-3], 1, 15, 21)
    out = joint_bilateral_upsample(image, guide, 6, 0.5)
    assert out.dtype == dtype and out.shape == (*shape[:-2], 15, 21)


def test_array_tensor_and_batch_agree():
    images = torch.rand(3, 2, 6, 5, dtype=torch.float64)
    guides = torch.rand(3, 3, 24, 20, dtype=torch.float64)
    out = joint_bilateral_upsample(images, guides, 8, 0.3)
    for image, guide, each in zip(images, guides, out, strict=True):
        assert torch.equal(joint_bilateral_upsample(image, guide, 8, 0.3), each)
        arrays = [part.permute(1, 2, 0).numpy() for part in (image, guide, each)]
        np.testing.assert_array_equal(joint_bilateral_upsample(*arrays[:2], 8, 0.3), arrays[2])


def test_an_empty_batch():
    assert joint_bilateral_upsample(torch.rand(0, 3, 2, 2), torch.rand(0, 1, 8, 8), 8, 1).shape == (
        (0, 3, 8, 8)
    )


def test_a_factor_of_one_is_the_bilateral_filter():
    image, guide = np.random.default_rng(0).random((2, 20, 30, 3))
    expected = bilateral_filter(image, 3, 0.2, guide=guide)
    np.testing.assert_allclose(joint_bilateral_upsample(image, guide, 3, 0.2), expected, atol=1e-12)


def test_gradients():
    image = torch.rand(1, 2, 2, dtype=torch.float64, requires_grad=True)
    guide = torch.rand(1, 6, 6, dtype=torch.float64)
    for sigmas in ((4.0, 0.5), (0.5, 0.05)):  # the second leaves pixels that nothing reaches
        assert torch.autograd.gradcheck(
            lambda image, sigmas=sigmas: joint_bilateral_upsample(image, guide, *sigmas), (image,)
        )


IMAGE = np.random.default_rng(0).random((6, 8, 3)).astype(np.float32)
GUIDE = np.random.default_rng(1).random((24, 32)).astype(np.float32)
NAN = GUIDE.copy()
NAN[3, 4] = np.nan


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((IMAGE, GUIDE[:20], 8, 0.1), ValueError, r"one whole factor .*got 20 x 32 over 6 x 8"),
        ((IMAGE, GUIDE[:, :17], 8, 0.1), ValueError, r"a factor of 4 would need 6 x 5"),
        ((GUIDE, IMAGE, 8, 0.1), ValueError, r"one whole factor .*got 6 x 8 over 24 x 32"),
        ((IMAGE[:0], GUIDE, 8, 0.1), ValueError, r"at least 1 x 1"),
        ((IMAGE, NAN, 8, 0.1), ValueError, r"finite 'guide' \(got nan in image 0, row 3, column 4"),
        ((IMAGE * np.inf, GUIDE, 8, 0.1), ValueError, r"finite 'image'"),
        ((IMAGE, GUIDE, 0, 0.1), ValueError, r"'sigma_pos' greater than 0 \(got 0\)"),
        ((IMAGE, GUIDE, 8, -1), ValueError, r"'sigma_color' greater than 0 \(got -1\)"),
        ((IMAGE, GUIDE, 8, np.nan), ValueError, r"'sigma_color' greater than 0 \(got nan\)"),
        ((IMAGE, GUIDE, 8, 1e-12), ValueError, r"'sigma_color' large enough for 24 x 32"),
        ((IMAGE, "guide.png", 8, 0.1), TypeError, r"'guide' to be an array or a tensor \(got str"),
        ((IMAGE.astype(int), GUIDE, 8, 0.1), TypeError, r"'image' of type uint8 or float"),
        ((torch.rand(2, 3, 4, 4), torch.rand(1, 3, 8, 8), 8, 1), ValueError, r"each of 2 images"),
    ],
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        joint_bilateral_upsample(*arguments)


def bilinear(image, factor):
    tensor = torch.from_numpy(image).movedim(-1, 0)[None]
    return torch.nn.functional.interpolate(tensor, scale_factor=factor, mode="bilinear")[0]


@pytest.mark.parametrize("factor", [2, 4, 8])
def test_depth_by_default_is_better_than_bilinear(factor):
    """Slopes with a step that the guide shows."""
    y, x = np.mgrid[:64, :96].astype(float)
    left = x + 0.4 * y < 50
    depth = np.where(left, 2 + 0.02 * x, 5 - 0.01 * y)[..., None]
    noise = np.random.default_rng(0).normal(0, 4, (64, 96, 3))
    guide = (np.where(left[..., None], 60, 180) + noise).astype(np.uint8)
    small = reduced(depth, factor)
    expected = bilinear(small, factor).movedim(0, -1).numpy()
    out = joint_bilateral_upsample(small, guide)
    errors = [np.square(each - depth).mean() ** 0.5 for each in (out, expected)]
    assert errors[0] < 0.9 * errors[1]
    plain = joint_bilateral_upsample(small, guide, residual=False)
    np.testing.assert_array_equal(plain, joint_bilateral_upsample(small, guide, 4 * factor, 6))


def test_defaults_by_channels_and_units():
    rng = np.random.default_rng(0)
    colors, guide = rng.random((6, 8, 3)), rng.integers(0, 256, (24, 32, 3)).astype(np.uint8)
    expected = joint_bilateral_upsample(colors, guide, 16, 6)
    np.testing.assert_array_equal(joint_bilateral_upsample(colors, guide), expected)
    floats = guide / 255
    np.testing.assert_allclose(joint_bilateral_upsample(colors, floats), expected, atol=1e-4)
    depth = colors[..., 0]
    smooth = joint_bilateral_upsample(depth, guide)
    given = joint_bilateral_upsample(depth, guide, 1.6, 24, residual=True)
    np.testing.assert_array_equal(smooth, given)
    cut = joint_bilateral_upsample(depth, guide[:23, :29])
    assert cut.shape == (23, 29)


def test_residual_keeps_constants_and_slopes():
    y, x = np.mgrid[:64, :96].astype(float)
    constant = np.full((64, 96), 7.0)
    noise = np.random.default_rng(0).random((64, 96, 3))
    np.testing.assert_allclose(joint_bilateral_upsample(reduced(constant, 4), noise), constant)
    slope = 0.1 * x + 0.2 * y
    out = joint_bilateral_upsample(reduced(slope, 4), np.zeros((64, 96)))
    assert abs(out - slope)[16:-16, 16:-16].max() < 1e-6
    assert reduced(slope, 4).min() <= out.min() and out.max() <= reduced(slope, 4).max()


def test_the_solver_keeps_edges_and_block_means():
    guide = scene(32, 48, channels=3)
    depth = np.where(guide[..., 0] < 0.5, 1.0, 2.0) + 0.01 * np.arange(32)[:, None]
    small = reduced(depth[..., None], 8)[..., 0]
    plain = bilateral_solver_upsample(small, guide, corrections=0)
    found = bilateral_solver_upsample(small, guide)
    bilinear = torch.nn.functional.interpolate(
        torch.from_numpy(small)[None, None], scale_factor=8, mode="bilinear"
    )[0, 0].numpy()
    errors = [np.sqrt(np.mean((x - depth) ** 2)) for x in (found, bilinear)]
    assert errors[0] < 0.8 * errors[1]
    offsets = [abs(reduced(x[..., None], 8)[..., 0] - small).max() for x in (found, plain)]
    assert offsets[0] < 0.3 * offsets[1]


def test_the_solver_on_layouts_and_cut_blocks():
    guide = scene(21, 30, channels=3)
    small = reduced(guide[..., :2], 4)
    out = bilateral_solver_upsample(small, guide)
    assert out.shape == (21, 30, 2)
    tensors = (torch.from_numpy(x).movedim(-1, 0) for x in (small, guide))
    both = bilateral_solver_upsample(*(torch.stack([x, x.flip(0)]) for x in tensors))
    np.testing.assert_allclose(both[0].movedim(0, -1), out, atol=1e-3)
    same = bilateral_solver_upsample(guide, guide)
    np.testing.assert_allclose(same, guide, atol=1e-12)
    with pytest.raises(ValueError, match="'corrections' of at least 0"):
        bilateral_solver_upsample(small, guide, corrections=-1)
    with pytest.raises(ValueError, match="larger by one whole factor"):
        bilateral_solver_upsample(small[:3], guide)
