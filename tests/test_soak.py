"""Short runs of the jobs of ``soak.py``, each in a process of its own."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def soak():
    spec = importlib.util.spec_from_file_location("soak", Path(__file__).with_name("soak.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["oracle", "threads", "memory", "kill_writes"])
def test_job(soak, name, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(soak.ROOT))
    found = soak.run_slice(name, 4.0, seed=1)
    assert found["failures"] == [] and found["cases"] > 0


def test_a_hang_is_told_from_a_slow_machine(soak):
    """Sleeping workers hang; one that is stopped for longer than a check is waited for."""
    sleep = "import subprocess; subprocess.run(['sleep', '600'])"
    code, _, _ = soak.run_watched([sys.executable, "-c", sleep], 2.0, 60.0)
    assert code is None
    spin = "import time\nwhile time.process_time() < 60: pass"
    code, _, _ = soak.run_watched([sys.executable, "-c", spin], 20.0, 1.0)
    assert code is None
    work = "import time\nwhile time.process_time() < 1: pass\nprint('done')"
    assert soak.run_watched([sys.executable, "-c", work], 20.0, 60.0)[:2] == (0, "done\n")


def test_failures_are_counted(soak, monkeypatch, capsys):
    monkeypatch.setattr(
        soak, "run_slice", lambda *args: {"cases": 3, "failures": ["wrong"], "worst": 0.5}
    )
    assert soak.soak(0.0001, 0, ["oracle"]) >= 1
    assert "FAILED oracle: wrong" in capsys.readouterr().out
