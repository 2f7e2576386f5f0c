"""A few persistent threads for work that releases the GIL."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

_local = threading.local()
_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def count() -> int:
    """How many threads to work with: torch's own setting, and one inside a worker."""
    return 1 if getattr(_local, "worker", False) else torch.get_num_threads()


def run(jobs: Sequence[Callable[[], None]], *, caller: bool = True) -> None:
    """Run all jobs and return when the last one is done; the first error is raised.

    Args:
        caller: Whether the calling thread takes its share. A job that calls torch must not run
            there: only on a worker does torch keep to one thread.
    """
    threads = min(count(), len(jobs))
    if threads <= 1 and (caller or count() == 1):
        for job in jobs:
            job()
        return
    pending = iter(jobs)  # shared: each thread takes the next one

    def drain() -> None:
        for job in pending:
            job()

    pool = _workers(count())
    futures = [pool.submit(drain) for _ in range(threads - caller)]
    try:
        if caller:
            drain()
    finally:
        for future in futures:
            future.exception()
    for future in futures:
        future.result()


def _workers(size: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    if _pool is None or _pool_size != size:
        with _lock:
            if _pool is None or _pool_size != size:
                _pool, _pool_size = _start(size), size
    return _pool


def _start(size: int) -> ThreadPoolExecutor:
    """Threads on which torch uses one thread, while it keeps its setting everywhere else."""
    arrived = threading.Barrier(size + 1)

    def enter() -> None:
        _local.worker = True
        torch.get_num_threads()  # takes over the global setting once, before ours
        torch.set_num_threads(1)
        arrived.wait()

    setting = torch.get_num_threads()
    pool = ThreadPoolExecutor(size, thread_name_prefix="permutogeo")
    for _ in range(size):
        pool.submit(enter)
    arrived.wait()
    torch.set_num_threads(setting)
    return pool


def _forget() -> None:
    """Threads do not survive a fork."""
    global _pool, _lock, _local
    _pool, _lock, _local = None, threading.Lock(), threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
