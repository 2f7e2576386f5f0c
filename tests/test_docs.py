"""Documents: paths exist, walks go one way, result files follow their schema and are shown."""

import importlib.util
import json
import re
from itertools import groupby
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
RUNS = DOCS / "runs"
EXAMPLES = sorted((ROOT / "examples").rglob("[!_]*.py"))
# Pages of the gallery are written when the site is built.
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
    if not {"_build", "gallery"} & {*page.relative_to(ROOT).parts}
)
FILE = re.compile(r"`((?:permutogeo|kernels|datasets|examples|benchmarks|tests)/[\w/]+\.py)`")


def walks():
    """Return the files of each walk, by its title."""
    text = (DOCS / "inside" / "walks.md").read_text()
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return {section.partition("\n")[0]: FILE.findall(section) for section in sections}


def room_of(path):
    parts = Path(path).with_suffix("").parts
    return parts[1] if parts[0] == "permutogeo" else parts[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_links_exist(page):
    text = page.read_text()
    if page.name == "CHANGELOG.md":
        return  # it names files that were moved
    for name in FILE.findall(text):
        assert (ROOT / name).is_file(), name
    for name, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text):
        assert f"def {test}(" in (ROOT / name).read_text(), test
    prose = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]+)", prose):
        # Pages of the reference are written when the site is built.
        if not re.search(r"api/permutogeo[\w.]*\.rst$", target):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("title", walks())
def test_walks_do_not_return_to_a_room(title):
    rooms = [room for room, _ in groupby(map(room_of, walks()[title]))]
    assert len(rooms) == len(set(rooms)), rooms


def tables():
    return sorted(path for path in RUNS.glob("*.json") if path.name != "schema.json")


@pytest.mark.parametrize("path", tables(), ids=lambda path: path.stem)
def test_result_files_follow_the_schema(path):
    jsonschema = pytest.importorskip("jsonschema")
    record = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(record, json.loads((RUNS / "schema.json").read_text()))
    assert "--quick" not in record["command"]
    assert {len(row) for row in record["rows"]} == {len(record["columns"])}
    script = re.search(r"python (\S+\.py)", record["command"])
    assert script is None or (ROOT / script[1]).is_file()


def test_commands_of_result_files_exist():
    from permutogeo.benchmarks import BENCHMARKS

    for path in tables():
        command = json.loads(path.read_text(encoding="utf-8"))["command"]
        for name in re.findall(r"permutogeo bench (\S+)", command):
            assert name in BENCHMARKS, path.name


def test_options_of_result_files_exist():
    """Rows and notes name what repeats them: the options are those of the script of today."""
    sources = {}
    for path in EXAMPLES:
        shared = [other.read_text() for other in path.parent.glob("_*.py")]
        sources[path.name] = "\n".join([path.read_text(), *shared])
    for path in tables():
        record = json.loads(path.read_text(encoding="utf-8"))
        script = re.search(r"\w+\.py", record["command"])
        cells = " ".join(str(cell) for row in record["rows"] for cell in row)
        spans = re.findall(r"`([^`]*--[^`]*)`", f"{cells} {record['notes']}")
        for span in [record["command"], *spans]:
            if not (named := re.search(r"\w+\.py", span) or script) or "permutogeo " in span:
                continue  # a command of the package
            for option in re.findall(r"(?<!\S)--([a-z-]+)", span):
                found = rf"\"--{option}\"|\b{option.replace('-', '_')}="
                assert re.search(found, sources[named[0]]), f"{path.name}: --{option} in {span}"


def test_pages_show_all_result_files_and_pictures():
    text = "\n".join(page.read_text() for page in PAGES if page.parent != RUNS)
    for path in tables():
        assert re.search(rf"\{{result\}} {path.stem}\b", text), f"no page shows {path.name}"
    for path in RUNS.glob("*.png"):
        assert f"runs/{path.name}" in text, f"no page shows {path.name}"


def test_runs_hold_nothing_else():
    assert {path.suffix for path in RUNS.iterdir()} <= {".json", ".png", ".md"}


def test_messages_of_the_troubleshooting_page_exist():
    files = [
        path for folder in ("permutogeo", "datasets") for path in (ROOT / folder).rglob("*.py")
    ]
    # Messages are split over lines and filled in: compare without quotes and line breaks.
    source = re.sub(r"[\"\s]|f(?=\")", "", "\n".join(path.read_text() for path in files))
    rows = re.findall(r"^\| `(.*?)`", (DOCS / "guides" / "troubleshooting.md").read_text(), re.M)
    assert len(rows) > 30
    for row in rows:
        if row.startswith("permutogeo "):
            continue  # a command
        for part in re.split(r"…|\(got", row):
            assert re.sub(r"[\"\s]", "", part) in source, f"no error says: {part}"


def test_every_example_has_a_picture():
    pytest.importorskip("sphinx_gallery")
    spec = importlib.util.spec_from_file_location("gallery", DOCS / "_extensions" / "gallery.py")
    gallery = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gallery)
    shown = set()
    for path in EXAMPLES:
        found = gallery.THUMBNAIL.search(path.read_text())
        assert (found is None) == (path.stem in gallery.EXECUTED), path
        if found:
            assert (DOCS / found[1]).is_file(), found[1]
            shown.add(DOCS / found[1])
    assert {*(DOCS / "figures" / "gallery").iterdir()} <= shown
    assert {*gallery.CAPTIONS} <= {path.stem for path in EXAMPLES}
