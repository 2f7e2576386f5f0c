"""All operators with Warp's bounds checks on, where an access out of range ends the process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("exercise.py")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs the script in debug mode, with a kernel cache of its own."""
    cache = tmp_path_factory.mktemp("warp")
    environment = os.environ | {"PERMUTOGEO_DEBUG": "1", "WARP_CACHE_PATH": str(cache)}

    def run(*args, threads=1):
        command = [sys.executable, str(SCRIPT), *args]
        settings = environment | {"OMP_NUM_THREADS": str(threads)}
        return subprocess.run(command, env=settings, capture_output=True, text=True)

    return run


@pytest.mark.parametrize("threads", [1, 2])
def test_no_access_out_of_range(run, threads):
    done = run(threads=threads)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


def test_an_access_out_of_range_is_noticed(run):
    done = run("fault")
    assert done.returncode != 0 and "done" not in done.stdout
    assert "Assertion failed" in done.stderr
