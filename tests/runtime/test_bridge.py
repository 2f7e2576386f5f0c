"""First use of kernels that are not compiled yet, and quiet start-up."""

import time

import pytest
import torch

from permutogeo.functional import gaussian_filter
from permutogeo.runtime import bridge


def test_versions():
    found = bridge.versions()
    assert found["warp"] and "cpu" in found["devices"]


COLD = """
import pathlib, sys, threading, time
import torch, warp
from permutogeo.functional import gaussian_filter

folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
build = warp._src.build.build_cpu


def record(path, *args, **options):
    module = pathlib.Path(path).name.rsplit(".", 1)[0]
    with open(folder / "compiled.txt", "a") as log:
        log.write(module + "\\n")
    return build(path, *args, **options)


warp._src.build.build_cpu = record
(folder / f"{name}.ready").touch()
while not (folder / "go").exists():
    time.sleep(0.005)
feature = torch.linspace(0, 20, 500).unsqueeze(1)
together, results, errors = threading.Barrier(4), [], []


def work():
    together.wait()
    try:
        results.append(gaussian_filter(feature, feature))
    except Exception as error:
        errors.append(error)


workers = [threading.Thread(target=work) for _ in range(4)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
assert not errors, errors
assert len(results) == 4 and all(torch.equal(result, results[0]) for result in results)
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_a_cold_cache_is_filled_once(processes, tmp_path, start, finish):
    """Four threads in each process arrive together; nobody prints a word about it."""
    cache = tmp_path / "cache"
    environment = {"WARP_CACHE_PATH": str(cache), "OMP_NUM_THREADS": "2"}
    running = [start(COLD, tmp_path, tmp_path, i, **environment) for i in range(processes)]
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("*.ready"))) < processes and time.monotonic() < deadline:
        time.sleep(0.01)
    (tmp_path / "go").touch()
    for process in running:
        assert finish(process) == ("", "")
    compiled = (tmp_path / "compiled.txt").read_text().split()
    assert compiled
    assert len(compiled) == len(set(compiled)), "a module was compiled twice"
    assert len(compiled) == len([path for path in cache.rglob("wp_permutogeo*") if path.is_dir()])


def test_a_cache_that_cannot_be_written_is_no_hindrance(tmp_path, run):
    """The lock file cannot be made; the kernels are there all the same."""
    code = (
        "import filelock, torch\n"
        "def refuse(self, *args, **options): raise PermissionError('read-only')\n"
        "filelock.FileLock.acquire = refuse\n"
        "from permutogeo.functional import gaussian_filter\n"
        "print(gaussian_filter(torch.ones(5, 1), torch.rand(5, 2)).shape[0])\n"
    )
    assert run(code, tmp_path) == ("5\n", "")


FILTER = """
import torch
from permutogeo.functional import gaussian_filter
print(gaussian_filter(torch.ones(5, 1), torch.rand(5, 1)).shape[0])
"""
READ_ONLY = """
import warp
load = warp.load_module
def refuse(module, **options):
    if "permutogeo-kernels" not in warp.config.kernel_cache_dir:
        raise PermissionError(13, "Permission denied")
    load(module, **options)
warp.load_module = refuse
"""


@pytest.mark.parametrize("case", ["missing", "read-only"])
def test_a_cache_that_cannot_be_made(case, tmp_path, run):
    """Kernels go to a private temporary folder, and one line says so."""
    cache = "/dev/null/cache" if case == "missing" else str(tmp_path / "cache")
    code = FILTER if case == "missing" else READ_ONLY + FILTER
    out, err = run(code, tmp_path, WARP_CACHE_PATH=cache, TMPDIR=str(tmp_path))
    assert out == "5\n"
    assert err.startswith(f"permutogeo: cannot write kernels to {cache}")
    assert err.endswith("Set WARP_CACHE_PATH to a writable folder.\n") and err.count("\n") == 1
    (folder,) = tmp_path.glob("permutogeo-kernels-*")
    assert folder.stat().st_mode & 0o777 == 0o700


def test_no_writable_folder_at_all(tmp_path, run):
    """An error that says what to do; and none where the kernels are cached already."""
    hidden = "import os, tempfile\ntempfile.tempdir = '/dev/null'\ndel os.memfd_create\n"
    gaussian_filter(torch.ones(5, 1), torch.rand(5, 1))
    out, _ = run(hidden + FILTER, tmp_path)
    assert out == "5\n"
    code = hidden + "try:\n" + "".join(f"    {line}\n" for line in FILTER.splitlines())
    code += "except OSError as error:\n    print(error)\n"
    out, _ = run(code, tmp_path, WARP_CACHE_PATH="/dev/null/cache")
    assert out.startswith("Expected a writable folder for compiled kernels (got /dev/null/cache")
    assert out.endswith("set WARP_CACHE_PATH to one\n")


WARM = """
import sys, time
import torch, warp
import numpy, filelock

imported = time.perf_counter()
import permutogeo as pg
pg.functional.gaussian_filter(torch.rand(10_000, 3), torch.rand(10_000, 5) * 5)
seconds = time.perf_counter() - imported
sys.stderr.flush()
print(f"{seconds:.3f}")
"""


def test_warm_start(tmp_path, run):
    """The first filter of a new process is silent; the seconds are printed, not checked."""
    gaussian_filter(torch.rand(100, 3), torch.rand(100, 5))
    out, err = run(WARM, tmp_path)
    print(f"first filter of a new process, beyond imports: {out.strip()} s")
    assert err == "" and float(out) > 0


def test_no_standard_error_at_all(tmp_path, run):
    """A service may have closed it."""
    code = (
        "import os, torch\n"
        "os.close(2)\n"
        "from permutogeo.functional import gaussian_filter\n"
        "print(gaussian_filter(torch.ones(5, 1), torch.rand(5, 2)).shape[0])\n"
    )
    assert run(code, tmp_path) == ("5\n", "")
