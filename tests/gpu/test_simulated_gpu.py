"""The CUDA branches of all operators, executed on a simulated device; see ``fake_cuda.py``."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]


def run(script, *arguments):
    path = os.pathsep.join([str(ROOT), str(FOLDER)])
    command = [sys.executable, str(FOLDER / script), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """A folder of kernels that are compiled once for all tests."""
    return tmp_path_factory.mktemp("simulated")


def test_cuda_branches_match_the_oracle(kernels):
    done = run("exercise_cuda.py", kernels, 90, 0)
    assert done.returncode == 0, done.stderr
    figures = re.fullmatch(
        r"90 cases, (\d+) launches, reads: (\d+) in a build, (\d+) after it\n", done.stdout
    )
    launches, in_build, after = map(int, figures.groups())
    assert launches > 2000  # each on a schedule of its own
    assert in_build <= 2
    assert after == 0


def test_sparse_convolutions_match_the_cpu(kernels):
    done = run("exercise_spconv.py", kernels)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "16 compared\n"


def test_broken_atomics_are_found(tmp_path):
    """The same cases fail where compare-and-swap is not atomic, so they can fail."""
    done = run("exercise_cuda.py", tmp_path, 60, 0, "broken")
    assert done.returncode != 0
    assert "AssertionError" in done.stderr or "KeyError" in done.stderr


def test_layers_match_the_cpu_without_further_reads(kernels):
    """A dense CRF reads once more: whether its unary is finite."""
    done = run("exercise_layers.py", kernels)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 8
    for line in lines:
        reads = int(line.split()[-3])
        assert reads <= line.startswith("DenseCRF"), line


def test_graphs_of_kept_lattices_replay_on_other_values(kernels):
    """Forward and backward passes hold nothing that a capture forbids or would freeze."""
    done = run("exercise_capture.py", kernels)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 8
    assert all(int(line.split()[-4]) > 0 for line in lines[:-1])
    assert lines[-1] == "refused: a build, a lattice without warm-up"


def test_report_of_a_card(kernels):
    done = run("exercise_bench.py", kernels)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {"device", "driver", "torch", "warp", "copy_gb_per_s"} <= set(report)
    assert len(report["cases"]) == 2
    for case in report["cases"].values():
        assert all(isinstance(time, float) for time in case["milliseconds"].values()), case
        waits = case["host_waits"]
        assert waits.pop("build") <= 2 and waits.pop("locate") <= 1
        assert set(waits.values()) == {0}
        assert set(case["of_roofline"]) == {"build", "splat", "blur", "slice"}
    assert str(Path.home()) not in done.stdout


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_each_output_is_written_by_one_index(device):
    done = run("ownership.py", device, "1,2,3,4,5,6,7,8")
    assert done.returncode == 0, done.stderr
    seen = set(done.stdout.split(" of ")[1].split())
    expected = {"axis", "gather", "inner", "locate", "merge", "convolve"}
    if device == "cpu":
        expected |= {"add_in_order", "count", "place", "collect", "correlate"}
    else:
        expected |= {"add", "collect_pieces", "collect", "correlate"}
    assert expected <= seen


def test_indices_do_not_wrap_near_two_to_the_31():
    done = run("large_index.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
