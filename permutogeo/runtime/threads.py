"""Persistent thread pool for work that releases the GIL."""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue

import torch

Job = Callable[[], None]

# Parts per thread of a split launch: balances preempted threads at negligible cost.
PIECES_PER_THREAD = 4


class _Local(threading.local):
    worker = False  # whether this thread is one of the pool


_local = _Local()
_lock = threading.Lock()
# One queue per worker: always the same workers are woken, so that each keeps its core.
_pool: list[SimpleQueue] = []


def count() -> int:
    """Return the number of threads to use: torch's setting, and one inside a worker."""
    return 1 if _local.worker else torch.get_num_threads()


def run_jobs(jobs: Sequence[Job], *, caller: bool = True) -> None:
    """Run all jobs and wait for them; raises the first error.

    Args:
        caller: Run jobs on the calling thread too. Jobs that call torch must not run there: torch
            is limited to one thread on workers only.
    """
    threads = min(count(), len(jobs))
    if threads <= 1 and (caller or count() == 1):
        for job in jobs:
            job()
        return
    batch = _Batch(jobs)
    try:
        queues = _workers(threads - caller)
        for queue in queues:
            queue.put(batch)
        if caller or not queues:
            batch.drain()
    except BaseException as error:
        batch.give_up(error)
    batch.finish()


def run_without_grad(jobs: Sequence[Job]) -> None:
    """Run jobs that call torch on workers, where torch uses one thread.

    Gradients are not recorded. Inference mode is thread-local and passed on.
    """
    inference = torch.is_inference_mode_enabled()

    def in_mode(job: Job) -> None:
        with torch.inference_mode() if inference else torch.no_grad():
            job()

    run_jobs([partial(in_mode, job) for job in jobs], caller=False)


def split_range(size: int, grain: int = 1) -> list[tuple[int, int]]:
    """Split ``range(size)`` into a few consecutive parts per thread.

    Args:
        grain: Smallest size of a part.
    """
    threads = count() if size >= 2 * grain else 1
    if threads == 1:
        return [(0, size)]
    parts = min(threads * PIECES_PER_THREAD, max(1, size // max(1, grain)))
    edge = [size * i // parts for i in range(parts + 1)]
    return list(itertools.pairwise(edge))


class _Batch:
    """Jobs that several threads share."""

    def __init__(self, jobs: Sequence[Job]):
        self.pending = deque(jobs)
        self.active = 0  # workers that may be running a job
        self.errors: list[BaseException] = []
        self.changed = threading.Condition()

    def drain(self) -> None:
        """Run jobs until none are pending."""
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
        """Run jobs on a worker; :meth:`finish` waits for it.

        The caller is not counted as active: an interrupt between increment and decrement would
        leave the batch unfinished for ever. Workers are not interrupted.
        """
        with self.changed:
            self.active += 1
        self.drain()
        with self.changed:
            self.active -= 1
            self.changed.notify_all()

    def give_up(self, error: BaseException) -> None:
        """Drop the pending jobs."""
        self.errors.append(error)
        self.pending.clear()

    def finish(self) -> None:
        """Wait for all workers, also after an interrupt: they use memory that the caller frees."""
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
    """Return the queues of ``size`` workers, or of as many as could be started.

    The pool never shrinks: threads with different settings share it, and a queue that was returned
    once is served for ever.
    """
    if len(_pool) < size:
        with _lock:
            _grow(size)
    return _pool[:size]


def _grow(size: int) -> None:
    """Start daemon threads on which torch uses one thread; its setting elsewhere is kept.

    A pool of ``concurrent.futures`` would refuse work once the main thread has ended.
    """
    setting = torch.get_num_threads()
    try:
        while len(_pool) < size:
            queue: SimpleQueue = SimpleQueue()
            ready = threading.Event()
            name = f"permutogeo-{len(_pool)}"
            threading.Thread(target=_work, args=(queue, ready), name=name, daemon=True).start()
            ready.wait()
            _pool.append(queue)
    except RuntimeError:  # the system's limit of threads
        pass
    finally:
        torch.set_num_threads(setting)


def _work(queue: SimpleQueue, ready: threading.Event) -> None:
    _local.worker = True
    torch.get_num_threads()  # takes over the global setting once, before ours
    torch.set_num_threads(1)
    ready.set()
    while True:
        queue.get().help()


def _after_fork() -> None:
    """Start again without threads, and limit torch to one: OpenMP hangs in a forked child.

    A child of a parent that never ran torch in parallel may raise the limit again by
    ``torch.set_num_threads``.
    """
    global _pool, _lock, _local
    _pool, _lock, _local = [], threading.Lock(), _Local()
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
