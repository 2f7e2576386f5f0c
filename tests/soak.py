"""Long-running checks: ``python tests/soak.py --minutes 60`` (``make soak``).

Runs the jobs below in turn, each slice in a process of its own so that a hang or a crash is
counted, and prints a summary. Exits with code 1 if anything failed.
"""

import argparse
import faulthandler
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # also where another script imports this file
from soak_parts import PARTS, difference, layer, sample  # noqa: E402
from soak_watch import run_watched  # noqa: E402

GRACE = 300  # seconds without processor time after which a job counts as hanging


class Tally:
    """Cases, failures and the largest error of one slice."""

    def __init__(self, seconds, seed):
        self.end = time.monotonic() + seconds
        self.rng = random.Random(seed)
        self.cases, self.failures, self.worst = 0, [], 0.0

    def left(self):
        """Return whether to go on: at least one case is counted."""
        return self.cases == 0 or time.monotonic() < self.end

    def add(self, passed, what, error=0.0):
        self.cases += 1
        self.worst = max(self.worst, error)
        if not passed:
            self.failures.append(what)


def features(rng, dim, count, kind):
    """Return points that are easy, degenerate or extreme, by kind."""
    generator = np.random.default_rng(rng.getrandbits(32))
    uniform = generator.random((count, dim))
    return {
        "uniform": 6 * uniform,
        "normal": 3 * generator.standard_normal((count, dim)),
        "clusters": 20 * uniform[generator.integers(0, max(1, count // 8), count)]
        + 0.01 * generator.standard_normal((count, dim)),
        "equal": np.ones((count, dim)),
        "grid": np.round(4 * uniform) + 0.1234567,
        "ties": np.round(4 * uniform),
        "line": 8 * uniform[:, :1] * np.ones(dim),
        "far": 1e4 + 3 * uniform,
        "tiny": 1e-9 * uniform,
        "wide": 1e3 * uniform * np.logspace(-2, 2, dim),
        "negative zero": np.where(uniform < 0.5, -0.0, uniform),
        "plane": np.concatenate([6 * uniform[:, :1], np.zeros((count, dim - 1))], 1),
        "sorted": np.sort(6 * uniform, 0),
    }[kind]


KINDS = (
    *("uniform", "normal", "clusters", "equal", "grid", "ties", "line", "far", "tiny", "wide"),
    *("negative zero", "plane", "sorted"),
)


def selftest_module():
    import importlib

    return importlib.import_module("permutogeo.cli.selftest")


def tie_error(feature, batch, device, seed):
    """Return the largest difference of splatted values, lattice point by lattice point.

    Points on a face of a simplex belong to several simplices, and the rounding of the last bit
    decides between them. Their further corners have weights near 0, but exist as vertices, through
    which a blur passes: only values before the blur can be compared.
    """
    from permutogeo.lattice import Lattice
    from permutogeo.testing.reference import ReferenceLattice

    x = np.random.default_rng(seed).standard_normal((len(feature), 3))
    expected = ReferenceLattice(feature, batch)
    wanted = dict(zip(expected.index, expected.splat(x), strict=True))
    lattice = Lattice.build(feature, batch)
    key = torch.cat([lattice.key.long(), -lattice.key.long().sum(1, keepdim=True)], 1)
    entries = zip(lattice.vertex_batch.tolist(), map(tuple, key.tolist()), strict=True)
    found = dict(zip(entries, lattice.splat(torch.from_numpy(x)).numpy(), strict=True))
    zero = np.zeros(3)
    differences = [
        np.abs(found.get(each, zero) - wanted.get(each, zero)).max() for each in {*found, *wanted}
    ]
    return float(max(differences, default=0))


def oracle(tally):
    """Random lattices against the float64 reference, in 1 to 12 dimensions."""
    while tally.left():
        dim, kind = tally.rng.randint(1, 12), tally.rng.choice(KINDS)
        count, graphs = tally.rng.randint(1, 200 if dim < 7 else 40), tally.rng.randint(1, 4)
        feature = torch.from_numpy(features(tally.rng, dim, count, kind))
        batch = torch.arange(count) * graphs // count if graphs > 1 else None
        seed = tally.rng.getrandbits(31)
        what = f"{kind}, d = {dim}, N = {count}, {graphs} graphs, seed {seed}"
        check = tie_error if kind == "ties" else selftest_module().oracle_error
        try:
            error = check(feature, batch, "cpu", seed)
        except Exception as problem:
            tally.add(False, f"{what}: {problem}")
        else:
            tally.add(error < 1e-9, f"{what}: error {error:.1e}", error)


def adjoints(tally):
    """Adjoint identities of splat, blur and convolve."""
    check = selftest_module().adjoint_error
    while tally.left():
        dim, seed = tally.rng.randint(1, 7), tally.rng.getrandbits(31)
        error = check(dim, "cpu", seed)
        tally.add(error < 1e-11, f"d = {dim}, seed {seed}: {error:.1e}", error)


def threads(tally):
    """Eight Python threads with changing numbers of torch threads: same results, no hang."""
    # All bits of a lattice are the same; dense products of torch may sum in another order.
    cases = [("layer", seed) for seed in range(8)] * 8 + [(name, 1) for name in PARTS]
    expected = {case: PARTS[case[0]](case[1]) for case in set(cases)}
    sys.setswitchinterval(1e-5)
    lock = threading.Lock()

    def work(number):
        rng = random.Random(number)
        while tally.left():
            torch.set_num_threads(rng.choice((1, 2, 3, 4, 8)))
            name, seed = rng.choice(cases)
            error = difference(PARTS[name](seed), expected[name, seed])
            with lock:
                passed = error <= (0.0 if name == "layer" else 1e-12)
                tally.add(passed, f"thread {number}: {name} {seed} differs by {error:.1e}", error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def digest(seed):
    """Return the sum of the results of one part, chosen by the seed."""
    name = list(PARTS)[seed % len(PARTS)]
    return (layer(seed, 3000) if name == "layer" else PARTS[name](seed)).double().sum().item()


class Clouds(torch.utils.data.Dataset):
    """Results of :func:`digest`, computed by the workers of a loader."""

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return digest(index)


def processes(tally):
    """Fork and spawn after the parent has used the library: Pool, DataLoader, joblib."""
    expected = [digest(seed) for seed in range(16)]
    while tally.left():
        for method in ("fork", "spawn"):
            with multiprocessing.get_context(method).Pool(2) as pool:
                found = pool.map_async(digest, range(16)).get()
            tally.add(np.allclose(found, expected, rtol=1e-9), f"Pool, {method}")
            loader = torch.utils.data.DataLoader(
                Clouds(), None, num_workers=2, multiprocessing_context=method
            )
            found = [float(each) for each in loader]
            tally.add(np.allclose(found, expected, rtol=1e-9), f"DataLoader, {method}")
        try:
            import joblib
        except ImportError:
            continue
        for backend in ("loky", "threading", "multiprocessing"):
            call = joblib.Parallel(n_jobs=2, backend=backend)
            found = call(joblib.delayed(digest)(seed) for seed in range(16))
            tally.add(np.allclose(found, expected, rtol=1e-9), f"joblib, {backend}")


def resident():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1e3


def memory(tally):
    """Resident memory over training steps with changing sizes: level after a warm-up."""
    import permutogeo as pg

    conv = pg.nn.BilateralConv(4, 8, dim=3, normalize="after")

    def step():
        x, feature = sample(tally.rng.getrandbits(31), tally.rng.randint(100, 3000))
        conv(x, feature).square().mean().backward()

    for _ in range(200):
        step()
    start = resident()
    while tally.left():
        for _ in range(100):
            step()
        growth = resident() - start
        tally.add(growth < 100, f"{growth:.0f} MB more after a warm-up of 200 steps", growth)


def start_child(name, *arguments):
    command = [sys.executable, str(Path(__file__).resolve()), "--child", name, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def child_write(path):
    """Write meshes of changing size to one file until killed; say when the first is there."""
    import trimesh

    from permutogeo.data import from_mesh, to_mesh

    ball = trimesh.creation.icosphere(4)
    mesh = from_mesh(np.array(ball.vertices), np.array(ball.faces))
    to_mesh(mesh, path)
    print("ready", flush=True)
    while True:
        mesh.pos = mesh.pos * 1.0001
        to_mesh(mesh, path)


def kill_writes(tally):
    """kill -9 while a mesh is written: the file is a whole mesh, old or new."""
    from permutogeo.data import from_mesh

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mesh.ply"
        while tally.left():
            child = start_child("write", str(path))
            child.stdout.readline()
            time.sleep(tally.rng.uniform(0, 0.05))
            child.send_signal(tally.rng.choice((signal.SIGKILL, signal.SIGTERM)))
            child.communicate()
            try:
                whole = from_mesh(path).num_nodes == 2562
            except Exception as problem:
                whole, path = False, path.with_name(f"{problem}"[:40])
            tally.add(whole, f"the file is damaged: {path.name}")


def child_train(folder):
    """Train a small network, resuming from the folder; print the sum of its weights."""
    import permutogeo as pg
    from permutogeo.train import Checkpoints, Trainer

    torch.manual_seed(0)
    model = pg.models.BilateralNet(4, 8, 2, dim=3)
    clouds = [(*sample(seed, 200), torch.arange(200) % 2) for seed in range(8)]

    def loss(model, data):
        x, feature, y = data
        return torch.nn.functional.cross_entropy(model(x, feature), y), 1

    trainer = Trainer(
        model, loss, "adam", lr=0.01, epochs=6, seed=0, progress=False,
        checkpoints=Checkpoints(folder, resume=True, save_every=1),
    )  # fmt: skip
    print("ready", flush=True)
    loader = torch.utils.data.DataLoader(clouds, None, shuffle=True)
    trainer.fit(loader)
    print(sum(float(p.double().abs().sum()) for p in model.parameters()), flush=True)


def kill_training(tally):
    """kill -9 while training: a run that is resumed ends with the same weights."""
    with tempfile.TemporaryDirectory() as folder:
        expected = start_child("train", f"{folder}/whole").communicate()[0].split()[-1]
        number = 0
        while tally.left():
            number += 1
            for _ in range(3):
                child = start_child("train", f"{folder}/{number}")
                child.stdout.readline()
                time.sleep(tally.rng.uniform(0, 1.0))
                child.kill()
                child.communicate()
            found = start_child("train", f"{folder}/{number}").communicate()[0].split()[-1]
            tally.add(found == expected, f"resumed to {found}, uninterrupted {expected}")


def child_filter():
    print(digest(0), flush=True)


def cold_cache(tally):
    """Four processes at once on an empty kernel cache: all get the same result."""
    while tally.left():
        with tempfile.TemporaryDirectory() as folder:
            os.environ["WARP_CACHE_PATH"] = folder
            children = [start_child("filter") for _ in range(4)]
            found = {child.communicate()[0].strip() for child in children}
        tally.add(len(found) == 1 and "" not in found, f"results {sorted(found)}")


JOBS = {
    job.__name__: job
    for job in (
        *(oracle, adjoints, threads, processes, memory),
        *(kill_writes, kill_training, cold_cache),
    )
}
CHILDREN = {"write": child_write, "train": child_train, "filter": child_filter}


def run_slice(name, seconds, seed):
    """Run a job in a process of its own; return what it counted, or why it died."""
    command = [sys.executable, str(Path(__file__).resolve()), "--job", name]
    command += ["--seconds", str(seconds), "--seed", str(seed)]
    code, out, errors = run_watched(command, GRACE, 16 * seconds + GRACE)
    if code is None:
        return {"cases": 1, "failures": [f"hangs (seed {seed})"], "worst": 0.0}
    if code != 0:
        last = (errors.strip().splitlines() or ["no message"])[-1]
        why = f"exit code {code} (seed {seed}): {last}"
        return {"cases": 1, "failures": [why], "worst": 0.0}
    return json.loads(out.splitlines()[-1])


def soak(minutes, seed, names):
    end = time.monotonic() + 60 * minutes
    length = max(10.0, min(180.0, 60 * minutes / len(names)))
    total = {name: {"cases": 0, "failures": [], "worst": 0.0, "seconds": 0.0} for name in names}
    while time.monotonic() < end:
        for name in names:
            if time.monotonic() >= end and total[name]["cases"]:
                continue
            seed, start = seed + 1, time.monotonic()
            found = run_slice(name, length, seed)
            row = total[name]
            row["seconds"] += time.monotonic() - start
            row["cases"] += found["cases"]
            row["failures"] += found["failures"]
            row["worst"] = max(row["worst"], found["worst"])
            for failure in found["failures"]:
                print(f"FAILED {name}: {failure}", flush=True)
    print(f"\n{'job':14} {'cases':>9} {'failures':>9} {'largest':>9} {'seconds':>8}")
    for name, row in total.items():
        print(
            f"{name:14} {row['cases']:9,} {len(row['failures']):9} "
            f"{row['worst']:9.1e} {row['seconds']:8.0f}"
        )
    return sum(len(row["failures"]) for row in total.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        CHILDREN[args.child[0]](*args.child[1:])
    elif args.job:
        faulthandler.enable()
        tally = Tally(args.seconds, args.seed)
        JOBS[args.job](tally)
        found = {"cases": tally.cases, "failures": tally.failures[:20], "worst": tally.worst}
        print(json.dumps(found))
    else:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        sys.exit(1 if soak(args.minutes, args.seed, args.only) else 0)


if __name__ == "__main__":
    main()
