"""Templates, tables and escaping."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from permutogeo.viz.web_page import (
    command_block,
    fill_template,
    format_cell,
    number_table,
    script_json,
    without_folders,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234567, "1,234,567"),
        (0.123456, "0.1235"),
        (1e-9, "1e-09"),
        (True, "yes"),
        (None, "–"),
        (np.float32(2), "2"),
        (torch.tensor([3.5]), "3.5"),
        ((1, 2.5), "1, 2.5"),
        (float("nan"), "nan"),
        ("<b>", "<b>"),
    ],
)
def test_format_cell(value, text):
    assert format_cell(value) == text


def test_template_values_are_not_templates():
    assert fill_template("$a $b", {"a": "$b", "b": "${a}"}) == "$b ${a}"


def test_json_does_not_end_its_script():
    value = {"</script><!--": ["]]>", "&", "\u2028"]}
    text = script_json(value)
    assert not set(text) & set("<>&\u2028")
    assert json.loads(text) == value
    with pytest.raises(ValueError, match="Out of range float"):
        script_json(float("nan"))


def test_columns_are_the_union_of_the_rows():
    table = number_table({"a": {"x": 1}, "b": {"y": 2.5}}, "Both")
    assert table.count('<th scope="col"') == 2
    assert table.index(">x<") < table.index(">y<")
    assert table.count("–") == 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Path("scans/a.ply"), "a.ply"),
        ("/home/me/scans/a b.ply", "a b.ply"),
        ("~/a.ply", "a.ply"),
        (r"C:\scans\a.ply", "a.ply"),
        (r"\\server\scans\a.ply", "a.ply"),
        ("/home/me/scans/", "scans"),
        ("12 m / s", "12 m / s"),
        ("/s", "/s"),
        ("noisy", "noisy"),
    ],
)
def test_folders_of_the_machine_are_not_shown(value, shown):
    assert without_folders(value) == format_cell(value) == shown
    table = number_table({value: {value: value}})
    assert table.count(f">{shown}<") == 3


def test_quick_runs_are_marked():
    assert command_block("") == ""
    full = command_block("python a.py --seed 0 '<b>'")
    assert "Quick" not in full and "&lt;b&gt;" in full
    quick = command_block("python a.py --quick --seed 0")
    assert "Quick run" in quick and "python a.py --quick --seed 0" in quick
    assert "Quick run" in command_block("python a.py --quick --name it's")
