"""Measurements of the code base, and the limits they must stay within.

``python tests/test_house.py [FOLDER ...]`` prints them as a table, with a column for each checkout.
"""

import ast
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ("permutogeo", "kernels", "datasets")
ALL = (*PACKAGE, "examples", "benchmarks", "tests")
LONGEST_FILE = 400
LONGEST_FUNCTION = 80
# Names that several rooms may define.
SHARED_NAMES = {
    *("main", "forward", "make"),  # entry points and factories
    *("denoise", "segment", "warmup"),  # commands named after the functions they call
    *("brute_force_filter", "gaussian_filter", "stencil"),  # the oracle of these functions
    "DenseCRF",  # pydensecrf's class
}
# Names that still have several owners. Remove a name here when it has one.
UNRESOLVED: set[str] = set()


def files(root, folders=PACKAGE):
    return [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]


def room_of(path, root):
    """Return the room of a file: the folder or module below the package, or a folder beside it."""
    parts = path.relative_to(root).with_suffix("").parts
    return parts[1] if parts[0] == "permutogeo" and len(parts) > 1 else parts[0]


def module_of(path, root):
    parts = list(path.relative_to(root).with_suffix("").parts)
    return parts if parts[0] == "permutogeo" else ["permutogeo", *parts]


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def private_imports(root):
    """Return imports of another room's private modules or names, as (file, dotted name)."""
    found = []
    for path in files(root, (*PACKAGE, "examples", "benchmarks")):
        module = module_of(path, root)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name.split(".") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = module[: -node.level] if node.level else []
                base = base + (node.module.split(".") if node.module else [])
                names = [[*base, alias.name] for alias in node.names]
            else:
                continue
            for name in names:
                ours = name[0] == "permutogeo" and name[1:2] not in ([], ["_version"])
                if ours and name[1] != module[1] and any(map(is_private, name[1:])):
                    found.append((str(path.relative_to(root)), ".".join(name)))
    return found


def owners(root):
    """Return the public functions and classes that several rooms define, with their rooms."""
    rooms = defaultdict(set)
    for path in files(root):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                rooms[node.name].add(room_of(path, root))
    return {name: sorted(found) for name, found in rooms.items() if len(found) > 1}


def functions(root, folders=PACKAGE):
    """Return (lines, place) of all functions outside kernels, longest first."""
    found = []
    for path in files(root, folders):
        if room_of(path, root) == "kernels":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                place = f"{path.relative_to(root)}:{node.name}"
                found.append((node.end_lineno - node.lineno + 1, place))
    return sorted(found, reverse=True)


def lengths(root, folders=PACKAGE):
    """Return (lines, file), longest first."""
    counted = ((len(path.read_text().splitlines()), path) for path in files(root, folders))
    return sorted(((n, str(path.relative_to(root))) for n, path in counted), reverse=True)


@pytest.mark.parametrize("folder", ALL)
def test_files_are_short(folder):
    assert [each for each in lengths(ROOT, [folder]) if each[0] > LONGEST_FILE] == []


def test_functions_are_short():
    assert [each for each in functions(ROOT) if each[0] > LONGEST_FUNCTION] == []


def test_no_private_import_across_rooms():
    assert private_imports(ROOT) == []


def test_public_names_have_one_owner():
    assert set(owners(ROOT)) - SHARED_NAMES == UNRESOLVED


def measure(root):
    """Return the rows of the table."""
    sizes, longest = lengths(root), functions(root)[0]
    names = [path.name for path in files(root)]
    several = [name for name in owners(root) if name not in SHARED_NAMES]
    rooms = {path for path in (root / "permutogeo").iterdir() if path.suffix == ".py"}
    return {
        "files of the package": len(sizes),
        "modules at its top level": sum(not path.name.startswith("__") for path in rooms),
        "private modules": sum(map(is_private, names)),
        "cross-room private imports": len(private_imports(root)),
        "names with several owners": len(several),
        "longest function outside kernels": f"{longest[0]} ({longest[1]})",
        "longest file": f"{sizes[0][0]} ({sizes[0][1]})",
        "median file": median(n for n, path in sizes if not path.endswith("__init__.py")),
    }


def main():
    roots = [Path(each).resolve() for each in sys.argv[1:]] or [ROOT]
    columns = [measure(root) for root in roots]
    print("| " + " | ".join(["", *(root.name for root in roots)]) + " |")
    print("|---" * (1 + len(roots)) + "|")
    for name in columns[0]:
        print("| " + " | ".join([name, *(str(column[name]) for column in columns)]) + " |")
    for root in roots:
        print(f"\n{root.name}: {dict(sorted(owners(root).items()))}")


if __name__ == "__main__":
    main()
