"""Sizes in LAZ files, checked before they are decoded.

The decoder allocates what a file claims and ends the process if it cannot.
"""

from __future__ import annotations

import os
import struct
from typing import IO, Any

# Layers of the point formats of version 1.4; each extra byte is one more.
_LAYERS = {6: 9, 7: 10, 8: 11, 9: 10, 10: 12}
# Points of a chunk, which the decoder holds at once; 50,000 are usual.
_MOST_POINTS = 2**24


def check_chunks(file: IO[bytes], header: Any) -> None:
    """Raise if the chunks of a LAZ file do not fit into it.

    Args:
        file: The open file.
        header: Its ``laspy.LasHeader``.
    """
    import lazrs

    vlr = lazrs.LazVlr(header.vlrs.get("LasZipVlr")[0].record_data)
    if vlr.item_size() != header.point_format.size:
        sizes = f"{vlr.item_size()} bytes, the header {header.point_format.size}"
        raise ValueError(f"the compressed points have {sizes}")
    size = file.seek(0, os.SEEK_END)
    start = header.offset_to_point_data
    place = _read(file, start, "<q")
    if place == -1:  # written by a stream: the place is at the end of the file
        place = _read(file, size - 8, "<q")
    count = _read(file, place + 4, "<I") if start + 8 <= place <= size - 8 else -1
    # A chunk starts with a whole point; encoders add an empty chunk.
    if not 0 <= count <= (place - start) // header.point_format.size + 1:
        raise ValueError(f"the table of chunks at byte {place:,} claims {count:,} chunks")
    variable = vlr.uses_variable_size_chunks()
    file.seek(start)
    table = lazrs.read_chunk_table(file, vlr)
    at = start + 8
    for points, room in table:
        if points > _MOST_POINTS or not 0 <= room <= place - at:
            raise ValueError(f"a chunk of {points:,} points at byte {at:,} has {room:,} bytes")
        if room:
            check_layers(file, at, room, header)
        at += room
    held = sum(points for points, _ in table)
    if held < header.point_count or (variable and held != header.point_count):
        raise ValueError(f"the header claims {header.point_count:,} points, chunks {held:,}")


def check_layers(file: IO[bytes], start: int, size: int, header: Any) -> None:
    """Raise if the layers of a chunk are larger than the chunk.

    Args:
        file: The open file.
        start: First byte of the chunk.
        size: Number of its bytes.
        header: The ``laspy.LasHeader`` of the file.
    """
    layers = _LAYERS.get(header.point_format.id)
    if layers is None:  # older formats have none
        return
    layers += header.point_format.num_extra_bytes
    head = header.point_format.size + 4
    file.seek(start + head)
    raw = file.read(4 * layers)
    claimed = head + 4 * layers
    if len(raw) == 4 * layers:
        claimed += sum(struct.unpack(f"<{layers}I", raw))
    if claimed > size:
        raise ValueError(f"the layers of the chunk at byte {start:,} have {claimed:,} bytes")


def _read(file: IO[bytes], at: int, kind: str) -> int:
    length = struct.calcsize(kind)
    file.seek(max(at, 0))
    raw = file.read(length)
    if at < 0 or len(raw) < length:
        raise ValueError("the compressed points are missing")
    return int(struct.unpack(kind, raw)[0])
