"""Workflows: pinned actions, least permissions, and commands that the Makefile has."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = [
    *(ROOT / ".github").rglob("*.yml"),
    ROOT / "CITATION.cff",
    ROOT / ".pre-commit-config.yaml",
]
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="a source distribution has no workflows")


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_files_are_valid_yaml(path):
    yaml = pytest.importorskip("yaml")
    assert isinstance(yaml.safe_load(path.read_text()), dict)


@each_workflow
def test_actions_are_pinned_by_commit(path):
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    for line in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v[\d.]+", line), line


@each_workflow
def test_permissions_are_least(path):
    """Jobs may read the code; only the upload of findings writes."""
    text = path.read_text()
    assert "\npermissions:\n  contents: read\n\n" in text
    assert text.count(": write") == text.count("security-events: write")
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")


@each_workflow
def test_commands_are_targets_of_the_makefile(path):
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for command in re.findall(r"run: (.*)", path.read_text()):
        make, *names = command.split()
        assert make == "make" and set(names) <= targets, command


def test_every_declared_python_is_tested():
    declared = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    tested = re.findall(r'"(3\.\d+)"', (ROOT / ".github" / "workflows" / "test.yml").read_text())
    assert declared and set(declared) <= set(tested)
