"""The sheet of a PNG: panels, captions, legend."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch_geometric.data import Data

from permutogeo.viz import mesh_picture
from permutogeo.viz.drawing import text_width
from permutogeo.viz.mesh_picture import GROUND, Sheet, _table_size
from permutogeo.viz.scene import make_scene


def panels_of(path, meshes, size):
    """The panels of a written picture: an array [rows, columns, size, size, 3]."""
    sheet = Sheet(make_scene(meshes, None, 10**6, "mesh_picture"), (size, size), "")
    with Image.open(path) as file:
        image = np.asarray(file.convert("RGB"))
    rows = 2 if len(meshes) > 1 else 1
    corners = [[sheet.corner(row, column) for column in range(len(meshes))] for row in range(rows)]
    return np.array([[image[y : y + size, x : x + size] for x, y in row] for row in corners])


def seen(panel):
    """The part of a panel that is not background."""
    return (np.abs(panel.astype(int) - GROUND).max(axis=-1) > 3).mean()


def test_three_meshes(trio, tmp_path):
    path = tmp_path / "picture.png"
    assert mesh_picture(path, trio, size=120) == path
    panels = panels_of(path, trio, 120)
    assert panels.shape[:2] == (2, 3)
    assert all(0.4 < seen(panel) < 0.8 for panel in panels[:, :2].reshape(-1, 120, 120, 3))
    assert seen(panels[0, 2]) > 0.4

    def warmth(panel):
        return np.median(panel[40:80, 40:80, 0].astype(int) - panel[40:80, 40:80, 2])

    # Shapes are gray; errors are warm colors, and the larger ones darker.
    assert abs(warmth(panels[0, 0])) < 25 < warmth(panels[1, 0])
    assert panels[1, 0, 40:80, 40:80].mean() < panels[1, 1, 40:80, 40:80].mean()


def test_clouds_and_colors(make_ball, tmp_path):
    pos = make_ball().pos
    red = torch.tensor([1.0, 0, 0]).expand_as(pos)
    path = mesh_picture(tmp_path / "cloud.png", {"cloud": Data(pos=pos, x=red)}, size=100)
    (((panel,),),) = [panels_of(path, {"cloud": Data(pos=pos)}, 100)]
    middle = panel[40:60, 40:60].reshape(-1, 3).mean(axis=0)
    assert seen(panel) > 0.5
    assert middle[0] > 3 * middle[1]


def test_one_mesh_has_no_errors(make_ball, tmp_path):
    path = mesh_picture(tmp_path / "one.png", {"one": make_ball()}, size=64)
    with Image.open(path) as image:
        width, height = image.size
    assert height < 64 + 60 and width < 64 + 20


def test_shapes_that_differ_in_color_have_one_row(make_ball, tmp_path):
    ball = make_ball(2)
    red, blue = ball.clone(), ball.clone()
    red.x, blue.x = (torch.eye(3)[k].expand_as(ball.pos) for k in (0, 2))
    heights = []
    for meshes in ({"a": red, "b": blue}, {"a": red, "b": ball}):
        with Image.open(mesh_picture(tmp_path / "two.png", meshes, size=64)) as image:
            heights.append(image.size[1])
    assert heights[0] < heights[1] - 60


def test_long_names_and_titles(make_ball, tmp_path):
    name = "a file name that is much longer than the panel is wide " * 9
    odd = "\n\t\0 ünïcode 模型 \U0001f600"
    meshes = {name: make_ball(2), odd: make_ball(2, 0.1)}
    path = mesh_picture(tmp_path / "long.png", meshes, title=name, size=64)
    with Image.open(path) as image:
        assert image.size[0] < 2 * 64 + 30


def test_letters_of_a_table_shrink_until_names_fit():
    rows = [("", "mean", "largest"), ("normal smoothing", "0.090", "1.003")]
    assert _table_size(rows, 23, 900)[0] == 23
    size, step = _table_size(rows, 23, 330)
    assert 16 < size < 23 and text_width("normal smoothing", size) <= 330 - 2 * step
    assert _table_size(rows, 23, 10)[0] == 16


@pytest.mark.parametrize("size", [32, 33, 131])
def test_any_size(size, trio, tmp_path):
    assert mesh_picture(tmp_path / "a.png", trio, size=size, title="t").stat().st_size > 1000


def test_errors(trio, tmp_path):
    with pytest.raises(ValueError, match=r"Expected one of \.png"):
        mesh_picture(tmp_path / "a.jpg", trio)
    with pytest.raises(ValueError, match="Expected 'size' from 32 to 4096"):
        mesh_picture(tmp_path / "a.png", trio, size=10)
    with pytest.raises(FileNotFoundError, match="Expected a place to write to"):
        mesh_picture(tmp_path / "missing" / "a.png", trio, size=32)
    assert list(tmp_path.iterdir()) == []
