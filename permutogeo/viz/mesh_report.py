"""Meshes and point clouds side by side in a self-contained HTML page.

The page draws with WebGL code of our own instead of a library such as plotly or three.js: it must
work offline, as one file, and without the 3 MB that a bundled plotly adds to every page.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from permutogeo import __version__
from permutogeo.data.files import replacing, suffix_of
from permutogeo.viz import report_controls
from permutogeo.viz.camera import (
    AMBIENT,
    BACK_FACE,
    COLOR_SOFTNESS,
    DISTANCE,
    FILL_LIGHT,
    KEY_LIGHT,
    Camera,
    make_camera,
)
from permutogeo.viz.colors import CLAY, ERROR_STOPS
from permutogeo.viz.render import MARGIN
from permutogeo.viz.scene import Scene, make_scene
from permutogeo.viz.shapes import Shape
from permutogeo.viz.web_page import (
    command_block,
    csp_hash,
    fill_template,
    number_table,
    script_json,
    settings_table,
    web_file,
    without_folders,
)
from permutogeo.viz.webgl_buffers import error_step, pack_scene

MAX_COLUMNS = 5  # more shapes are shown in two rows
SCRIPTS = ("shaders.js", "viewer.js", "compare.js", "inspect.js", "controls.js")


def _light() -> dict[str, Any]:
    return {
        "ambient": AMBIENT,
        "key": [*KEY_LIGHT.direction, KEY_LIGHT.intensity],
        "fill": [*FILL_LIGHT.direction, FILL_LIGHT.intensity],
        "back": BACK_FACE,
        "softness": COLOR_SOFTNESS,
    }


def _description(scene: Scene, camera: Camera) -> tuple[str, str]:
    """Return the scene as JSON, and the buffers that it names."""
    meshes, arrays, geometry = pack_scene(scene)
    description = {
        "meshes": meshes,
        "arrays": arrays,
        "rotation": camera.rotation.reshape(-1).tolist(),
        "center": camera.center.tolist(),
        "half": camera.half.tolist(),
        "margin": MARGIN,
        "distance": DISTANCE,
        "clay": (CLAY / 255.0).tolist(),
        "light": _light(),
        "quantity": scene.quantity,
        "unit": f"{scene.unit}s",
        "scaleEnd": scene.scale_end,
        "reference": scene.reference,
        "errorStep": error_step(scene),
        # Of one step of a position, which spans the unit sphere in 65,535 steps.
        "errorPerStep": 2 / 65535 * scene.radius / scene.unit_length,
        "histograms": report_controls.error_histograms(scene),
    }
    return script_json(description), geometry


def _figure(shape: Shape, scene: Scene) -> str:
    lines = [shape.counts]
    if shape.is_reduced:
        drawn = len(shape.pos) if shape.face is None else len(shape.face)
        lines.append(f"decimated for display to {drawn:,}")
    if shape.error is not None:
        lines.append(
            f"{scene.quantity}: mean {shape.error_mean:.3f}, largest {shape.error_max:.3f} "
            f"{scene.unit}s"
        )
    caption = "<br>".join(escape(line) for line in lines)
    name = escape(without_folders(shape.name))
    return (
        f"<figure><figcaption><b>{name}</b><span>{caption}</span></figcaption>"
        f'<canvas tabindex="0" role="img" aria-label="{name} in 3-D"></canvas></figure>'
    )


def _style(scene: Scene, camera: Camera) -> str:
    ramp = ", ".join(f"#{stop}" for stop in ERROR_STOPS)
    count = len(scene.shapes)
    columns = count if count <= MAX_COLUMNS else math.ceil(count / 2)
    # Views take the aspect ratio of the scene, bounded so that a turned scene still fits.
    aspect = min(max(float(camera.half[0] / camera.half[1]), 0.5), 1.4)
    choices = {"ramp": ramp, "columns": str(columns), "aspect": f"{aspect:.3f}"}
    return fill_template(web_file("report.css"), choices)


def _page(scene: Scene, camera: Camera, title: str, command: str, tables: list[str]) -> str:
    style, script = _style(scene, camera), "".join(map(web_file, SCRIPTS))
    description, geometry = _description(scene, camera)
    values = {
        "title": escape(without_folders(title)),
        "command": command_block(command),
        "modes": report_controls.mode_switch(scene),
        "panels": "\n".join(_figure(shape, scene) for shape in scene.shapes),
        "switches": report_controls.checkboxes(scene),
        "sliders": report_controls.sliders(scene),
        "divider": report_controls.divider(scene),
        "keys": report_controls.keyboard_help(scene),
        "legend": report_controls.legend(scene) + report_controls.histogram_figure(scene),
        "tables": "\n".join(tables),
        "version": __version__,
        "scene": description,
        "geometry": geometry,
        "style": style,
        "style_hash": csp_hash(style),
        "script": script,
        "script_hash": csp_hash(script),
    }
    return fill_template(web_file("report.html"), values)


def mesh_report(
    path: str | os.PathLike[str],
    meshes: Mapping[str, Data],
    *,
    title: str = "Meshes side by side",
    command: str = "",
    numbers: Mapping[str, Mapping[str, Any]] | None = None,
    settings: Mapping[str, Any] | None = None,
    error: str | None = None,
    up: str = "y",
    view: tuple[float, float] | None = None,
    max_faces: int = 400_000,
) -> Path:
    r"""Writes one HTML page that shows meshes or point clouds side by side in 3-D.

    All views share one camera and are flat shaded. A switch colors each vertex by its error: its
    distance to the ground truth, or its displacement from the first mesh if there is no ground
    truth, in mean edge lengths of the reference. Vertices are compared one by one if two meshes
    have the same triangles, and otherwise with the nearest point of the reference. The page is
    self-contained, loads nothing from the network, and opens in any browser with WebGL 2.

    Args:
        path: Output file (``.html``), written atomically.
        meshes: Names and 1 to 8 shapes with ``pos``, ``face`` for meshes, and optional vertex
            colors ``x [N, 3]`` in [0, 1]. They are not changed.
        title: Title of the page.
        command: Command line as typed. The page of a run with ``--quick`` is marked as such.
        numbers: A table that maps row names to cells by column name.
        settings: A second table of names and values.
        error: Name of the mesh that the others are compared with; by default ``"ground truth"``
            if present, otherwise the first.
        up: The axis that points up, ``"x"``, ``"y"`` or ``"z"``.
        view: Initial azimuth and elevation of the camera in degrees. By default it looks from the
            front, slightly from the right and from above; for an open surface, from the side it
            faces.
        max_faces: Meshes with more triangles, and clouds with more points, are decimated for
            display, and the page says so. Errors are measured on the input.

    Example:
        >>> import tempfile, torch
        >>> from pathlib import Path
        >>> from torch_geometric.data import Data
        >>> from permutogeo.viz import mesh_report
        >>> corners = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
        >>> faces = torch.tensor([[0, 0, 0, 1], [2, 1, 3, 2], [1, 3, 2, 3]])
        >>> meshes = {
        ...     "noisy": Data(pos=corners + 0.1, face=faces),
        ...     "ground truth": Data(pos=corners, face=faces),
        ... }
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = mesh_report(Path(folder, "report.html"), meshes, title="A corner")
        ...     "A corner" in path.read_text(encoding="utf-8")
        True
    """
    path = Path(path)
    suffix_of(path, (".html", ".htm"))
    scene = make_scene(meshes, error, max_faces, "mesh_report")
    camera = make_camera(scene.shapes, up, view, "mesh_report")
    tables = [number_table(numbers)] if numbers else []
    if settings:
        tables.append(settings_table(settings))
    page = _page(scene, camera, title, command, tables)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path
