"""The sheet of a picture: panels side by side, what they are, and what their colors mean."""

from __future__ import annotations

import numpy as np

from permutogeo.data._fields import Array
from permutogeo.viz import _text
from permutogeo.viz._panels import Panel
from permutogeo.viz._raster import Size
from permutogeo.viz._scene import Scene
from permutogeo.viz.colors import error_ramp

PAPER = (255, 255, 255)
GROUND = (244, 245, 247)
RULE = (220, 223, 228)
LEAST_SIZE = 0.7  # of letters in a table, where names are long


class Sheet:
    """A sheet of panels of one size, with captions above."""

    def __init__(self, scene: Scene, size: Size, title: str):
        from PIL import Image, ImageDraw

        self.scene, (self.width, self.height) = scene, size
        most = max(size)
        self.gap = max(most // 30, 4)
        self.small, self.large = max(most // 26, 9), max(most // 18, 11)
        self.top = self.gap + (round(1.7 * self.large) + self.gap if title else 0)
        self.caption = round(3.4 * self.small)
        rows = 2 if scene.has_errors else 1
        width = self.gap + len(scene.panels) * (self.width + self.gap)
        height = self.top + self.caption + rows * (self.height + self.gap)
        self.image = Image.new("RGB", (width, height), PAPER)
        self.pen = ImageDraw.Draw(self.image)
        if title:
            line = _text.fitted(title, self.large, width - 2 * self.gap)
            self.write(self.gap, self.gap, line, self.large)

    def write(
        self, x: float, y: float, text: str, size: int, color: tuple[int, int, int] = _text.INK
    ) -> None:
        """A line of text with its upper left corner at a place."""
        self.pen.text((x, y), text, fill=color, font=_text.font(size))

    def corner(self, row: int, column: int) -> tuple[int, int]:
        """The upper left corner of a panel."""
        x = self.gap + column * (self.width + self.gap)
        return x, self.top + self.caption + row * (self.height + self.gap)

    def head(self, column: int, panel: Panel) -> None:
        """The name of a panel and how much it holds."""
        x, y = self.corner(0, column)[0], self.top
        self.write(x, y, _text.fitted(panel.name, self.small, self.width), self.small)
        note = panel.counts + (" (drawn with fewer)" if panel.is_reduced else "")
        note = _text.fitted(note, round(0.85 * self.small), self.width)
        self.write(x, y + 1.45 * self.small, note, round(0.85 * self.small), _text.FAINT)

    def place(self, row: int, column: int, picture: Array) -> None:
        """A picture ``[H, W, 4]`` whose colors are multiplied by its opacity."""
        from PIL import Image

        solid = picture[..., :3] + (1 - picture[..., 3:]) * np.array(GROUND) / 255.0
        values = np.rint(255 * np.clip(solid, 0, 1)).astype(np.uint8)
        self.image.paste(Image.fromarray(values), self.corner(row, column))

    def legend(self, row: int, column: int) -> None:
        """The colors of errors and a table of them, in the place of the panel that has none."""
        x, y = self.corner(row, column)
        self.pen.rectangle((x, y, x + self.width - 1, y + self.height - 1), fill=GROUND)
        x, y, room = x + 2 * self.gap, y + 2 * self.gap, self.width - 4 * self.gap
        self.write(x, y, _text.fitted(self.scene.measure, self.small, room), self.small)
        y += round(1.5 * self.small)
        unit = _text.fitted(self.scene.unit_text, round(0.85 * self.small), room)
        self.write(x, y, unit, round(0.85 * self.small), _text.FAINT)
        y += round(1.4 * self.small) + self.gap // 2
        y = self._ramp(x, y, room)
        self._table(x, y + 3 * self.small, room)

    def _ramp(self, x: int, y: int, room: int) -> int:
        """The colors from left to right, and three numbers at the returned height."""
        from PIL import Image

        height = round(1.4 * self.small)
        self.image.paste(Image.fromarray(error_ramp(room)[None]).resize((room, height)), (x, y))
        end, y = self.scene.scale_end, y + height + self.gap // 3
        for part, text in ((0.0, "0"), (0.5, f"{end / 2:g}"), (1.0, f"{end:g}+")):
            shift = part * (room - _text.width(text, self.small))
            self.write(x + shift, y, text, self.small, _text.FAINT)
        return y

    def _table(self, x: int, y: int, room: int) -> None:
        """Mean and largest error of each panel."""
        rows = [("", "mean", "largest")] + [
            (panel.name, f"{panel.error_mean:.3f}", f"{panel.error_max:.3f}")
            for panel in self.scene.panels
            if panel.error is not None
        ]
        size, step = _table_size(rows, self.small, room)
        for name, *numbers in rows:
            self.write(x, y, _text.fitted(name, size, room - 2 * step), size)
            for number, right in zip(numbers, (room - step, room), strict=True):
                left = x + right - _text.width(number, size)
                self.write(left, y, number, size, _text.INK if name else _text.FAINT)
            y += round(1.7 * self.small)
            self.pen.line((x, y - 0.3 * self.small, x + room, y - 0.3 * self.small), fill=RULE)


def _table_size(rows: list[tuple[str, str, str]], size: int, room: int) -> tuple[int, float]:
    """How large letters may be for the names to fit, and how wide a column of numbers is then."""
    least = round(LEAST_SIZE * size)
    while True:
        step = max(_text.width(text, size) for row in rows for text in row[1:]) + size
        names = max(_text.width(row[0], size) for row in rows)
        if names <= room - 2 * step or size <= least:
            return size, step
        size -= 1
