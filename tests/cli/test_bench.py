import json
import sys

import pytest
import trimesh
from typer.testing import CliRunner

from permutogeo import benchmarks, cli
from permutogeo.data import from_mesh, to_mesh
from permutogeo.transforms import NormalNoise


def run(*args):
    return CliRunner().invoke(cli.app, ["bench", *args])


def test_names_are_checked():
    result = run("bilateral", "speed")
    assert result.exit_code == 2
    assert "(got speed)" in " ".join(result.stderr.split())


@pytest.mark.parametrize(("names", "code"), [(("paper",), 0), (("crf",), 1), (("crf", "paper"), 0)])
def test_missing_libraries_are_named(monkeypatch, names, code):
    done = []

    def bench_one(names, quick, record):
        if names == ["crf"]:
            raise ModuleNotFoundError("No module named 'skimage'", name="skimage")
        done.append((names, quick, record))

    monkeypatch.setattr(benchmarks, "run", bench_one)
    result = run(*names, "--quick")
    assert result.exit_code == code
    assert done == ([(["paper"], True, None)] if "paper" in names else [])
    left_out = "Left out 'crf', which needs skimage: pip install 'permutogeo[bench]'\n"
    assert result.stderr == (left_out if "crf" in names else "")


def test_missing_lidar_packages_are_named(monkeypatch):
    """The benchmark of tiles writes LAZ files, which needs packages of another extra."""
    monkeypatch.setitem(sys.modules, "laspy", None)
    result = run("tiles", "--quick")
    assert result.exit_code == 1 and "Left out 'tiles'. " in result.stderr and not result.stdout
    assert "pip install 'permutogeo[lidar]'" in result.stderr


def test_help_names_the_extra():
    assert "pip install 'permutogeo[bench]'" in " ".join(run("--help").output.split())


def test_a_folder_of_pairs(tmp_path):
    """Tables, page and pictures of a folder; a noisy file belongs to the longest clean name, and
    the rest of its own is the kind of noise."""
    mesh = trimesh.creation.icosphere(3)
    for name, size, kind in (("ball", 1.0, "n1"), ("ball_large", 2.0, "n2")):
        clean = from_mesh(mesh.vertices * size, mesh.faces)
        noisy = NormalNoise(0.2, seed=0)(clean)
        for folder, data, stem in (("original", clean, name), ("noisy", noisy, f"{name}_{kind}")):
            (tmp_path / folder).mkdir(exist_ok=True)
            to_mesh(data, tmp_path / folder / f"{stem}.ply")
    out = tmp_path / "out"
    options = ("--set", str(tmp_path), "-o", str(out), "--quick", "--record", str(out))
    result = run("denoising", *options)
    assert result.exit_code == 0, result.output
    record = json.loads((out / "bench_denoising_set.json").read_text())
    assert record["command"] == f"permutogeo bench denoising --set {tmp_path.name} --quick"
    assert [row[0] for row in record["rows"]] == ["noisy", "ours"]
    found = json.loads((out / "results.json").read_text())
    assert set(found) == {"ball_n1", "ball_large_n2"}
    kinds = json.loads((out / "bench_denoising_set_2.json").read_text())
    assert kinds["columns"] == ["mean / median / worst", "n1 (1)", "n2 (1)"]
    angle = f"{found['ball_n1']['ours'][0]:.2f}"
    assert kinds["rows"][1][:2] == ["ours", " / ".join([angle] * 3)]
    for errors in found.values():
        assert errors["ours"][0] < 0.3 * errors["noisy"][0]
    page = (out / "index.html").read_text()
    assert "ball_large_n2.png" in page and (out / "ball_large_n2.png").is_file()


def test_a_folder_needs_the_benchmark_and_both_halves(tmp_path):
    assert run("crf", "--set", str(tmp_path)).exit_code == 2
    result = run("denoising", "--set", str(tmp_path))
    assert result.exit_code == 1 and "Expected folders 'noisy' and one of clean" in result.stderr


def test_clouds_from_a_folder_of_meshes(tmp_path):
    mesh = trimesh.creation.icosphere(3)
    to_mesh(from_mesh(mesh.vertices, mesh.faces), tmp_path / "ball.off")
    result = run("clouds", "--set", str(tmp_path), "--quick")
    assert result.exit_code == 0, result.output
    assert "Shapes: ball" in result.output and "1 shapes, 1,000 points" in result.output
    (tmp_path / "ball.off").unlink()
    result = run("clouds", "--set", str(tmp_path))
    assert result.exit_code == 1 and "Expected meshes in" in result.stderr
