"""PyG's GNNExplainer on a trained lattice network: the points that decide the label of a point
============================================================================================

Labels a generated street scan with ``LatticeUNet.from_pretrained("streets")``, picks a point of a
tree, and lets the explainer find the points whose values its label depends on. Prints how near they
are, and how much the probability of the label falls when the values of these points, or of as many
others nearby, are removed; draws labels and importance from above to ``explanation.png``.

::

    python examples/explain_model.py
"""

import argparse
from pathlib import Path

import matplotlib
import torch
from torch_geometric.explain import Explainer, GNNExplainer

from permutogeo.datasets import StreetScenes
from permutogeo.models import LatticeUNet

TREE, NEAR, MOST = 3, 8.0, 1000


class OnEdges(torch.nn.Module):
    """A lattice model with the signature of PyG's explainers, which ask for edges."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, edge_index, feature):
        return self.model(x, feature)


def explain(model, scene, index, epochs):
    """Return the importance of each point for the label of one of them."""
    explainer = Explainer(
        OnEdges(model),
        GNNExplainer(epochs=epochs, lr=0.05),
        explanation_type="model",
        node_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "node",
            "return_type": "raw",
        },
    )
    edges = torch.zeros(2, 0, dtype=torch.int64)
    return explainer(scene.x, edges, feature=scene.pos, index=index).node_mask[:, 0]


@torch.no_grad()
def probability(model, scene, index, label, removed=None):
    """Return the probability of a label, without the values of some points."""
    x = scene.x.clone()
    if removed is not None:
        x[removed] = 0
    return float(model(x, scene.pos)[index].softmax(0)[label])


def draw(scene, label, importance, index, path):
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 4.2), layout="constrained", sharey=True)
    place, order = scene.pos, importance.argsort()
    axes[0].scatter(*place[:, :2].t(), c=label, s=2, cmap="tab10", vmin=0, vmax=9)
    axes[0].set_title("predicted labels, from above")
    shown = axes[1].scatter(*place[order, :2].t(), c=importance[order], s=3, cmap="magma_r")
    axes[1].set_title("importance for the marked point")
    figure.colorbar(shown, ax=axes[1])
    for each in axes:
        each.plot(*place[index, :2], "x", color="tab:cyan", markersize=10, markeredgewidth=2)
        each.set(xlim=place[index, 0] + torch.tensor([-NEAR, NEAR]), aspect="equal")
        each.set(ylim=place[index, 1] + torch.tensor([-NEAR, NEAR]))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("runs/explain_model"))
    parser.add_argument("--quick", action="store_true", help="few points, few steps")
    args = parser.parse_args()
    torch.manual_seed(0)
    scene = StreetScenes(1, "test", 3000 if args.quick else 20_000)[0]
    model = LatticeUNet.from_pretrained("streets")
    with torch.no_grad():
        label = model(scene.x, scene.pos).argmax(1)
    found = ((label == TREE) & (scene.y == TREE)).nonzero()[:, 0]
    index = int(found[scene.pos[found].norm(dim=1).argmin()]) if len(found) else 0
    importance = explain(model, scene, index, 5 if args.quick else 60)
    distance = (scene.pos - scene.pos[index]).norm(dim=1)
    top = importance.topk(MOST).indices
    nearby = (distance < NEAR).nonzero()[:, 0]
    others = nearby[~torch.isin(nearby, top)]
    others = others[torch.randperm(len(others))[:MOST]]
    before, without, control = (
        probability(model, scene, index, int(label[index]), removed)
        for removed in (None, top, others)
    )
    print(f"the {MOST} most important points: median distance {distance[top].median():.1f} m")
    print(
        f"probability of the label {before:.3f}, without the values of these points {without:.3f},"
    )
    print(f"without those of as many others within {NEAR:g} m {control:.3f}")
    args.output.mkdir(parents=True, exist_ok=True)
    draw(scene, label, importance.detach(), index, args.output / "explanation.png")


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "runs/explanation.png"
