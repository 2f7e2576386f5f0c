"""Captures forward and backward on kept lattices as a CUDA graph, and replays it on other values.

Usage: ``exercise_capture.py FOLDER``, which takes headers and kernels. Prints the launches and
operators of each graph. The lattice is built before and used by the warm-up, as
``docs/guides/gpu.md`` says.
"""

import sys
from pathlib import Path

import torch
from atomic_headers import use_atomic_headers
from fake_cuda import FakeCuda, Schedule, contents, on_device  # first
from fake_graph import Graph

import permutogeo as pg
from permutogeo import Lattice

WARM_UP = 3


class Steps(torch.nn.Module):
    """Each operation of a lattice."""

    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Parameter(torch.randn(15, 8, 8))
        self.shared = torch.nn.Parameter(torch.randn(15))
        self.deep = torch.nn.Parameter(torch.randn(15, 1, 8))

    def forward(self, x, lattice):
        values = lattice.blur(lattice.splat(x))
        values = lattice.convolve(values, self.dense)
        values = lattice.convolve(values, self.shared, shared=True)
        return lattice.slice(lattice.convolve(values, self.deep, groups=8))


def cases():
    """Yield a name, a factory, the channels and a call ``(module, x, feature, lattice)``."""
    kernels = [pg.nn.GaussianKernel(3, 1.0, 2.0)]
    yield "operations", Steps, 8, lambda m, x, feature, lattice: m(x, lattice)

    def on_lattice(m, x, feature, lattice):
        return m(x, feature, lattice=lattice)

    for normalize in (None, "after", "symmetric"):
        options = {"dim": 3, "normalize": normalize}
        make = lambda options=options: pg.nn.BilateralConv(8, 6, **options)  # noqa: E731
        yield f"BilateralConv {normalize}", make, 8, on_lattice
    yield "GaussianFilter", lambda: pg.nn.GaussianFilter(3, learn_sigma=False), 8, on_lattice
    yield "LatticeUNet", lambda: pg.models.LatticeUNet(8, 8, 5, dim=3), 8, on_lattice
    yield (
        "DenseCRF",
        lambda: pg.nn.DenseCRF(4, kernels, num_steps=2),
        4,
        lambda m, x, feature, lattice: m(x, [feature], lattices=[lattice]),
    )


def leaves(module, x):
    return [x, *module.parameters()]


def step(fake, module, call, x, feature, lattice, grad):
    """A forward and a backward pass; returns the output and the gradients."""
    for leaf in leaves(module, x):
        leaf.grad = None
    out = call(module, x, feature, lattice)
    fake.backward(out, grad(out)) if fake else out.backward(grad(out))
    return [out, *(leaf.grad for leaf in leaves(module, x))]


def check(name, factory, channels, call):
    torch.manual_seed(0)
    module = factory().train()
    feature, x = torch.rand(300, 3) * 5, torch.randn(300, channels)
    others = torch.randn(300, channels)
    seed = torch.randn(300, 8)

    def expected(values):
        leaf = values.clone().requires_grad_()
        lattice = Lattice.build(feature)
        return step(None, module, call, leaf, feature, lattice, lambda out: seed[:, : out.shape[1]])

    wanted = [part.detach().clone() for part in expected(others)]
    for parameter in module.parameters():
        parameter.on_host = False
    for buffer in module.buffers():
        buffer.on_host = False
    place, static, device_seed = on_device(feature), on_device(x).requires_grad_(), on_device(seed)
    static.on_host = False
    fake = FakeCuda(Schedule(len(name)))
    graph = Graph(fake)
    with fake.active():
        grad = lambda out: device_seed[:, : out.shape[1]]  # noqa: E731
        lattice = Lattice.build(place)
        arguments = (fake, module, call, static, place, lattice, grad)
        for _ in range(WARM_UP):
            step(*arguments)
        with graph.capture():
            found = step(*arguments)
        assert len(set(map(id, fake.streams))) == 1
    with torch._C.DisableTorchFunction(), torch.no_grad():
        static.copy_(others)
        for part in found:
            part.detach().fill_(torch.nan)
    with fake.active():
        graph.replay()
    for one, two in zip(found, wanted, strict=True):
        torch.testing.assert_close(torch.from_numpy(contents(one)), two, rtol=2e-4, atol=2e-4)
    print(f"{name}: {graph.launches} launches, {len(graph.steps) - graph.launches} operators")


def refused(work, before):
    """Whether a capture of ``work`` raises."""
    fake = FakeCuda()
    with fake.active():
        prepared = before()
        try:
            with Graph(fake).capture():
                work(prepared)
        except RuntimeError as error:
            return "not permitted in a capture" in str(error)
    return False


def main(folder):
    use_atomic_headers(Path(folder))
    for case in cases():
        check(*case)
    feature = on_device(torch.rand(100, 3) * 5)
    assert refused(lambda _: Lattice.build(feature), lambda: None)
    assert refused(lambda lattice: lattice.splat(feature), lambda: Lattice.build(feature))
    print("refused: a build, a lattice without warm-up")


if __name__ == "__main__":
    main(sys.argv[1])
