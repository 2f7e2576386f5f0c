"""Images from files, PIL, NumPy and torch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from permutogeo.data import from_image, to_image


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 1), (4, 6, 2), (4, 6, 3), (4, 6, 4), (1, 1, 3)])
def test_round_trip_of_png(tmp_path, shape):
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    path = to_image(from_image(image), tmp_path / "a.png")
    assert np.array_equal(
        np.asarray(Image.open(path)), image.squeeze(-1) if shape[-1] == 1 else image
    )
    assert torch.equal(from_image(path).x, from_image(image).x)


def test_every_origin_is_the_same(tmp_path, image):
    expected = from_image(image)
    Image.fromarray(image).save(tmp_path / "a.png")
    np.save(tmp_path / "a.npy", image)
    tensor = torch.from_numpy(image).permute(2, 0, 1)
    origins = [tmp_path / "a.png", str(tmp_path / "a.npy"), Image.fromarray(image), tensor]
    for origin in [*origins, tensor.float() / 255, image[:, :, :].astype(np.float64) / 255]:
        data = from_image(origin)
        assert torch.equal(data.pos, expected.pos)
        torch.testing.assert_close(data.x, expected.x, rtol=0, atol=1e-7)


def test_sixteen_bits_palette_and_orientation(tmp_path, image):
    deep = np.array([[0, 65535], [32768, 1]], np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    expected = torch.tensor([0, 65535, 32768, 1]).float() / 65535
    torch.testing.assert_close(from_image(tmp_path / "deep.png").x.squeeze(1), expected)
    palette = Image.fromarray(image).quantize(4)
    assert torch.equal(from_image(palette).x, from_image(palette.convert("RGB")).x)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned by 90 degrees
    Image.fromarray(image).save(tmp_path / "turned.png", exif=exif)
    data = from_image(tmp_path / "turned.png")
    assert (data.height, data.width) == (7, 5)
    assert np.array_equal(to_image(data), to_image(from_image(np.rot90(image, -1))))


def test_input_is_not_shared():
    tensor = torch.rand(3, 4, 5)
    array = np.random.default_rng(0).random((4, 5), np.float32)
    for origin in (tensor, array):
        before = torch.as_tensor(origin).clone()
        from_image(origin).x.zero_()
        assert torch.equal(torch.as_tensor(origin), before)


def test_npy_keeps_floats(tmp_path):
    depth = np.random.default_rng(0).normal(size=(3, 4, 6)).astype(np.float32) * 10
    path = to_image(from_image(depth), tmp_path / "depth.npy")
    assert np.array_equal(np.load(path), depth)


@settings(max_examples=40, deadline=None)
@given(
    hnp.arrays(
        np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3, 4]))
    )
)
def test_round_trip_property(image):
    assert np.array_equal(np.rint(to_image(from_image(image)) * 255).astype(np.uint8), image)


def test_damaged_files(tmp_path, image, check_error):
    text = tmp_path / "text.png"
    text.write_text("this is no image")
    with check_error(ValueError, "text.png", "Expected an image"):
        from_image(text)
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(
        tmp_path / "whole.png"
    )
    cut = tmp_path / "cut.png"
    cut.write_bytes((tmp_path / "whole.png").read_bytes()[:4000])
    with check_error(ValueError, "cut.png", "damaged"):
        from_image(cut)
    (tmp_path / "empty.png").touch()
    with check_error(ValueError, "empty.png", "empty"):
        from_image(tmp_path / "empty.png")
    (tmp_path / "folder.png").mkdir()
    with check_error(ValueError, "folder.png", "directory"):
        from_image(tmp_path / "folder.png")
    with check_error(FileNotFoundError, "missing.png"):
        from_image(tmp_path / "missing.png")
    with check_error(ValueError, "a.xcf", "got '.xcf'"):
        from_image(tmp_path / "a.xcf")
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    with check_error(ValueError, "objects.npy", "damaged"):
        from_image(tmp_path / "objects.npy")
    np.save(tmp_path / "nan.npy", np.full((2, 2), np.nan))
    with check_error(ValueError, "nan.npy", "finite"):
        from_image(tmp_path / "nan.npy")


@pytest.mark.parametrize(
    ("image", "kind", "text"),
    [
        (torch.zeros(2, 3, 4, 4), ValueError, r"\[2, 3, 4, 4\]"),
        (np.zeros((0, 4)), ValueError, r"\[0, 4\]"),
        (np.zeros((2, 2), np.int64), TypeError, "int64"),
        (torch.zeros(2, 2, dtype=torch.int64), ValueError, "int64"),
        ([[1, 2]], TypeError, "builtins.list"),
        (np.array([[np.inf]]), ValueError, "row 0, column 0"),
    ],
)
def test_wrong_images(image, kind, text, check_error):
    with check_error(kind, "from_image", text):
        from_image(image)


@pytest.mark.filterwarnings("default")
def test_number_of_pixels_is_bounded(tmp_path, monkeypatch):
    Image.new("L", (9, 9)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 80)  # Pillow warns above, refuses above twice
    with pytest.raises(ValueError, match=r"a.png': Expected at most 80 pixels.* \(got 9 x 9\)"):
        from_image(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)
    with pytest.raises(ValueError, match=r"a.png.*exceeds limit"):
        from_image(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert from_image(tmp_path / "a.png").num_nodes == 81


def test_npy_that_claims_more_than_it_holds(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 3)))
    content = (tmp_path / "a.npy").read_bytes()
    claim = content.replace(b"(4, 3), }             ", b"(40000000000000, 3), }")
    (tmp_path / "a.npy").write_bytes(claim)
    with pytest.raises(ValueError, match=r"a.npy.*Expected an image"):
        from_image(tmp_path / "a.npy")
