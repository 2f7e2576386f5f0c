"""``torch.compile`` in its default mode, each run in a process of its own: it must not crash."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import torch
import torch._dynamo.guards
import permutogeo as pg

# Dynamo empties the processor's caches to time the guards of each frame, a fifth of its time.
torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0

def loss(x, feature, filter_weight):
    lattice = pg.Lattice.build(feature)
    values = lattice.convolve(lattice.blur(lattice.splat(x)), filter_weight)
    values = values + lattice.convolve(values, filter_weight[:, 0, 0], shared=True)
    torch._dynamo.graph_break()
    at = lattice.locate(feature + 0.1)
    coarse, up = lattice.coarsen()
    return (lattice.slice(values).sum() + lattice.slice(values, at).square().sum()
            + coarse.splat(values, up).square().sum())

torch.manual_seed(0)
compiled = torch.compile(loss, backend=sys.argv[1])
for count in (50, 80, 33, 400):
    arguments = [torch.rand(count, 3), 4 * torch.rand(count, 2), torch.rand(7, 3, 3)]
    arguments = [argument.requires_grad_() for argument in arguments]
    expected = torch.autograd.grad(loss(*arguments), arguments)
    found = torch.autograd.grad(compiled(*arguments), arguments)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
breaks = torch._dynamo.utils.counters["graph_break"]
assert not any("data_ptr" in reason for reason in breaks), breaks
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_default_mode(backend):
    command = [sys.executable, "-c", SCRIPT, backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "recompile_limit" not in done.stderr
