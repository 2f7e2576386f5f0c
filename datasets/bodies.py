"""Human bodies, posed and shaped at random."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.datasets._body_model import BodyModel
from permutogeo.datasets._body_sampling import random_body
from permutogeo.datasets._generated import GeneratedShapes
from permutogeo.datasets._procedural_body import procedural_body
from permutogeo.datasets._shapes import Transform, find_file

FILE = "bodies/makehuman_body.npz"
PROCEDURAL = "procedural"
_WHAT = (
    "a body model of blend shapes and skinning (arrays vertices, quads, shape_*, bone_*, joint, "
    "joint_dxyz, skin_bone, skin_weight)"
)


class Bodies(GeneratedShapes):
    r"""Human bodies of random shape in random poses, as in the body denoising of the `"Learning
    Sparse High Dimensional Filters" <https://arxiv.org/abs/1503.04949>`_ paper.

    They are sampled from a model of blend shapes and linear skinning, read from an archive such as
    that of MakeHuman: gender, age, origin, muscle, weight, height and local details vary, and
    joints turn within ranges that people have. All bodies of a model have the same faces.

    Where there is no archive, bodies are generated in code: limbs, trunk and head blended into one
    closed surface, simpler in shape. The two are never mixed, and :attr:`model` says which it is.

    Args:
        root: The folder that holds ``bodies/makehuman_body.npz``; by default the one that the
            environment variable ``PERMUTOGEO_DATA`` names.
        num_bodies: How many bodies.
        seed: Of the bodies: body :math:`i` depends on the seed and :math:`i` alone.
        model: ``None`` for the archive below ``root``, or the bodies generated in code where
            neither ``root`` nor ``PERMUTOGEO_DATA`` leads to one (a ``root`` that is given must
            have it); ``"procedural"`` for the latter in any case; or the path of another archive
            of the same arrays.
        resolution: Of bodies generated in code: how many cells of a grid their height spans.
        transform: Applied to a body at each access.
        pre_transform: Applied to a body once, when it is made.

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
        path = self._find(root, model)
        #: The path of the archive that bodies are sampled from, or ``"procedural"``.
        self.model: str = PROCEDURAL if path is None else str(path)
        self.resolution = resolution
        self._model = None if path is None else BodyModel.load(path)
        self._face = None if self._model is None else torch.from_numpy(self._model.face.T.copy())

    def _find(
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

    def make(self, index: int) -> Data:
        if self._model is None:
            return procedural_body([self.seed, index], self.resolution)
        pos = random_body(self._model, np.random.default_rng([self.seed, index]))
        return Data(pos=torch.from_numpy(pos).float(), face=self._face)
