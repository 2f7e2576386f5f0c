"""Body denoising: the paper's ``tbl:bodydenoise`` (appendix B.3)
==============================================================

Samples 200 human bodies to train, 40 to validate and 100 to test, adds noise along the vertex
normals, and smooths the noisy meshes by averaging face normals. The displacements between noisy
and smoothed vertices are then filtered over four intrinsic coordinates (isomap) of the smoothed
mesh by one scalar filter of 211 taps. The bandwidth of the Gaussian is searched on training
bodies. The squared error is quadratic in the taps, so the learned filter solves the normal
equations of all training bodies; validation chooses among three bandwidths. Expect an RMSE of
2.07, 1.15, 1.11 and 1.10 mm (docs/reproduction.md). ``--model procedural`` needs no data.
``--today`` tests Taubin smoothing and :func:`permutogeo.denoising.denoise` instead.

::

    PERMUTOGEO_DATA=/path/to/data python examples/paper/denoise_bodies.py --workers 2
"""

import time
import warnings

import torch
import trimesh
from torch.utils.data import DataLoader, Dataset
from torch_geometric.data import Data
from torch_geometric.transforms import Compose

from permutogeo import Lattice, ScaleWarning
from permutogeo.benchmarks.experiment import arguments, load_or_exit, record
from permutogeo.datasets import Bodies
from permutogeo.denoising import denoise, normal_angle, vertex_rmse
from permutogeo.nn import BilateralConv
from permutogeo.transforms import Displacement, IsomapFeature, NormalNoise, SmoothNormals
from permutogeo.viz import curve_chart, mesh_picture

PAPER = {  # vertex distance (RMSE) and normal angle error
    "noisy": (5.774, 19.680),
    "normal smoothing": (3.183, 19.707),
    "Gauss bilateral": (2.872, 19.357),
    "learned bilateral": (2.825, 19.207),
}
PARTS = ("train", "val", "test")
SIGMAS = [0.0075 * 2 ** (i / 2) for i in range(9)]  # meters along the surface
STEPS = (0.5**0.5, 1.0, 2.0**0.5)  # bandwidths of the learned filter, in those of the Gaussian
PRIOR = 1000  # weight of the Gaussian taps as a prior, in number of coordinates
MM = 1000.0  # in a meter


class NoisyBodies(Dataset):
    """Smoothed noisy bodies with displacements to the noisy (``x``) and clean (``y``) vertices."""

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
    """Return all bodies of a part, in memory."""
    seed = 3 * args.seed + PARTS.index(part)
    model = "procedural" if args.model == "procedural" else None
    bodies = Bodies(None, getattr(args, part), seed, model, args.resolution)
    if bodies.model == "procedural" != args.model:
        expected = "PERMUTOGEO_DATA to name a folder with bodies/makehuman_body.npz"
        raise FileNotFoundError(f"Expected {expected}; --model procedural needs none")
    noisy = NoisyBodies(bodies, args.noise, args.iterations, 1_000_000 * seed)
    return [data.clone() for data in DataLoader(noisy, None, num_workers=args.workers)]


def make_filter(size=3, normalize="after"):
    """Return a scalar filter of 211 taps shared by all channels, initialized as the Gaussian."""
    return BilateralConv(size, size, 4, radius=2, shared=True, bias=False, normalize=normalize)


@torch.no_grad()
def filtered(conv, body, sigma):
    """Return the positions after filtering the displacements."""
    return body.pos + conv(body.x, body.intrinsic / sigma)


@torch.no_grad()
def score(bodies, move):
    """Return RMSE in millimeters and angle in degrees, ``[bodies, 2]``, of ``move(body)``."""
    rows = []
    for body in bodies:
        pos = move(body)
        rmse = MM * vertex_rmse(pos, body.clean_pos)
        rows.append(torch.stack([rmse, normal_angle(pos, body.clean_pos, body.face)]))
    return torch.stack(rows)


def error_of(name, conv, bodies, sigma):
    """Return the mean RMSE in millimeters after filtering the displacements."""
    error = float(score(bodies, lambda body: filtered(conv, body, sigma))[:, 0].mean())
    print(f"  {name:19}, sigma {MM * sigma:5.1f} mm: RMSE {error:.4f} mm", flush=True)
    return error


def search(bodies):
    """Return the bandwidth with the lowest error of the Gaussian, and the errors of all."""
    conv = make_filter()
    errors = {sigma: error_of("Gauss, training", conv, bodies, sigma) for sigma in SIGMAS}
    return min(errors, key=errors.get), errors


@torch.no_grad()
def responses(body, sigma):
    """Return the displacements filtered by each single tap, ``[3 N, 211]`` in millimeters."""
    lattice = Lattice.build(body.intrinsic / sigma)
    count = make_filter(1, normalize=None)(torch.ones(len(body.x), 1), None, lattice=lattice)
    values = lattice.splat(MM * body.x)
    values = torch.cat([values, values.new_zeros(1, 3)])  # an absent neighbor is number -1
    shifted = values[lattice.neighbors(radius=2)].transpose(1, 2)  # [M, 3, 211]
    found = lattice.slice(shifted.flatten(1)) / count
    return found.reshape(3 * len(body.x), -1)


@torch.no_grad()
def learn(bodies, sigma):
    """Return the filter of least squared error on these bodies."""
    conv = make_filter()
    start = conv.filter_weight.reshape(-1).double()
    products, targets = torch.zeros(len(start), len(start)).double(), torch.zeros_like(start)
    for body in bodies:
        rows = responses(body, sigma)
        products += (rows.T @ rows).double()
        targets += (rows.T @ (MM * body.y).reshape(-1)).double()
    ridge = PRIOR / sum(body.y.numel() for body in bodies) * products.diagonal().mean()
    products.diagonal().add_(ridge)
    taps = torch.linalg.solve(products, targets + ridge * start)
    conv.filter_weight.copy_(taps.reshape(conv.filter_weight.shape))
    return conv


def choose(parts, sigma):
    """Solve at bandwidths around the Gaussian's; return the best on the validation bodies."""
    found, errors = {}, {}
    for own in (sigma * step for step in STEPS):
        found[own] = learn(parts["train"], own)
        errors[own] = error_of("learned, validation", found[own], parts["val"], own)
    best = min(errors, key=errors.get)
    return found[best], best, errors


def compare(parts, args):
    """Return the methods as functions of a body, and the searched parameters."""
    sigma, errors = search(parts["train"][: args.search])
    gauss = make_filter()
    before = error_of("Gauss, validation", gauss, parts["val"], sigma)
    learned, own, validation = choose(parts, sigma)
    methods = {
        "noisy": lambda body: body.noisy_pos,
        "normal smoothing": lambda body: body.pos,
        "Gauss bilateral": lambda body: filtered(gauss, body, sigma),
        "learned bilateral": lambda body: filtered(learned, body, own),
    }
    found = {"sigma": sigma, "learned_sigma": own, "search": errors, "validation_gauss": before}
    taps = learned.filter_weight.flatten().tolist()
    return methods, {**found, "validation_learned": validation, "taps": taps}


def taubin(body):
    """Return the positions after Taubin smoothing."""
    mesh = trimesh.Trimesh(body.noisy_pos.numpy(), body.face.T.numpy(), process=False)
    return torch.from_numpy(trimesh.smoothing.filter_taubin(mesh).vertices).to(body.pos)


TODAY = {
    "noisy": lambda body: body.noisy_pos,
    "normal smoothing": lambda body: body.pos,
    "Taubin smoothing": taubin,
    "permutogeo.denoise": lambda body: denoise(Data(pos=body.noisy_pos, face=body.face)).pos,
}


def compared(scores):
    """Return the rows of the table, with the number of bodies that are better than above."""
    rows, above = {}, None
    for name, each in scores.items():
        rmse, angle = each.mean(0).tolist()
        better = None if above is None else int((each < above)[:, 0].sum())
        rows[name] = {"RMSE, mm": rmse, "angle, degrees": angle, "better than above": better}
        rows[name]["the paper"] = PAPER.get(name)
        above = each
    return rows


def draw_bodies(body, methods, path, size):
    """Draw a body by each method and the clean one."""
    meshes = {name: Data(pos=move(body), face=body.face) for name, move in methods.items()}
    meshes["ground truth"] = Data(pos=body.clean_pos, face=body.face)
    mesh_picture(path, meshes, title="A test body", size=size)


def draw_errors(found, path):
    """Plot the errors over the bandwidth."""
    errors = {
        "Gauss, training": found["search"],
        "Gauss, validation": {found["sigma"]: found["validation_gauss"]},
        "learned, validation": found["validation_learned"],
    }
    curves = {name: [(MM * s, e) for s, e in own.items()] for name, own in errors.items()}
    curve_chart(path, curves, "bandwidth, mm", "RMSE, mm")


def options():
    parser = arguments(
        __doc__, "few procedural bodies", resolution=(128, "grid resolution of procedural bodies"),
        train=(200, "bodies; the paper has 1000"), val=(40, "bodies; the paper has 200"),
        test=(100, "bodies; the paper has 500"), search=(20, "training bodies for the bandwidth"),
        noise=(0.2, "in mean edge lengths"), iterations=(5, "of normal smoothing"),
        today=(False, "test methods without training"),
        workers=(0, "processes that generate the bodies"),
    )  # fmt: skip
    parser.add_argument("--model", choices=("makehuman", "procedural"), default="makehuman")
    args = parser.parse_args()
    if args.quick:
        args.model, args.resolution = "procedural", 32
        args.train, args.val, args.test = 3, 2, 2
    return args


def main():
    args = options()
    # The bandwidths that are compared include some that are too small.
    warnings.filterwarnings("ignore", category=ScaleWarning)
    start = time.perf_counter()
    chosen = ("test",) if args.today else PARTS
    parts = {part: load_or_exit(load, part, args) for part in chosen}
    print(f"{sum(map(len, parts.values()))} bodies of {parts['test'][0].num_nodes} vertices")
    methods, found = (TODAY, {}) if args.today else compare(parts, args)
    table = compared({name: score(parts["test"], move) for name, move in methods.items()})
    args.output.mkdir(parents=True, exist_ok=True)
    pictures = {"A test body": args.output / "bodies.png"}
    draw_bodies(parts["test"][0], methods, *pictures.values(), 64 if args.quick else 600)
    if found:
        pictures["Errors over the bandwidth"] = args.output / "bandwidths.png"
        draw_errors(found, args.output / "bandwidths.png")
    seconds = round(time.perf_counter() - start)
    record(args, "Body denoising", {"Test bodies": table}, pictures, seconds=seconds, **found)


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "runs/denoise_bodies.png"
