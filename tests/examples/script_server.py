"""Run scripts in processes that are forked from this one, which holds the heavy libraries.

Each line of the standard input names a script, its arguments, its folder and variables of its
environment, in JSON; the answer is its exit code and its processor time.
"""

import importlib
import json
import os
import runpy
import signal
import sys
from pathlib import Path

HEAVY = [
    *("matplotlib.pyplot", "scipy.spatial", "torch._dynamo", "torch_geometric.nn", "trimesh"),
    *(f"permutogeo.{room}" for room in ("datasets", "denoising", "models", "nn", "train", "viz")),
]
TIMEOUT = 900


def execute(path, arguments, folder, variables, out, err):
    """Run a script as ``python path``, in a process of its own."""
    for name, target, mode in ((os.devnull, 0, "rb"), (out, 1, "wb"), (err, 2, "wb")):
        with open(name, mode) as file:
            os.dup2(file.fileno(), target)
    signal.alarm(TIMEOUT)
    os.chdir(folder)
    os.environ.update(variables)
    sys.argv = [path, *arguments]
    sys.path[0] = str(Path(path).parent)
    runpy.run_path(path, run_name="__main__")
    sys.exit()


def main():
    for name in HEAVY:
        importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            execute(**json.loads(line))
        _, status, used = os.wait4(child, 0)
        answer = [os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
