"""Manifest of finished files."""

import json
import os

import permutogeo.cluster.manifest as module
from permutogeo.cluster import MANIFEST_NAME, Manifest


def test_done_means_made_from_this_in_this_way(tmp_path, monkeypatch):
    source, target = tmp_path / "a.txt", tmp_path / "out" / "a.txt"
    target.parent.mkdir()
    source.write_text("in"), target.write_text("out")
    Manifest(target.parent, {"strength": 1.0}).add(source, target, 0.5)

    def is_done(**settings):
        return Manifest(target.parent, settings or {"strength": 1.0}).is_done(source, target)

    assert is_done()
    assert not is_done(strength=2.0)
    monkeypatch.setattr(module, "__version__", "0.0.other")
    assert not is_done()
    monkeypatch.undo()
    target.write_text("half")
    assert not is_done()
    target.write_text("out")
    Manifest(target.parent, {"strength": 1.0}).add(source, target, 0.5)
    os.utime(source, ns=(1, 1))
    assert not is_done()
    target.unlink()
    assert not is_done()


def test_lines(tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("in"), target.write_text("out")
    manifest = Manifest(tmp_path, {"weights": tmp_path})
    manifest.add(source, target, 0.5)
    path = tmp_path / MANIFEST_NAME
    (line,) = path.read_text().splitlines()
    entry = json.loads(line)
    assert entry["target"] == "b" and entry["source"] == str(source)
    assert entry["sha256"].startswith("762069bc") and entry["settings"]["weights"] == str(tmp_path)
    assert entry["version"] == module.__version__


def test_an_unfinished_line_is_ignored(tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("in"), target.write_text("out")
    path = tmp_path / MANIFEST_NAME
    path.write_text('7\n{"target": "b", "sour')
    manifest = Manifest(tmp_path)
    assert manifest.entries == {}
    manifest.add(source, target, 0.5)
    assert Manifest(tmp_path).is_done(source, target)
