"""The page in a real browser, which has no network: what it shows, and what a reader can do."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from permutogeo.viz import mesh_report
from permutogeo.viz.camera import make_camera
from permutogeo.viz.colors import CLAY
from permutogeo.viz.render import render
from permutogeo.viz.scene import make_scene

BOXES = """[...document.querySelectorAll('canvas')].map((canvas) => {
  const box = canvas.getBoundingClientRect();
  return [box.left, box.top, box.width, box.height];
})"""


def canvases(browser, density=1):
    """Contents of each canvas, cut out of a screenshot without the focus ring."""
    browser.frame()
    window = browser.screenshot()
    boxes = np.rint(density * np.array(browser.run(BOXES))).astype(int)
    rim = 8 * density
    return [
        window[y + rim : y + h - rim, x + rim : x + w - rim].astype(int) for x, y, w, h in boxes
    ]


def seen(picture):
    """The part that differs from the background, which the middle of the upper edge has."""
    background = picture[3, picture.shape[1] // 2]
    return (np.abs(picture - background).max(axis=2) > 12).mean()


def difference(before, after):
    return [np.abs(a - b).mean() for a, b in zip(before, after, strict=True)]


def middle(browser, number):
    x, y, width, height = browser.run(BOXES)[number]
    return x + width / 2, y + height / 2


def drag(browser, number, dx, dy, **params):
    x, y = middle(browser, number)
    browser.mouse("mousePressed", x, y, button="left", **params)
    browser.mouse("mouseMoved", x + dx, y + dy, button="left", buttons=1, **params)
    browser.mouse("mouseReleased", x + dx, y + dy, button="left", **params)


@pytest.fixture
def page(trio, tmp_path):
    return mesh_report(tmp_path / "report.html", trio, title="Three balls")


def test_three_meshes_without_a_network(browser, page):
    browser.open(page)
    assert browser.run("document.documentElement.dataset.meshes") == "3"
    drawn = browser.run("[...document.querySelectorAll('canvas')].map((c) => c.dataset.drawn)")
    assert drawn == ["1280"] * 3
    pictures = canvases(browser)
    assert len(pictures) == 3
    assert all(0.3 < seen(picture) < 0.9 for picture in pictures)
    assert browser.requests() == [page.as_uri()]
    assert browser.complaints() == []
    assert browser.run("document.getElementById('failure').hidden")
    assert browser.run("document.title") == "Three balls"


def test_the_page_shows_what_the_picture_shows(browser, trio, page):
    """WebGL and ray casting give the same shading of the same facets."""
    browser.open(page)
    scene = make_scene(trio, None, 10**6, "mesh_report")
    camera = make_camera(scene.shapes, "y", None, "mesh_report")
    for shape, picture in zip(scene.shapes, canvases(browser), strict=True):
        height, width = picture.shape[:2]
        buffer = render(shape, camera, (width + 16, height + 16))
        image = buffer.paint(np.tile(CLAY, (len(shape.pos), 1)))[8:-8, 8:-8]
        expected = 255 * image[..., :3] + picture[3, width // 2] * (1 - image[..., 3:])
        assert np.abs(picture - expected).mean() < 2.5
        assert np.quantile(np.abs(picture - expected), 0.95) < 8
        assert image[..., 3].mean() > 0.3


def test_a_drag_turns_all_views_and_r_brings_them_back(browser, page):
    browser.open(page)
    before = canvases(browser)
    drag(browser, 0, 90, 40)
    turned = canvases(browser)
    # Of the last one, a smooth ball, only the facets move.
    assert min(difference(before, turned)) > 0.5
    browser.key("r")
    assert max(difference(before, canvases(browser))) == 0


def test_a_drag_moves_the_front_with_the_mouse(browser, tmp_path):
    """A small triangle before the middle of a cloud follows the pointer to the right and down."""
    far = torch.tensor([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]).float()
    front = torch.tensor([[-0.1, -0.1, 1.7], [0.1, -0.1, 1.7], [0.0, 0.1, 1.7]])
    face = torch.tensor([[8, 9, 10]]).t()
    ends = torch.arange(8).repeat(3, 1)
    data = Data(pos=torch.cat([far, front]), face=torch.cat([face, ends], dim=1))
    browser.open(mesh_report(tmp_path / "front.html", {"front": data}, view=(0.0, 0.0)))

    def center():
        (picture,) = canvases(browser)
        rows, columns = np.nonzero(np.abs(picture - picture[3, 3]).max(axis=2) > 30)
        return columns.mean(), rows.mean()

    before = center()
    drag(browser, 0, 40, 25)
    after = center()
    assert after[0] > before[0] + 15 and after[1] > before[1] + 10


def test_the_wheel_zooms_all_views(browser, page):
    browser.open(page)
    before = canvases(browser)
    x, y = middle(browser, 1)
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=300)
    smaller = canvases(browser)
    for picture, other in zip(before, smaller, strict=True):
        assert seen(other) < 0.8 * seen(picture)
    drag(browser, 2, 60, 0, modifiers=8)
    moved = canvases(browser)
    assert min(difference(smaller, moved)) > 1
    browser.run("document.getElementById('reset').click()")
    assert max(difference(before, canvases(browser))) == 0


def test_errors_have_colors_and_a_legend(browser, page):
    browser.open(page)
    legend = "getComputedStyle(document.querySelector('.legend')).visibility"
    assert browser.run(legend) == "hidden"
    before = canvases(browser)
    browser.key("e")
    after = canvases(browser)
    assert browser.run(legend) == "visible"

    def warmth(picture):
        height, width = picture.shape[:2]
        part = picture[height // 3 : -height // 3, width // 3 : -width // 3]
        return np.median(part[..., 0] - part[..., 2])

    assert max(map(warmth, before)) < 5
    assert warmth(after[0]) > 60 > warmth(after[1]) > 5 > warmth(after[2])
    assert difference(before, after)[2] == 0, "the ground truth has no error"
    browser.key("e")
    assert max(difference(before, canvases(browser))) == 0
    browser.open(page, fragment="#error")
    assert max(difference(after, canvases(browser))) == 0


def test_keys_of_a_view_in_focus(browser, page):
    browser.open(page)
    before = canvases(browser)
    browser.run("document.querySelector('canvas').focus()")
    browser.key("ArrowLeft")
    turned = canvases(browser)
    assert difference(before, turned)[1] > 0.5
    browser.key("-")
    assert seen(canvases(browser)[2]) < seen(turned[2])


def test_dark_and_light(browser, page):
    browser.open(page)
    light = browser.screenshot()
    browser.open(page, dark=True)
    dark = browser.screenshot()
    assert light[0, 0].min() > 240 and dark[0, 0].max() < 40
    assert all(0.3 < seen(picture) < 0.9 for picture in canvases(browser))


def test_dense_screens_and_narrow_windows(browser, page):
    browser.open(page, size=(1000, 700), density=2)
    sizes = browser.run("[...document.querySelectorAll('canvas')].map((c) => c.width)")
    boxes = browser.run(BOXES)
    np.testing.assert_allclose(sizes, [2 * box[2] for box in boxes], atol=1)
    assert all(0.3 < seen(picture) < 0.9 for picture in canvases(browser, density=2))
    metrics = {"width": 380, "height": 1500, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **metrics)
    pictures = canvases(browser)
    boxes = browser.run(BOXES)
    assert len({box[0] for box in boxes}) == 1, "one below the other"
    assert browser.run("document.documentElement.scrollWidth") <= 380
    assert seen(pictures[0]) > 0.3


def test_clouds_and_colors(browser, make_ball, tmp_path):
    ball = make_ball(4)
    green = torch.tensor([0.1, 0.9, 0.1]).expand_as(ball.pos)
    meshes = {"cloud": Data(pos=ball.pos, x=green), "mesh": Data(pos=ball.pos, face=ball.face)}
    browser.open(mesh_report(tmp_path / "mixed.html", meshes), fragment="#color")
    cloud, mesh = canvases(browser)
    assert seen(cloud) > 0.3 and abs(seen(cloud) - seen(mesh)) < 0.1
    height, width = cloud.shape[:2]
    red, level, _ = cloud[height // 2 - 20 : height // 2 + 20, width // 2].mean(axis=0)
    assert level > 2 * red
    drawn = browser.run("[...document.querySelectorAll('canvas')].map((c) => c.dataset.drawn)")
    assert drawn == ["2562", "5120"]


def test_no_script_comes_in(browser, trio, tmp_path):
    evil = "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>\"<!--"
    path = mesh_report(
        tmp_path / "evil.html",
        {evil: trio["noisy"], f"{evil} too": trio["clean"]},
        title=evil,
        numbers={evil: {evil: evil}},
        settings={evil: evil},
    )
    browser.open(path)
    assert browser.run("typeof window.hit") == "undefined"
    assert browser.run("document.documentElement.dataset.meshes") == "2"
    assert browser.run("document.querySelector('h1').textContent") == evil
    assert browser.requests() == [path.as_uri()]
    # Were something to slip in after all, the policy of the page would not let it run.
    browser.run("document.body.append(Object.assign(document.createElement('script'),"
                " {textContent: 'window.hit = 2'}))")  # fmt: skip
    assert browser.run("typeof window.hit") == "undefined"


def test_a_browser_without_webgl_says_so(browser, page):
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace('getContext("webgl2"', 'getContext("none"'), encoding="utf-8")
    # The changed script no longer has the digest that the policy allows.
    text = page.read_text(encoding="utf-8").replace("Content-Security-Policy", "x-nothing")
    page.write_text(text, encoding="utf-8")
    browser.open(page)
    note = browser.run("document.getElementById('failure').textContent")
    assert note == "The meshes cannot be shown here: this browser offers no WebGL 2."


def test_a_lost_context_comes_back(browser, page):
    browser.open(page)
    before = canvases(browser)
    get = "document.querySelector('canvas').getContext('webgl2').getExtension('WEBGL_lose_context')"
    browser.run(f"window.loser = {get}; window.loser.loseContext()")
    browser.frame()
    browser.run("new Promise((done) => setTimeout(done, 50))")
    browser.run("window.loser.restoreContext()")
    browser.run("new Promise((done) => setTimeout(done, 300))")
    assert max(difference(before, canvases(browser))) == 0


def test_a_phone_shows_whole_numbers(browser, trio, tmp_path):
    """At 390 pixels a table scrolls in its own box; no number is broken over lines."""
    row = {
        "vertex RMSE": 0.0123456,
        "vertex distance / mean edge": 0.2384,
        "mean normal angle (degrees)": 12.345,
    }
    path = mesh_report(
        tmp_path / "report.html",
        trio,
        numbers={"noisy": row, "denoised, from noisy": row},
        settings={"input": "/home/somebody/" + "long/" * 20 + "scan.ply", "vertices": 1234567},
        command="python demo.py --quick",
    )
    browser.open(path, size=(390, 800))
    assert browser.run("document.documentElement.scrollWidth") <= 390
    lines = """[...document.querySelectorAll('td.number')].map((cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      return range.getClientRects().length;
    })"""
    assert set(browser.run(lines)) == {1}
    text = browser.run("document.body.innerText")
    assert "scan.ply" in text and "/home" not in text and "Quick run" in text
