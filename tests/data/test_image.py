"""Images to points and back."""

import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image
from torch_geometric.data import Batch

from permutogeo.data import from_image, to_image


@pytest.fixture
def image():
    return np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)


def test_all_pixels(image):
    data = from_image(image)
    assert str(data) == "Data(x=[35, 3], pos=[35, 2], height=5, width=7)"
    assert data.x.dtype == data.pos.dtype == torch.float32
    assert data.pos[8].tolist() == [1.0, 1.0] and data.pos[-1].tolist() == [6.0, 4.0]
    assert np.array_equal(data.x[8].numpy(), (image[1, 1] / 255).astype(np.float32))


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


def check_error(kind, *parts):
    return pytest.raises(kind, match="(?s)" + ".*".join(map(str, parts)))


def test_damaged_files(tmp_path, image):
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
def test_wrong_images(image, kind, text):
    with check_error(kind, "from_image", text):
        from_image(image)


def test_wrong_arguments(image):
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


def test_writing_is_whole_or_not_at_all(tmp_path, image):
    data = from_image(image)
    path = to_image(data, tmp_path / "a.png")
    os.chmod(path, 0o640)
    before = path.read_bytes()
    data.x = data.x * float("nan")
    with check_error(ValueError, "a.png", "finite"):
        to_image(data, path)
    data = from_image(np.zeros((2, 2, 4), np.uint8))
    with check_error(ValueError, "a.jpg", "alpha"):
        to_image(data, tmp_path / "a.jpg")
    with check_error(FileNotFoundError, "no_such_folder"):
        to_image(data, tmp_path / "no_such_folder" / "a.png")
    with check_error(NotADirectoryError, "a.png"):
        to_image(data, path / "b.png")
    (tmp_path / "folder.png").mkdir()
    with check_error(ValueError, "folder.png", "directory"):
        to_image(data, tmp_path / "folder.png")
    with check_error(ValueError, "got '.txt'"):
        to_image(data, tmp_path / "a.txt")
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "folder.png"]
    to_image(data, path)
    assert path.stat().st_mode & 0o777 == 0o640
    link = tmp_path / "link.png"
    link.symlink_to(path)
    to_image(data, link)
    assert link.is_symlink()
