"""Every module of the package has a test file of its name at the mirrored path."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Folders beside the package, imported as permutogeo.kernels and permutogeo.datasets.
FOLDERS = ("permutogeo", "kernels", "datasets")
# Modules without a test file yet. Remove a module here when its test is written.
PENDING: set[str] = set()


def modules():
    """Paths of the modules, without ``__init__`` and private ones, relative to the root."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.name.startswith("_"):
                yield path.relative_to(ROOT)


def mirrors(path):
    """Return the places where the test of a module may be.

    ``permutogeo/nn/crf/loss.py`` has ``tests/nn/crf/test_loss.py``; a kernel is tested with the op
    of the same name.
    """
    inside = path.relative_to("permutogeo") if path.parts[0] == "permutogeo" else path
    name = f"test_{path.name}"
    places = [ROOT / "tests" / inside.parent / name]
    if path.parts[0] == "kernels":
        places.append(ROOT / "tests" / "ops" / name)
    return places


@pytest.mark.parametrize("path", list(modules()), ids=str)
def test_module_has_a_test(path):
    found = any(place.is_file() for place in mirrors(path))
    if str(path) in PENDING:
        assert not found, f"remove {path} from PENDING"
    else:
        assert found, f"write {mirrors(path)[0].relative_to(ROOT)}"


def test_pending_modules_exist():
    assert {str(path) for path in modules()} >= PENDING
