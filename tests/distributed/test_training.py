"""Training with sharded clouds: data parallel outside, and a rank that dies."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from permutogeo.distributed import ShardedLattice
from permutogeo.lattice import Lattice
from permutogeo.models.blocks import LatticeBlock
from permutogeo.train import load_state

ROOT = Path(__file__).parent.parent.parent


class Net(torch.nn.Module):
    """Splat, a block with norm, slice."""

    def __init__(self):
        super().__init__()
        self.block = LatticeBlock(2, 5, dim=2, num_layers=2)
        self.head = torch.nn.Linear(5, 1)

    def forward(self, x, lattice):
        return self.head(lattice.slice(self.block(lattice.splat(x), lattice)))


def clouds():
    """Two clouds of different sizes with targets."""
    generator = torch.Generator().manual_seed(3)
    for count in (50, 70):
        feature = torch.rand(count, 2, generator=generator, dtype=torch.float64) * 5
        yield feature, feature.sin(), feature.prod(1, keepdim=True)


def train(model, parts, lattices, count, scale):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        for (_, x, y), lattice in zip(parts, lattices, strict=True):
            loss = (model(x, lattice) - y).square().sum() / count
            (loss * scale).backward()
        optimizer.step()


def run_mesh(group, rank, size):
    """Two clouds in data parallel, each sharded over two ranks, against one process."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "shard"))
    feature, x, y = list(clouds())[mesh["data"].get_local_rank()]
    shard = mesh["shard"].get_local_rank()
    rows = torch.arange(len(x))[shard::2]
    torch.manual_seed(0)
    net = Net().double()
    lattice = ShardedLattice.build(feature[rows], group=mesh["shard"].get_group())
    model = DistributedDataParallel(net)
    # DDP averages over the ranks; the factor makes it a sum.
    train(model, [(feature[rows], x[rows], y[rows])], [lattice], 120, size)
    return {name: tensor.numpy() for name, tensor in net.state_dict().items()}


def test_device_mesh(on_ranks):
    found = on_ranks(run_mesh, 4)
    torch.manual_seed(0)
    net = Net().double()
    feature, x, y = (torch.cat(parts) for parts in zip(*clouds(), strict=True))
    lattice = Lattice.build(feature, torch.tensor([0, 1]).repeat_interleave(torch.tensor([50, 70])))
    train(net, [(feature, x, y)], [lattice], 120, 1)
    for name, tensor in net.state_dict().items():
        for state in found:
            ours = torch.from_numpy(state[name])
            torch.testing.assert_close(ours, tensor, rtol=1e-9, atol=1e-9)


def run_tutorial(group, rank, size):
    """Run the program of the documentation on the ranks that are there already."""
    page = (ROOT / "docs" / "guides" / "distributed.md").read_text()
    program = re.search(r"```python\n(# filter_cloud.py.*?)```", page, re.DOTALL).group(1)
    shown = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(shown):
        patch.setattr(torch.distributed, "init_process_group", lambda backend: None)
        patch.setattr(torch.distributed, "destroy_process_group", lambda: None)
        exec(program, {})
    return shown.getvalue()


def test_tutorial(on_ranks):
    for rank, line in enumerate(on_ranks(run_tutorial, 4)):
        assert line.startswith(f"rank {rank}: ShardedLattice(dim=3, num_points=")
        assert 0 < float(line.split()[-1]) < 0.1


# Runs under torchrun; rank 1 is killed in the middle of the first attempt.
SCRIPT = """
import os, signal, sys
from datetime import timedelta
import torch, torch.distributed as dist
from permutogeo.distributed import ShardedLattice
from permutogeo.models.blocks import LatticeBlock
from permutogeo.train import Checkpoints, Trainer, load_state

rank = int(os.environ["RANK"])
# torchrun would stop this rank before it finds out for itself.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = LatticeBlock(2, 5, dim=2, num_layers=1)
        self.head = torch.nn.Linear(5, 1)

    def forward(self, x, lattice):
        return self.head(lattice.slice(self.block(lattice.splat(x), lattice)))


steps = 0
def step(model, feature):
    global steps
    if model.training:
        steps += 1
        if first and rank == 1 and steps == 6:
            os.kill(os.getpid(), signal.SIGKILL)
    lattice = ShardedLattice.build(feature)
    error = (model(feature.sin(), lattice) - feature.prod(1, keepdim=True)).square()
    return error.sum(), len(feature)


torch.manual_seed(0)
feature = torch.rand(60, 2) * 5
# Each rank gets every second item: its part of the same cloud.
parts = [feature[0::2], feature[1::2], feature[:30], feature[30:]]
checkpoints = Checkpoints(sys.argv[1], resume=True)
trainer = Trainer(Net(), step, "adam", epochs=4, checkpoints=checkpoints)
if not first and rank == 0:
    done = load_state(sys.argv[1] + "/last.safetensors")["progress"]["rows"]
    print("restarted after", len(done), "epochs", flush=True)
trainer.fit(parts, parts)
dist.destroy_process_group()
"""


def run_killed(folder):
    """Run the script under torchrun; return the finished process and the folder of the run."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    # Otherwise the restarted ranks share the store of those before, and may read their addresses.
    environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    options = ["--nproc-per-node=2", "--max-restarts=1"]
    (folder / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [*launcher, *options, str(folder / "script.py"), str(folder / "run")],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
    )
    return done, folder / "run"


@pytest.mark.slow
def test_killed_rank(tmp_path):
    """The other rank ends with a message, and torchrun continues from the checkpoint."""
    done, run = run_killed(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Rank 0 of 2 lost the other ranks: one has ended" in done.stderr
    assert "restarted after 2 epochs" in done.stdout
    rows = load_state(run / "last.safetensors")["progress"]["rows"]
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
    assert [row["steps"] for row in rows] == [2, 4, 6, 8], "no step is lost or repeated"
