"""Meshes and point clouds side by side in a PNG."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch_geometric.data import Data

from permutogeo.data.files import suffix_of
from permutogeo.typing import Array
from permutogeo.viz.camera import make_camera
from permutogeo.viz.colors import CLAY, error_ramp
from permutogeo.viz.drawing import (
    FAINT,
    INK,
    PAPER,
    Color,
    fit_text,
    font,
    save_picture,
    text_width,
)
from permutogeo.viz.render import Size, VisibilityBuffer, render
from permutogeo.viz.scene import Scene, make_scene
from permutogeo.viz.shapes import Shape
from permutogeo.viz.web_page import without_folders

GROUND = (244, 245, 247)
RULE = (220, 223, 228)
MIN_FONT_SCALE = 0.7  # of a table whose names are long


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

    The upper row shows the shapes with flat shading; the lower row shows the error of each vertex
    as a color: its distance to the ground truth, or its displacement from the first mesh if there
    is no ground truth. Vertices are compared one by one if two meshes have the same triangles, and
    otherwise with the nearest point of the reference. Shapes that differ in their colors alone have
    no lower row.

    Args:
        path: Output file (``.png``), written atomically.
        meshes: Names and 1 to 8 shapes with ``pos``, ``face`` for meshes, and optional vertex
            colors ``x [N, 3]`` in [0, 1]. They are not changed.
        title: Title above the panels.
        error: Name of the mesh that the others are compared with; by default ``"ground truth"``
            if present, otherwise the first.
        size: The larger of a panel's width and height in pixels.
        up: The axis that points up, ``"x"``, ``"y"`` or ``"z"``.
        view: Azimuth and elevation of the camera in degrees. By default it looks from the front,
            slightly from the right and from above; for an open surface, from the side it faces.
        max_faces: Meshes with more triangles, and clouds with more points, are decimated.

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
    camera = make_camera(scene.shapes, up, view, caller)
    # Panels take the aspect ratio of the scene, up to 3 : 5.
    width, height = (
        max(round(size * part), size * 3 // 5) for part in camera.half / camera.half.max()
    )
    sheet = Sheet(scene, (width, height), title)
    for column, shape in enumerate(scene.shapes):
        _fill_column(sheet, column, shape, render(shape, camera, (width, height)))
    return save_picture(sheet.image, path)


def _fill_column(sheet: Sheet, column: int, shape: Shape, visible: VisibilityBuffer) -> None:
    """Draw one shape and, below it, its errors or the legend."""
    plain = np.tile(CLAY, (len(shape.pos), 1)) if shape.color is None else shape.color
    sheet.caption(column, shape)
    sheet.place(0, column, visible.paint(plain, soft=shape.color is not None))
    if sheet.rows == 1:
        return
    if shape.error is None:
        sheet.legend(1, column)
        return
    level = np.minimum(shape.error / sheet.scene.scale_end, 1.0)
    sheet.place(1, column, visible.paint(error_ramp()[np.rint(255 * level).astype(int)], soft=True))


class Sheet:
    """Panels of one size in a grid, with captions above and a legend."""

    def __init__(self, scene: Scene, size: Size, title: str):
        from PIL import Image, ImageDraw

        self.scene, (self.width, self.height) = scene, size
        most = max(size)
        self.gap = max(most // 30, 4)
        self.small, self.large = max(most // 26, 9), max(most // 18, 11)
        self.top = self.gap + (round(1.7 * self.large) + self.gap if title else 0)
        self.caption_height = round(3.4 * self.small)
        moved = any(shape.error_max for shape in scene.shapes)
        plain = any(shape.color is None for shape in scene.shapes)
        self.rows = 2 if scene.has_errors and (moved or plain) else 1
        width = self.gap + len(scene.shapes) * (self.width + self.gap)
        height = self.top + self.caption_height + self.rows * (self.height + self.gap)
        self.image = Image.new("RGB", (width, height), PAPER)
        self.pen = ImageDraw.Draw(self.image)
        if title:
            line = fit_text(without_folders(title), self.large, width - 2 * self.gap)
            self.write(self.gap, self.gap, line, self.large)

    def write(self, x: float, y: float, text: str, size: int, color: Color = INK) -> None:
        """Write a line of text with its upper left corner at (x, y)."""
        self.pen.text((x, y), text, fill=color, font=font(size))

    def corner(self, row: int, column: int) -> tuple[int, int]:
        """Return the upper left corner of a panel."""
        x = self.gap + column * (self.width + self.gap)
        return x, self.top + self.caption_height + row * (self.height + self.gap)

    def caption(self, column: int, shape: Shape) -> None:
        """Write name and size of a shape above its column."""
        x, y = self.corner(0, column)[0], self.top
        self.write(x, y, fit_text(without_folders(shape.name), self.small, self.width), self.small)
        note = shape.counts + (" (decimated)" if shape.is_reduced else "")
        note = fit_text(note, round(0.85 * self.small), self.width)
        self.write(x, y + 1.45 * self.small, note, round(0.85 * self.small), FAINT)

    def place(self, row: int, column: int, picture: Array) -> None:
        """Paste a premultiplied picture ``[H, W, 4]`` over the background."""
        from PIL import Image

        solid = picture[..., :3] + (1 - picture[..., 3:]) * np.array(GROUND) / 255.0
        values = np.rint(255 * np.clip(solid, 0, 1)).astype(np.uint8)
        self.image.paste(Image.fromarray(values), self.corner(row, column))

    def legend(self, row: int, column: int) -> None:
        """Draw color scale and error table in the panel of the shape without errors."""
        x, y = self.corner(row, column)
        self.pen.rectangle((x, y, x + self.width - 1, y + self.height - 1), fill=GROUND)
        x, y, room = x + 2 * self.gap, y + 2 * self.gap, self.width - 4 * self.gap
        self.write(x, y, fit_text(self.scene.measure, self.small, room), self.small)
        y += round(1.5 * self.small)
        unit = fit_text(self.scene.unit_text, round(0.85 * self.small), room)
        self.write(x, y, unit, round(0.85 * self.small), FAINT)
        y += round(1.4 * self.small) + self.gap // 2
        y = self._color_scale(x, y, room)
        self._table(x, y + 3 * self.small, room)

    def _color_scale(self, x: int, y: int, room: int) -> int:
        """Draw the color scale and return the height of its three tick labels."""
        from PIL import Image

        height = round(1.4 * self.small)
        self.image.paste(Image.fromarray(error_ramp(room)[None]).resize((room, height)), (x, y))
        end, y = self.scene.scale_end, y + height + self.gap // 3
        for part, text in ((0.0, "0"), (0.5, f"{end / 2:g}"), (1.0, f"{end:g}+")):
            shift = part * (room - text_width(text, self.small))
            self.write(x + shift, y, text, self.small, FAINT)
        return y

    def _table(self, x: int, y: int, room: int) -> None:
        """Write mean and largest error of each shape."""
        rows = [("", "mean", "largest")] + [
            (without_folders(shape.name), f"{shape.error_mean:.3f}", f"{shape.error_max:.3f}")
            for shape in self.scene.shapes
            if shape.error is not None
        ]
        size, step = _table_size(rows, self.small, room)
        for name, *numbers in rows:
            self.write(x, y, fit_text(name, size, room - 2 * step), size)
            for number, right in zip(numbers, (room - step, room), strict=True):
                left = x + right - text_width(number, size)
                self.write(left, y, number, size, INK if name else FAINT)
            y += round(1.7 * self.small)
            self.pen.line((x, y - 0.3 * self.small, x + room, y - 0.3 * self.small), fill=RULE)


def _table_size(rows: list[tuple[str, str, str]], size: int, room: int) -> tuple[int, float]:
    """Return a font size at which the names fit, and the width of a number column."""
    least = round(MIN_FONT_SCALE * size)
    while True:
        step = max(text_width(text, size) for row in rows for text in row[1:]) + size
        names = max(text_width(row[0], size) for row in rows)
        if names <= room - 2 * step or size <= least:
            return size, step
        size -= 1
