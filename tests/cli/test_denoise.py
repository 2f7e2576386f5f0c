"""``permutogeo denoise``, from the shell's side: what it reads, does and writes."""

import json
import os
import re
from functools import partial

import numpy as np
import pytest
import torch
import trimesh

from permutogeo.cli import console, denoise_files
from permutogeo.data import from_mesh, from_point_cloud, to_mesh, to_point_cloud
from permutogeo.denoising import denoise
from permutogeo.denoising.mesh_error import normal_angle
from permutogeo.viz import mesh_picture


@pytest.fixture
def small_pictures(monkeypatch):
    monkeypatch.setattr(denoise_files, "mesh_picture", partial(mesh_picture, size=48))


def test_a_clean_mesh_with_all_attributes(scan, run, cube, names):
    before = scan.read_bytes()
    out = scan.with_name("clean.ply")
    result = run("denoise", scan, "-o", out)
    assert result.exit_code == 0, result.output
    assert re.fullmatch(
        rf"{out}: 386 vertices, 768 faces, \d+\.\d s, "
        r"noise 0\.\d+ edges, moved 0\.\d+ \(at most 0\.\d+\)\n",
        result.output,
    )
    assert scan.read_bytes() == before and names(scan.parent) == ["clean.ply", "scan.ply"]
    data, clean = from_mesh(scan), from_mesh(out)
    assert torch.equal(clean.pos, denoise(data).pos)
    for name in ("face", "x", "quality", "face_label"):
        assert torch.equal(clean[name], data[name])
    assert normal_angle(clean.pos, cube().pos, data.face) < 0.3 * normal_angle(
        data.pos, cube().pos, data.face
    )


def test_options_reach_the_library(scan, run):
    data = from_mesh(scan)
    for method, strength, iterations in (("gaussian", 0.5, 4), ("smooth", 1.0, 3)):
        out = scan.with_name("clean.ply")
        options = ("--method", method, "--strength", strength, "--iterations", iterations)
        result = run("denoise", scan, "-o", out, *options, "--device", "cpu")
        assert result.exit_code == 0, result.output
        expected = denoise(data, method, strength, iterations).pos
        assert torch.equal(from_mesh(out).pos, expected)


@pytest.mark.parametrize(("chosen", "expected"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_waiting_threads_sleep(chosen, expected, scan, run, monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", chosen or "")
    if chosen is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    result = run("denoise", scan, "-o", scan.with_name("clean.ply"), "--method", "smooth")
    assert result.exit_code == 0 and os.environ["OMP_WAIT_POLICY"] == expected


@pytest.mark.parametrize("suffix", ["ply", "obj", "stl", "off"])
def test_formats(tmp_path, suffix, run, noisy):
    path, out = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    to_mesh(noisy(), path)
    result = run("denoise", path, "-o", out, "--method", "smooth")
    assert result.exit_code == 0 and result.stderr == ""
    data, clean = from_mesh(path), from_mesh(out)
    assert torch.equal(clean.face, data.face)
    assert ("x" in clean) == (suffix != "stl")
    # Text is read as it is written, in double precision.
    torch.testing.assert_close(clean.pos, denoise(data, "smooth").pos, rtol=0, atol=1e-6)


@pytest.mark.parametrize("suffix", ["ply", "obj", "off", "xyz"])
def test_clouds(tmp_path, suffix, run):
    path, out = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    sphere = torch.from_numpy(np.array(trimesh.creation.icosphere(3).vertices)).float()
    pos = sphere * (1 + 0.04 * torch.randn(len(sphere), 1))
    data = from_point_cloud(pos, x=torch.randint(256, pos.shape) / torch.tensor(255.0))
    to_point_cloud(data, path)
    result = run("denoise", path, "-o", out)
    assert result.exit_code == 0, result.output
    assert "b." in result.output and "642 points" in result.output
    clean = from_point_cloud(out)
    assert torch.equal(clean.x, from_point_cloud(path).x)
    error = [(p.norm(dim=1) - 1).abs().mean() for p in (clean.pos, data.pos)]
    assert error[0] < 0.8 * error[1]
    refused = run("denoise", path, "-o", out, "--method", "smooth")
    assert refused.exit_code == 1 and "Expected a mesh for the method 'smooth'" in refused.stderr


def test_what_was_found_in_a_cloud(tmp_path, run):
    """A line, and the same as JSON; outliers leave with their attributes."""
    path, out = tmp_path / "a.ply", tmp_path / "b.ply"
    sphere = torch.from_numpy(np.array(trimesh.creation.icosphere(4).vertices)).float()
    generator = torch.Generator().manual_seed(0)
    pos = sphere + 0.02 * torch.randn(sphere.shape, generator=generator)
    far = torch.tensor([[4.0, 0, 0], [0, 5, 0], [0, 0, -6]])
    data = from_point_cloud(torch.cat([pos, far]))
    data.number = torch.arange(data.num_nodes)
    to_point_cloud(data, path)
    result = run("denoise", path, "-o", out)
    assert result.exit_code == 0, result.output
    line = rf"{out}: 2,?562 points, \d+\.\d s, noise 0\.0\d+ \(0\.\d\d spacings\), denoised, 3 "
    assert re.fullmatch(line + r"outliers removed\n", result.stdout), result.stdout
    assert from_point_cloud(out).number.tolist() == list(range(2562))
    truth = to_point_cloud(from_point_cloud(sphere), tmp_path / "truth.ply")
    options = ("--ground-truth", truth, "--json")
    found = json.loads(run("denoise", path, "-o", out, *options).stdout)
    assert found["removed"] == 3 and found["points"] == 2565 and found["action"] == "denoised"
    assert found["noise"] == pytest.approx(0.02, rel=0.25)
    before, after = found["errors"]["mean distance to the ground truth"]
    assert after < 0.8 * before
    few = to_point_cloud(from_point_cloud(pos[:10]), tmp_path / "few.ply")
    assert "left alone: fewer than 16" in run("denoise", few, "-o", out).stdout


def test_materials_textures_and_precision_survive(tmp_path, run, noisy):
    (tmp_path / "in").mkdir(), (tmp_path / "out").mkdir()
    (tmp_path / "in" / "scan.mtl").write_text("newmtl skin\n")
    data = noisy()
    data.pos = data.pos.double() + torch.tensor([4e6, 5e5, 100])
    data.uv = torch.rand(data.num_nodes, 2)
    data.material_library, data.material_names = ["scan.mtl"], ["skin", "cloth"]
    data.face_material = (torch.arange(data.face.size(1)) > 300).long()
    to_mesh(data, tmp_path / "in" / "a.obj")
    result = run("denoise", tmp_path / "in" / "a.obj", "-o", tmp_path / "out", "--method", "smooth")
    assert result.exit_code == 0 and result.stderr == ""
    clean = from_mesh(tmp_path / "out" / "a.obj", dtype=torch.float64)
    assert clean.material_library == ["../in/scan.mtl"] and clean.material_names == [
        "skin",
        "cloth",
    ]
    assert torch.equal(clean.face_material, data.face_material)
    torch.testing.assert_close(clean.uv, data.uv.double(), rtol=0, atol=1e-7)
    assert torch.equal(clean.pos, denoise(data, "smooth").pos)
    lost = run("denoise", tmp_path / "in" / "a.obj", "-o", tmp_path / "b.stl", "--method", "smooth")
    assert lost.exit_code == 0
    assert "STL files do not hold face_material, material_library, material_names, uv, x" in (
        lost.stderr
    )


@pytest.mark.usefixtures("small_pictures")
def test_report_with_ground_truth(scan, run, cube, names):
    folder = scan.parent
    truth = to_mesh(cube(), folder / "truth.ply")
    report = ("--report", folder / "report.html", "--ground-truth", truth)
    result = run("denoise", scan, "-o", folder / "clean.ply", *report, "--up", "z")
    assert result.exit_code == 0, result.output
    found = re.search(r"mean normal angle \(degrees\) (\S+) to (\S+)\n", result.output)
    angles = [
        float(normal_angle(from_mesh(folder / name).pos, cube().pos, cube().face))
        for name in ("scan.ply", "clean.ply")
    ]
    assert [float(text) for text in found.groups()] == pytest.approx(angles, rel=1e-3)
    page = (folder / "report.html").read_text(encoding="utf-8")
    for text in ("scan.ply, denoised", "ground truth", *found.groups(), "learned", "strength"):
        assert text in page
    assert page.count("<canvas") == 3
    assert (folder / "report.png").read_bytes().startswith(b"\x89PNG")
    assert names(folder) == ["clean.ply", "report.html", "report.png", "scan.ply", "truth.ply"]


@pytest.mark.usefixtures("small_pictures")
def test_report_with_another_ground_truth(scan, run, cube):
    """A truth of other connectivity is shown, and compared by the distance to its surface."""
    truth = to_mesh(cube(2), scan.with_name("truth.ply"))
    report = ("--report", scan.with_name("r.html"), "--ground-truth", truth)
    result = run("denoise", scan, "-o", scan.with_name("b.ply"), *report, "--method", "smooth")
    assert result.exit_code == 0 and "angle" not in result.output
    found = re.search(r"mean distance to the ground truth (\S+) to (\S+)\n", result.stdout)
    before, after = map(float, found.groups())
    assert 0 < after < before
    assert result.stdout.endswith(f"{scan.with_name('r.html')}: report\n")
    assert scan.with_name("r.html").read_text(encoding="utf-8").count("<canvas") == 3


@pytest.mark.usefixtures("small_pictures")
def test_several_files_and_folders(tmp_path, run, noisy, names):
    scans, other = tmp_path / "scans", tmp_path / "other.obj"
    scans.mkdir()
    to_mesh(noisy(1), scans / "a.ply"), to_mesh(noisy(1), scans / "b.off"), to_mesh(noisy(1), other)
    (scans / "notes.md").write_text("not a mesh"), (scans / "readme.txt").write_text("nor this")
    (scans / "c.ply").write_text("not a mesh either")
    command = ("denoise", scans, other, "-o", tmp_path / "new" / "out", "--method", "smooth")
    result = run(*command, "--report", tmp_path / "pages")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        f"Error: '{scans / 'c.ply'}': Expected a mesh in the format PLY"
    )
    assert f"1 of 4 files could not be denoised: {scans / 'c.ply'}" in result.stderr
    assert names(tmp_path / "new" / "out") == ["a.ply", "b.off", "other.obj"]
    assert names(tmp_path / "pages") == [
        f"{name}.{kind}" for name in ("a.ply", "b.off", "other.obj") for kind in ("html", "png")
    ]
    (scans / "c.ply").unlink()
    assert run(*command).exit_code == 0


def test_help_has_examples(run):
    result = run("denoise", "--help")
    assert result.exit_code == 0
    assert "permutogeo denoise scan.ply -o clean.ply" in result.output
    assert "train" in run("--help").output and "denoise" in run("train", "--help").output


@pytest.mark.parametrize("name", ["new/deep/x.ply", "new"])
def test_missing_folders_are_created(scan, run, name):
    out = scan.parent / name
    result = run("denoise", scan, "-o", out, "--method", "smooth")
    assert result.exit_code == 0, result.output
    assert (out if name.endswith("ply") else out / "scan.ply").is_file()


def test_much_work_is_announced(scan, run, monkeypatch):
    """A warning before, and lines of progress where there is no terminal."""
    monkeypatch.setattr(console, "INTERVAL", 0.0)
    out = scan.with_name("clean.ply")
    result = run("denoise", scan, "-o", out, "--method", "smooth", "--iterations", 201)
    assert result.exit_code == 0
    assert "Warning: 201 smoothing steps may take minutes\n" in result.stderr
    assert "scan.ply: 50%\n" in result.stderr
