"""The paper's table of body denoising: noisy, smoothed, Gaussian and learned bilateral filter.

    PERMUTOGEO_DATA=/path/to/data python examples/denoise_bodies.py --workers 2

samples 200 human bodies to train, 40 to validate and 100 to test, moves their vertices along the
normals by noise, and smooths the noisy meshes by the mean of face normals. What smoothing did to
each vertex is a displacement; one scalar filter of 211 taps takes the noise out of the three
coordinates of these, over four intrinsic coordinates (isomap) of the smoothed mesh. The Gaussian's
bandwidth is searched on training bodies; the learned filter starts from the Gaussian, there and on
a lattice finer by a factor of 1.4, and the validation bodies decide. The table stands beside the
paper's (appendix B.3) and in ``results.json``. Expect the error of the vertices to fall from method
to method, as it does there. ``--model procedural`` needs no data.
"""

import argparse
import copy
import json
import time
from pathlib import Path

import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, Dataset
from torch_geometric.transforms import Compose

from permutogeo.datasets import Bodies
from permutogeo.metrics import normal_angle, vertex_rmse
from permutogeo.nn import BilateralConv
from permutogeo.transforms import Displacement, IsomapFeature, NormalNoise, SmoothNormals

PAPER = {  # vertex distance (RMSE) and normal angle error
    "noisy": (5.774, 19.680),
    "normal smoothing": (3.183, 19.707),
    "Gauss bilateral": (2.872, 19.357),
    "learned bilateral": (2.825, 19.207),
}
PARTS = ("train", "val", "test")
SIGMAS = [0.0075 * 2 ** (i / 2) for i in range(9)]  # meters along the surface
MM = 1000.0  # in a meter


class NoisyBodies(Dataset):
    """Bodies with noise, smoothed: ``x`` leads to the noisy positions, ``y`` to the clean ones."""

    def __init__(self, bodies, noise, iterations, seed):
        self.bodies, self.noise, self.seed = bodies, noise, seed
        self.represent = Compose([
            SmoothNormals(iterations, keep="noisy_pos"),
            IsomapFeature(dim=4),
            Displacement("noisy_pos"),
            Displacement("clean_pos", attr="y"),
        ])  # fmt: skip

    def __len__(self):
        return len(self.bodies)

    def __getitem__(self, index):
        noise = NormalNoise(self.noise, keep="clean_pos", seed=self.seed + index)
        return self.represent(noise(self.bodies[index]))


def load(part, args):
    """All bodies of a part, made once: their geometry stays what it is."""
    seed = 3 * args.seed + PARTS.index(part)
    model = "procedural" if args.model == "procedural" else None
    bodies = Bodies(None, getattr(args, part), seed, model, args.resolution)
    if bodies.model == "procedural" != args.model:
        expected = "PERMUTOGEO_DATA to name a folder with bodies/makehuman_body.npz"
        raise FileNotFoundError(f"Expected {expected}; --model procedural needs none")
    noisy = NoisyBodies(bodies, args.noise, args.iterations, 1_000_000 * seed)
    return [data.clone() for data in DataLoader(noisy, None, num_workers=args.workers)]


@torch.no_grad()
def score(bodies, move):
    """RMSE in millimeters and angle in degrees, ``[bodies, 2]``, of the positions by ``move``."""
    rows = []
    for body in bodies:
        pos = move(body)
        rmse = MM * vertex_rmse(pos, body.clean_pos)
        rows.append(torch.stack([rmse, normal_angle(pos, body.clean_pos, body.face)]))
    return torch.stack(rows)


def score_filter(conv, bodies, sigma):
    """The same after a filter of the displacements."""
    return score(bodies, lambda body: body.pos + conv(body.x, body.intrinsic / sigma))


def search(conv, bodies):
    """The bandwidth at which the Gaussian leaves the least error, and the errors of all."""
    errors = {}
    for sigma in SIGMAS:
        errors[sigma] = float(score_filter(conv, bodies, sigma)[:, 0].mean())
        print(f"  sigma {MM * sigma:5.1f} mm: RMSE {errors[sigma]:.3f} mm", flush=True)
    return min(errors, key=errors.get), errors


def train(conv, bodies, sigma, optimizer, scheduler, batch_size):
    """One epoch; returns the mean loss in square millimeters."""
    total = 0.0
    for batch in torch.randperm(len(bodies)).split(batch_size):
        optimizer.zero_grad()
        for body in (bodies[i] for i in batch):
            loss = mse_loss(MM * conv(body.x, body.intrinsic / sigma), MM * body.y)
            (loss / len(batch)).backward()
            total += float(loss.detach())
        optimizer.step()
        scheduler.step()
    return total / len(bodies)


def learn(conv, parts, sigma, args):
    """Train from the Gaussian; returns what each epoch reached."""
    conv.reset_parameters()
    optimizer = torch.optim.Adam(conv.parameters(), lr=args.lr)
    steps = args.epochs * -(-len(parts["train"]) // args.batch_size)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    history = []
    for epoch in range(args.epochs):
        loss = train(conv, parts["train"], sigma, optimizer, scheduler, args.batch_size)
        error = float(score_filter(conv, parts["val"], sigma)[:, 0].mean())
        history.append({"sigma": sigma, "loss": loss, "val_rmse": error})
        print(f"  sigma {MM * sigma:5.1f} mm, epoch {epoch + 1}/{args.epochs}: loss {loss:.4f}, "
              f"validation RMSE {error:.4f} mm", flush=True)  # fmt: skip
    return history


def compare(parts, args):
    """The four methods on the test bodies, and how bandwidths and filter were found."""
    conv = BilateralConv(3, 3, dim=4, radius=2, shared=True, bias=False, normalize="after")
    sigma, errors = search(conv, parts["train"][: args.search])
    scores = {
        "noisy": score(parts["test"], lambda body: body.noisy_pos),
        "normal smoothing": score(parts["test"], lambda body: body.pos),
        "Gauss bilateral": score_filter(conv, parts["test"], sigma),
    }
    history, filters = [], []
    for own in (sigma, sigma / 2**0.5):  # free taps may want a finer lattice than the Gaussian
        history += learn(conv, parts, own, args)
        filters.append((history[-1]["val_rmse"], own, copy.deepcopy(conv)))
    _, own, best = min(filters, key=lambda entry: entry[0])
    scores["learned bilateral"] = score_filter(best, parts["test"], own)
    return scores, {"sigma": sigma, "learned_sigma": own, "search": errors, "epochs": history}


def report(scores):
    """Print the table beside the paper's; returns ours."""
    results, before = {}, None
    print(
        f"{'':18} {'RMSE, mm':>9} {'angle':>7} {'better on':>10}   {'paper: RMSE':>11} {'angle':>7}"
    )
    for name, score in scores.items():
        rmse, angle = score.mean(0).tolist()
        better = None if before is None else int((score[:, 0] < before[:, 0]).sum())
        of = "" if better is None else f"{better}/{len(score)}"
        print(f"{name:18} {rmse:9.3f} {angle:7.3f} {of:>10}   "
              f"{PAPER[name][0]:11.3f} {PAPER[name][1]:7.3f}")  # fmt: skip
        results[name] = {"rmse_mm": rmse, "angle": angle, "better_than_above": better}
        before = score
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("runs/denoise_bodies"))
    parser.add_argument("--model", choices=("makehuman", "procedural"), default="makehuman")
    parser.add_argument("--resolution", type=int, default=128, help="of procedural bodies")
    parser.add_argument("--train", type=int, default=200, help="bodies; the paper has 1000")
    parser.add_argument("--val", type=int, default=40, help="bodies; the paper has 200")
    parser.add_argument("--test", type=int, default=100, help="bodies; the paper has 500")
    parser.add_argument("--search", type=int, default=20, help="training bodies for the bandwidth")
    parser.add_argument("--noise", type=float, default=0.2, help="in mean edge lengths")
    parser.add_argument("--iterations", type=int, default=10, help="of normal smoothing")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--workers", type=int, default=0, help="processes that make the bodies")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few bodies, made in code")
    args = parser.parse_args()
    if args.quick:
        args.model, args.resolution, args.epochs = "procedural", 48, 3
        args.train, args.val, args.test = 4, 2, 3
    torch.manual_seed(args.seed)
    start = time.perf_counter()
    try:
        parts = {part: load(part, args) for part in PARTS}
    except FileNotFoundError as error:
        parser.exit(2, f"{error}\n")
    made = time.perf_counter()
    print(f"{sum(map(len, parts.values()))} bodies of {parts['test'][0].num_nodes} vertices")
    scores, found = compare(parts, args)
    results = report(scores)
    seconds = {"bodies": made - start, "filters": time.perf_counter() - made}
    args.output.mkdir(parents=True, exist_ok=True)
    record = {"arguments": {k: str(v) for k, v in vars(args).items()}, "results": results,
              "paper": PAPER, "seconds": seconds, **found}  # fmt: skip
    (args.output / "results.json").write_text(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
