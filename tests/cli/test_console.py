import pytest
import typer

from permutogeo.cli.console import one_line, progress_bar, report_errors


def test_errors_become_one_line(capsys):
    with pytest.raises(typer.Exit) as stop, report_errors():
        raise ValueError("Expected a mesh\n\tof one shape")
    assert stop.value.exit_code == 1
    assert capsys.readouterr().err == "Error: Expected a mesh of one shape\n"
    assert one_line(MemoryError()) == "MemoryError"


def test_other_errors_pass():
    with pytest.raises(ZeroDivisionError), report_errors():
        raise ZeroDivisionError


@pytest.mark.parametrize("interactive", ["0", "1"])
def test_notebooks_get_no_bars(capsys, monkeypatch, interactive):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # a terminal to Rich
    monkeypatch.setenv("TTY_INTERACTIVE", interactive)
    with progress_bar("2 files") as update:
        update(0.5)
    assert bool(capsys.readouterr().err) == (interactive == "1")
