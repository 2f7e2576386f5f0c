"""Every benchmark runs with ``--quick``; its figures are not checked."""

import json
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

from permutogeo.benchmarks import BENCHMARKS, gpu
from permutogeo.benchmarks.peers import TorchLayer, gather_gemm_scatter
from permutogeo.benchmarks.record import write_results, write_table
from permutogeo.benchmarks.roofline import Work
from permutogeo.cli import app
from permutogeo.lattice import Lattice


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_quick(name):
    pytest.importorskip("skimage")
    before = torch.get_num_threads()
    result = CliRunner().invoke(app, ["bench", name, "--quick"])
    if "Left out" in result.output:
        pytest.skip(result.output.strip())
    assert result.exit_code == 0, result.output
    assert torch.get_num_threads() == before


def test_unknown_name():
    result = CliRunner().invoke(app, ["bench", "warmth"])
    assert result.exit_code == 2
    assert "warmth" in result.output and "bilateral" in result.output


def test_record(tmp_path):
    result = CliRunner().invoke(app, ["bench", "attention", "--quick", "--record", str(tmp_path)])
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "bench_attention.json").read_text())
    assert record["command"] == "permutogeo bench attention --quick"
    assert {len(row) for row in record["rows"]} == {len(record["columns"])}


def test_a_new_table_keeps_the_notes(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/examples/paper/tiles.py", "--seed", "1"])
    write_table(tmp_path / "a.json", "A table", ["", "ms"], [["ours", 1.5]], notes="Said once.")
    path = write_table(tmp_path / "a.json", "A table", ["", "ms"], [["ours", "1.4"]])
    record = json.loads(path.read_text())
    assert record["notes"] == "Said once." and record["rows"] == [["ours", "1.4"]]
    assert record["command"] == "python examples/paper/tiles.py --seed 1"
    assert record["versions"]["torch"] == torch.__version__
    assert '["ours", "1.4"]' in path.read_text()


def test_results_name_command_and_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["examples/paper/tiles.py", "--seed", "1"])
    args = Namespace(output=tmp_path / "runs", seed=1)
    record = json.loads(write_results(args, accuracy=0.5).read_text())
    assert record["command"] == "python examples/paper/tiles.py --seed 1"
    assert record["settings"] == {"output": str(tmp_path / "runs"), "seed": "1"}
    assert record["accuracy"] == 0.5 and record["versions"]["torch"] == torch.__version__


def test_plain_torch_baselines_compute_the_same():
    feature, x = torch.rand(300, 3) * 6, torch.rand(300, 4)
    filter = torch.rand(15, 4, 5)
    lattice = Lattice.build(feature)
    values = lattice.splat(x)
    convolved = lattice.convolve(values, filter)
    expected = lattice.slice(convolved)
    torch.testing.assert_close(TorchLayer(feature)(x, filter), expected, rtol=1e-4, atol=1e-4)
    taps = gather_gemm_scatter(values, filter, lattice.neighbors())
    torch.testing.assert_close(taps, convolved, rtol=1e-4, atol=1e-4)


def test_gpu_without_a_card(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = CliRunner().invoke(app, ["bench", "gpu"])
    assert result.exit_code == 0 and "No CUDA device" in result.output


def test_gpu_report(monkeypatch, capsys):
    """The report of a card, with the CPU in its place and every call a millisecond."""
    calls = []
    for name, value in {
        "is_available": True,
        "current_device": 0,
        "get_device_name": "a card",
        "get_device_capability": (9, 0),
        "get_device_properties": SimpleNamespace(total_memory=8 * 10**9, multi_processor_count=2),
        "max_memory_allocated": 10**6,
        "reset_peak_memory_stats": None,
        "synchronize": None,
        "set_sync_debug_mode": None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    monkeypatch.setattr(gpu.torch, "device", lambda *_: torch.zeros(0).device)
    monkeypatch.setattr(gpu, "_milliseconds", lambda call, _: calls.append(call()) or 1.0)
    monkeypatch.setattr(gpu, "_graph", lambda step, _: len(step()) / 0)
    gpu.gpu(quick=True)
    block = capsys.readouterr().out.split("```")[1].removeprefix("json")
    report = json.loads(block)
    assert report["device"] == "a card" and len(report["cases"]) == 2
    for case in report["cases"].values():
        assert set(case["of_roofline"]) == {"build", "splat", "blur", "slice"}
        assert set(case["of_roofline"]) < set(case["milliseconds"]) == set(case["host_waits"])
        assert {*case["milliseconds"].values(), *case["host_waits"].values()} == {1.0, 0}
        errors = case["largest_error_beside_cpu"]
        assert errors.pop("same_vertices") == 1.0 and len(errors) == 7
        assert max(errors.values()) < 1e-5
        assert case["graph"] == "ZeroDivisionError: division by zero"
    assert str(Path.home()) not in block


def test_bytes_moved():
    """Counted by hand for one point in one dimension with two vertices and one channel."""
    work = Work("point", torch.zeros(1, 1), torch.zeros(1, 1))
    assert work.bytes_moved(2) == {
        "build": (4 + 2 * 12) + 2 * 44 + 8 * 2 * 16 * 2 + (2 * 12 + 16),
        "splat": 2 * 12 + 2 * 8,
        "blur": 2 * 2 * (8 + 16),
        "slice": 2 * 12 + 4,
    }
