"""Scripts in interpreters of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def start(code, folder, *args, **environment):
    """A script in an interpreter of its own."""
    script = folder / f"script_{abs(hash(code))}.py"
    script.write_text(code)
    return subprocess.Popen(
        [sys.executable, str(script), *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**ENVIRONMENT, **environment},
    )


def finish(process, timeout=120):
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"still running after {timeout} s: {out}{err}")
    assert process.returncode == 0, out + err
    return out, err


def run(code, folder, *args, **environment):
    return finish(start(code, folder, *args, **environment))


@pytest.fixture(name="start")
def _start():
    return start


@pytest.fixture(name="finish")
def _finish():
    return finish


@pytest.fixture(name="run")
def _run():
    return run
