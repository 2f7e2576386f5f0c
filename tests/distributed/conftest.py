"""Four gloo processes, started once, in which the tests run functions."""

import importlib.util
import inspect
import multiprocessing
import socket
import sys
import traceback
from datetime import timedelta

import pytest

WORLD = 4
SECONDS = 300


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def serve(connection, rank, port):
    """Run what the tests ask for: a function of a file, in the group of the first ranks."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=WORLD,
        timeout=timedelta(seconds=SECONDS),
    )
    groups = {size: dist.new_group(list(range(size))) for size in range(1, WORLD + 1)}
    files = {}
    while (job := connection.recv()) is not None:
        path, name, size, arguments = job
        try:
            if path not in files:
                spec = importlib.util.spec_from_file_location(f"_ranks_{len(files)}", path)
                files[path] = importlib.util.module_from_spec(spec)
                sys.modules[spec.name] = files[path]
                spec.loader.exec_module(files[path])
            torch.manual_seed(0)
            result = getattr(files[path], name)(groups[size], rank, size, **arguments)
            connection.send((True, result))
        except BaseException:
            connection.send((False, traceback.format_exc()))
    dist.destroy_process_group()


@pytest.fixture(scope="session")
def pool():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "permutogeo.nn", "permutogeo.distributed"])
    port, ends, processes = free_port(), [], []
    for rank in range(WORLD):
        end, other = context.Pipe()
        process = context.Process(target=serve, args=(other, rank, port), daemon=True)
        process.start()
        ends.append(end)
        processes.append(process)
    yield ends
    for end in ends:
        end.send(None)
    for process in processes:
        process.join(30)


@pytest.fixture
def on_ranks(pool):
    """Run ``function(group, rank, size, **arguments)`` on the first ranks; return the results."""

    def run(function, size, **arguments):
        path = inspect.getsourcefile(function)
        for end in pool[:size]:
            end.send((path, function.__name__, size, arguments))
        answers = [end.recv() if end.poll(SECONDS) else (False, "no answer") for end in pool[:size]]
        failed = [f"rank {rank}: {text}" for rank, (good, text) in enumerate(answers) if not good]
        assert not failed, "\n".join(failed)
        return [result for _, result in answers]

    return run
