"""PyG datasets, one class a file, imported as ``permutogeo.datasets``."""

from permutogeo.datasets.labeled_meshes import LabeledMeshes
from permutogeo.datasets.mesh_folder import MeshFolder
from permutogeo.datasets.princeton_shapes import PrincetonShapes

__all__ = ["LabeledMeshes", "MeshFolder", "PrincetonShapes"]
