"""Parts of scans from a few clicks
================================

Takes the part of three points for each part of a shape, as a user would click them, and propagates
them to all points over position and normal: from the nearest click, by a Gaussian filter, and by
the bilateral solver. The shapes are the test part of ``LabeledMeshes``, as clouds of 2048 points,
and meshes with labeled faces, of which one is drawn in ``clicks.png`` (docs/guides/solver.md).

::

    PERMUTOGEO_DATA=/path/to/data python examples/click_labels.py
"""

import argparse
import json
from pathlib import Path

import torch
from scipy.spatial import cKDTree
from torch_geometric.transforms import Compose, NormalizeScale

from permutogeo.datasets import LabeledMeshes, PartMeshes
from permutogeo.functional import fill_unreached, gaussian_filter
from permutogeo.lattice.normalization import append_ones, divide_by_mass
from permutogeo.solvers import bilateral_label_propagation
from permutogeo.train import grid_search
from permutogeo.transforms import FacesToPoints
from permutogeo.viz import mesh_picture, palette

FILTER = {"pos": [0.1, 0.2, 0.4], "normal": [0.5, 1.0, 4.0]}
SOLVER = {"pos": [0.05, 0.1], "normal": [0.5, 1.0, 4.0], "lam": [0.01, 0.1]}


def with_clicks(data, clicks, seed):
    """Return true labels from 0, and those of a few random points of each part."""
    names, y = data.y.unique(return_inverse=True)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    label = torch.full_like(y, -1)
    for part in range(len(names)):
        chosen = order[y[order] == part][:clicks]
        label[chosen] = part
    return y, label


def features(data, pos, normal):
    return torch.cat([data.pos / pos, data.normal / normal], 1)


def nearest(data, label):
    given = (label >= 0).nonzero()[:, 0]
    index = cKDTree(data.pos[given].numpy()).query(data.pos.numpy())[1]
    return label[given][torch.from_numpy(index)]


def gaussian(data, label, pos, normal):
    feature, given = features(data, pos, normal), label >= 0
    one_hot = torch.nn.functional.one_hot(label[given]).float()
    pair = (feature[given], feature)
    sums = gaussian_filter(append_ones(one_hot), pair, normalize=None)
    return fill_unreached(divide_by_mass(sums), sums[:, -1] > 0, one_hot, pair).argmax(1)


def solver(data, label, pos, normal, lam):
    return bilateral_label_propagation(label, features(data, pos, normal), lam=lam).argmax(1)


def accuracy(shapes, clicks, method):
    scores = []
    for seed, data in enumerate(shapes):
        y, label = with_clicks(data, clicks, seed)
        scores.append(float((method(data, label) == y).float().mean()))
    return sum(scores) / len(scores)


def draw(mesh, clicks, method, path):
    """Draw a mesh with its clicks, the result and the true parts."""
    data = FacesToPoints()(mesh.clone())
    y, label = with_clicks(data, clicks, seed=0)
    found = method(data, label)
    shown = torch.full_like(label, -1)
    given = (label >= 0).nonzero()[:, 0]
    near = cKDTree(data.pos.numpy()).query(data.pos[given].numpy(), k=60)[1]
    shown[torch.from_numpy(near).flatten()] = label[given].repeat_interleave(near.shape[1])
    colors = torch.cat([torch.from_numpy(palette(21)[1:].copy()).float() / 255, torch.ones(1, 3)])
    colors[-1] = 0.85
    panels = {}
    for name, each in {"clicks": shown, "solver": found, "true": y}.items():
        panel = mesh.clone()
        panel.x = vertex_colors(mesh, colors[each])
        panels[name] = panel
    share = float((found == y).float().mean())
    mesh_picture(path, panels, title=f"{int((label >= 0).sum())} clicks: {share:.1%} right")


def vertex_colors(mesh, face_color):
    """Return the mean color of the faces around each vertex."""
    total = torch.zeros(mesh.num_nodes, 4)
    ones = torch.cat([face_color, torch.ones(len(face_color), 1)], 1)
    for corner in mesh.face:
        total.index_add_(0, corner, ones)
    return total[:, :3] / total[:, 3:].clamp_min(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="folder of the data; else PERMUTOGEO_DATA")
    parser.add_argument("--output", type=Path, default=Path("runs/click_labels"))
    parser.add_argument("--clicks", type=int, default=3, help="clicks for each part")
    parser.add_argument("--quick", action="store_true", help="two shapes of each kind")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    prepare = Compose([NormalizeScale(), FacesToPoints()])
    meshes = list(PartMeshes(args.data, pre_transform=prepare))
    kinds = {
        "clouds": [list(LabeledMeshes(args.data, split)) for split in ("val", "test")],
        "meshes": [meshes[::4], [data for i, data in enumerate(meshes) if i % 4]],
    }
    record, first = {}, None
    for kind, (val, test) in kinds.items():
        if args.quick:
            val, test = val[:2], test[:2]
        methods = {"nearest": nearest}
        for name, function, search in (("gaussian", gaussian, FILTER), ("solver", solver, SOLVER)):
            search = {key: values[:1] for key, values in search.items()} if args.quick else search
            best = grid_search(
                lambda f=function, val=val, **kernel: accuracy(
                    val, args.clicks, lambda data, label: f(data, label, **kernel)
                ),
                search,
                maximize=True,
            ).best
            methods[name] = lambda data, label, f=function, b=best: f(data, label, **b)
            print(f"{kind}, {name}: {best}", flush=True)
        record[kind] = {name: accuracy(test, args.clicks, each) for name, each in methods.items()}
        for name, value in record[kind].items():
            print(f"{kind:8} {name:10} {value:.4f} right over {len(test)} shapes", flush=True)
        first = methods["solver"]
    (args.output / "results.json").write_text(json.dumps(record, indent=2))
    mesh = NormalizeScale()(PartMeshes(args.data)[1])
    draw(mesh, args.clicks, first, args.output / "clicks.png")


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "figures/gallery/click_labels.png"
