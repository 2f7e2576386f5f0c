"""Paths in the documents exist, and the walks through the source go one way."""

import re
from itertools import groupby
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
FILE = re.compile(r"`((?:permutogeo|kernels|datasets|examples|benchmarks|tests)/[\w/]+\.py)`")


def walks():
    """Return the files of each walk, by its title."""
    text = (ROOT / "docs" / "walks.md").read_text()
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return {section.partition("\n")[0]: FILE.findall(section) for section in sections}


def room_of(path):
    parts = Path(path).with_suffix("").parts
    return parts[1] if parts[0] == "permutogeo" else parts[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_links_exist(page):
    text = page.read_text()
    if page.name == "CHANGELOG.md":
        return  # it names files that were moved
    for name in FILE.findall(text):
        assert (ROOT / name).is_file(), name
    for name, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text):
        assert f"def {test}(" in (ROOT / name).read_text(), test
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("title", walks())
def test_walks_do_not_return_to_a_room(title):
    rooms = [room for room, _ in groupby(map(room_of, walks()[title]))]
    assert len(rooms) == len(set(rooms)), rooms
