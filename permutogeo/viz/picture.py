"""Meshes and clouds side by side in a PNG."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch_geometric.data import Data

from permutogeo.data._files import replacing, suffix_of
from permutogeo.viz._camera import look
from permutogeo.viz._panels import Panel
from permutogeo.viz._render import Drawing, draw
from permutogeo.viz._scene import make_scene
from permutogeo.viz._sheet import Sheet
from permutogeo.viz.colors import CLAY, error_ramp


def _fill(sheet: Sheet, column: int, panel: Panel, drawing: Drawing) -> None:
    plain = np.tile(CLAY, (len(panel.pos), 1)) if panel.color is None else panel.color
    sheet.head(column, panel)
    sheet.place(0, column, drawing.paint(plain, soft=panel.color is not None))
    if not sheet.scene.has_errors:
        return
    if panel.error is None:
        sheet.legend(1, column)
        return
    level = np.minimum(panel.error / sheet.scene.scale_end, 1.0)
    sheet.place(1, column, drawing.paint(error_ramp()[np.rint(255 * level).astype(int)], soft=True))


def mesh_picture(
    path: str | os.PathLike[str],
    meshes: Mapping[str, Data],
    *,
    title: str = "",
    error: str | None = None,
    size: int = 600,
    up: str = "y",
    view: tuple[float, float] | None = None,
    max_faces: int = 1_000_000,
) -> Path:
    r"""Draws meshes or point clouds side by side and writes a PNG, without a display.

    The upper row has the shapes, in flat shading that shows every facet; the lower row has the
    error of each vertex as a color: its distance to the ground truth, or its displacement from
    the first mesh where there is no truth. Vertices are compared one by one where two meshes have
    the same triangles, and else with the nearest place on the reference.

    Args:
        path: Where to write (``.png``), whole or not at all.
        meshes: Names, and the geometry with ``pos``, for meshes ``face``, and if there are any
            colors ``x [N, 3]`` in [0, 1]: 1 to 8 of them. They are never changed.
        title: A line above.
        error: The name of the mesh that the others are compared with. By default it is
            ``"ground truth"`` where there is one, and else the first.
        size: The larger of a panel's width and height in pixels.
        up: The axis that points up, ``"x"``, ``"y"`` or ``"z"``.
        view: Azimuth and elevation of the camera in degrees. By default it looks from the front, a
            little from the right and from above; at an open surface, from where that faces.
        max_faces: The number of triangles, or points, above which a mesh is drawn with fewer.

    Example:
        >>> import tempfile, torch
        >>> from pathlib import Path
        >>> from torch_geometric.data import Data
        >>> from permutogeo.viz import mesh_picture
        >>> corners = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
        >>> faces = torch.tensor([[0, 0, 0, 1], [2, 1, 3, 2], [1, 3, 2, 3]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = mesh_picture(Path(folder, "a.png"), {"a": Data(pos=corners, face=faces)})
        ...     path.name
        'a.png'
    """
    caller = "mesh_picture"
    path = Path(path)
    suffix_of(path, (".png",))
    if not 32 <= size <= 4096:
        raise ValueError(f"{caller}: Expected 'size' from 32 to 4096 pixels (got {size})")
    scene = make_scene(meshes, error, max_faces, caller)
    camera = look(scene.panels, up, view, caller)
    # Panels are as narrow or as low as the scene, within reason.
    width, height = (
        max(round(size * part), size * 3 // 5) for part in camera.half / camera.half.max()
    )
    sheet = Sheet(scene, (width, height), title)
    for column, panel in enumerate(scene.panels):
        _fill(sheet, column, panel, draw(panel, camera, (width, height)))
    with replacing(path) as temporary:
        sheet.image.save(temporary)
    return path
