"""COPC files (LAZ whose points are sorted into an octree): reading by box, and writing.

Layout: https://copc.io. A node holds a sample of the points of its cube, its eight children hold
the rest. The hierarchy gives the place and the number of points of each node; laspy reads it
without checks and does not write it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from permutogeo.data.fields import Fields
from permutogeo.data.formats.las import (
    check_header,
    check_record_counts,
    decoder_errors,
    encoder_errors,
)
from permutogeo.data.formats.las_records import fields_to_records, load_laspy
from permutogeo.data.formats.laz_chunks import check_chunks, check_layers
from permutogeo.typing import Array

_ENTRY = np.dtype([("key", "<i4", 4), ("offset", "<u8"), ("size", "<i4"), ("count", "<i4")])
_INFO = struct.Struct("<5d2Q2d11Q")
_COPC_FORMATS = (6, 7, 8)
# Cells of a node along an axis: each gives one point to the node, the others go to its children.
_CELLS = 64
# Nodes with at most this number of points have no children.
_LEAF = 50_000
_DEEPEST = 20


@dataclass(frozen=True)
class CopcNode:
    """A node of the octree.

    Args:
        key: Level, and place along x, y and z.
        offset: First byte of its compressed points.
        size: Number of their bytes.
        count: Number of its points.
    """

    key: tuple[int, int, int, int]
    offset: int
    size: int
    count: int


class CopcFile:
    """The octree of a COPC file, checked when it is opened.

    Args:
        path: The file.
    """

    def __init__(self, path: Path):
        laspy = load_laspy()
        from laspy.copc import CopcInfoVlr

        self.path = path
        size = path.stat().st_size
        check_record_counts(path)
        with open(path, "rb") as file, decoder_errors():
            self.header = laspy.LasHeader.read_from(file)
            check_header(self.header, size)
            self.header.read_evlrs(file)
            vlrs = list(self.header.vlrs)
            if not vlrs or not isinstance(vlrs[0], CopcInfoVlr):
                raise ValueError("the first record is not that of a COPC file")
            self._laszip = self.header.vlrs.get("LasZipVlr")[0].record_data
            info = vlrs[0]
            self.low = np.asarray(info.center) - info.halfsize
            self.side = 2 * float(info.halfsize)
            root = int(info.hierarchy_root_offset), int(info.hierarchy_root_size)
            self.nodes = _read_hierarchy(file, root, size)
            check_chunks(file, self.header)
        claimed, found = self.header.point_count, sum(node.count for node in self.nodes)
        if claimed != found:
            raise ValueError(f"the header claims {claimed:,} points, the hierarchy {found:,}")
        if not (np.isfinite(self.low).all() and 0 <= self.side < np.inf):
            raise ValueError("the cube of the octree is not finite")

    def node_box(self, node: CopcNode) -> tuple[Array, Array]:
        """Return the lower and upper corner of the cube of a node."""
        side = self.side / 2 ** node.key[0]
        low = self.low + side * np.array(node.key[1:])
        return low, low + side

    def nodes_in(self, low: Array, high: Array) -> list[CopcNode]:
        """Return the nodes that meet a box, which has two or three dimensions."""
        dim, found = len(low), []
        for node in self.nodes:
            first, last = self.node_box(node)
            slack = self.header.scales[:dim]  # coordinates are rounded after the sort
            if (first[:dim] - slack <= high).all() and (last[:dim] + slack >= low).all():
                found.append(node)
        return found

    def read_node(self, node: CopcNode) -> Array:
        """Return the point records of a node; raises if one lies outside of its cube."""
        import lazrs

        with open(self.path, "rb") as file:
            check_layers(file, node.offset, node.size, self.header)
            file.seek(node.offset)
            packed = file.read(node.size)
        record = self.header.point_format.dtype()
        raw = np.zeros(node.count * record.itemsize, np.uint8)
        with decoder_errors():
            lazrs.decompress_points_with_chunk_table(
                packed, self._laszip, raw, [(node.count, node.size)]
            )
        points = raw.view(record)
        first, last = self.node_box(node)
        slack = self.header.scales
        for axis, name in enumerate("XYZ"):
            place = points[name] * self.header.scales[axis] + self.header.offsets[axis]
            inside = (place >= first[axis] - slack[axis]) & (place <= last[axis] + slack[axis])
            if not inside.all():
                raise ValueError(f"the hierarchy claims node {node.key} for points outside of it")
        return points


def _read_hierarchy(file: Any, root: tuple[int, int], size: int) -> list[CopcNode]:
    """Return the nodes with points of all pages, by their place in the file."""
    nodes: dict[tuple[int, ...], CopcNode] = {}
    pages, seen = [root], set()
    while pages:
        offset, length = pages.pop()
        if offset in seen or length % _ENTRY.itemsize or not 0 < length <= size - offset:
            raise ValueError(f"the hierarchy has a page of {length} bytes at byte {offset}")
        seen.add(offset)
        file.seek(offset)
        for entry in np.frombuffer(file.read(length), _ENTRY):
            key = tuple(int(k) for k in entry["key"])
            at, room, count = int(entry["offset"]), int(entry["size"]), int(entry["count"])
            if count == -1:
                pages.append((at, room))
                continue
            side = 2 ** min(max(key[0], 0), 31)
            valid = 0 <= key[0] <= 31 and all(0 <= k < side for k in key[1:]) and count >= 0
            if not valid or key in nodes or (count and not 0 < room <= size - at):
                raise ValueError(f"the hierarchy has a wrong entry for node {key}")
            nodes[key] = CopcNode(key, at, room, count)  # type: ignore[arg-type]
    ordered = sorted((node for node in nodes.values() if node.count), key=lambda n: n.offset)
    for before, after in pairwise(ordered):
        if before.offset + before.size > after.offset:
            raise ValueError(f"the hierarchy has overlapping nodes {before.key} and {after.key}")
    return ordered


def write_copc(path: Path, fields: Fields) -> None:
    """Write all point attributes as COPC; the points are sorted into the octree."""
    laspy = load_laspy()
    import lazrs
    from laspy.vlrs.known import LasZipVlr

    points, header = fields_to_records(fields)
    if header.point_format.id not in _COPC_FORMATS or header.version.minor < 4:
        raise ValueError(
            f"Expected a point format in {_COPC_FORMATS} for COPC (got {header.point_format.id}); "
            "write to .laz"
        )
    pos = np.stack([np.asarray(points[name]) for name in "xyz"], axis=1)
    low, side = pos.min(axis=0), max(float(np.ptp(pos, axis=0).max()), 1e-3)
    nodes = octree(pos, low, side)
    packer = lazrs.LazVlr.new_for_compression(
        header.point_format.id, header.point_format.num_extra_bytes, use_variable_size_chunks=True
    )
    header.update(points)
    evlrs = list(header.evlrs or [])
    info = laspy.VLR("copc", 1, "COPC info VLR", bytes(_INFO.size))
    header.vlrs.insert(0, info)
    header.vlrs.append(LasZipVlr(packer.record_data()))
    header.are_points_compressed = True
    with open(path, "wb+") as file, encoder_errors():
        header.write_to(file, ensure_same_size=False)
        start = file.tell()
        compressor = lazrs.ParLasZipCompressor(file, packer)
        compressor.compress_chunks([points.array[rows].tobytes() for rows in nodes.values()])
        compressor.done()
        file.seek(0, 2)
        evlr_start = file.tell()
        file.seek(start)
        sizes = [size for _, size in lazrs.read_chunk_table(file, packer)]
        entries = np.zeros(len(nodes), _ENTRY)
        entries["key"] = list(nodes)
        entries["size"] = sizes
        entries["offset"] = start + 8 + np.cumsum([0, *sizes[:-1]])
        entries["count"] = [len(rows) for rows in nodes.values()]
        page = laspy.VLR("copc", 1000, "EPT Hierarchy", entries.tobytes())
        from laspy.vlrs.vlrlist import VLRList

        file.seek(evlr_start)
        VLRList([page, *evlrs]).write_to(file, as_extended=True)
        half, times = side / 2, points["gps_time"]
        info.record_data = _INFO.pack(
            *(low + half), half, side / _CELLS, evlr_start + 60, entries.nbytes,
            times.min(), times.max(), *(0,) * 11,
        )  # fmt: skip
        header.start_of_first_evlr, header.number_of_evlrs = evlr_start, 1 + len(evlrs)
        file.seek(0)
        header.write_to(file, ensure_same_size=True)


def octree(pos: Array, low: Array, side: float) -> dict[tuple[int, int, int, int], Array]:
    """Return the rows of the points of each node of an octree over a cube.

    Args:
        pos: Points ``[N, 3]``.
        low: Lower corner of the cube.
        side: Its side.
    """
    nodes: dict[tuple[int, int, int, int], Array] = {}
    pending = [((0, 0, 0, 0), np.arange(len(pos)))]
    while pending:
        key, rows = pending.pop()
        if len(rows) <= _LEAF or key[0] == _DEEPEST:
            nodes[key] = rows
            continue
        width = side / 2 ** key[0]
        unit = (pos[rows] - low) / width - np.array(key[1:])
        cell = np.clip(unit * _CELLS, 0, _CELLS - 1).astype(np.int64)
        code = (cell[:, 0] * _CELLS + cell[:, 1]) * _CELLS + cell[:, 2]
        first = np.unique(code, return_index=True)[1]
        rest = np.ones(len(rows), bool)
        rest[first] = False
        nodes[key] = rows[first]
        half = (unit[rest] >= 0.5).astype(np.int64)
        child, rows = half @ np.array([1, 2, 4]), rows[rest]
        for index in range(8):
            inside = rows[child == index]
            if len(inside):
                bits = index & 1, index >> 1 & 1, index >> 2 & 1
                place = [2 * k + bit for k, bit in zip(key[1:], bits, strict=True)]
                pending.append(((key[0] + 1, place[0], place[1], place[2]), inside))
    return nodes
