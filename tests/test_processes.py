"""Threads, forks, spawned workers, and the first use of kernels that are not compiled yet."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from permutogeo import Lattice
from permutogeo.functional import gaussian_filter

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def start(code, folder, *args, **environment):
    """A script in an interpreter of its own."""
    script = folder / f"script_{abs(hash(code))}.py"
    script.write_text(code)
    return subprocess.Popen(
        [sys.executable, str(script), *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**ENVIRONMENT, **environment},
    )


def finish(process, timeout=120):
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"still running after {timeout} s: {out}{err}")
    assert process.returncode == 0, out + err
    return out, err


def run(code, folder, *args, **environment):
    return finish(start(code, folder, *args, **environment))


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def workload(count=20_000):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(count, 5, generator=generator)
    return x, torch.rand(count, 3, generator=generator) * 12


def everything():
    """The results of each operator, forward and backward."""
    x, feature = workload()
    x.requires_grad_(), feature.requires_grad_()
    bank = torch.linspace(-1, 1, 15 * 5 * 8).view(15, 5, 8).requires_grad_()
    lattice = Lattice.build(feature)
    values = lattice.splat(x)
    out = lattice.slice(lattice.convolve(lattice.blur(values), bank))
    gradients = torch.autograd.grad(out.square().sum(), (x, feature, bank))
    return lattice.key, lattice.vertex, lattice.weight, values, out, *gradients


# Threads


def test_results_do_not_depend_on_the_number_of_threads(threads):
    threads(1)
    expected = everything()
    for count in (2, 3, 5, 2, 1):
        threads(count)
        for i, (ours, one) in enumerate(zip(everything(), expected, strict=True)):
            assert torch.equal(ours, one), f"result {i} with {count} threads"


def test_threads_of_torch_are_left_as_they_were(threads):
    for count in (2, 3, 1):
        threads(count)
        everything()
        assert torch.get_num_threads() == count
        seen = []
        other = threading.Thread(target=lambda seen=seen: seen.append(torch.get_num_threads()))
        other.start()
        other.join()
        assert seen == [count]


def test_many_threads_at_once():
    x, feature = workload()
    expected = gaussian_filter(x, feature)
    lattice = Lattice.build(feature)
    neighbors = Lattice.build(feature).neighbors(2)

    def work(i):
        if i % 2:
            return gaussian_filter(x, feature), lattice.neighbors(2)
        smooth = lattice.slice(lattice.blur(lattice.splat(torch.cat([x, x[:, :1] * 0 + 1], 1))))
        return smooth[:, :-1] / smooth[:, -1:], lattice.neighbors(2)

    with ThreadPoolExecutor(8) as pool:
        for ours, found in pool.map(work, range(24)):
            assert torch.equal(found, neighbors)
            torch.testing.assert_close(ours, expected)


def test_backward_from_many_threads():
    expected = everything()
    with ThreadPoolExecutor(4) as pool:
        for results in pool.map(lambda _: everything(), range(8)):
            assert all(torch.equal(*pair) for pair in zip(results, expected, strict=True))


def test_an_error_leaves_the_pool_usable():
    x, feature = workload()
    expected = gaussian_filter(x, feature)
    for _ in range(3):
        with pytest.raises(ValueError, match="row 19999"):
            gaussian_filter(x, torch.cat([feature[:-1], feature[-1:] * torch.nan]))
        assert torch.equal(gaussian_filter(x, feature), expected)


INTERRUPTED = """
import os, signal, sys, threading
import torch
from permutogeo.functional import gaussian_filter

# A shell that starts the tests in the background has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
generator = torch.Generator().manual_seed(0)
x = torch.rand(100_000, 3, generator=generator)
feature = torch.rand(100_000, 3, generator=generator) * 20
expected = gaussian_filter(x, feature)
for attempt in range(6):
    timer = threading.Timer(0.05 + 0.03 * attempt, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        while True:
            gaussian_filter(x, feature)
    except KeyboardInterrupt:
        timer.join()
    assert torch.equal(gaussian_filter(x, feature), expected)
print("usable")
"""


def test_an_interrupt_leaves_the_pool_usable(tmp_path):
    out, err = run(INTERRUPTED, tmp_path, OMP_NUM_THREADS="2")
    assert out == "usable\n"
    assert err == ""


LAST_THREAD = """
import threading
import torch
from permutogeo.functional import gaussian_filter

x, feature = torch.rand(20_000, 3), torch.rand(20_000, 3) * 12
expected = gaussian_filter(x, feature)


def work():
    threading.main_thread().join()
    assert torch.equal(gaussian_filter(x, feature), expected)
    print("done")


threading.Thread(target=work).start()
"""


def test_a_thread_goes_on_after_the_main_thread_has_ended(tmp_path):
    assert run(LAST_THREAD, tmp_path, OMP_NUM_THREADS="2") == ("done\n", "")


# Processes

# So few points that torch itself works on one thread: its own threads do not survive a fork, and
# what it would share out among them hangs in the child. Ours must.
CHILDREN = """
import multiprocessing, sys, threading
import torch
from permutogeo.functional import gaussian_filter

generator = torch.Generator().manual_seed(0)
x = torch.rand(3000, 3, generator=generator)
feature = torch.rand(3000, 3, generator=generator) * 6


def child(dtype, expected):
    ours = gaussian_filter(x.to(dtype), feature.to(dtype))
    sys.exit(0 if torch.allclose(ours.float(), expected, atol=1e-4) else 3)


def busy(stop):
    while not stop.is_set():
        gaussian_filter(x, feature)


if __name__ == "__main__":
    method, stop = sys.argv[1], threading.Event()
    expected = gaussian_filter(x, feature)
    workers = [threading.Thread(target=busy, args=(stop,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    failed = None
    # float64 has not been used here: the child loads it itself.
    for dtype in [torch.float32, torch.float64] * (5 if method == "fork" else 1):
        process = multiprocessing.get_context(method).Process(target=child, args=(dtype, expected))
        process.start()
        process.join(30)
        code = process.exitcode
        if code != 0:
            process.kill()
            failed = f"{dtype} in the child: exit code {code}"
            break
    stop.set()
    for worker in workers:
        worker.join()
    assert torch.equal(gaussian_filter(x, feature), expected)
    print(failed or "done")
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_filter_while_the_parent_does(method, tmp_path):
    if sys.platform != "linux" and method == "fork":
        method = "spawn"
    out, err = run(CHILDREN, tmp_path, method, OMP_NUM_THREADS="2", PYTHONWARNINGS="ignore")
    assert out == "done\n"
    assert err == ""


LOADER = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset
from permutogeo import Lattice
from permutogeo.functional import gaussian_filter


class Clouds(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        feature = torch.rand(3000, 3, generator=generator) * 8
        lattice = Lattice.build(feature)
        smooth = gaussian_filter(feature, feature)
        return smooth + lattice.slice(lattice.blur(lattice.splat(feature)))


if __name__ == "__main__":
    expected = torch.stack([Clouds()[i] for i in range(8)])
    loader = DataLoader(
        Clouds(), batch_size=2, num_workers=2, multiprocessing_context=sys.argv[1], timeout=60
    )
    for _ in range(2):
        assert torch.equal(torch.cat(list(loader)), expected)
    print("done")
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_data_loader_workers(method, tmp_path):
    out, err = run(LOADER, tmp_path, method, OMP_NUM_THREADS="2", PYTHONWARNINGS="ignore")
    assert out == "done\n"
    assert err == ""


# First use

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
def test_a_cold_cache_is_filled_once(processes, tmp_path):
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


def test_a_cache_that_cannot_be_written_is_no_hindrance(tmp_path):
    """The lock file cannot be made; the kernels are there all the same."""
    code = (
        "import filelock, torch\n"
        "def refuse(self, *args, **options): raise PermissionError('read-only')\n"
        "filelock.FileLock.acquire = refuse\n"
        "from permutogeo.functional import gaussian_filter\n"
        "print(gaussian_filter(torch.ones(5, 1), torch.rand(5, 2)).shape[0])\n"
    )
    assert run(code, tmp_path) == ("5\n", "")


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


def test_warm_start(tmp_path):
    """The target is 1 s on a quiet machine; the bound allows for a noisy one."""
    gaussian_filter(torch.rand(100, 3), torch.rand(100, 5))
    out, err = run(WARM, tmp_path)
    print(f"first filter of a new process, beyond imports: {out.strip()} s")
    assert err == ""
    assert float(out) < 5


def test_no_standard_error_at_all(tmp_path):
    """A service may have closed it."""
    code = (
        "import os, torch\n"
        "os.close(2)\n"
        "from permutogeo.functional import gaussian_filter\n"
        "print(gaussian_filter(torch.ones(5, 1), torch.rand(5, 2)).shape[0])\n"
    )
    assert run(code, tmp_path) == ("5\n", "")
