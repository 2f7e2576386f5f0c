"""The thread pool: many threads, changing settings, interrupts, forks and spawned workers."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from permutogeo import Lattice
from permutogeo.functional import gaussian_filter
from permutogeo.runtime import threads as pool


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


def test_queues_are_served_after_the_pool_has_grown():
    queue = pool._workers(2)[0]
    pool._workers(3)
    batch = pool._Batch([lambda: None])
    queue.put(batch)
    batch.finish()


SETTINGS = """
import sys, threading, time
import torch
from permutogeo import Lattice

sys.setswitchinterval(1e-5)
torch.manual_seed(0)
lattice = Lattice.build(torch.rand(300, 2) * 9)
values, bank = torch.rand(lattice.num_vertices, 4), torch.rand(7, 4, 4)
expected = lattice.convolve(values, bank)
end, errors = time.monotonic() + 3, []


def work(number):
    turn = 0
    while time.monotonic() < end:
        torch.set_num_threads(1 + (number + turn) % 5)
        if not torch.equal(lattice.convolve(values, bank), expected):
            errors.append(number)
        turn += 1


workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print(errors)
"""


def test_eight_threads_with_changing_settings(tmp_path, run):
    assert run(SETTINGS, tmp_path) == ("[]\n", "")


REFUSED = """
import threading
import torch
from permutogeo import Lattice

torch.set_num_threads(1)
lattice = Lattice.build(torch.rand(300, 2) * 9)
values, bank = torch.rand(lattice.num_vertices, 4), torch.rand(7, 4, 4)
expected = lattice.convolve(values, bank)
start, allowed = threading.Thread.start, 0


def refuse(thread):
    global allowed
    if not allowed:
        raise RuntimeError("can't start new thread")
    allowed -= 1
    start(thread)


threading.Thread.start = refuse
for threads, allowed in [(2, 0), (4, 1), (3, 0), (4, 9)]:
    torch.set_num_threads(threads)
    assert torch.equal(lattice.convolve(values, bank), expected)
    assert torch.get_num_threads() == threads
print("done")
"""


def test_threads_that_cannot_be_started(tmp_path, run):
    assert run(REFUSED, tmp_path) == ("done\n", "")


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


def test_an_interrupt_leaves_the_pool_usable(tmp_path, run):
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


def test_a_thread_goes_on_after_the_main_thread_has_ended(tmp_path, run):
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
def test_children_filter_while_the_parent_does(method, tmp_path, run):
    if sys.platform != "linux" and method == "fork":
        method = "spawn"
    out, err = run(CHILDREN, tmp_path, method, OMP_NUM_THREADS="2", PYTHONWARNINGS="ignore")
    assert out == "done\n"
    assert err == ""


FORKED = """
import multiprocessing, sys
import numpy as np
import torch
import permutogeo as pg
from permutogeo.compat.pydensecrf import densecrf

rng = np.random.default_rng(0)
image = rng.integers(0, 255, (120, 160, 3), dtype=np.uint8)
unary = rng.random((4, 120 * 160), dtype=np.float32)


def work(_):
    crf = densecrf.DenseCRF2D(160, 120, 4)
    crf.setUnaryEnergy(unary)
    crf.addPairwiseGaussian(sxy=3, compat=3)
    crf.addPairwiseBilateral(sxy=30, srgb=13, rgbim=image, compat=10)
    smooth = pg.image.bilateral_filter(image, sigma_pos=5.0, sigma_color=20.0)
    total = torch.zeros(3_000_000).add_(1).sum()  # parallel in torch itself
    return np.array(crf.inference(2)).tobytes(), np.asarray(smooth).tobytes(), float(total)


if __name__ == "__main__":
    expected = work(0)
    if sys.argv[1] == "joblib":
        import joblib

        results = joblib.Parallel(2, backend="multiprocessing")(
            joblib.delayed(work)(i) for i in range(4)
        )
    else:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            results = pool.map(work, range(4))
    print(all(result == expected for result in results))
"""


@pytest.mark.parametrize("method", ["multiprocessing", "joblib"])
def test_forked_children_of_a_parent_that_computed(method, tmp_path, run):
    """At a size at which torch runs in parallel: OpenMP hangs in a forked child."""
    if method == "joblib":
        pytest.importorskip("joblib")
    assert run(FORKED, tmp_path, method, OMP_NUM_THREADS="2") == ("True\n", "")


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
def test_data_loader_workers(method, tmp_path, run):
    out, err = run(LOADER, tmp_path, method, OMP_NUM_THREADS="2", PYTHONWARNINGS="ignore")
    assert out == "done\n"
    assert err == ""


# First use
