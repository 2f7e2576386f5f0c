import numpy as np
import pytest
import torch
from PIL import Image

from permutogeo.viz import image_panels
from permutogeo.viz.image_panels import FRAME


@pytest.fixture
def image():
    return np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)


def has_image(sheet, image):
    """Whether some part of the sheet is the image, pixel for pixel."""
    sheet, image = np.asarray(sheet).astype(int), np.asarray(image).astype(int)
    height, width = image.shape[:2]
    starts = np.argwhere(
        (sheet[: len(sheet) - height + 1, : sheet.shape[1] - width + 1] == image[0, 0]).all(axis=2)
    )
    return any((sheet[y : y + height, x : x + width] == image).all() for y, x in starts)


def test_images_stand_side_by_side(image):
    other = 255 - image
    sheet = image_panels({"one": image, "other": other}, width=80)
    assert has_image(sheet, image) and has_image(sheet, other)
    assert not has_image(sheet, image[:, ::-1])
    assert sheet.width > 160 and sheet.height > 60


def test_columns_make_rows(image):
    images = {str(i): image for i in range(6)}
    wide, high = image_panels(images, width=80, columns=3).size
    one = image_panels({"0": image}, width=80).size
    assert wide > 3 * 80 and wide < 4 * 80 + 40
    assert 2 * 60 < high < 2.2 * one[1]
    assert image_panels(images, width=80).size[0] > 4 * 80


def test_captions_notes_and_title_are_written(image):
    plain = np.asarray(image_panels({"": image}, width=80))
    named = np.asarray(image_panels({"Learned": image}, width=80))
    assert named.shape == plain.shape
    assert (named != plain).any(axis=2).sum() > 20
    noted = np.asarray(image_panels({"": image}, width=80, notes={"": "26.58 dB"}))
    assert noted.shape[0] > plain.shape[0] and (noted[plain.shape[0] - 4 :] < 200).any()
    assert image_panels({"": image}, width=80, title="Before").height > plain.shape[0]


def test_long_captions_stay_in_their_panel(image):
    sheet = np.asarray(image_panels({"word " * 50: image}, width=80))
    assert (sheet[:, -2:] == 255).all()


def test_crop_is_enlarged_and_framed(image):
    sheet = np.asarray(image_panels({"a": image}, width=80, crop=(10, 20, 8, 6)))
    frame = (sheet == FRAME).all(axis=2)
    rows, columns = np.nonzero(frame)
    # In the image: from (10, 20) to (18, 26), behind a margin.
    inside = rows < 60
    left, top = columns[inside].min(), rows[inside].min()
    assert columns[inside].max() - left == 8 and rows[inside].max() - top == 6
    # Below it each pixel of the detail is a square of 10.
    detail = sheet[rows[~inside].min() :]
    margin = columns[~inside].min()
    np.testing.assert_array_equal(detail[15, margin + 25], image[21, 12])
    np.testing.assert_array_equal(detail[45, margin + 55], image[24, 15])


def test_smaller_images_are_enlarged_by_repeating(image):
    low = image[::4, ::4]
    sheet = image_panels({"low": low, "full": image}, width=80)
    assert has_image(sheet, low.repeat(4, axis=0).repeat(4, axis=1)) and has_image(sheet, image)


def test_limits_are_black_and_white():
    depth = np.linspace(2.0, 6.0, 60 * 80).reshape(60, 80)
    sheet = np.asarray(image_panels({"": depth}, width=80, limits=(3.0, 5.0)))
    expected = np.rint(255 * np.clip((depth - 3) / 2, 0, 1)).astype(np.uint8)
    assert has_image(sheet, expected[..., None].repeat(3, axis=2))


def test_images_of_every_kind(image, tmp_path):
    Image.fromarray(image).save(tmp_path / "a.png")
    tensor = torch.from_numpy(image).permute(2, 0, 1)
    expected = np.asarray(image_panels({"a": image}))
    for same in (tmp_path / "a.png", Image.fromarray(image), tensor, image / 255.0):
        found = np.asarray(image_panels({"a": same}))
        np.testing.assert_allclose(found.astype(int), expected, atol=1)


def test_large_images_shrink_to_the_width(image):
    sheet = image_panels({"a": image}, width=40)
    assert sheet.width < 60


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp"])
def test_writes_files(image, suffix, tmp_path):
    path = tmp_path / f"out{suffix}"
    before = image.copy()
    assert image_panels({"a": image}, path) == path
    with Image.open(path) as written:
        assert written.size == image_panels({"a": image}).size
    np.testing.assert_array_equal(image, before)


def test_errors(image, tmp_path):
    with pytest.raises(ValueError, match="Expected at least one image"):
        image_panels({})
    with pytest.raises(ValueError, match=r"within 80 x 60 pixels .got .70, 0, 20, 20."):
        image_panels({"a": image}, crop=(70, 0, 20, 20))
    with pytest.raises(ValueError, match="Expected 'width' from 32"):
        image_panels({"a": image}, width=3)
    with pytest.raises(ValueError, match="Expected 'columns' of at least 1"):
        image_panels({"a": image}, columns=-1)
    with pytest.raises(ValueError, match="Expected 'limits' that ascend"):
        image_panels({"a": image}, limits=(1, 1))
    with pytest.raises(ValueError, match="Expected one of"):
        image_panels({"a": image}, tmp_path / "out.txt")
    with pytest.raises(ValueError, match=r"image of 1 to 4 channels .got 5"):
        image_panels({"a": np.zeros((4, 4, 5))})
