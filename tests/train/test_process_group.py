"""Two processes of torchrun (gloo) against one process that trains on both of their batches."""

import contextlib
import io
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from permutogeo.train import save_state
from permutogeo.train.process_group import ProcessGroup

ROOT = Path(__file__).parent.parent.parent

# Runs in each of the two processes, and in one for comparison, unchanged but for the batch size.
SCRIPT = """
import os, signal, sys
from pathlib import Path
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from permutogeo.nn import BilateralConv
from permutogeo.train import Checkpoints, Confusion, Trainer, is_main_process, logistic_step
from permutogeo.train import run_folder


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = BilateralConv(2, 6, dim=2)
        self.head = torch.nn.Linear(6, 3)

    def forward(self, x, feature, batch=None):
        return self.head(self.conv(x, feature, batch).relu())


def clouds(count):
    # Sizes and ignored labels differ, so that the processes' counts do.
    generator = torch.Generator().manual_seed(0)
    for i in range(count):
        feature = torch.rand(5 + 7 * (i % 4), 2, generator=generator) * 3
        y = (feature[:, 0]).long()
        y[: i % 5] = 255
        yield Data(x=feature, feature=feature, y=y)


def make(folder, step, resume=False):
    torch.manual_seed(int(os.environ.get("RANK", "0")))  # the first process's weights are taken
    metric = Confusion(3, ignore=255)
    checkpoints = Checkpoints(folder, resume=resume)
    return Trainer(Net(), step, lr=0.01, epochs=3, checkpoints=checkpoints, metric=metric)


output, batch_size = Path(sys.argv[1]), int(sys.argv[2])
rank = int(os.environ.get("RANK", "0"))
written = run_folder.save_state
def noted(state, path):
    (output / f"writer_{rank}").touch()
    written(state, path)
run_folder.save_state = noted

plain = logistic_step(class_weight=torch.tensor([1.0, 2.0, 0.5]), ignore=255)
data = list(clouds(18))  # five batches of four: in the last step one process has none
train = DataLoader(data, batch_size, shuffle=True)
val = DataLoader(data[:10], batch_size)
trainer = make(output / "whole", plain)
trainer.fit(train, val)
other = trainer.evaluate(val)
if is_main_process():
    print("measured", other["loss"], other["mean_iou"])

if "RANK" in os.environ:
    steps = 0
    def interrupted(model, batch):
        global steps
        steps += model.training
        if steps == 5 and rank == 1:  # only one of them is told
            os.kill(os.getpid(), signal.SIGINT)
        return plain(model, batch)
    try:
        make(output / "part", interrupted).fit(train, val)
    except KeyboardInterrupt as stop:
        print(rank, stop)
    make(output / "part", plain, resume=True).fit(train, val)
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    script = folder / "script.py"
    script.write_text(SCRIPT)
    for name in ("one", "two"):
        (folder / name).mkdir()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*launcher, str(script), str(folder / "two"), "4"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    alone = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(alone):
        patch.setattr("sys.argv", [str(script), str(folder / "one"), "8"])
        patch.setattr("permutogeo.train.run_folder.save_state", save_state)  # put back at the end
        runpy.run_path(str(script))
    return folder, {"one": alone.getvalue(), "two": done.stdout}


def rows(path):
    lines = (path / "log.csv").read_text().splitlines()
    names = lines[0].split(",")
    table = torch.tensor([[float(v) for v in line.split(",")] for line in lines[1:]])
    return table[:, [i for i, name in enumerate(names) if name != "seconds"]]


def test_two_processes_equal_one(runs):
    folder, outputs = runs
    for name in ("best.safetensors", "last.safetensors"):
        one, two = (load_file(folder / k / "whole" / name) for k in ("one", "two"))
        names = [key for key in one if "conv" in key or "head" in key]
        assert len(names) >= 4
        for key in names:
            torch.testing.assert_close(two[key], one[key], rtol=0, atol=1e-6)
    one, two = (rows(folder / k / "whole") for k in ("one", "two"))
    torch.testing.assert_close(two, one, rtol=1e-6, atol=1e-6)
    assert one[-1, 3] < one[0, 3], "the loss falls"
    one, two = (outputs[k].partition("measured")[2].split()[:2] for k in ("one", "two"))
    assert [float(v) for v in two] == pytest.approx([float(v) for v in one], abs=1e-6)


def test_only_the_first_process_writes(runs):
    folder, _ = runs
    assert sorted(path.name for path in (folder / "two").glob("writer_*")) == ["writer_0"]


def test_an_interrupt_of_one_stops_both_and_continues_to_the_same(runs):
    folder, outputs = runs
    for rank in (0, 1):
        assert f"{rank} stopped after 1 epochs and 2 steps; set resume=True" in outputs["two"]
    whole, part = (
        load_file(folder / "two" / name / "last.safetensors") for name in ("whole", "part")
    )
    assert whole.keys() == part.keys()
    assert all(torch.equal(whole[key], part[key]) for key in whole)
    assert torch.equal(rows(folder / "two" / "part"), rows(folder / "two" / "whole"))


def test_a_single_process():
    group = ProcessGroup(torch.device("cpu"))
    assert (group.rank, group.size, group.is_main) == (0, 1, True)
    assert list(group.split("abc")) == [("a", True), ("b", True), ("c", True)]
    assert group.sum(1, 2.5) == [1.0, 2.5]
    assert group.num_steps([1, 2, 3]) == 3 and group.num_steps(iter([])) is None


def test_every_process_gets_the_same_number_of_items():
    shares = []
    for rank in (0, 1, 2):
        group = ProcessGroup(torch.device("cpu"))
        group.rank, group.size = rank, 3
        shares.append(list(group.split(range(7))))
        assert group.num_steps(range(7)) == len(shares[-1]) == 3
    counted = sorted(item for share in shares for item, counts in share if counts)
    assert counted == list(range(7))
