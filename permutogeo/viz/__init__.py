"""Pictures: meshes and clouds side by side as PNG or as one HTML page, labels over an image."""

from permutogeo.viz.colors import palette
from permutogeo.viz.overlay import overlay
from permutogeo.viz.picture import mesh_picture
from permutogeo.viz.report import mesh_report

__all__ = ["mesh_picture", "mesh_report", "overlay", "palette"]
