"""Runs layers, a network and the dense CRF on the simulated device, against the same on the CPU.

Usage: ``exercise_layers.py FOLDER``. ``FOLDER`` takes headers and kernels. Prints for each module
its launches, and the reads of device memory beyond those of its lattice builds. Forward passes
only: the simulated device runs the operators below autograd.
"""

import sys
from pathlib import Path

import torch
from atomic_headers import use_atomic_headers
from fake_cuda import FakeCuda, Schedule, contents, on_device  # first

import permutogeo as pg

READS_PER_BUILD = 2


def modules():
    """Return (name, factory, inputs, lattice builds) of each case."""
    generator = torch.Generator().manual_seed(0)
    feature = torch.rand(400, 3, dtype=torch.float64, generator=generator) * 6
    batch = torch.arange(2).repeat_interleave(200)
    x = torch.randn(400, 4, dtype=torch.float64, generator=generator)
    kernels = [(1.0, 2.0), (3.0, 0.5)]

    def crf():
        return pg.nn.DenseCRF(4, [pg.nn.GaussianKernel(3, *each) for each in kernels])

    def conv():
        return pg.nn.BilateralConv(4, 8, dim=3, normalize="after")

    yield "BilateralConv", conv, (x, feature), 1
    yield "GaussianFilter", lambda: pg.nn.GaussianFilter(3), (x, feature, batch), 1
    yield "DenseCRF", crf, (x, [feature, feature]), 2
    yield "LatticeUNet", lambda: pg.models.LatticeUNet(4, 8, 5, dim=3), (x, feature, batch), 3


def place(value):
    """Return tensors, and lists of them, for the simulated device."""
    return [place(each) for each in value] if isinstance(value, list) else on_device(value)


def place_parameters(module):
    for part in module.modules():
        for store in (part._parameters, part._buffers):
            store.update({k: on_device(v.detach()) for k, v in store.items() if v is not None})
    return module


def check(name, factory, inputs, builds, dtype):
    def make():
        torch.manual_seed(0)
        return factory().to(dtype).eval()

    def convert(value):
        if isinstance(value, list):
            return [convert(each) for each in value]
        return value.to(dtype) if value.is_floating_point() else value

    inputs = [convert(each) for each in inputs]
    expected = make()(*inputs)
    ours, placed = place_parameters(make()), [place(each) for each in inputs]
    fake = FakeCuda(Schedule(len(name)))
    with fake.active():
        found = ours(*placed)
    tolerance = 1e-12 if dtype == torch.float64 else 2e-5
    torch.testing.assert_close(
        torch.from_numpy(contents(found)), expected, rtol=tolerance, atol=tolerance
    )
    reads = sum(fake.reads.values()) - READS_PER_BUILD * builds
    print(f"{name} {dtype}: {fake.schedule.launches} launches, {max(reads, 0)} further reads")


def main(folder):
    use_atomic_headers(Path(folder))
    with torch.no_grad():
        for case in modules():
            for dtype in (torch.float32, torch.float64):
                check(*case, dtype)


if __name__ == "__main__":
    main(sys.argv[1])
