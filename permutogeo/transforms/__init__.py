"""PyG transforms for images, meshes and point clouds."""

from permutogeo.transforms.bilateral_feature import BilateralFeature
from permutogeo.transforms.displacement import Displacement
from permutogeo.transforms.face_normals import FaceNormals
from permutogeo.transforms.faces_to_points import FacesToPoints
from permutogeo.transforms.image_to_points import ImageToPoints
from permutogeo.transforms.isomap_feature import IsomapFeature
from permutogeo.transforms.keep_attributes import KeepAttributes
from permutogeo.transforms.knn_graph import KNNGraph
from permutogeo.transforms.normal_noise import NormalNoise
from permutogeo.transforms.normalize_scale import NormalizeScale
from permutogeo.transforms.random_drop import RandomDrop
from permutogeo.transforms.random_jitter import RandomJitter
from permutogeo.transforms.random_rotation import RandomRotation
from permutogeo.transforms.random_stretch import RandomStretch
from permutogeo.transforms.random_subsample import RandomSubsample
from permutogeo.transforms.repair_mesh import RepairMesh, RepairReport
from permutogeo.transforms.smooth_normals import SmoothNormals
from permutogeo.transforms.vertex_normals import VertexNormals

__all__ = [
    "BilateralFeature",
    "Displacement",
    "FaceNormals",
    "FacesToPoints",
    "ImageToPoints",
    "IsomapFeature",
    "KNNGraph",
    "KeepAttributes",
    "NormalNoise",
    "NormalizeScale",
    "RandomDrop",
    "RandomJitter",
    "RandomRotation",
    "RandomStretch",
    "RandomSubsample",
    "RepairMesh",
    "RepairReport",
    "SmoothNormals",
    "VertexNormals",
]
