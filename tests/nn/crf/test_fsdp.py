"""Sharding of the parameters of a CRF by FSDP2."""

import subprocess
import sys

SCRIPT = """
import sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from permutogeo.nn import DenseCRF, GaussianKernel

dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
kernel = GaussianKernel(3, 1.0, 2.0, learn_weight=True, learn_sigma=True)
crf = DenseCRF(4, [kernel], learn_compatibility=True)
unary, feature = torch.randn(50, 4), torch.rand(50, 3) * 4
expected = crf(unary, [feature]).detach()
fully_shard(crf, mesh=init_device_mesh("cpu", (1,)))
found = crf(unary, [feature])
torch.testing.assert_close(found.detach(), expected, rtol=0, atol=0)
found[:, 0].sum().backward()
assert all(p.grad.full_tensor().any() for p in crf.parameters())
dist.destroy_process_group()
print("sharded", len(list(crf.parameters())))
"""


def test_fully_shard(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "sharded 3\n"
