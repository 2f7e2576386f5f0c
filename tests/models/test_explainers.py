"""PyG's explainers on a whole trained model."""

import torch
from torch_geometric.explain import Explainer, GNNExplainer

from permutogeo.datasets import StreetScenes
from permutogeo.models import LatticeUNet


class OnEdges(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, edge_index, feature):
        return self.model(x, feature)


def test_points_that_matter_are_near():
    """For the label of a point, the street around it matters and its far ends do not."""
    scene = StreetScenes(1, "val", 2500)[0]
    index = int(scene.pos.norm(dim=1).argmin())
    explainer = Explainer(
        OnEdges(LatticeUNet.from_pretrained("streets")),
        GNNExplainer(epochs=10, lr=0.1),
        explanation_type="model",
        node_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "node",
            "return_type": "raw",
        },
    )
    edges = torch.zeros(2, 0, dtype=torch.int64)
    mask = explainer(scene.x, edges, feature=scene.pos, index=index).node_mask[:, 0]
    distance = (scene.pos - scene.pos[index]).norm(dim=1)
    assert mask[distance < 3].mean() > 2 * mask[distance > 25].mean()
