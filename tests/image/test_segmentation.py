"""Segmentation by a dense CRF; ``tests/cli/test_segment.py`` covers files and layouts."""

import numpy as np
import pytest
import torch

from permutogeo.image import segment


def make_scene(seed=0):
    """An image of two halves, and scores that are right in two of three pixels."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((20, 30), np.int64)
    truth[:, 15:] = 1
    image = (np.where(truth[..., None] == 1, 200, 60) + rng.integers(-4, 5, (20, 30, 3))).astype(
        np.uint8
    )
    scores = rng.normal(size=(20, 30, 2)) + 0.9 * np.eye(2)[truth]
    return image, scores, truth


def test_labels_follow_the_image():
    image, scores, truth = make_scene()
    assert (scores.argmax(2) == truth).mean() < 0.85
    labels = segment(image, scores, sigma_pos=10)
    assert labels.dtype == np.int64 and (labels == truth).mean() > 0.98


def test_batches_are_their_images():
    scenes = [make_scene(seed) for seed in range(2)]
    images = torch.stack([torch.from_numpy(i).movedim(-1, 0) for i, _, _ in scenes])
    scores = torch.stack([torch.from_numpy(s).movedim(-1, 0) for _, s, _ in scenes])
    together = segment(images, scores, sigma_pos=10)
    assert together.shape == (2, 20, 30)
    for k, (image, unary, _) in enumerate(scenes):
        np.testing.assert_array_equal(together[k], segment(image, unary, sigma_pos=10))
        assert segment(images[k], scores[k]).shape == (20, 30)


def test_units_of_colors():
    image, scores, _ = make_scene()
    floats = (image / 255).astype(np.float32)
    np.testing.assert_array_equal(segment(image, scores), segment(floats, scores))


IMAGE, SCORES, _ = make_scene()
NAN = SCORES.copy()
NAN[3, 4, 1] = np.nan
BAD = IMAGE.astype(np.float32)
BAD[5, 6, 2] = np.inf


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((IMAGE, SCORES[..., 0]), {}, r"'unary' of shape \[H, W, L\]"),
        ((IMAGE, SCORES), {"kind": "scores"}, "'kind' in logits, probabilities, energies"),
        ((IMAGE, NAN), {}, "finite 'unary' .got nan in image 0, row 3, column 4, channel 1"),
        ((BAD, SCORES), {}, "finite 'image' .got inf in image 0, row 5, column 6, channel 2"),
        ((IMAGE, SCORES), {"kind": "probabilities"}, "probabilities of at least 0"),
        ((IMAGE, SCORES[:, :5]), {}, "of the image's 20 x 30 pixels"),
        ((torch.rand(2, 3, 4, 4), torch.rand(1, 2, 4, 4)), {}, "'unary' for 2 images"),
    ],
)
def test_errors(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        segment(*arguments, **options)
