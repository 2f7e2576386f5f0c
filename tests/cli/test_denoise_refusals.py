"""What ``permutogeo denoise`` refuses: one line that says why, and nothing is left behind."""

import os
import re

import pytest

from permutogeo.data import to_mesh


def test_nothing_that_is_read_is_written(scan, run, cube):
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
        assert "would overwrite the input" in result.stderr
    assert (scan.read_bytes(), truth.read_bytes()) == before


def test_two_files_for_one_place(tmp_path, run, noisy):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        to_mesh(noisy(1), tmp_path / name / "scan.ply")
    inputs = (tmp_path / "a" / "scan.ply", tmp_path / "b" / "scan.ply")
    result = run("denoise", *inputs, "-o", tmp_path / "out")
    assert result.exit_code == 1
    both = f"The outputs of '{inputs[0]}' and '{inputs[1]}' have the same path"
    assert result.stderr == f"Error: {both} '{tmp_path / 'out' / 'scan.ply'}'\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output": "scan.ply/clean.ply"}, "Expected a folder to write to (got the file"),
        ({"output": "clean.blend"}, "'.blend'"),
        ({"output": "clean.xyz"}, "got '.xyz'"),
        ({"input": "none.ply"}, "none.ply': Expected a file or folder"),
        ({"input": "none"}, "none': Expected a file or folder (there is none of that name)"),
        ({"options": ("--device", "cuda:77")}, "Expected a device of this machine (got 'cuda:77'"),
        ({"options": ("--device", "abacus")}, "Expected a device of this machine (got 'abacus'"),
        ({"options": ("--strength", "-1")}, "Expected --strength from 0 to 100 (got -1)"),
        ({"options": ("--strength", "1e9")}, "Expected --strength from 0 to 100 (got 1e+09)"),
        ({"options": ("--iterations", "-1")}, "Expected --iterations from 0 to 10,000 (got -1)"),
        ({"options": ("--weights", "tiles")}, "'tiles': Expected the weights of a MeshDenoiser"),
        ({"options": ("--weights", "none.safetensors")}, "none.safetensors"),
        ({"options": ("--report", "report.pdf")}, "'.pdf'"),
        ({"options": ("--ground-truth", "none.ply")}, "none.ply': Expected a file"),
    ],
)
def test_wrong_arguments(scan, change, message, monkeypatch, run, names):
    monkeypatch.chdir(scan.parent)
    given = {"input": "scan.ply", "output": "clean.ply", "options": (), **change}
    result = run("denoise", given["input"], "-o", given["output"], *given["options"])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ") and message in result.stderr
    assert result.stderr.count("\n") == 1
    assert names(scan.parent) == ["scan.ply"]


def test_a_file_of_another_kind(scan, run):
    """The kinds that there are stand in the message, each once."""
    result = run("denoise", scan.rename(scan.with_suffix(".fbx")), "-o", scan.with_name("b.ply"))
    assert result.exit_code == 1 and "(got '.fbx')" in result.stderr
    assert result.stderr.count(".obj") == result.stderr.count(".ply,") == 1


def test_arguments_that_the_parser_refuses(scan, run):
    for options in (("--method", "median"), ("--strength", "much"), ("--up", "w")):
        assert run("denoise", scan, "-o", "b.ply", *options).exit_code == 2
    assert run("denoise", scan).exit_code == 2
    assert run("denoise", "-o", "b.ply").exit_code == 2
    train = ("train", "denoise", "--data", scan, "-o", "w.safetensors")
    assert run(*train, "--steps", 0).exit_code == 2


@pytest.mark.parametrize("report", [False, True])
def test_an_interrupt_leaves_nothing_half_written(scan, report, monkeypatch, run, names):
    """Ctrl-C in the last moment, of the mesh or of the page: what was there before stays."""
    out, page = scan.with_name("clean.ply"), scan.with_name("page.html")
    out.write_text("before"), page.write_text("before")
    replace = os.replace

    def stop(source, target):
        if not report or str(target).endswith(".html"):
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", stop)
    result = run("denoise", scan, "-o", out, "--method", "smooth", "--report", page)
    assert result.exit_code == 130
    assert names(scan.parent) == ["clean.ply", "page.html", "scan.ply"]
    assert page.read_text() == "before" and (out.read_bytes() == b"before") != report


def test_an_output_that_cannot_be_written(scan, monkeypatch, run, names):
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
def test_a_folder_that_cannot_be_written_to(scan, run):
    result = run("denoise", scan, "-o", "/proc/clean.ply", "--method", "smooth")
    assert result.exit_code == 1
    assert re.match(r"Error: .*Expected a (place|folder)", result.stderr)
