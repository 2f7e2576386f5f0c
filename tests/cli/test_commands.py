"""Properties of all commands: help, version, lazy imports, closed outputs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from permutogeo import cli
from permutogeo._version import __version__
from permutogeo.data import to_mesh

ROOT = Path(__file__).parent.parent.parent
COMMANDS = (
    *("denoise", "filter", "upsample", "segment", "propagate", "train", "train denoise"),
    *("info", "warmup", "bench"),
)
MAIN = [sys.executable, "-c", "from permutogeo.cli import main; main()"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}


def run(*args, columns=80):
    return CliRunner().invoke(cli.app, list(args), env={"COLUMNS": str(columns)})


def test_version():
    assert run("--version").output == f"permutogeo {__version__}\n"


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(command, columns):
    result = run(*command.split(), "-h", columns=columns)
    assert result.exit_code == 0
    assert result.output == run(*command.split(), "--help", columns=columns).output
    lines = result.output.splitlines()
    # Examples are not wrapped: they are there to be copied.
    assert all(len(line) <= columns or "permutogeo " in line for line in lines)
    for unwanted in ("bool", "list[", "[/", "{", "Annotated"):
        assert unwanted not in result.output
    if command in ("denoise", "filter", "upsample", "segment", "propagate"):
        assert "--device" in result.output and "Example" in result.output


def test_help_lists_commands_and_choices():
    assert all(name in run("--help").output for name in COMMANDS if " " not in name)
    text = " ".join(run("denoise", "--help").output.split())
    assert "learned|gaussian|smooth" in text and "x|y|z" in text
    assert "logits|probabilities|energies" in run("segment", "--help").output


MISTAKES = [
    ["--help"],
    ["denoise", "--help"],
    ["denoise", "nofile.ply", "-o", "x.ply"],
    ["denoise", "photo.png", "-o", "x.ply"],
    ["denoise", "scan.ply", "-o", "x.blend"],
    ["denoise", "scan.ply", "-o", "scan.ply"],
    ["denoise", "scan.ply", "-o", "x.ply", "--weights", "no.safetensors"],
    ["denoise", "scan.ply", "-o", "x.ply", "--strength", "1e9"],
    ["filter", "nofile.png", "-o", "x.png"],
    ["filter", "photo.png", "-o", "photo.png"],
    ["upsample", "photo.png", "--guide", "no.png", "-o", "x.png"],
    ["segment", "photo.png", "--unary", "photo.png", "-o", "x.png"],
    ["propagate", "photo.png", "-o", "x.png"],
    ["propagate", "photo.png", "--labels", "no.png", "-o", "x.png"],
    ["propagate", "scan.ply", "--colors", "photo.png", "-o", "x.ply"],
    ["train", "denoise", "--data", "nofolder", "-o", "x.safetensors"],
    ["warmup", "--dims", "x"],
]
WITHOUT_TORCH = """
import json, sys
from typer.testing import CliRunner
from permutogeo.cli import app
codes = [CliRunner().invoke(app, arguments).exit_code for arguments in json.loads(sys.argv[1])]
assert not {"torch", "numpy", "torch_geometric", "warp"} & set(sys.modules), "slow imports"
print(codes)
"""


def test_mistakes_are_answered_without_torch(tmp_path):
    (tmp_path / "scan.ply").write_text("x"), (tmp_path / "photo.png").write_text("x")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, json.dumps(MISTAKES)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [0, 0, *[1] * (len(MISTAKES) - 3), 2]


def test_a_closed_pipe_is_no_failure(tmp_path, noisy):
    """As in ``permutogeo denoise scans -o out | head -1``: all files are written."""
    (tmp_path / "scans").mkdir()
    for name in ("a.ply", "b.ply", "c.ply"):
        to_mesh(noisy(1), tmp_path / "scans" / name)
    command = [*MAIN, "denoise", "scans", "-o", "out", "--method", "smooth"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as closed:
        done = subprocess.run(
            command,
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=ENVIRONMENT,
        )
    assert done.returncode == 0
    assert re.fullmatch(r"Loading …\n(Compiling kernels .*\n)?", done.stderr)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.ply", "b.ply", "c.ply"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*MAIN, "info", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
    assert done.returncode == 1
    assert done.stderr == "Error: [Errno 28] No space left on device\n"
