"""Images, meshes and point clouds as :class:`torch_geometric.data.Data`, and back."""

from permutogeo.data.image import from_image, to_image
from permutogeo.data.mesh import from_mesh, to_mesh
from permutogeo.data.point_cloud import from_point_cloud, to_point_cloud

__all__ = [
    "from_image",
    "from_mesh",
    "from_point_cloud",
    "to_image",
    "to_mesh",
    "to_point_cloud",
]
