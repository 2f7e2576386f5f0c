"""Meshes and clouds side by side in one HTML page that needs nothing else."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from permutogeo._version import __version__
from permutogeo.data._files import replacing, suffix_of
from permutogeo.viz import _shade
from permutogeo.viz._camera import DISTANCE, Camera, look
from permutogeo.viz._pack import pack_scene
from permutogeo.viz._page import as_json, digest, file_text, fill, number_table, setting_table
from permutogeo.viz._panels import Panel
from permutogeo.viz._render import MARGIN
from permutogeo.viz._scene import Scene, make_scene
from permutogeo.viz.colors import CLAY, ERROR_STOPS

ONE_ROW = 5  # more panels stand in two rows
SCRIPTS = ("_shaders.js", "_viewer.js", "_controls.js")


def _light() -> dict[str, Any]:
    return {
        "ambient": _shade.AMBIENT,
        "key": [*_shade.KEY.direction, _shade.KEY.strength],
        "fill": [*_shade.FILL.direction, _shade.FILL.strength],
        "back": _shade.BACK,
        "softness": _shade.SOFTNESS,
    }


def _description(scene: Scene, camera: Camera) -> tuple[str, str]:
    """What the script draws: JSON, and the arrays it names."""
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
    }
    return as_json(description), geometry


def _figure(panel: Panel, word: str) -> str:
    lines = [panel.counts]
    if panel.is_reduced:
        drawn = len(panel.pos) if panel.face is None else len(panel.face)
        lines.append(f"too large for a page: drawn with {drawn:,}")
    if panel.error is not None:
        lines.append(f"{word}: mean {panel.error_mean:.3f}, largest {panel.error_max:.3f}")
    caption = "<br>".join(escape(line) for line in lines)
    name = escape(panel.name)
    return (
        f"<figure><figcaption><b>{name}</b><span>{caption}</span></figcaption>"
        f'<canvas tabindex="0" role="img" aria-label="{name} in 3-D"></canvas></figure>'
    )


def _modes(scene: Scene) -> str:
    names = {"shape": "Shape"}
    if scene.has_errors:
        names["error"] = scene.word.capitalize()
    if scene.has_colors:
        names["color"] = "Color"
    if len(names) == 1:
        return ""
    labels = [
        f'<label><input type="radio" name="mode" value="{name}"'
        f"{' checked' if name == 'shape' else ''}>{label}</label>"
        for name, label in names.items()
    ]
    return f"<fieldset>{''.join(labels)}</fieldset>"


def _legend(scene: Scene) -> str:
    if not scene.has_errors:
        return ""
    end = scene.scale_end
    ticks = "".join(f"<span>{tick}</span>" for tick in ("0", f"{end / 2:g}", f"≥ {end:g}"))
    return (
        f'<div class="legend">{escape(scene.measure)} <span>{escape(scene.unit_text)}</span>'
        f'<div class="ramp"></div><div class="ticks">{ticks}</div></div>'
    )


def _style(scene: Scene, camera: Camera) -> str:
    ramp = ", ".join(f"#{stop}" for stop in ERROR_STOPS)
    count = len(scene.panels)
    columns = count if count <= ONE_ROW else math.ceil(count / 2)
    # Views are as wide or as high as the scene, within what turning it may need.
    aspect = min(max(float(camera.half[0] / camera.half[1]), 0.5), 1.4)
    choices = {"ramp": ramp, "columns": str(columns), "aspect": f"{aspect:.3f}"}
    return fill(file_text("_report.css"), choices)


def _page(scene: Scene, camera: Camera, title: str, tables: list[str]) -> str:
    style, script = _style(scene, camera), "".join(map(file_text, SCRIPTS))
    description, geometry = _description(scene, camera)
    values = {
        "title": escape(title),
        "modes": _modes(scene),
        "panels": "\n".join(_figure(panel, scene.word) for panel in scene.panels),
        "error_key": f", E to see {scene.word}s" if scene.has_errors else "",
        "legend": _legend(scene),
        "tables": "\n".join(tables),
        "version": __version__,
        "scene": description,
        "geometry": geometry,
        "style": style,
        "style_hash": digest(style),
        "script": script,
        "script_hash": digest(script),
    }
    return fill(file_text("_report.html"), values)


def mesh_report(
    path: str | os.PathLike[str],
    meshes: Mapping[str, Data],
    *,
    title: str = "Meshes side by side",
    numbers: Mapping[str, Mapping[str, Any]] | None = None,
    settings: Mapping[str, Any] | None = None,
    error: str | None = None,
    up: str = "y",
    view: tuple[float, float] | None = None,
    max_faces: int = 400_000,
) -> Path:
    r"""Writes one HTML page that shows meshes or point clouds side by side in 3-D.

    The views turn and zoom together, in flat shading that shows every facet. A switch colors each
    vertex by its error: its distance to the ground truth, or its displacement from the first mesh
    where there is no truth, in mean edges of the reference. Vertices are compared one by one where
    two meshes have the same triangles, and else with the nearest place on the reference. The page
    holds all that it needs, asks the network for nothing, and opens in any browser with WebGL 2.

    Args:
        path: Where to write (``.html``), whole or not at all.
        meshes: Names, and the geometry with ``pos``, for meshes ``face``, and if there are any
            colors ``x [N, 3]`` in [0, 1]: 1 to 8 of them. They are never changed.
        title: The title of the page.
        numbers: A table: for each row its name, and its cells by the names of their columns.
        settings: A second table, of names and values.
        error: The name of the mesh that the others are compared with. By default it is
            ``"ground truth"`` where there is one, and else the first.
        up: The axis that points up, ``"x"``, ``"y"`` or ``"z"``.
        view: Azimuth and elevation of the camera in degrees, to begin with. By default it looks
            from the front, a little from the right and from above; at an open surface, from where
            that faces.
        max_faces: The number of triangles, or points, above which a mesh is drawn with fewer;
            the page says so. Errors are measured on the whole.

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
    camera = look(scene.panels, up, view, "mesh_report")
    tables = [number_table(numbers)] if numbers else []
    if settings:
        tables.append(setting_table(settings))
    page = _page(scene, camera, title, tables)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path
