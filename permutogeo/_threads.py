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
# One queue for each worker: the first ones are woken, always the same, so that each keeps its core.
_pool: list[SimpleQueue] = []


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
    batch = _Batch(jobs)
    try:
        for queue in _workers(count())[: threads - caller]:
            queue.put(batch)
        if caller:
            batch.drain()
    except BaseException as error:
        batch.give_up(error)
    batch.finish()


class _Batch:
    """Jobs that several threads take turns at."""

    def __init__(self, jobs: Sequence[Job]):
        self.pending = deque(jobs)
        self.active = 0  # workers that may be at work on a job
        self.errors: list[BaseException] = []
        self.changed = threading.Condition()

    def drain(self) -> None:
        """Take jobs until there are none."""
        try:
            while self.pending:
                try:
                    job = self.pending.popleft()
                except IndexError:  # another thread took the last one
                    break
                job()
        except BaseException as error:
            self.give_up(error)

    def help(self) -> None:
        """Take jobs on a worker, whom :meth:`finish` waits for.

        The caller is not counted: Ctrl-C could strike between a count and what takes it back, and
        nobody would ever finish. Workers are not interrupted.
        """
        with self.changed:
            self.active += 1
        self.drain()
        with self.changed:
            self.active -= 1
            self.changed.notify_all()

    def give_up(self, error: BaseException) -> None:
        """Leave out the jobs that nobody has begun."""
        self.errors.append(error)
        self.pending.clear()

    def finish(self) -> None:
        """Wait for everybody, Ctrl-C or not: nobody may be at work on memory that is let go."""
        while True:
            try:
                with self.changed:
                    while self.pending or self.active:
                        self.changed.wait()
                break
            except KeyboardInterrupt as interrupt:
                self.give_up(interrupt)
        if self.errors:
            raise self.errors[0]


def _workers(size: int) -> list[SimpleQueue]:
    global _pool
    with _lock:
        if len(_pool) != size:
            for queue in _pool:
                queue.put(None)
            _pool = _start(size)
        return _pool


def _start(size: int) -> list[SimpleQueue]:
    """Threads on which torch uses one thread, while it keeps its setting everywhere else.

    They are daemons: a pool of ``concurrent.futures`` would refuse work while other threads still
    run at the interpreter's end.
    """
    arrived = threading.Barrier(size + 1)

    def work(queue: SimpleQueue) -> None:
        _local.worker = True
        torch.get_num_threads()  # takes over the global setting once, before ours
        torch.set_num_threads(1)
        arrived.wait()
        while (batch := queue.get()) is not None:
            batch.help()

    setting = torch.get_num_threads()
    queues: list[SimpleQueue] = [SimpleQueue() for _ in range(size)]
    for index, queue in enumerate(queues):
        name = f"permutogeo-{index}"
        threading.Thread(target=work, args=(queue,), name=name, daemon=True).start()
    arrived.wait()
    torch.set_num_threads(setting)
    return queues


def _forget() -> None:
    """Threads do not survive a fork."""
    global _pool, _lock, _local
    _pool, _lock, _local = [], threading.Lock(), threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
