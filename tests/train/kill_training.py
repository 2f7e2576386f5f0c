"""Kill a training run at random moments and resume it until it ends; compare with a whole run.

    python tests/train/kill_training.py --kills 200

Each run is a forked process that is killed by SIGKILL, in a step, in an evaluation or while it
writes. The weights and the log must equal those of a run without interruption bit by bit.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

from permutogeo.train import Checkpoints, Trainer, load_state, mse_step

EPOCHS = 8


def make_trainer(folder, pause):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1)
    )
    plain = mse_step()

    def step(model, batch):
        time.sleep(pause)
        return plain(model, batch)

    checkpoints = Checkpoints(folder, resume=True, save_every=1)
    return Trainer(model, step, "adam", epochs=EPOCHS, schedule="cosine", checkpoints=checkpoints)


def loader():
    x = torch.rand(40, 3, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 8, shuffle=True)


def run_in_child(folder, kill_after, pause):
    """Train in a forked process; return whether it ended by itself."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            make_trainer(folder, pause).fit(loader(), loader())
            code = 0
        finally:
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    assert os.WEXITSTATUS(status) == 0, "a resumed run failed"
    return True


def outcome(folder):
    """Return weights, optimizer state and log, without the wall time."""
    state = load_state(folder / "last.safetensors")
    for row in state["progress"]["rows"]:
        row.pop("seconds")
    optimizer = {key: value["exp_avg"] for key, value in state["optimizer"]["state"].items()}
    return state["model"], optimizer, state["progress"]["rows"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)  # OpenMP does not survive a fork
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as temporary:
        whole = Path(temporary) / "whole"
        make_trainer(whole, 0.0).fit(loader(), loader())  # here: children inherit what it imports
        expected, kills, runs = outcome(whole), 0, 0
        while kills < args.kills:
            folder = Path(temporary) / f"run_{runs}"
            longest = 0.5
            while not run_in_child(folder, rng.uniform(0.0, longest), 0.004):
                kills += 1
                longest *= 1.1  # on a busy machine no run would end otherwise
            model, optimizer, rows = outcome(folder)
            assert rows == expected[2], "the log differs"
            for ours, theirs in ((model, expected[0]), (optimizer, expected[1])):
                assert ours.keys() == theirs.keys()
                assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
            left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
            assert left == [], f"left behind: {left}"
            runs += 1
    print(f"killed {kills} times in {runs} runs, each resumed to the same bits")


if __name__ == "__main__":
    sys.exit(main())
