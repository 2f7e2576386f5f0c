"""``permutogeo denoise`` and ``permutogeo train denoise``, from the shell's side."""

import os
import re
from functools import partial

import numpy as np
import pytest
import torch
import trimesh
from typer.testing import CliRunner

from permutogeo import cli
from permutogeo.cli import _denoise_run
from permutogeo.data import from_mesh, from_point_cloud, to_mesh, to_point_cloud
from permutogeo.mesh import denoise
from permutogeo.metrics import normal_angle
from permutogeo.transforms import NormalNoise
from permutogeo.viz import mesh_picture


def run(*args):
    return CliRunner().invoke(cli.app, list(map(str, args)))


def cube(times=3):
    mesh = trimesh.creation.box()
    for _ in range(times):
        mesh = mesh.subdivide()
    return from_mesh(np.asarray(mesh.vertices), np.asarray(mesh.faces))


def noisy(times=3):
    data = NormalNoise(0.2, seed=0)(cube(times))
    data.x = torch.randint(256, (data.num_nodes, 3)) / torch.tensor(255.0)
    return data


@pytest.fixture
def scan(tmp_path):
    """A noisy cube with attributes, in a folder of its own."""
    data = noisy()
    data.quality = torch.rand(data.num_nodes)
    data.face_label = torch.arange(data.face.size(1))
    return to_mesh(data, tmp_path / "scan.ply")


@pytest.fixture
def small_pictures(monkeypatch):
    monkeypatch.setattr(_denoise_run, "mesh_picture", partial(mesh_picture, size=48))


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_clean_mesh_with_all_attributes(scan):
    before = scan.read_bytes()
    out = scan.with_name("clean.ply")
    result = run("denoise", scan, "-o", out)
    assert result.exit_code == 0, result.output
    assert re.fullmatch(rf"{out}: 386 vertices, 768 faces, \d+\.\d s\n", result.output)
    assert scan.read_bytes() == before and names(scan.parent) == ["clean.ply", "scan.ply"]
    data, clean = from_mesh(scan), from_mesh(out)
    assert torch.equal(clean.pos, denoise(data).pos)
    for name in ("face", "x", "quality", "face_label"):
        assert torch.equal(clean[name], data[name])
    assert normal_angle(clean.pos, cube().pos, data.face) < 0.3 * normal_angle(
        data.pos, cube().pos, data.face
    )


def test_options_reach_the_library(scan):
    data = from_mesh(scan)
    for method, strength, iterations in (("gaussian", 0.5, 4), ("smooth", 1.0, 3)):
        out = scan.with_name("clean.ply")
        options = ("--method", method, "--strength", strength, "--iterations", iterations)
        result = run("denoise", scan, "-o", out, *options, "--device", "cpu")
        assert result.exit_code == 0, result.output
        expected = denoise(data, method, strength, iterations).pos
        assert torch.equal(from_mesh(out).pos, expected)


@pytest.mark.parametrize("suffix", ["ply", "obj", "stl", "off"])
def test_formats(tmp_path, suffix):
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
def test_clouds(tmp_path, suffix):
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


def test_materials_textures_and_precision_survive(tmp_path):
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
def test_report_with_ground_truth(scan):
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
def test_report_with_another_ground_truth(scan):
    """A truth with other triangles is shown, and compared by the nearest places."""
    truth = to_mesh(cube(2), scan.with_name("truth.ply"))
    report = ("--report", scan.with_name("r.html"), "--ground-truth", truth)
    result = run("denoise", scan, "-o", scan.with_name("b.ply"), *report, "--method", "smooth")
    assert result.exit_code == 0 and "angle" not in result.output
    assert scan.with_name("r.html").read_text(encoding="utf-8").count("<canvas") == 3


@pytest.mark.usefixtures("small_pictures")
def test_several_files_and_folders(tmp_path):
    scans, other = tmp_path / "scans", tmp_path / "other.obj"
    scans.mkdir()
    to_mesh(noisy(1), scans / "a.ply"), to_mesh(noisy(1), scans / "b.off"), to_mesh(noisy(1), other)
    (scans / "notes.md").write_text("not a mesh")
    (scans / "c.ply").write_text("not a mesh either")
    command = ("denoise", scans, other, "-o", tmp_path / "new" / "out", "--method", "smooth")
    result = run(*command, "--report", tmp_path / "pages")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        f"Error: '{scans / 'c.ply'}': Expected a mesh in the format PLY"
    )
    assert f"1 of 4 files could not be done: {scans / 'c.ply'}" in result.stderr
    assert names(tmp_path / "new" / "out") == ["a.ply", "b.off", "other.obj"]
    assert names(tmp_path / "pages") == [
        f"{name}.{kind}" for name in ("a.ply", "b.off", "other.obj") for kind in ("html", "png")
    ]
    (scans / "c.ply").unlink()
    assert run(*command).exit_code == 0


def test_nothing_that_is_read_is_written(scan):
    """Not by its name, not by a link, not within a folder, not as the truth or a report."""
    folder = scan.parent
    truth = to_mesh(cube(), folder / "truth.ply")
    link, hard = folder / "link.ply", folder / "hard.ply"
    link.symlink_to(scan), os.link(scan, hard)
    before = scan.read_bytes(), truth.read_bytes()
    for command in (
        (scan, "-o", scan),
        (scan, "-o", folder),
        (folder, "-o", folder),
        (scan, "-o", folder / "." / "scan.ply"),
        (scan, "-o", link),
        (scan, "-o", hard),
        (scan, "-o", truth, "--ground-truth", truth),
    ):
        result = run("denoise", *command)
        assert result.exit_code == 1
        assert "Expected to write to another place" in result.stderr
    assert (scan.read_bytes(), truth.read_bytes()) == before


def test_two_files_for_one_place(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        to_mesh(noisy(1), tmp_path / name / "scan.ply")
    inputs = (tmp_path / "a" / "scan.ply", tmp_path / "b" / "scan.ply")
    result = run("denoise", *inputs, "-o", tmp_path / "out")
    assert result.exit_code == 1 and "another place" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output": "no/clean.ply"}, "Expected an existing folder to write to"),
        ({"output": "clean.blend"}, "'.blend'"),
        ({"output": "clean.xyz"}, "got '.xyz'"),
        ({"input": "none.ply"}, "none.ply': Expected a file"),
        ({"input": "scan.fbx"}, "'.fbx'"),
        ({"options": ("--device", "cuda:77")}, "Expected a device of this machine (got 'cuda:77'"),
        ({"options": ("--device", "abacus")}, "Expected a device of this machine (got 'abacus'"),
        ({"options": ("--strength", "-1")}, "'strength' >= 0"),
        ({"options": ("--iterations", "-1")}, "'iterations' >= 0"),
        ({"options": ("--weights", "none.safetensors")}, "none.safetensors"),
        ({"options": ("--report", "report.pdf")}, "'.pdf'"),
        ({"options": ("--ground-truth", "none.ply")}, "none.ply': Expected a file"),
    ],
)
def test_wrong_arguments(scan, change, message, monkeypatch):
    monkeypatch.chdir(scan.parent)
    given = {"input": "scan.ply", "output": "clean.ply", "options": (), **change}
    result = run("denoise", given["input"], "-o", given["output"], *given["options"])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ") and message in result.stderr
    assert names(scan.parent) == ["scan.ply"]


def test_arguments_that_the_parser_refuses(scan):
    for options in (("--method", "median"), ("--strength", "much"), ("--up", "w")):
        assert run("denoise", scan, "-o", "b.ply", *options).exit_code == 2
    assert run("denoise", scan).exit_code == 2
    assert run("denoise", "-o", "b.ply").exit_code == 2
    train = ("train", "denoise", "--data", scan, "-o", "w.safetensors")
    assert run(*train, "--steps", 0).exit_code == 2


def test_an_output_that_cannot_be_written(scan, monkeypatch):
    """The work may have been done: what was there before stays, and nothing else is left."""
    out = scan.with_name("clean.ply")
    out.write_text("what was there before")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    result = run("denoise", scan, "-o", out, "--method", "smooth")
    assert result.exit_code == 1 and "No space left" in result.stderr
    assert out.read_text() == "what was there before"
    assert names(scan.parent) == ["clean.ply", "scan.ply"]


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="there is no folder that refuses everyone")
def test_a_folder_that_cannot_be_written_to(scan):
    result = run("denoise", scan, "-o", "/proc/clean.ply", "--method", "smooth")
    assert result.exit_code == 1
    assert re.match(r"Error: .*Expected a (place|folder)", result.stderr)


def test_help_has_examples():
    result = run("denoise", "--help")
    assert result.exit_code == 0
    assert "permutogeo denoise scan.ply -o clean.ply" in result.output
    assert "train" in run("--help").output and "denoise" in run("train", "--help").output


def test_train_and_use_the_weights(tmp_path):
    folder = tmp_path / "clean"
    (folder / "deep").mkdir(parents=True)
    to_mesh(cube(2), folder / "deep" / "a.ply")
    (folder / "b.ply").write_text("not a mesh")
    to_point_cloud(from_point_cloud(cube().pos), folder / "cloud.ply")
    weights = tmp_path / "mine.safetensors"
    result = run("train", "denoise", "--data", folder, "-o", weights, "--steps", 2, "--copies", 1)
    assert result.exit_code == 0, result.output
    assert "1 meshes to learn from, 2 steps" in result.stdout
    assert re.search(r"new noise: \d+\.\d\d degrees before, \d+\.\d\d degrees after", result.stdout)
    assert result.stderr.count("passed over") == 2
    path = to_mesh(noisy(), tmp_path / "a.ply")
    out = tmp_path / "b.ply"
    assert run("denoise", path, "-o", out, "--weights", weights).exit_code == 0
    assert not torch.equal(from_mesh(out).pos, denoise(from_mesh(path)).pos)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--data", "empty", "-o", "w.safetensors"), "in 'empty' (found none)"),
        (("--data", "scan.ply", "-o", "w.pt"), "'.pt'"),
        (("--data", "scan.ply", "-o", "no/w.safetensors"), "existing folder"),
        (("--data", "none.ply", "-o", "w.safetensors"), "Expected a mesh to learn from"),
        (("--data", "scan.ply", "-o", "w.safetensors", "--start", "none.safetensors"), "none.safe"),
    ],
)
def test_wrong_training(scan, options, message, monkeypatch):
    monkeypatch.chdir(scan.parent)
    (scan.parent / "empty").mkdir()
    result = run("train", "denoise", *options)
    assert result.exit_code == 1
    assert "Error: " in result.stderr and message in result.stderr
    assert names(scan.parent) == ["scan.ply"]
