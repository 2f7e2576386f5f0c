"""PyG datasets, imported as ``permutogeo.datasets``."""

from permutogeo.datasets.assamese import Assamese
from permutogeo.datasets.bodies import Bodies
from permutogeo.datasets.bsds500 import BSDS500
from permutogeo.datasets.denoising_pairs import DenoisingPairs
from permutogeo.datasets.guided_samples import GuidedSamples, RandomParts
from permutogeo.datasets.labeled_meshes import LabeledMeshes
from permutogeo.datasets.material_scenes import MaterialScenes
from permutogeo.datasets.mesh_folder import MeshFolder
from permutogeo.datasets.minc import MINC
from permutogeo.datasets.model_net10 import ModelNet10
from permutogeo.datasets.nyu_depth import NYUDepth
from permutogeo.datasets.open_meshes import OpenMeshes
from permutogeo.datasets.part_meshes import PartMeshes
from permutogeo.datasets.princeton_shapes import PrincetonShapes
from permutogeo.datasets.room_scenes import RoomScenes
from permutogeo.datasets.sharp_shapes import SharpShapes
from permutogeo.datasets.sparse_mnist import SparseMNIST
from permutogeo.datasets.street_scenes import StreetScenes
from permutogeo.datasets.synthetic.procedural_body import procedural_body
from permutogeo.datasets.synthetic.terrain import terrain_points, write_terrain
from permutogeo.datasets.tiles import Tiles
from permutogeo.datasets.voc2012 import VOC2012

__all__ = [
    "BSDS500",
    "MINC",
    "VOC2012",
    "Assamese",
    "Bodies",
    "DenoisingPairs",
    "GuidedSamples",
    "LabeledMeshes",
    "MaterialScenes",
    "MeshFolder",
    "ModelNet10",
    "NYUDepth",
    "OpenMeshes",
    "PartMeshes",
    "PrincetonShapes",
    "RandomParts",
    "RoomScenes",
    "SharpShapes",
    "SparseMNIST",
    "StreetScenes",
    "Tiles",
    "procedural_body",
    "terrain_points",
    "write_terrain",
]
