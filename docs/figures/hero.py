"""The picture at the top of the README: three pairs of before and after, each made by one call.

    python docs/figures/hero.py

Writes ``docs/_static/hero.png``: a generated part with noise and ``denoise``, a photograph with
noise and ``bilateral_filter``, and the lattice over the photograph (each cell in its mean color).
"""

from pathlib import Path

import numpy as np
from _shading import photograph, shade
from PIL import Image, ImageDraw, ImageFont

import permutogeo as pg
from permutogeo.datasets import SharpShapes
from permutogeo.denoising import denoise
from permutogeo.transforms import NormalNoise
from permutogeo.viz.lattice_cells import cell_index

OUTPUT = Path(__file__).parent.parent / "_static" / "hero.png"
SIDE, GAP = 384, 16
GROUND = 240 / 255


def on_ground(picture):
    """Return a picture with alpha over a light ground."""
    return picture[..., :3] * picture[..., 3:] + GROUND * (1 - picture[..., 3:])


def split(before, after, slant=0.16):
    """Return the left part of one picture and the right part of another, and a line between."""
    y, x = np.mgrid[:SIDE, :SIDE] / SIDE
    edge = x - 0.5 + slant * (y - 0.5)
    picture = np.where((edge < 0)[..., None], before, after)
    line = np.clip(1.5 - abs(edge) * SIDE, 0, 1)[..., None]
    return picture * (1 - line) + line


def label(image, text, right):
    """Write a word into a lower corner."""
    draw = ImageDraw.Draw(image, "RGBA")
    font = ImageFont.load_default(15)
    width = draw.textlength(text, font=font) + 18
    x = SIDE - width - 10 if right else 10
    draw.rounded_rectangle((x, SIDE - 36, x + width, SIDE - 10), 13, fill=(20, 24, 32, 190))
    draw.text((x + 9, SIDE - 32), text, font=font, fill=(255, 255, 255, 255))


def tile(before, after, words):
    picture = split(before, after).clip(0, 1)
    image = Image.fromarray((255 * picture).round().astype(np.uint8))
    for word, right in zip(words, (False, True), strict=True):
        label(image, word, right)
    return image


def mesh_tile():
    clean = SharpShapes(24, num_faces=(16000, 17000), seed=3)[4]
    noisy = NormalNoise(0.3, seed=0)(clean)
    before, after = (on_ground(shade(m, SIDE, zoom=1.0)) for m in (noisy, denoise(noisy)))
    return tile(before, after, ("noisy scan", "denoised"))


def photo_tile(photo):
    noisy = photo + 0.09 * np.random.default_rng(0).standard_normal(photo.shape).astype("float32")
    smooth = pg.image.bilateral_filter(noisy, sigma_pos=4.0, sigma_color=0.25)
    return tile(noisy, smooth, ("noisy photograph", "filtered"))


def lattice_tile(photo):
    index = cell_index(photo, sigma_pos=34.0, sigma_color=1.2)
    count = np.bincount(index.ravel())
    sums = [np.bincount(index.ravel(), photo[..., c].ravel()) for c in range(3)]
    cells = (np.stack(sums, -1) / count[:, None])[index]
    border = np.zeros(index.shape, bool)
    border[:, 1:] |= index[:, 1:] != index[:, :-1]
    border[1:] |= index[1:] != index[:-1]
    cells = np.where(border[..., None], 0.6 * cells + 0.4, cells)
    return tile(photo, cells, ("pixels", "lattice cells"))


def main():
    photo = photograph(SIDE)
    tiles = [mesh_tile(), photo_tile(photo), lattice_tile(photo)]
    banner = Image.new("RGB", (3 * SIDE + 2 * GAP, SIDE), "white")
    mask = Image.new("L", banner.size, 0)
    corners = Image.new("L", (SIDE, SIDE), 0)
    ImageDraw.Draw(corners).rounded_rectangle((0, 0, SIDE - 1, SIDE - 1), 14, fill=255)
    for index, image in enumerate(tiles):
        place = (index * (SIDE + GAP), 0)
        banner.paste(image, place)
        mask.paste(corners, place)
    # Few shades halve the size of the file.
    banner = banner.point(lambda value: min(255, 12 * round(value / 12)))
    banner.putalpha(mask)
    banner.save(OUTPUT, optimize=True)
    print(f"{OUTPUT}: {OUTPUT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
