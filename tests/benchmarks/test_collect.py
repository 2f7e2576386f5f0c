import json
import sys

import pytest

from permutogeo.benchmarks import collect

SCRIPT = "python examples/paper/assamese.py"


def write(folder, options, **rows):
    folder.mkdir()
    command = f"{SCRIPT} {options} --output '/a b'".replace("  ", " ")
    results = {"command": command, "tables": {"Characters": rows}}
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def test_runs_become_rows(tmp_path, monkeypatch):
    first = write(tmp_path / "1", "", CNN={"val": 70.125, "test": 60})
    both = {"CNN": {"val": 71.0}, "BNN": {"val": None, "test": 62.5}}
    second = write(tmp_path / "2", "--only CNN BNN --epochs 8 --augment", **both)
    out = tmp_path / "table.json"
    options = ["--columns", "val", "test", "--title", "Two runs", "--output", str(out)]
    monkeypatch.setattr(sys, "argv", ["collect", str(first), str(second), *options])
    collect.main()
    table = json.loads(out.read_text(encoding="utf-8"))
    assert table["title"] == "Two runs" and table["columns"] == ["", "val", "test"]
    assert table["command"].endswith(SCRIPT)
    assert table["rows"] == [
        ["CNN", "70.12", "60"],
        ["CNN, `--epochs 8 --augment`", "71", "–"],
        ["BNN, `--epochs 8 --augment`", "–", "62.5"],
    ]


def test_runs_of_two_scripts(tmp_path):
    folders = [write(tmp_path / "1", "", CNN={}), tmp_path / "2"]
    folders[1].mkdir()
    text = (folders[0] / "results.json").read_text().replace("assamese", "tiles")
    (folders[1] / "results.json").write_text(text)
    with pytest.raises(ValueError, match=r"one script \(got .*assamese.py', .*tiles.py'\]\)"):
        collect.collect(folders, ["val"])
