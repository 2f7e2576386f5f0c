import json
from types import SimpleNamespace

import pytest

from permutogeo.benchmarks.experiment import arguments, load_or_exit, record


def test_options(monkeypatch):
    """Defaults give the type of an option; False makes it a flag."""
    monkeypatch.setattr("sys.argv", ["examples/paper/tiles.py"])
    parser = arguments("A script.", data=(None, "a folder"), lr=0.1, network_steps=0, today=False)
    args = parser.parse_args(["--network-steps", "4", "--today", "--data", "x"])
    assert (args.data, args.lr, args.network_steps, args.today) == ("x", 0.1, 4, True)
    assert str(args.output) == "runs/tiles" and not args.quick


def test_record(tmp_path, capsys):
    """The same table is printed and written to the result file, the record and the page."""
    args = SimpleNamespace(output=tmp_path, seed=0)
    rows = {"BNN": {"steps": 1234, "IoU": 0.98765}, "CNN": {"steps": None}}
    record(args, "Tiles", {"Steps": rows}, seconds=3)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "Steps", "     steps     IoU", "BNN   1234  0.9877", "CNN      –       –",
    ]  # fmt: skip
    table = json.loads((tmp_path / "table_0.json").read_text())
    assert table["rows"] == [["BNN", "1234", "0.9877"], ["CNN", "–", "–"]]
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["tables"] == {"Steps": rows} and found["seconds"] == 3
    assert "0.9877" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_missing_data_end_in_one_line(capsys):
    def missing(split):
        raise FileNotFoundError(f"no {split}")

    with pytest.raises(SystemExit) as ended:
        load_or_exit(missing, split="train")
    assert ended.value.code == 2 and capsys.readouterr().err == "no train\n"
    assert load_or_exit(sorted, [2, 1], reverse=True) == [2, 1]
