"""Bytes that each operation on a lattice has to move, and the time that takes on some cards."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import permutogeo as pg
from permutogeo.benchmarks.timing import ms, table

# GB/s of device memory, from the vendor's data sheets.
CARDS = {"A100 80 GB": 2039, "RTX 6000 Ada": 960, "H100 SXM": 3350, "RTX 5090": 1792}


@dataclass(frozen=True)
class Work:
    """Points with features ``[N, d]`` and values ``[N, C]``, float32."""

    name: str
    feature: torch.Tensor
    x: torch.Tensor

    def bytes_moved(self, num_vertices: int) -> dict[str, int]:
        """Return the bytes that each operation reads and writes if every gathered row comes from
        memory and nothing is reused.

        A build writes weights and codes, hashes each code into a table of half-filled slots, and
        reads and writes the vertex numbers; sorting the codes of the vertices takes eight passes
        of a radix sort. A splat reads the sorted corners. A blur reads two neighbors on each axis.
        """
        count, dim = self.feature.shape
        corners, row = count * (dim + 1), 4 * self.x.shape[1]
        embed = count * 4 * dim + corners * (4 + 8)
        hashing = corners * (8 + 32 + 4)  # code, one sector of the table, owner
        sorting = 8 * 2 * (8 + 8) * num_vertices
        numbering = corners * (4 + 4 + 4) + 8 * num_vertices
        return {
            "build": embed + hashing + sorting + numbering,
            "splat": corners * (4 + 4 + row) + num_vertices * (4 + row),
            "blur": (dim + 1) * num_vertices * (2 * 4 + 4 * row),
            "slice": corners * (4 + 4 + row) + count * row,
        }


def works(quick: bool = False) -> list[Work]:
    """Return an image of one megapixel in 5-D, and the case in WarpConvNet's documentation."""
    side, cloud = (64, 1024) if quick else (1024, 196_608)
    generator = torch.Generator().manual_seed(0)
    # Smooth colors over the image; the vertices per point are those of a photograph.
    place = torch.cartesian_prod(torch.arange(side), torch.arange(side)).float()
    color = torch.sin(place @ torch.rand(2, 3, generator=generator) * 12 / side) * 5
    image = torch.cat([place / 16, color], 1)
    points = torch.rand(cloud, 6, generator=generator) * 4
    return [
        Work("image of one megapixel, 5-D", image, torch.rand(len(image), 4, generator=generator)),
        Work("196,608 points, 6-D", points, torch.rand(cloud, 32, generator=generator)),
    ]


def roofline(quick: bool = False) -> None:
    """Print the milliseconds that memory alone needs for build, splat, blur and slice."""
    rows = []
    for work in works(quick):
        vertices = pg.Lattice.build(work.feature).num_vertices
        moved = work.bytes_moved(vertices)
        for name, size in (*moved.items(), ("all", sum(moved.values()))):
            times = [ms(1e-6 * size / bandwidth) for bandwidth in CARDS.values()]
            rows.append([f"{work.name}, {name}", f"{vertices:,}", f"{size / 1e6:.0f}", *times])
    columns = ["", "vertices", "MB", *(f"{card}, ms" for card in CARDS)]
    table("Roofline on paper: bytes moved over the bandwidth of the card", columns, rows)
