"""Scene flow between two scans: an HPLFlowNet trained on generated motion
=======================================================================

A scene has boxes that move rigidly and pairs of boxes with a joint between them. Both scans are
sampled independently: no point of the first is seen again in the second. Prints the mean error of
the flow on test scenes beside that of no motion, and of moving each point to the nearest one of the
second scan, for points of rigid and of jointed objects, and writes ``scene_flow.json``.

::

    python examples/scene_flow.py
"""

import argparse
import time
from pathlib import Path

import torch
from scipy.spatial import cKDTree
from torch import nn

from permutogeo import suggest_scale
from permutogeo.benchmarks.record import write_table
from permutogeo.models import HPLFlowNet

RATE = 0.003


def turn(largest, generator):
    """Return a random rotation by an angle up to ``largest``, in radians."""
    axis = nn.functional.normalize(torch.randn(3, generator=generator), dim=0)
    angle = largest * (2 * torch.rand(1, generator=generator) - 1)
    x, y, z = axis.tolist()
    cross = torch.tensor([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return torch.linalg.matrix_exp(angle * cross)


def box(count, size, generator):
    """Return points on the faces of a box around the origin."""
    points = torch.rand(count, 3, generator=generator) - 0.5
    axis = torch.randint(3, (count,), generator=generator)
    end = torch.randint(2, (count,), generator=generator) - 0.5
    points[torch.arange(count), axis] = end
    return points * size


def make_scene(seed, objects=6, points=256):
    """Return the first scan, its flow, the second scan, and which points have a joint."""
    generator = torch.Generator().manual_seed(seed)
    first, flow, second, jointed = [], [], [], []
    for i in range(objects):
        place = 6 * torch.rand(3, generator=generator) - 3
        pose, motion = turn(3.1, generator), turn(0.25, generator)
        shift = 0.4 * torch.randn(3, generator=generator)
        size = 0.4 + torch.rand(3, generator=generator)
        bend = turn(0.6, generator) if i % 2 else None
        joint = torch.tensor([0.5, 0.0, 0.0]) * size
        for scan in range(2):
            local = box(points, size, generator)
            if bend is not None:  # the second half of the points is on the other side of the joint
                local[points // 2 :] += 2 * joint
            moved = local.clone()
            if bend is not None:
                moved[points // 2 :] = (local[points // 2 :] - joint) @ bend.t() + joint
            before, after = local @ pose.t() + place, moved @ pose.t() @ motion.t() + place + shift
            if scan == 0:
                first.append(before)
                flow.append(after - before)
                jointed.append(torch.full((points,), bend is not None))
            else:
                second.append(after)
    return torch.cat(first), torch.cat(flow), torch.cat(second), torch.cat(jointed)


def train(model, args, most_steps=None):
    """Train on new scenes for the given processor time."""
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    start, steps, spent = time.process_time(), 0, 0.0
    while spent < args.seconds and steps != most_steps:
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1.02 - spent / args.seconds)
        first, flow, second, _ = make_scene(steps + 1000)
        found = model((first / 3, second / 3), (first, second))
        loss = (found - flow).norm(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
        spent = time.process_time() - start


@torch.no_grad()
def evaluate(model, scenes):
    """Return the mean errors of each method over rigid and jointed points."""
    model.eval()
    errors = {"no motion": [], "nearest point": [], "HPLFlowNet": []}
    groups = []
    for first, flow, second, jointed in scenes:
        near = torch.from_numpy(cKDTree(second.numpy()).query(first.numpy())[1])
        errors["no motion"].append(flow.norm(dim=1))
        errors["nearest point"].append((second[near] - first - flow).norm(dim=1))
        found = model((first / 3, second / 3), (first, second))
        errors["HPLFlowNet"].append((found - flow).norm(dim=1))
        groups.append(jointed)
    joint = torch.cat(groups)
    both = {name: torch.cat(parts) for name, parts in errors.items()}
    return {name: (each[~joint].mean(), each[joint].mean()) for name, each in both.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=25.0, help="of training, of one core")
    parser.add_argument("--output", type=Path, default=Path("runs/scene_flow"))
    parser.add_argument("--quick", action="store_true", help="two steps")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    scenes = [make_scene(seed) for seed in range(2 if args.quick else 30)]
    model = HPLFlowNet(3, 24, 3, dim=3, depth=3, scale=suggest_scale(scenes[0][0]))
    train(model, args, 2 if args.quick else None)
    rows = []
    print(f"{'mean error':16}  rigid  jointed")
    for name, (rigid, jointed) in evaluate(model, scenes).items():
        print(f"{name:16}{rigid:7.3f}{jointed:9.3f}")
        rows.append([name, f"{rigid:.3f}", f"{jointed:.3f}"])
    title = f"Scene flow of generated motion after {args.seconds:g} s of one core"
    columns = ["mean error", "rigid objects", "jointed objects"]
    write_table(args.output / "scene_flow.json", title, columns, rows)


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "figures/gallery/scene_flow.png"
