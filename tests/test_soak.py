"""Short runs of the jobs of ``soak.py``, each in a process of its own."""

import importlib.util
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


def test_failures_are_counted(soak, monkeypatch, capsys):
    monkeypatch.setattr(
        soak, "run_slice", lambda *args: {"cases": 3, "failures": ["wrong"], "worst": 0.5}
    )
    assert soak.soak(0.0001, 0, ["oracle"]) >= 1
    assert "FAILED oracle: wrong" in capsys.readouterr().out
