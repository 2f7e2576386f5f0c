"""Safetensors files with one JSON entry in their metadata, written atomically.

Used for weights (entry: the model's settings) and for training checkpoints (entry: everything that
is not a tensor). A checksum of the tensors and entries is stored with them, so that a damaged file
is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from permutogeo.data.files import check_readable, replacing

CHECKSUM = "sha256"


def write_safetensors(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Tensor],
    entries: Mapping[str, Any] | None = None,
) -> None:
    """Write tensors and JSON entries; a failed write leaves the previous file in place.

    Args:
        path: The file to write or replace.
        tensors: Tensors by name; each is copied to the CPU.
        entries: JSON values by name, stored in the metadata.
    """
    # Tied weights share memory, which safetensors refuses: each name gets its own copy.
    copies = {
        name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()
    }
    metadata = {name: json.dumps(value) for name, value in (entries or {}).items()}
    metadata[CHECKSUM] = _checksum(copies, metadata)
    with replacing(Path(path)) as temporary:
        # Not safetensors' save_file, which creates files that only their owner may read.
        temporary.write_bytes(save(copies, metadata))


def read_safetensors(
    path: str | os.PathLike[str], entry: str | None = None, *, needs_checksum: bool = False
) -> tuple[dict[str, Tensor], Any]:
    """Read the tensors, on the CPU, and one JSON entry of the metadata.

    Args:
        path: The file to read.
        entry: Name of the entry.
        needs_checksum: Refuse files without a checksum, which other programs write; otherwise a
            checksum is verified only if present.

    Returns:
        The tensors by name and the value of the entry, or ``None`` if the file has no such entry.
    """
    path = Path(path)
    check_readable(path)
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = file.metadata() or {}
    except SafetensorError as error:
        raise ValueError(f"'{path}': Expected a safetensors file ({error})") from error
    checksum = metadata.pop(CHECKSUM, None)
    if checksum is None and needs_checksum and entry in metadata:
        raise ValueError(f"'{path}': Expected a checksum (the file is damaged)")
    if checksum is not None and checksum != _checksum(tensors, metadata):
        raise ValueError(f"'{path}': Expected another checksum (the file is damaged)")
    if entry not in metadata:
        return tensors, None
    try:
        return tensors, json.loads(metadata[entry])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'{path}': Expected JSON in the entry '{entry}' ({error})") from error


def _checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """Return the SHA-256 of names, types, shapes, values and metadata."""
    digest = hashlib.sha256(json.dumps(sorted(metadata.items())).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
