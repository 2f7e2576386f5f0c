"""An image and the signed distance field of a mesh, fitted by encodings
=====================================================================

Fits a photograph of BSDS500 (position to color) and the signed distance of a mesh of ``OpenMeshes``
(position to distance) with :class:`permutogeo.nn.PermutohedralEncoding` and a small perceptron,
beside a hash grid of the same size in plain torch, for the same number of steps. Writes
``image.png`` and ``distance.png`` (docs/guides/encoding.md).

::

    PERMUTOGEO_DATA=/path/to/data python examples/fit_fields.py
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from scipy.spatial import cKDTree

from permutogeo.benchmarks.encoding import make_pair, with_head
from permutogeo.benchmarks.record import write_results
from permutogeo.datasets import BSDS500, OpenMeshes
from permutogeo.viz import image_panels


def fit(model, sample, steps, lr=0.01):
    """Train on random samples; return the seconds that it took."""
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, eps=1e-12)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    start = time.perf_counter()
    for _ in range(steps):
        position, target = sample()
        loss = (model(position) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return time.perf_counter() - start


@torch.no_grad()
def evaluate(model, position):
    return torch.cat([model(part) for part in position.split(2**15)])


def fit_image(args):
    """Fit a photograph, and return PSNR and seconds of each encoding."""
    images = BSDS500(args.data, "test")
    image = images.image(min(3, len(images) - 1))
    if args.quick:
        image = image[:, :48, :64]
    height, width = image.shape[1:]
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    position = torch.stack([x, y], -1).view(-1, 2) / max(height, width)
    colors = image.flatten(1).T.contiguous()

    def sample():
        index = torch.randint(len(position), (args.batch,))
        return position[index], colors[index]

    panels, notes, record = {"photograph": image}, {}, {}
    for name, encoding in make_pair(
        2, args.table_size, base_resolution=16, growth_factor=1.6
    ).items():
        torch.manual_seed(0)
        model = with_head(encoding, 3)
        seconds = fit(model, sample, args.steps)
        found = evaluate(model, position).clamp(0, 1)
        psnr = float(-10 * (found - colors).square().mean().log10())
        record[name] = {"psnr": psnr, "seconds": seconds}
        print(f"image, {name:14} {psnr:.2f} dB in {seconds:.1f} s", flush=True)
        panels[name], notes[name] = found.T.reshape(image.shape), f"{psnr:.2f} dB, {seconds:.1f} s"
    crop = (width // 3, height // 3, width // 4, height // 4)
    image_panels(panels, args.output / "image.png", notes=notes, crop=crop)
    return record


class SignedDistance:
    """Signed distance to a mesh in the unit cube, from dense samples of its surface."""

    def __init__(self, mesh, count):
        corner = mesh.pos[mesh.face.T].double()
        center, size = corner.mean((0, 1)), (corner.amax((0, 1)) - corner.amin((0, 1))).max()
        corner = (corner - center) / (1.25 * size) + 0.5
        normal = torch.linalg.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
        area = normal.norm(dim=1)
        face = torch.multinomial(area.clamp_min(1e-12), count, replacement=True)
        weight = torch.rand(count, 3, dtype=torch.float64).log()
        weight = weight / weight.sum(1, keepdim=True)
        self.surface = (corner[face] * weight[..., None]).sum(1)
        self.normal = normal[face] / area[face, None].clamp_min(1e-12)
        self.tree = cKDTree(self.surface.numpy())

    def __call__(self, position):
        """Distance to the tangent plane nearby, to the sample far away; the sign by vote."""
        distance, index = self.tree.query(position.numpy(), k=8)
        offset = position.double()[:, None] - self.surface[index]
        plane = (offset * self.normal[index]).sum(2)
        sign = torch.where(plane.sum(1) >= 0, 1.0, -1.0)
        near = torch.from_numpy(distance[:, 0])
        exact = torch.where(near < 0.01, plane[:, 0].abs(), near)
        return (sign * exact).float()[:, None]

    def sample(self, count):
        """Half near the surface, half anywhere."""
        index = torch.randint(len(self.surface), (count // 2,))
        near = self.surface[index].float() + 0.02 * torch.randn(count // 2, 3)
        return torch.cat([near.clamp(0, 1), torch.rand(count - count // 2, 3)])


def fit_distance(args):
    """Fit a signed distance, and return error, overlap of the inside and seconds."""
    torch.manual_seed(0)
    meshes = OpenMeshes(args.data)
    mesh = next((each for each in meshes if each.name == "spot"), meshes[0])
    field = SignedDistance(mesh, 2000 if args.quick else 200_000)
    position = field.sample(1000 if args.quick else 2**19)
    target = field(position)
    held, held_target = position[: len(position) // 16], target[: len(position) // 16]
    position, target = position[len(held) :], target[len(held) :]

    def sample():
        index = torch.randint(len(position), (args.batch,))
        return position[index], target[index]

    side = 64 if args.quick else 256
    axis = torch.linspace(0, 1, side)
    plane = torch.cartesian_prod(1 - axis, axis)
    plane = torch.stack([plane[:, 1] * 0 + 0.5, plane[:, 0], plane[:, 1]], 1)
    panels, notes, record = {"true": draw(field(plane), side)}, {}, {}
    for name, encoding in make_pair(
        3, args.table_size, base_resolution=8, growth_factor=1.5
    ).items():
        torch.manual_seed(0)
        model = with_head(encoding, 1)
        seconds = fit(model, sample, args.steps, lr=0.005)
        found = evaluate(model, held)
        error = float((found - held_target).abs().mean())
        inside, truth = found < 0, held_target < 0
        overlap = float((inside & truth).sum() / (inside | truth).sum().clamp_min(1))
        record[name] = {"error": error, "overlap": overlap, "seconds": seconds}
        print(
            f"distance, {name:14} mean error {error:.5f} of the cube, overlap {overlap:.4f} in "
            f"{seconds:.1f} s",
            flush=True,
        )
        panels[name] = draw(evaluate(model, plane), side)
        notes[name] = f"error {error:.5f}, {seconds:.1f} s"
    image_panels(panels, args.output / "distance.png", notes=notes)
    return record


def draw(distance, side):
    """Return level lines: blue inside, orange outside, white at the surface."""
    value = distance.view(side, side).numpy()
    shade = 0.75 + 0.25 * np.cos(2 * np.pi * value / 0.04) * np.exp(-2 * np.abs(value))
    color = np.where(value[..., None] < 0, [0.25, 0.5, 0.9], [0.95, 0.65, 0.3]) * shade[..., None]
    return np.where(np.abs(value[..., None]) < 0.003, 1.0, color).astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="folder of the data; else PERMUTOGEO_DATA")
    parser.add_argument("--output", type=Path, default=Path("runs/fit_fields"))
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=2**13)
    parser.add_argument("--table-size", type=int, default=2**14)
    parser.add_argument("--quick", action="store_true", help="few steps on small fields")
    args = parser.parse_args()
    if args.quick:
        args.steps, args.batch, args.table_size = 10, 256, 2**10
    args.output.mkdir(parents=True, exist_ok=True)
    write_results(args, image=fit_image(args), distance=fit_distance(args))


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "runs/encoding_image.png"
