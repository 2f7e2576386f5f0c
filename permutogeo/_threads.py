"""A few persistent threads for work that releases the GIL."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue

import torch

Job = Callable[[], None]

_local = threading.local()
_lock = threading.Lock()
_pool: SimpleQueue | None = None
_pool_size = 0


def count() -> int:
    """How many threads to work with: torch's own setting, and one inside a worker."""
    return 1 if getattr(_local, "worker", False) else torch.get_num_threads()


def run(jobs: Sequence[Job], *, caller: bool = True) -> None:
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
    pending = deque(jobs)
    finished: SimpleQueue[BaseException | None] = SimpleQueue()
    helpers = threads - caller
    pool = _workers(count())
    for _ in range(helpers):
        pool.put((pending, finished))
    errors = [_drain(pending)] if caller else []
    # Whatever happens, nobody may still work on the caller's memory when this returns.
    while helpers:
        try:
            errors.append(finished.get())
            helpers -= 1
        except KeyboardInterrupt as interrupt:
            pending.clear()
            errors.append(interrupt)
    for error in errors:
        if error is not None:
            raise error


def _drain(pending: deque[Job]) -> BaseException | None:
    """Take jobs until there are none; an error, Ctrl-C included, is kept and ends the others."""
    try:
        while True:
            try:
                job = pending.popleft()
            except IndexError:
                return None
            job()
    except BaseException as error:
        pending.clear()
        return error


def _workers(size: int) -> SimpleQueue:
    global _pool, _pool_size
    with _lock:
        if _pool is None or _pool_size != size:
            if _pool is not None:
                for _ in range(_pool_size):
                    _pool.put(None)
            _pool, _pool_size = _start(size), size
        return _pool


def _start(size: int) -> SimpleQueue:
    """Threads on which torch uses one thread, while it keeps its setting everywhere else.

    They are daemons: a pool of ``concurrent.futures`` would refuse work while other threads still
    run at the interpreter's end.
    """
    queue: SimpleQueue = SimpleQueue()
    arrived = threading.Barrier(size + 1)

    def work() -> None:
        _local.worker = True
        torch.get_num_threads()  # takes over the global setting once, before ours
        torch.set_num_threads(1)
        arrived.wait()
        while (task := queue.get()) is not None:
            pending, finished = task
            finished.put(_drain(pending))

    setting = torch.get_num_threads()
    for index in range(size):
        threading.Thread(target=work, name=f"permutogeo-{index}", daemon=True).start()
    arrived.wait()
    torch.set_num_threads(setting)
    return queue


def _forget() -> None:
    """Threads do not survive a fork."""
    global _pool, _lock, _local
    _pool, _lock, _local = None, threading.Lock(), threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
