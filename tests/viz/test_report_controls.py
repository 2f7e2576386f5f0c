"""Controls of a report: their HTML, and what they do in a real browser."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image
from torch_geometric.data import Data

from permutogeo.viz import mesh_report
from permutogeo.viz.report_controls import BINS, error_histograms, sliders
from permutogeo.viz.scene import make_scene

CANVAS = """(() => { const box = document.querySelectorAll('canvas')[NUMBER]
  .getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; })()"""


def box_of(browser, number):
    return browser.run(CANVAS.replace("NUMBER", str(number)))


def picture_of(browser, number):
    browser.frame()
    x, y, width, height = np.rint(box_of(browser, number)).astype(int)
    return browser.screenshot()[y : y + height, x : x + width].astype(int)


def set_range(browser, name, value):
    element = f"document.getElementById('{name}')"
    browser.run(f"{element}.value = {value}; {element}.dispatchEvent(new Event('input'))")


def text_of(browser, name):
    return browser.run(f"document.getElementById('{name}').value")


@pytest.fixture
def page(trio, tmp_path):
    return mesh_report(tmp_path / "report.html", trio, title="Three balls")


def test_histograms_count_all_vertices(trio):
    scene = make_scene(trio, None, 10**6, "x")
    noisy, clean = error_histograms(scene)
    assert (noisy["name"], clean["name"]) == ("noisy", "clean")
    for found, shape in zip((noisy, clean), scene.shapes, strict=False):
        assert len(found["counts"]) == BINS and sum(found["counts"]) == len(shape.pos)
        above = (shape.error >= scene.scale_end * (BINS - 1) / BINS).sum()
        assert found["counts"][-1] == above


def test_results_with_the_same_triangles_have_a_strength(trio, make_ball):
    assert "strength" in sliders(make_scene(trio, None, 10**6, "x"))
    other = {"noisy": trio["noisy"], "remeshed": make_ball(2)}
    assert "strength" not in sliders(make_scene(other, None, 10**6, "x"))
    assert sliders(make_scene({"one": make_ball()}, None, 10**6, "x")) == ""


@pytest.mark.parametrize("percent", [0, 40])
def test_strength_blends_vertices_and_errors(percent, browser, trio, tmp_path, page):
    """The slider shows the same picture as a page of the blended mesh."""
    browser.open(page, fragment="#error")
    clean = picture_of(browser, 1)
    set_range(browser, "strength", percent)
    shown, text = picture_of(browser, 1), text_of(browser, "strength-value")
    assert np.abs(shown - clean).mean() > 2
    set_range(browser, "strength", 100)
    assert np.abs(picture_of(browser, 1) - clean).max() == 0
    blend = trio["noisy"].pos.lerp(trio["clean"].pos, percent / 100)
    trio["clean"] = Data(pos=blend, face=trio["clean"].face)
    expected = make_scene(trio, None, 10**6, "x").shapes[1].error_mean
    assert text == f"{percent} %, mean clean {expected:.3f} mean edges"
    browser.open(mesh_report(tmp_path / "blend.html", trio), fragment="#error")
    assert np.abs(picture_of(browser, 1) - shown).mean() < 0.3


def test_dragging_the_divider_compares_two_meshes(browser, page):
    browser.open(page)
    browser.run("document.getElementById('compare').click()")
    x, y, width, height = box_of(browser, 0)
    assert box_of(browser, 1) == [x, y, width, height], "on top of each other"
    assert box_of(browser, 2)[2] == 0, "the third is hidden"
    half = picture_of(browser, 0)
    divider = x + width / 2
    browser.mouse("mousePressed", divider, y + height / 2, button="left")
    browser.mouse("mouseMoved", divider + 300, y + height / 2, button="left", buttons=1)
    browser.mouse("mouseReleased", divider + 300, y + height / 2, button="left")
    assert browser.run("document.querySelector('.divider').getAttribute('aria-valuenow')") > "70"
    moved = picture_of(browser, 0)
    middle = int(width / 2)
    left, between = slice(0, middle - 30), slice(middle + 30, middle + 270)
    assert np.abs(moved[:, left] - half[:, left]).max() == 0, "only the strip between changes"
    assert np.abs(moved[:, between] - half[:, between]).mean() > 1
    browser.run("document.querySelector('.divider').focus()")
    browser.key("Home")
    right = picture_of(browser, 0)
    browser.run("document.getElementById('right').value = 0;"
                "document.getElementById('right').dispatchEvent(new Event('change'))")  # fmt: skip
    assert np.abs(picture_of(browser, 0) - right).mean() > 1, "another mesh on the right"


@pytest.mark.parametrize("width", [390, 1000])
def test_captions_of_two_compared_meshes_do_not_overlap(browser, page, width):
    browser.open(page, size=(width, 844))
    browser.key("c")
    left, right = (
        browser.run("""[...document.querySelectorAll('figcaption')].slice(0, 2).map((c) => {
      const text = document.createRange();
      text.selectNodeContents(c);
      const box = text.getBoundingClientRect();
      return [box.left, box.right, box.bottom];
    })""")
    )
    assert left[1] < right[0] and right[1] <= width
    assert max(left[2], right[2]) <= box_of(browser, 0)[1], "above the canvas"


def test_both_sides_of_the_divider_turn(browser, page):
    browser.open(page)
    browser.key("c")
    x, y, width, height = box_of(browser, 0)
    for part in (0.4, 0.6):
        before = picture_of(browser, 0)
        start = (x + part * width, y + height / 2)
        browser.mouse("mousePressed", *start, button="left")
        browser.mouse("mouseMoved", start[0] + 20, start[1] + 40, button="left", buttons=1)
        browser.mouse("mouseReleased", start[0] + 20, start[1] + 40, button="left")
        after = picture_of(browser, 0)
        for side in (slice(0, int(width / 2) - 25), slice(int(width / 2) + 25, None)):
            assert np.abs(after[:, side] - before[:, side]).mean() > 0.3


def test_wireframe(browser, page):
    browser.open(page)
    before = picture_of(browser, 2)
    browser.run("document.body.focus()")
    browser.key("w")
    wired = picture_of(browser, 2)
    assert (wired.sum(axis=2) < before.sum(axis=2) - 60).mean() > 0.05, "dark lines"
    browser.key("w")
    assert np.abs(picture_of(browser, 2) - before).max() == 0


def test_value_under_the_cursor(browser, trio, page):
    browser.open(page)
    x, y, width, height = box_of(browser, 0)
    browser.mouse("mouseMoved", x + 0.45 * width, y + 0.5 * height)
    browser.frame()
    shown = text_of(browser, "value")
    start, _, rest = shown.partition(": ")
    vertex = int(start.removeprefix("error of vertex "))
    scene = make_scene(trio, None, 10**6, "x")
    noisy, clean = (scene.shapes[i].error[vertex] for i in (0, 1))
    assert rest == f"noisy {noisy:.3f}, clean {clean:.3f} mean edges"
    assert scene.shapes[0].pos[vertex, 2] > 0, "a vertex in front"
    browser.mouse("mouseMoved", x + 2, y + 2)
    browser.frame()
    assert text_of(browser, "value").strip() == ""


def test_cursor_of_the_histogram(browser, trio, page):
    browser.open(page)
    set_range(browser, "threshold", 10)
    scene = make_scene(trio, None, 10**6, "x")
    limit = 10 / BINS * scene.scale_end
    parts = [100 * float((scene.shapes[i].error >= limit).mean()) for i in (0, 1)]
    expected = f"mean edges: noisy {parts[0]:.1f} %, clean {parts[1]:.1f} %"
    assert text_of(browser, "above").endswith(expected)
    assert browser.run("document.querySelector('.histogram line').getAttribute('x1')") == "20"


def test_pictures_are_saved(browser, page):
    browser.open(page)
    browser.run("""HTMLAnchorElement.prototype.click = function () { window.saved = this; };
                   URL.revokeObjectURL = () => {}""")
    browser.run("document.getElementById('save').click()")
    browser.run("new Promise((done) => setTimeout(done, 500))")
    assert browser.run("window.saved.download") == "picture.png"
    read = """new Promise((done) => {
      const reader = new FileReader();
      reader.onload = () => done(reader.result.split(',')[1]);
      const original = HTMLCanvasElement.prototype.toBlob;
      HTMLCanvasElement.prototype.toBlob = function (f) {
        original.call(this, (blob) => { reader.readAsDataURL(blob); f(blob); });
      };
      document.getElementById('save').click();
    })"""
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(browser.run(read)))).convert("RGB"))
    _, _, width, _ = box_of(browser, 0)
    assert image.shape[1] == pytest.approx(3 * width, abs=6)
    thirds = np.array_split(image.astype(int), 3, axis=1)
    assert all((part.min(axis=2) < 200).mean() > 0.2 for part in thirds), "all three are drawn"
    assert not browser.complaints()


def swipe(browser, x, y, dx, dy):
    """Move one finger in ten steps."""
    touch = "Input.dispatchTouchEvent"
    browser.call(touch, type="touchStart", touchPoints=[{"x": x, "y": y}])
    for step in range(1, 11):
        point = {"x": x + dx * step / 10, "y": y + dy * step / 10}
        browser.call(touch, type="touchMove", touchPoints=[point])
    browser.call(touch, type="touchEnd", touchPoints=[])
    browser.frame()


def test_a_finger_scrolls_the_page_and_turns_the_meshes(browser, page):
    """Vertical swipes belong to the page, horizontal ones to the view."""
    browser.open(page, size=(390, 700))
    browser.call("Emulation.setTouchEmulationEnabled", enabled=True)
    try:
        x, y, width, height = box_of(browser, 0)
        place = x + width / 2, y + height / 2
        before = picture_of(browser, 0)
        swipe(browser, *place, -120, 0)
        assert browser.run("scrollY") == 0
        assert np.abs(picture_of(browser, 0) - before).mean() > 0.5
        swipe(browser, *place, 0, -200)
        assert browser.run("scrollY") > 100
    finally:
        browser.call("Emulation.setTouchEmulationEnabled", enabled=False)


def test_letters_typed_into_a_control_are_not_commands(browser, page):
    browser.open(page)
    browser.key("c")
    browser.run("document.getElementById('left').focus()")
    browser.key("c")
    assert browser.run("document.getElementById('compare').checked")


def test_a_cloud_has_values_but_no_wireframe(browser, tmp_path):
    pos = torch.rand(400, 3, generator=torch.Generator().manual_seed(0))
    meshes = {"noisy": Data(pos=pos), "clean": Data(pos=pos * 1.01)}
    browser.open(mesh_report(tmp_path / "cloud.html", meshes))
    assert browser.run("document.getElementById('wireframe')") is None
    x, y, width, height = box_of(browser, 1)
    browser.mouse("mouseMoved", x + 0.5 * width, y + 0.5 * height)
    browser.frame()
    assert text_of(browser, "value").startswith("displacement of vertex ")
