"""Folders of files with a manifest, in this process and on a cluster of two processes."""

import json

import pytest

from permutogeo.cluster import MANIFEST_NAME
from permutogeo.data import from_mesh


@pytest.fixture
def folder(scan, tmp_path):
    """A folder with three meshes, one of them damaged."""
    place = tmp_path / "scans" / "deep"
    place.mkdir(parents=True)
    for name in ("a.ply", "b.ply"):
        (place / name).write_bytes(scan.read_bytes())
    (place / "bad.ply").write_bytes(scan.read_bytes()[:2000])
    return place.parent


@pytest.mark.parametrize("scheduler", [(), ("--scheduler", "local:2", "--worker-memory", "2GB")])
def test_a_folder(folder, run, tmp_path, names, scheduler):
    if scheduler:
        pytest.importorskip("distributed")
    options = ("-o", tmp_path / "out", "--method", "smooth", "--resume", *scheduler)
    result = run("denoise", folder, *options)
    assert result.exit_code == 1
    assert "1 of 3 files could not be denoised" in result.output and "bad.ply" in result.output
    expected = ["deep/a.ply", "deep/b.ply", MANIFEST_NAME]
    assert names(tmp_path / "out") == sorted(expected)
    assert from_mesh(tmp_path / "out" / "deep" / "a.ply").num_nodes == 386
    lines = (tmp_path / "out" / MANIFEST_NAME).read_text().splitlines()
    entries = {entry["target"]: entry for entry in map(json.loads, lines)}
    assert set(entries) == {"deep/a.ply", "deep/b.ply"}
    assert entries["deep/a.ply"]["settings"]["method"] == "smooth"
    if scheduler:
        return
    (folder / "deep" / "bad.ply").unlink()
    again = run("denoise", folder, *options)
    assert again.exit_code == 0 and "Skipped 2 of 2 files that are done" in again.output
    other = run("denoise", folder, *options, "--strength", 0.5)
    assert other.exit_code == 0 and "Skipped" not in other.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--scheduler", "nowhere"), "Expected 'local', 'local:N' or the address"),
        (("--scheduler", "tcp://127.0.0.1:9"), "Expected a Dask scheduler at"),
        (("--resume", "--ground-truth", "scan.ply"), "Expected no --ground-truth with"),
        (("--worker-memory", "-3"), "Expected --worker-memory as a size"),
    ],
)
def test_bad_options(scan, run, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(scan.parent)
    result = run("denoise", scan, "-o", "out.ply", "--method", "smooth", *options)
    assert result.exit_code == 1 and message in " ".join(result.output.split())
    assert not (tmp_path / "out.ply").exists()
