import numpy as np
import pytest
from PIL import Image

from permutogeo.testing.reference import ReferenceLattice
from permutogeo.viz import lattice_cells
from permutogeo.viz.lattice_cells import cell_index


@pytest.fixture
def image():
    """Smooth colors, so that cells are larger than pixels."""
    y, x = np.mgrid[:20, :28] / 28
    return np.stack([x, y, (x + y) / 2], -1)


def reference_cells(image, sigma_pos, sigma_color, cell):
    y, x = np.mgrid[: image.shape[0], : image.shape[1]]
    parts = [np.stack([x, y], -1) / sigma_pos] if sigma_pos else []
    parts += [image.astype(np.float32) / sigma_color] if sigma_color else []
    feature = np.concatenate(parts, -1).reshape(x.size, -1)
    points = ReferenceLattice(feature)
    if cell == "simplex":
        return [frozenset(corners) for corners in points.vertex.tolist()]
    return points.vertex[np.arange(x.size), points.weight.argmax(1)].tolist()


@pytest.mark.parametrize(
    ("sigma_pos", "sigma_color", "cell"),
    [
        (7.3, None, "simplex"),
        (None, 0.31, "simplex"),
        (9.1, 0.43, "simplex"),
        (7.3, None, "vertex"),
    ],
)
def test_cells_are_those_of_the_reference(image, sigma_pos, sigma_color, cell):
    index = cell_index(image, sigma_pos, sigma_color, cell).ravel()
    expected = reference_cells(image, sigma_pos, sigma_color, cell)
    pairs = set(zip(index.tolist(), expected, strict=True))
    assert len(pairs) == len(set(expected)) == index.max() + 1 > 5


def test_pixels_of_a_cell_have_one_color(image):
    index = cell_index(image, 9.0, None)
    painted = np.asarray(lattice_cells(image, sigma_pos=9.0)).reshape(-1, 3)
    colors = {}
    for cell, color in zip(index.ravel().tolist(), painted.tolist(), strict=True):
        assert colors.setdefault(cell, color) == color
    assert len({tuple(color) for color in colors.values()}) == len(colors)


def test_triangles_have_the_size_of_the_bandwidth():
    """In the plane a simplex is a triangle with sides of one bandwidth."""
    index = cell_index(np.zeros((120, 120, 3)), 40.0, None)
    area = np.bincount(index.ravel())
    whole = np.setdiff1d(index, np.concatenate([index[[0, -1]].ravel(), index[:, [0, -1]].ravel()]))
    assert len(whole) > 5
    np.testing.assert_allclose(area[whole], np.sqrt(3) / 4 * 40**2, rtol=0.03)


def test_image_shines_through(image):
    np.testing.assert_array_equal(
        np.asarray(lattice_cells(image, sigma_pos=9.0, shade=1.0)), np.rint(255 * image)
    )


def test_gray_images_and_files(tmp_path):
    path = tmp_path / "cells.png"
    assert lattice_cells(np.eye(16), path, sigma_color=0.5) == path
    with Image.open(path) as written:
        assert written.size == (16, 16)
        assert len(np.unique(np.asarray(written).reshape(-1, 3), axis=0)) == 2


def test_errors(image, tmp_path):
    with pytest.raises(ValueError, match=r"'sigma_pos', 'sigma_color' or both .got neither"):
        lattice_cells(image)
    with pytest.raises(ValueError, match=r"Expected 'sigma_pos' greater than 0 .got -1"):
        lattice_cells(image, sigma_pos=-1)
    with pytest.raises(ValueError, match=r"Expected 'cell' in simplex, vertex .got 'cube'"):
        lattice_cells(image, sigma_pos=9.0, cell="cube")
    with pytest.raises(ValueError, match="Expected 'shade' in"):
        lattice_cells(image, sigma_pos=9.0, shade=2.0)
    with pytest.raises(ValueError, match="Expected one of"):
        lattice_cells(image, tmp_path / "cells.svg", sigma_pos=9.0)
