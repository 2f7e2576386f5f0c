import numpy as np
import pytest
import torch
from scipy import ndimage

from permutogeo.datasets import Assamese
from permutogeo.datasets.assamese import draw_lines

RNG = np.random.default_rng(0)


@pytest.fixture
def root(tmp_path):
    """Two characters by 45 writers, of two strokes each."""
    count = 90
    sizes = RNG.integers(6, 12, count)
    total = int(sizes.sum())
    stroke = np.concatenate([np.arange(size) // (size - 3) + 1 for size in sizes])
    path = tmp_path / "assamese" / "assamese.npz"
    path.parent.mkdir()
    np.savez(
        path,
        xy=RNG.integers(-100, 4400, (total, 2)).astype(np.int16),
        stroke=stroke.astype(np.uint8),
        offset=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32),
        writer=np.repeat(np.arange(1, 46), 2).astype(np.uint8),
        char_id=np.tile([1, 2], 45).astype(np.uint8),
        char_name=np.array(["A", "E"]),
    )
    return tmp_path


def test_lines_without_gaps():
    """Every pixel lies on its line, and each stroke is connected: seen by scipy."""
    place = np.array([[1, 1], [9, 4], [9, 12.4], [20.2, 2.7], [30, 30], [25, 31]], float)
    stroke = np.array([1, 1, 1, 1, 2, 2])
    (pixels,) = draw_lines(place, np.zeros(6, np.int64), stroke, 40)
    exact = np.concatenate(
        [
            a + np.linspace(0, 1, 2000)[:, None] * (b - a)
            for a, b, s, t in zip(place, place[1:], stroke, stroke[1:], strict=False)
            if s == t
        ]
    )
    wanted = set(map(tuple, np.rint(exact).astype(int).tolist()))
    drawn = set(map(tuple, pixels.tolist()))
    assert drawn <= wanted and len(drawn) == len(pixels) > 0.8 * len(wanted)
    image = np.zeros((40, 40), int)
    image[pixels[:, 1], pixels[:, 0]] = 1
    assert ndimage.label(image, np.ones((3, 3)))[1] == 2


def test_drawings_do_not_mix():
    place = np.array([[0, 0], [0, 9], [5, 5], [5, 7]], float)
    first, second = draw_lines(place, np.array([0, 0, 1, 1]), np.ones(4), 10)
    assert first.tolist() == [[0, y] for y in range(10)]
    assert second.tolist() == [[5, 5], [5, 6], [5, 7]]


def test_writers_are_divided(root):
    parts = {split: Assamese(root, split) for split in ("train", "val", "test", "trainval", "all")}
    assert [len(part) for part in parts.values()] == [60, 12, 18, 72, 90]
    writers = [set(parts[split].writers) for split in ("train", "val", "test")]
    assert not writers[0] & writers[1] and not (writers[0] | writers[1]) & writers[2]
    assert len(set.union(*writers)) == 45
    assert {data.writer for data in parts["val"]} == writers[1]
    assert parts["val"].classes == ["A", "E"] and parts["val"].num_classes == 2
    assert [int(data.y) for data in parts["val"]] == [0, 1] * 6


def test_ink_and_drawing(root):
    for crop in (False, True):
        characters = Assamese(root, "test", crop=crop)
        data, image = characters[4], characters.image(4)
        assert image.shape == (1, 96, 96) and data.x.shape == (data.num_nodes, 1)
        assert int(image.sum()) == data.num_nodes
        row, column = image[0].nonzero().T
        assert torch.equal(data.pos, torch.stack([column, row], 1).float())
        assert float(data.pos.min()) >= 0 and float(data.pos.max()) <= 95


def test_a_cropped_character_fills_the_drawing(root):
    for data in Assamese(root, "val", crop=True):
        low, high = data.pos.amin(0), data.pos.amax(0)
        assert float((high - low).max()) == 95
        torch.testing.assert_close(low + high, torch.tensor([95.0, 95.0]), rtol=0, atol=1.1)


def test_a_stretched_character_fills_both_sides(root):
    for data in Assamese(root, "val", crop=True, stretch=True):
        assert data.pos.amin(0).tolist() == [0.0, 0.0] and data.pos.amax(0).tolist() == [95.0, 95.0]


def test_wide_lines(root):
    """A pen of three pixels covers what a square of three pixels dilates: seen by scipy."""
    thin, wide = Assamese(root, "val"), Assamese(root, "val", line_width=3)
    expected = ndimage.binary_dilation(thin.image(2)[0].numpy(), np.ones((3, 3)))
    np.testing.assert_array_equal(wide.image(2)[0].numpy() > 0, expected)
    assert wide[2].num_nodes == int(expected.sum())
    double = Assamese(root, "val", line_width=2).image(2)
    assert bool((double >= thin.image(2)).all()) and bool((wide.image(2) >= double).all())


def test_other_splits_of_the_writers(root):
    first, other = (Assamese(root, "test", split_seed=seed).writers for seed in (0, 1))
    assert first != other and len(first) == len(other) == 9
    assert first == Assamese(root, "test").writers


def test_cropping_forgets_place_and_size(root):
    """The drawing of the tablet, moved and scaled, is the cropped one, up to rounding."""
    whole, cropped = (
        Assamese(root, "val", size=1500)[3].pos,
        Assamese(root, "val", crop=True)[3].pos,
    )
    low, high = whole.amin(0), whole.amax(0)
    side = (high - low).max()
    moved = (whole - (low + high - side) / 2) / side * 95
    distance = torch.cdist(moved, cropped)
    assert float(distance.amin(1).max()) < 1.1 and float(distance.amin(0).max()) < 1.1


def test_missing_and_damaged(tmp_path, monkeypatch):
    monkeypatch.delenv("PERMUTOGEO_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"Assamese: .*PERMUTOGEO_DATA.*assamese\.npz"):
        Assamese()
    with pytest.raises(ValueError, match="Assamese: Expected 'split'"):
        Assamese(tmp_path, "some")
    with pytest.raises(ValueError, match="Assamese: Expected 'size'"):
        Assamese(tmp_path, size=1)
    with pytest.raises(ValueError, match="Assamese: Expected 'line_width'"):
        Assamese(tmp_path, line_width=0)
    path = tmp_path / "assamese" / "assamese.npz"
    path.parent.mkdir()
    path.write_bytes(b"no archive")
    with pytest.raises(ValueError, match="Expected an archive with xy"):
        Assamese(tmp_path)


def test_the_real_ones(data_dir):
    characters = Assamese(data_dir, "test")
    assert len(characters) == 9 * 183 and characters.num_classes == 183
    ink = sum(data.num_nodes for data in characters) / len(characters) / 96**2
    assert 0.01 < ink < 0.04
