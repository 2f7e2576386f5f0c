import numpy as np
import pytest
import torch
from PIL import Image

from permutogeo.viz import overlay, palette


@pytest.fixture
def image():
    return np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)


@pytest.fixture
def labels():
    """Three bands, and a corner without a label."""
    labels = np.repeat([0, 3, 20, 20], 20)[None].repeat(60, axis=0)
    labels[:10, :10] = 255
    return labels


def test_blends_each_label_with_its_color(image, labels):
    out = np.asarray(overlay(image, labels, legend=False, opacity=0.25)).astype(float)
    for label, column in ((0, 5), (3, 30), (20, 70)):
        expected = 0.75 * image[40, column] + 0.25 * palette(21)[label]
        np.testing.assert_allclose(out[40, column], expected, atol=0.51)
    np.testing.assert_array_equal(out[:10, :10], image[:10, :10])


def test_boundaries_are_where_labels_meet(image, labels):
    labels[:10, :10] = 0
    out = np.asarray(overlay(image, labels, legend=False))
    bright = (out.min(axis=2) >= 216).all(axis=0)
    assert np.flatnonzero(bright).tolist() == [19, 39]


def test_boundaries_grow_with_the_image():
    labels = np.zeros((1200, 1600), np.int64)
    labels[:, 800:] = 1
    out = np.asarray(overlay(np.zeros((1200, 1600)), labels, legend=False))
    assert np.flatnonzero((out.min(axis=2) >= 216).all(axis=0)).tolist() == [796, 797, 798, 799]


def test_legend_has_the_colors_that_occur(image, labels):
    names = {0: "background", 3: "bird", 20: "monitor"}
    out = np.asarray(overlay(image, labels, names=names))
    strip = out[60:].reshape(-1, 3)
    assert out.shape[1] == 80 and len(strip) > 0
    for label in range(21):
        occurs = (strip == palette(21)[label]).all(axis=1).sum() > 50
        assert occurs == (label in names)


@pytest.mark.parametrize("names", [None, ["only one"], {3: "three"}])
def test_missing_names_are_numbers(image, labels, names):
    assert overlay(image, labels, names=names).size[1] > 60


def test_images_of_every_kind(image, labels, tmp_path):
    expected = np.asarray(overlay(image, labels))
    Image.fromarray(image).save(tmp_path / "a.png")
    tensor = torch.from_numpy(image).permute(2, 0, 1)
    for same in (tmp_path / "a.png", Image.fromarray(image), tensor, image / 255.0):
        found = overlay(same, torch.from_numpy(labels))
        np.testing.assert_allclose(np.asarray(found).astype(int), expected, atol=1)
    gray = overlay(image[..., 0], labels.astype(np.uint8))
    assert gray.mode == "RGB"


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp"])
def test_writes_files(image, labels, suffix, tmp_path):
    path = tmp_path / f"out{suffix}"
    assert overlay(image, labels, path) == path
    with Image.open(path) as written:
        assert written.size == overlay(image, labels).size


def test_many_labels(image):
    labels = np.arange(60 * 80).reshape(60, 80) % 300
    out = overlay(image, labels, void=None)
    assert out.size[0] == 80


def test_inputs_are_not_changed(image, labels):
    before = image.copy(), labels.copy()
    overlay(image, labels)
    np.testing.assert_array_equal(image, before[0])
    np.testing.assert_array_equal(labels, before[1])


def test_nothing_but_void(image):
    out = overlay(image, np.full((60, 80), 255))
    np.testing.assert_array_equal(np.asarray(out), image)


def test_errors(image, labels, tmp_path):
    with pytest.raises(ValueError, match=r"Expected 'labels' of shape \[60, 80\]"):
        overlay(image, labels[:-1])
    with pytest.raises(ValueError, match=r"and an integer type .*float64"):
        overlay(image, labels.astype(float))
    with pytest.raises(ValueError, match=r"Expected 'labels' >= 0 .got -1"):
        overlay(image, labels - 1)
    with pytest.raises(ValueError, match="Expected 'opacity'"):
        overlay(image, labels, opacity=2)
    with pytest.raises(TypeError, match="Expected 'labels' as a numeric array"):
        overlay(image, "labels.png")
    with pytest.raises(ValueError, match="Expected one of"):
        overlay(image, labels, tmp_path / "out.txt")
