"""Human bodies of random shape and pose."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.datasets.generated_dataset import GeneratedDataset
from permutogeo.datasets.shape_dataset import Transform
from permutogeo.datasets.sources import find_file
from permutogeo.datasets.synthetic.body_model import BodyModel
from permutogeo.datasets.synthetic.body_sampling import random_body
from permutogeo.datasets.synthetic.procedural_body import procedural_body

FILE = "bodies/makehuman_body.npz"
PROCEDURAL = "procedural"
_WHAT = (
    "a body model of blend shapes and skinning (arrays vertices, quads, shape_*, bone_*, joint, "
    "joint_dxyz, skin_bone, skin_weight)"
)


class Bodies(GeneratedDataset):
    r"""Human bodies of random shape in random poses, as in the body denoising of the `"Learning
    Sparse High Dimensional Filters" <https://arxiv.org/abs/1503.04949>`_ paper.

    Bodies are sampled from a model with blend shapes and linear blend skinning, such as that of
    MakeHuman: gender, age, ethnicity, muscle, weight, height and local details vary, and joint
    angles stay within anatomical ranges. All bodies of a model have the same faces.

    Without a model, bodies are generated procedurally as smooth unions of capsules. One dataset
    never mixes the two; :attr:`model` says which it uses.

    Args:
        root: The folder that holds ``bodies/makehuman_body.npz``;
            by default ``$PERMUTOGEO_DATA``.
        num_bodies: Number of bodies.
        seed: Random seed; body :math:`i` depends on the seed and :math:`i` alone.
        model: ``None`` for the model below ``root`` (an explicit ``root`` must have it), or
            procedural bodies if ``$PERMUTOGEO_DATA`` has none; ``"procedural"`` for procedural
            bodies; or the path of another model file.
        resolution: Number of grid cells along the height of a procedural body.
        transform: Applied at each access.
        pre_transform: Applied once, when a sample is generated.

    Each body has ``pos`` :math:`(N, 3)` in meters, upright along the second axis and facing along
    the third, and ``face`` :math:`(3, F)`.

    Example:
        >>> from permutogeo.datasets import Bodies
        >>> bodies = Bodies(num_bodies=200, model="procedural", resolution=48)
        >>> bodies, bodies.model
        (Bodies(200), 'procedural')
        >>> bodies[0].pos.size(1)
        3
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        num_bodies: int = 100,
        seed: int = 0,
        model: str | os.PathLike[str] | None = None,
        resolution: int = 128,
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
    ):
        super().__init__(num_bodies, seed, transform, pre_transform)
        path = self._find_model(root, model)
        #: Path of the model that bodies are sampled from, or ``"procedural"``.
        self.model: str = PROCEDURAL if path is None else str(path)
        self.resolution = resolution
        self._model = None if path is None else BodyModel.load(path)
        self._face = None if self._model is None else torch.from_numpy(self._model.face.T.copy())

    def _find_model(
        self, root: str | os.PathLike[str] | None, model: str | os.PathLike[str] | None
    ) -> Path | None:
        owner = type(self).__name__
        if model == PROCEDURAL:
            return None
        if model is not None:
            path = Path(model).expanduser()
            return find_file(owner, path.parent, path.name, _WHAT)
        try:
            return find_file(owner, root, FILE, _WHAT)
        except FileNotFoundError:
            if root is not None:
                raise
            return None

    def generate(self, index: int) -> Data:
        if self._model is None:
            return procedural_body([self.seed, index], self.resolution)
        pos = random_body(self._model, np.random.default_rng([self.seed, index]))
        return Data(pos=torch.from_numpy(pos).float(), face=self._face)
