"""Recycled pages of large tensors."""

import copy
import gc
import os
import pickle
import threading

import pytest
import torch

from permutogeo.runtime import memory, pages

CPU = torch.device("cpu")
MB = 1 << 20
pytestmark = pytest.mark.skipif(not pages.AVAILABLE, reason="only on Linux")


@pytest.fixture(autouse=True)
def _start_empty(monkeypatch):
    gc.collect()
    pages.release()
    monkeypatch.setattr(memory, "_RECYCLED_BYTES", 4 * MB)
    monkeypatch.setattr(pages, "_most_used", sum(pages._used.values()))
    yield
    pages.release()


def large(megabytes, dtype=torch.float32):
    return memory.empty(megabytes * MB // dtype.itemsize, dtype=dtype, device=CPU)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64])
def test_a_released_block_is_used_again(dtype):
    first = large(8, dtype).fill_(3)
    place = first.data_ptr()
    del first
    assert pages.kept_bytes() == 8 * MB
    again = large(6, dtype)
    assert again.data_ptr() == place and again.dtype == dtype and pages.kept_bytes() == 0
    assert large(8, dtype).data_ptr() != place


def test_views_keep_the_block():
    view = large(8).view(-1, 4)[5:7].fill_(1)
    arrays = view.numpy()
    del view
    assert pages.kept_bytes() == 0
    large(8).fill_(2)
    assert (arrays == 1).all()


def test_much_larger_blocks_are_left_for_larger_tensors():
    big, other = large(64), large(32)
    place = big.data_ptr()
    del other, big
    assert large(8).data_ptr() != place
    assert large(60).data_ptr() == place


def test_used_and_kept_blocks_do_not_exceed_the_most_in_use():
    before = large(16)
    del before
    both = large(64)  # a kept block does not fit: it makes room
    assert pages.kept_bytes() == 0
    del both
    small = [large(8) for _ in range(8)]
    assert pages.kept_bytes() == 0
    del small
    assert pages.kept_bytes() == 64 * MB


def test_kept_blocks_are_limited(monkeypatch):
    monkeypatch.setattr(pages, "_most_kept", lambda: 20 * MB)
    several = [large(8) for _ in range(5)]
    del several
    assert pages.kept_bytes() == 16 * MB


@pytest.mark.parametrize("make", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_independent(make):
    source = large(8).fill_(1)
    other = make(source)
    source.fill_(2)
    assert (other == 1).all()


def test_other_types_and_small_tensors_come_from_torch():
    del_me = [memory.empty(8 * MB, dtype=torch.bool, device=CPU), large(1)]
    del del_me
    assert pages.kept_bytes() == 0


def test_autograd_and_inference_mode():
    leaf = large(8).fill_(2).requires_grad_()
    (leaf * leaf).sum().backward()
    assert (leaf.grad == 4).all()
    with torch.inference_mode():
        assert large(8).is_inference()


def test_many_threads():
    wrong = []

    def work(number):
        for _ in range(20):
            mine = large(4, torch.int64).fill_(number)
            if not (mine == number).all():
                wrong.append(number)

    every = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for each in every:
        each.start()
    for each in every:
        each.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_blocks_of_its_own():
    tensor = large(8).fill_(1)
    place = tensor.data_ptr()
    del tensor
    child = os.fork()
    if child == 0:
        same = large(8).fill_(2)
        os._exit(0 if same.data_ptr() == place and (same == 2).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    mine = large(8).fill_(3)
    assert (mine == 3).all()
