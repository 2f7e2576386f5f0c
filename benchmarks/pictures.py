"""Wall time and peak memory of the image commands on large images."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from permutogeo.benchmarks.timing import table


def pictures(quick: bool = False) -> None:
    """Filter and upsample an image of 24 megapixels, each in a fresh process."""
    width, height = (480, 320) if quick else (6000, 4000)
    with tempfile.TemporaryDirectory() as folder:
        photo, gray, small, half, out = (
            Path(folder) / f"{name}.png" for name in ("photo", "gray", "small", "half", "out")
        )
        image = _photograph(width, height)
        image.save(photo, compress_level=1)
        image.convert("L").save(gray, compress_level=1)
        image.resize((width // 8, height // 8), Image.Resampling.BOX).save(small)
        image.resize((width // 2, height // 2), Image.Resampling.BOX).save(half, compress_level=1)
        commands = {
            "filter, color": ["filter", photo],
            "upsample 8x, color guide": ["upsample", small, "--guide", photo],
            "upsample 2x, gray guide": ["upsample", half, "--guide", gray],
        }
        if quick:  # starting a process takes seconds
            commands = {"upsample 8x, color guide": commands["upsample 8x, color guide"]}
        rows = [[name, *_run([*map(str, call), "-o", str(out)])] for name, call in commands.items()]
    table(f"Images of {width} x {height} pixels, whole commands", ["", "s", "CPU s", "GB"], rows)


def _photograph(width: int, height: int) -> Image.Image:
    """Return a colored texture made of noise at several scales."""
    rng = np.random.default_rng(0)
    image = np.zeros((height, width, 3), np.float32)
    for side in (4, 16, 64, 256):
        noise = rng.integers(0, 256, (side * 2, side * 3, 3), dtype=np.uint8)
        layer = Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)
        image += np.asarray(layer, np.float32) / 4
    return Image.fromarray(image.astype(np.uint8))


def _run(arguments: list[str]) -> list[str]:
    """Return wall time and CPU time in seconds and peak memory in gigabytes of a command."""
    start = time.perf_counter()
    command = [sys.executable, "-c", "from permutogeo.cli import main; main()", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, code, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    spent = usage.ru_utime + usage.ru_stime
    peak = 1024 * usage.ru_maxrss / 1e9
    return [f"{time.perf_counter() - start:.1f}", f"{spent:.1f}", f"{peak:.2f}"]
