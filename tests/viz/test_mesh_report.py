"""The HTML of a report: contents and escaping."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from permutogeo.viz import mesh_report

EVIL = "</script><script>window.hit=1</script><img src=x onerror=window.hit=1>\"'&$title<!--"


class Reader(HTMLParser):
    """Elements, their attributes, and the text that is shown."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.raw, self._open = [], [], {}, None
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open = (tag, dict(attrs).get("id"))

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open and self._open[0] in ("script", "style"):
            self.raw[self._open] = self.raw.get(self._open, "") + data
        elif data.strip():
            self.texts.append(data.strip())

    def count(self, tag):
        return sum(name == tag for name, _ in self.elements)


def geometry_of(path):
    """The description that the script reads, and the arrays it unpacks."""
    reader = Reader(path)
    scene = json.loads(reader.raw["script", "scene"])
    data = gzip.decompress(base64.b64decode(reader.raw["script", "geometry"]))
    arrays = {}
    for name, where in scene["arrays"].items():
        dtype = np.dtype(where["type"].removesuffix("Array").lower()).newbyteorder("<")
        arrays[name] = np.frombuffer(data, dtype, where["length"], where["offset"])
    return scene, arrays


def test_titles_numbers_and_settings(trio, tmp_path):
    path = mesh_report(
        tmp_path / "report.html",
        trio,
        title="A fish & chips",
        numbers={"noisy": {"angle": 12.34567, "note": "?"}, "clean": {"angle": torch.tensor(3)}},
        settings={"method": "learned", "vertices": 1234567, "fast": True, "seed": None},
    )
    texts = Reader(path).texts
    for text in ("A fish & chips", "noisy", "clean", "ground truth", "12.35", "3", "?", "learned"):
        assert text in texts
    for text in ("1,234,567", "yes", "–", "642 vertices · 1,280 triangles", "angle", "note"):
        assert text in texts
    assert "Distance to ground truth" in texts


def test_no_error_without_a_truth(trio, tmp_path):
    """Without ground truth the color shows displacement, not error."""
    for word, other in (("error", "displacement"), ("displacement", "error")):
        texts = Reader(mesh_report(tmp_path / "a.html", trio)).texts
        assert word.capitalize() in texts and other.capitalize() not in texts
        captions = [text for text in texts if text.startswith(f"{word}: mean ")]
        assert captions and all(text.endswith(" mean edges") for text in captions)
        trio.pop("ground truth", None)


def test_without_tables(make_ball, tmp_path):
    reader = Reader(mesh_report(tmp_path / "report.html", {"one": make_ball()}))
    assert reader.count("table") == 0
    assert [attrs["id"] for tag, attrs in reader.elements if tag == "input"] == ["wireframe"]
    assert reader.count("canvas") == 1


def test_what_users_write_is_only_text(trio, tmp_path):
    plain = Reader(mesh_report(tmp_path / "plain.html", {f"{k}": v for k, v in trio.items()}))
    table = {EVIL: {EVIL: EVIL}}
    path = mesh_report(
        tmp_path / "evil.html",
        {EVIL: trio["noisy"], "b": trio["clean"], "c": trio["ground truth"]},
        title=EVIL,
        numbers=table,
        settings={EVIL: EVIL},
        error=EVIL,
    )
    reader = Reader(path)
    assert reader.count("script") == plain.count("script") == 3
    assert reader.count("img") == reader.count("a") == 0
    handlers = [key for _, attrs in reader.elements for key in attrs if key.startswith("on")]
    assert handlers == []
    assert reader.texts.count(EVIL) >= 6
    canvas = next(attrs for tag, attrs in reader.elements if tag == "canvas")
    assert canvas["aria-label"] == f"{EVIL} in 3-D"


def test_the_page_asks_for_nothing(trio, tmp_path):
    text = mesh_report(tmp_path / "report.html", trio).read_text(encoding="utf-8")
    body = re.sub(r'<script type="text/plain".*?</script>', "", text, flags=re.DOTALL)
    assert not re.search(r"https?:|//[a-z]|\bsrc=|\bhref=|@import|url\(|\bfetch\(|\bimport\b", body)
    contents = [attrs.get("content", "") for _, attrs in Reader(tmp_path / "report.html").elements]
    (policy,) = [content for content in contents if "default-src" in content]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_the_same_meshes_give_the_same_page(trio, tmp_path):
    pages = [mesh_report(tmp_path / f"{i}.html", trio).read_bytes() for i in range(2)]
    assert pages[0] == pages[1]


def test_large_meshes_say_that_less_is_shown(make_ball, tmp_path):
    meshes = {"big": make_ball(4), "cloud": Data(pos=torch.rand(900, 3))}
    path = mesh_report(tmp_path / "report.html", meshes, max_faces=500)
    scene, arrays = geometry_of(path)
    assert arrays[scene["meshes"][0]["face"]].size <= 3 * 500
    assert "decimated for display to 500" in Reader(path).texts
    assert sum("decimated" in text for text in Reader(path).texts) == 2


def test_errors(trio, tmp_path):
    with pytest.raises(ValueError, match=r"Expected one of \.htm, .html"):
        mesh_report(tmp_path / "report.pdf", trio)
    trio["clean"].pos[5, 0] = float("inf")
    (tmp_path / "old.html").write_text("old")
    message = r"mesh_report, 'clean': Expected finite values in 'pos' .got NaN or infinity in row 5"
    with pytest.raises(ValueError, match=message):
        mesh_report(tmp_path / "old.html", trio)
    assert [path.name for path in tmp_path.iterdir()] == ["old.html"]
    assert (tmp_path / "old.html").read_text() == "old"


def test_a_large_page_stays_small(make_ball, tmp_path):
    """Three meshes of 41,000 vertices in two megabytes."""
    meshes = {"noisy": make_ball(6, 0.01), "clean": make_ball(6, 0.001), "truth": make_ball(6)}
    path = mesh_report(tmp_path / "a.html", meshes)
    assert meshes["noisy"].num_nodes > 40_000
    assert path.stat().st_size < 2e6
