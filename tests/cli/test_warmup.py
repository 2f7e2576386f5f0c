import pytest
from typer.testing import CliRunner

import permutogeo
from permutogeo import cli


def run(*args: str):
    return CliRunner().invoke(cli.app, list(args))


@pytest.mark.parametrize("dims", ["", "2,x", "0", "2,,3", "-1", "2.5"])
def test_warmup_refuses_dims(dims):
    result = run("warmup", "--dims", dims)
    assert result.exit_code == 2
    assert "--dims" in result.stderr
    assert "2,3,5" in result.stderr


def test_warmup_refuses_dtype():
    result = run("warmup", "--dims", "2", "--dtype", "float16")
    assert result.exit_code == 2
    assert "float32 or float64" in " ".join(result.stderr.split())


def test_warmup_passes_what_was_asked(monkeypatch):
    calls = []

    def warmup(dims, dtypes, device, on_progress, labels):
        calls.append((dims, dtypes, device, labels))
        on_progress("d=2 float32")

    monkeypatch.setattr(permutogeo, "warmup", warmup)
    result = run("warmup", "--dims", "2, 3,2", "--dtype", "float64,float32", "--labels", "21,5")
    assert result.exit_code == 0
    assert calls == [((2, 3), ("float64", "float32"), "cpu", (21, 5))]
    assert "compiling d=2 float32" in result.output


def test_warmup_reports_the_library_error(monkeypatch):
    def warmup(dims, dtypes, device, on_progress, labels):
        raise ValueError(f"Expected a device of this machine (got {device!r})")

    monkeypatch.setattr(permutogeo, "warmup", warmup)
    result = run("warmup", "--dims", "2", "--device", "cuda:7")
    assert result.exit_code == 1
    assert "got 'cuda:7'" in result.stderr
