import json
import os

from typer.testing import CliRunner

from permutogeo import cli
from permutogeo._version import __version__
from permutogeo.cli.info import _size


def run(*args: str):
    return CliRunner().invoke(cli.app, list(args))


def test_info_as_json():
    result = run("info", "--json")
    assert result.exit_code == 0
    report = json.loads(result.output)
    assert report["permutogeo"] == __version__
    assert {"python", "torch", "warp", "torch_geometric", "numpy", "platform"} <= report.keys()
    assert report["torch_threads"] >= 1
    assert report["kernel_cache_mb"] >= 0


def test_info_as_table():
    result = run("info")
    assert result.exit_code == 0
    assert "kernel cache dir" in result.output


def test_info_says_what_is_wrong_with_warp(monkeypatch):
    def broken():
        raise RuntimeError("no such driver")

    monkeypatch.setattr("permutogeo.runtime.bridge.versions", broken)
    report = json.loads(run("info", "--json").output)
    assert report["warp"] == "not available: no such driver"


def test_size_of_a_folder_that_another_process_changes(tmp_path, monkeypatch):
    """Folders that vanish while the kernel cache is walked do not count."""
    for name in ("gone", "kept"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kernel.o").write_bytes(bytes(10))
    assert _size(tmp_path) == 20
    scan = os.scandir

    def scan_and_remove(folder):
        if os.path.basename(folder) == "gone":
            os.rename(folder, tmp_path.parent / f"{tmp_path.name}_gone")
        return scan(folder)

    monkeypatch.setattr(os, "scandir", scan_and_remove)
    assert _size(tmp_path) == 10
