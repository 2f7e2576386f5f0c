"""Copy of Warp's headers in which the atomics of the CPU are real ones, for the simulated GPU."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from warp._src import build as warp_build

_COMPARE_AND_SWAP = re.compile(
    r"    (T|float|double|int64) old = \*address;\n    if \(old == compare\) \{\n"
    r"        \*address = val;\n    \}\n    return old;\n"
)
_ADD = re.compile(r"    (T|int64) old = buf\[0\];\n    buf\[0\] \+= value;\n    return old;\n")
_WAIT = (
    "    for (volatile unsigned n = (unsigned)(__builtin_readcyclecounter() >> 4) % {limit}; n;"
    " n = n - 1) {{ }}\n"
)
_REAL = (
    "    __atomic_compare_exchange(address, &compare, &val, false, 5, 5);\n    return compare;\n"
)
# The window between load and store is some 50 microseconds where the swap succeeds, longer than
# threads take to start: two of them meet in it even on a machine with few cores.
_BROKEN = (
    r"    \1 old = *address;\n"
    "    if (old == compare) {\n" + _WAIT.format(limit=65536) + "        *address = val;\n    }\n"
    "    return old;\n"
)
_REAL_ADD = (
    r"    \1 old = buf[0], sum;\n"
    "    do { sum = old + value; }\n"
    "    while (!__atomic_compare_exchange(buf, &old, &sum, false, 5, 5));\n    return old;\n"
)


def use_atomic_headers(folder: Path, broken: bool = False) -> None:
    """Compile kernels against headers with real atomics; ``broken`` ones show that races are found.

    A wait stands inside the broken compare-and-swap, between its load and its store, and before
    the real one. Headers and kernels are kept in ``folder``, which further processes with the same
    headers may use again.
    """
    os.environ["WARP_CACHE_PATH"] = str(folder / "cache")
    native = folder / "native"
    shutil.copytree(
        Path(warp_build.warp_home) / "native",
        native,
        ignore=shutil.ignore_patterns("*.cu", "*.cpp", "libdevice"),
        dirs_exist_ok=True,
    )
    header = native / "builtin.h"
    text, swaps = _COMPARE_AND_SWAP.subn(
        _BROKEN if broken else _WAIT.format(limit=256) + _REAL, header.read_text()
    )
    text, adds = _ADD.subn(_REAL_ADD, text)
    assert swaps == 4 and adds == 2, "Warp's headers changed: look for its CPU atomics"
    header.write_text(text)
    warp_build.warp_home = str(folder)
