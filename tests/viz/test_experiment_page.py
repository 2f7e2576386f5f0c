"""The page of an experiment: what stands in it, what must not, and how a browser shows it."""

import base64
import io
import time
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from permutogeo.viz import experiment_page

EVIL = "</style><script>window.hit=1</script><img src=x onerror=window.hit=1>\"'&$title<!--"
ROWS = {"noisy": {"PSNR": 20.174, "paper": 20.17}, "learned": {"PSNR": 26.58}}


class Reader(HTMLParser):
    """Elements with their attributes, and the text that is shown."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self._open = [], [], ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open = tag

    def handle_data(self, data):
        if self._open != "style" and data.strip():
            self.texts.append(data.strip())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def picture():
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8))


@pytest.fixture
def page(picture, tmp_path):
    picture.save(tmp_path / "curve.png")
    return experiment_page(
        tmp_path / "page.html",
        title="Denoising",
        text="What it is.\n\nWhat is more.",
        command="python examples/paper/denoise_images.py --seed 0",
        tables={"Test images": ROWS, "Training images": {"noisy": {"PSNR": 20.2}}},
        pictures={"A photograph": picture},
        curves={"Loss": tmp_path / "curve.png"},
        settings={"lr": 0.001, "quick": False},
    )


def test_page_holds_what_it_is_given(page):
    reader = Reader(page)
    for text in ("Denoising", "What it is.", "What is more.", "Test images", "Training images",
                 "20.17", "26.58", "A photograph", "Loss", "lr", "0.001", "no",
                 "python examples/paper/denoise_images.py --seed 0"):  # fmt: skip
        assert text in reader.texts
    assert len(reader.all("table")) == 3 and len(reader.all("p")) == 2


def test_pictures_are_in_the_page(page, picture):
    sources = [image["src"] for image in Reader(page).all("img")]
    assert len(sources) == 2
    for source in sources:
        content = base64.b64decode(source.removeprefix("data:image/png;base64,"))
        with Image.open(io.BytesIO(content)) as shown:
            np.testing.assert_array_equal(np.asarray(shown), np.asarray(picture))


def test_page_needs_nothing_else(page):
    reader = Reader(page)
    assert not reader.all("script") and not reader.all("link")
    (policy,) = [meta["content"] for meta in reader.all("meta") if "http-equiv" in meta]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")


def test_only_a_title_is_needed(tmp_path):
    reader = Reader(experiment_page(tmp_path / "page.html", title="Nothing"))
    assert not any(map(reader.all, ("table", "figure", "p", "pre")))


def test_whatever_is_written_is_escaped(tmp_path, picture):
    path = experiment_page(
        tmp_path / "page.html", title=EVIL, text=EVIL, command=EVIL,
        tables={EVIL: {EVIL: {EVIL: EVIL}}}, pictures={EVIL: picture}, settings={EVIL: EVIL},
    )  # fmt: skip
    reader = Reader(path)
    assert not reader.all("script") and len(reader.all("img")) == 1
    assert reader.all("img")[0]["alt"] == EVIL
    assert reader.texts.count(EVIL) == 11


def test_a_page_is_written_whole_or_not_at_all(page, tmp_path):
    before = page.read_bytes()
    with pytest.raises(FileNotFoundError, match=r"none\.png"):
        experiment_page(page, title="a", pictures={"a": tmp_path / "none.png"})
    assert page.read_bytes() == before


def test_errors(tmp_path):
    with pytest.raises(ValueError, match=r"Expected one of .htm, .html .got '.txt'"):
        experiment_page(tmp_path / "page.txt", title="a")
    with pytest.raises(TypeError, match=r"Expected a file or a PIL image .got numpy.ndarray"):
        experiment_page(tmp_path / "page.html", title="a", pictures={"a": np.zeros((3, 3))})
    with pytest.raises(ValueError, match=r"Expected one of .* .got '.svg'"):
        experiment_page(tmp_path / "page.html", title="a", pictures={"a": "a.svg"})


@pytest.mark.parametrize("dark", [False, True])
def test_browser_shows_it(browser, page, dark):
    theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.call("Emulation.setEmulatedMedia", features=[theme])
    browser.events.clear()
    browser.call("Page.navigate", url="about:blank")
    browser.call("Page.navigate", url=page.as_uri())
    end = time.monotonic() + 60
    while not browser.run("document.readyState === 'complete' && document.images.length"):
        assert time.monotonic() < end, "the page does not load"
        time.sleep(0.05)
    browser.frame()
    shot = browser.screenshot()
    assert (shot[2, 2].mean() < 60) == dark, "paper follows the theme"
    assert browser.run("[...document.images].every((image) => image.naturalWidth === 40)")
    assert not browser.complaints()
    asked = [url for url in browser.requests() if not url.startswith(("data:", "about:"))]
    assert asked == [page.as_uri()]


def test_quick_runs_are_marked(tmp_path):
    for word in ("", " --quick"):
        page = experiment_page(tmp_path / "a.html", title="a", command=f"python a.py{word}")
        assert ("Quick run" in Reader(page).texts) == bool(word)
