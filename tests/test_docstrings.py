"""The examples in docstrings run, and show what they say."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import permutogeo

PACKAGE = Path(permutogeo.__file__).parent
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>>" in path.read_text()]
MODULES = [
    ".".join(["permutogeo", *path.relative_to(PACKAGE).with_suffix("").parts]) for path in FILES
]


@pytest.mark.parametrize("name", [name.removesuffix(".__init__") for name in MODULES])
def test_examples_in_docstrings(name):
    result = doctest.testmod(
        importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert result.attempted > 0
    assert result.failed == 0


def test_the_public_modules_have_examples():
    expected = {"permutogeo.__init__", *(f"permutogeo.{n}" for n in ("lattice", "functional"))}
    assert {*expected, "permutogeo.image.bilateral"} <= set(MODULES)


def test_readme():
    """The code of the README runs as it stands, from top to bottom."""
    readme = Path(__file__).parent.parent / "README.md"
    blocks = re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL)
    assert len(blocks) >= 3
    names: dict = {}
    for block in blocks:
        exec(block, names)
    assert names["y"].shape == (10_000, 16)
    assert names["smooth"].shape == names["image"].shape
