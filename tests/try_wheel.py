"""First steps of a user with an installed permutogeo: ``python try_wheel.py`` in an empty folder.

Run by ``make trywheel`` and ``tests/test_packaging.py`` with the wheel in an empty environment.
"""

import subprocess
import sys
from pathlib import Path

import torch
import trimesh

import permutogeo as pg
from permutogeo import weights


def main():
    package = Path(pg.__file__)
    assert Path(sys.prefix) in package.parents, f"Expected the installed package (got {package})"

    x, feature = torch.rand(500, 2), torch.rand(500, 3) * 4
    constant = pg.functional.gaussian_filter(torch.ones_like(x), feature)
    assert torch.allclose(constant, torch.ones_like(x), atol=1e-5), "filter"

    conv = pg.nn.BilateralConv(2, 4, dim=3, normalize="after")
    conv(x, feature).square().mean().backward()
    assert all(p.grad.isfinite().all() and p.grad.any() for p in conv.parameters()), "layer"

    folder = Path("model")
    model = pg.models.LatticeUNet(2, 8, 3, dim=3, depth=1).eval()
    model.save_pretrained(folder)
    again = pg.models.LatticeUNet.from_pretrained(folder)
    assert torch.equal(model(x, feature), again(x, feature)), "from_pretrained"
    for name in ("mesh_denoiser", "cloud_denoiser", "tiles"):
        assert name in weights.names(), name
    pg.denoising.MeshDenoiser.from_pretrained()

    ball = trimesh.creation.icosphere(4)
    noise = torch.randn(ball.vertices.shape, generator=torch.Generator().manual_seed(0)).numpy()
    ball.vertices = ball.vertices + 0.01 * noise
    ball.export("scan.ply")
    command = [
        Path(sys.executable).with_name("permutogeo"),
        "denoise",
        "scan.ply",
        "-o",
        "clean.ply",
    ]
    subprocess.run(command, check=True)
    before, after = (
        abs(trimesh.load(name).vertices ** 2).sum(1) ** 0.5 for name in ("scan.ply", "clean.ply")
    )
    assert after.std() < 0.5 * before.std(), (before.std(), after.std())
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    print(f"permutogeo {pg.__version__} works on Python {version}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
