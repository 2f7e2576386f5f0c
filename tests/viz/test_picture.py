import numpy as np
import pytest
import torch
from PIL import Image
from torch_geometric.data import Data

from permutogeo.viz import mesh_picture
from permutogeo.viz._camera import DISTANCE, look
from permutogeo.viz._render import MARGIN, draw
from permutogeo.viz._scene import make_scene
from permutogeo.viz._shade import BACK
from permutogeo.viz._sheet import GROUND, Sheet, _table_size
from permutogeo.viz._text import width


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


def test_a_ball_covers_the_disc_that_perspective_gives(make_ball):
    scene = make_scene({"ball": make_ball(5)}, None, 10**6, "mesh_picture")
    camera = look(scene.panels, "y", None, "mesh_picture")
    image = draw(scene.panels[0], camera, (200, 200)).paint(np.full((10**5, 3), 255))
    np.testing.assert_allclose(camera.half, 1 / np.sqrt(DISTANCE**2 - 1), rtol=2e-3)
    assert image[..., 3].sum() == pytest.approx(np.pi * (MARGIN * 100) ** 2, rel=5e-3)


def test_facets_are_flat():
    """A cube shows three sides, and each has one color."""
    corner = torch.tensor([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]).float()
    quads = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    face = torch.tensor([[q[0], q[i], q[i + 1]] for q in quads for i in (1, 2)]).t()
    scene = make_scene({"cube": Data(pos=corner, face=face)}, None, 100, "mesh_picture")
    camera = look(scene.panels, "y", (30.0, 20.0), "mesh_picture")
    drawing = draw(scene.panels[0], camera, (80, 80))
    levels, count = np.unique(drawing.light.round(6), return_counts=True)
    assert len(levels) == 3
    assert count.min() > 500
    # The side that looks up and left, to the light, is brighter than the one to the right.
    assert levels.max() > 1.3 * levels.min()


def test_inside_is_darker(make_ball):
    data = make_ball()
    inverted = Data(pos=data.pos, face=data.face.flip(0))
    scenes = [make_scene({"a": each}, None, 10**6, "x") for each in (data, inverted)]
    camera = look(scenes[0].panels, "y", None, "x")
    light, dark = (draw(scene.panels[0], camera, (50, 50)).light for scene in scenes)
    np.testing.assert_allclose(dark, BACK * light)
    assert BACK < 0.8


def test_clouds_and_colors(make_ball, tmp_path):
    pos = make_ball().pos
    red = torch.tensor([1.0, 0, 0]).expand_as(pos)
    path = mesh_picture(tmp_path / "cloud.png", {"cloud": Data(pos=pos, x=red)}, size=100)
    (((panel,),),) = [panels_of(path, {"cloud": Data(pos=pos)}, 100)]
    middle = panel[40:60, 40:60].reshape(-1, 3).mean(axis=0)
    assert seen(panel) > 0.5
    assert middle[0] > 3 * middle[1]


def test_discs_of_a_coarse_cloud_stay_within_the_picture(make_ball):
    scene = make_scene({"cloud": Data(pos=make_ball(1).pos)}, None, 10**6, "x")
    drawing = draw(scene.panels[0], look(scene.panels, "y", None, "x"), (60, 60))
    row, column = np.divmod(drawing.pixel, drawing.size[0])
    assert len(row) > 0.4 * 120**2
    assert min(row.min(), column.min()) > 0 and max(row.max(), column.max()) < 119


def test_one_mesh_has_no_errors(make_ball, tmp_path):
    path = mesh_picture(tmp_path / "one.png", {"one": make_ball()}, size=64)
    with Image.open(path) as image:
        width, height = image.size
    assert height < 64 + 60 and width < 64 + 20


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
    assert 16 < size < 23 and width("normal smoothing", size) <= 330 - 2 * step
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
