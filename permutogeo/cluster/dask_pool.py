"""Jobs on a Dask cluster: a scheduler by its address, or processes of this machine."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

# Seconds to wait for a scheduler, and for its first worker.
SCHEDULER_SECONDS, WORKER_SECONDS = 10.0, 120.0
_ADDRESS = re.compile(
    r"(?:(?P<protocol>tcp|tls|ws|wss|ucx)://)?(?P<host>[\w.\-]+|\[[\da-f:]+\]):(?P<port>\d+)"
)
# Part of the machine's memory that all local workers share.
_MEMORY_PART = 0.8


def check_scheduler(scheduler: str) -> int | None:
    """Return the number of local workers, or ``None`` for an address; raises for anything else.

    Args:
        scheduler: ``"local"``, ``"local:4"``, or an address such as ``"tcp://host:8786"``.
    """
    found = re.fullmatch(r"local(?::(\d+))?", scheduler)
    if found:
        count = int(found[1]) if found[1] else (os.cpu_count() or 1)
        if count < 1:
            raise ValueError("Expected at least one worker (got 0)")
        return count
    address = _ADDRESS.fullmatch(scheduler)
    if address is None or not 0 < int(address["port"]) < 2**16:
        raise ValueError(
            "Expected 'local', 'local:N' or the address of a Dask scheduler such as "
            f"tcp://host:8786 (got '{scheduler}')"
        )
    return None


def load_distributed() -> Any:
    """Import dask.distributed; raises with the command that installs it."""
    try:
        import distributed
    except ImportError as error:
        raise ImportError(
            "Expected the package dask.distributed to use a scheduler: "
            "pip install 'permutogeo[cluster]'"
        ) from error
    return distributed


def _check_answer(scheduler: str) -> None:
    """Raise unless the other side speaks first, as Dask does.

    The client of Dask waits for ever at a port that accepts the connection and stays silent.
    """
    address = _ADDRESS.fullmatch(scheduler)
    if address is None or address["protocol"] not in (None, "tcp"):
        return
    place = address["host"].strip("[]"), int(address["port"])
    with socket.create_connection(place, timeout=SCHEDULER_SECONDS) as connection:
        if not connection.recv(1):
            raise ConnectionError("the connection was closed")


@contextmanager
def open_client(scheduler: str, memory: int | None = None) -> Iterator[Any]:
    """Connect to a scheduler, or start workers on this machine, each a process with one thread.

    Args:
        scheduler: See :func:`check_scheduler`.
        memory: Memory of a local worker in bytes, above which it is restarted; by default an
            equal part of 80 % of the machine's. Workers of another scheduler have their own limit.
    """
    count = check_scheduler(scheduler)
    distributed = load_distributed()
    if count is None:
        try:
            _check_answer(scheduler)
            client = distributed.Client(scheduler, timeout=SCHEDULER_SECONDS)
        except (OSError, TimeoutError) as error:
            raise ConnectionError(
                f"Expected a Dask scheduler at '{scheduler}' (no answer within "
                f"{SCHEDULER_SECONDS:g} s)"
            ) from error
        with client:
            try:
                client.wait_for_workers(1, timeout=WORKER_SECONDS)
            except TimeoutError as error:
                raise ConnectionError(
                    f"Expected a worker at the scheduler '{scheduler}' (none within "
                    f"{WORKER_SECONDS:g} s)"
                ) from error
            yield client
        return
    total = distributed.system.MEMORY_LIMIT
    limit = memory or int(_MEMORY_PART * total / count)
    # Each process computes on its share of the cores.
    threads = str(max((os.cpu_count() or 1) // count, 1))
    import dask

    environment = {"distributed.nanny.pre-spawn-environ.OMP_NUM_THREADS": threads}
    with (
        dask.config.set(environment),
        distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            memory_limit=limit,
            dashboard_address=None,
            silence_logs="ERROR",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def run_on_dask(
    client: Any, function: Callable[[T], Any], jobs: Sequence[T]
) -> Iterator[tuple[T, Any, BaseException | None]]:
    """Yield each job with its result or its error, in the order of completion.

    A job whose worker dies is given to another one, as often as the scheduler's
    ``allowed-failures`` says; then it is an error.
    """
    distributed = load_distributed()
    futures = {client.submit(function, job, pure=False): job for job in jobs}
    for future in distributed.as_completed(futures):
        job = futures[future]
        error = future.exception()
        yield job, None if error is not None else future.result(), error
        future.release()
