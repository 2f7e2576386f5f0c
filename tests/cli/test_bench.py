import pytest
from typer.testing import CliRunner

from permutogeo import benchmarks, cli


def run(*args):
    return CliRunner().invoke(cli.app, ["bench", *args])


def test_names_are_checked():
    result = run("bilateral", "speed")
    assert result.exit_code == 2
    assert "(got speed)" in " ".join(result.stderr.split())


@pytest.mark.parametrize(("names", "code"), [(("paper",), 0), (("crf",), 1), (("crf", "paper"), 0)])
def test_missing_libraries_are_named(monkeypatch, names, code):
    done = []

    def bench_one(names, quick):
        if names == ["crf"]:
            raise ModuleNotFoundError("No module named 'skimage'", name="skimage")
        done.append((names, quick))

    monkeypatch.setattr(benchmarks, "run", bench_one)
    result = run(*names, "--quick")
    assert result.exit_code == code
    assert done == ([(["paper"], True)] if "paper" in names else [])
    left_out = "Left out 'crf', which needs skimage: pip install 'permutogeo[bench]'\n"
    assert result.stderr == (left_out if "crf" in names else "")


def test_help_names_the_extra():
    assert "pip install 'permutogeo[bench]'" in " ".join(run("--help").output.split())
