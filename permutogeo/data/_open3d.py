"""The one place that imports Open3D."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType


def _preload_libusb() -> None:
    """Load libusb from its wheel where the system has none, visible to libraries loaded later."""
    try:
        ctypes.CDLL("libusb-1.0.so.0")
        return
    except OSError:
        pass
    try:
        import libusb_package
    except ImportError:
        return
    path = libusb_package.get_library_path()
    if path is not None:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def load_open3d() -> ModuleType:
    """Import Open3D, which links against ``libusb-1.0`` and does not start without it."""
    if "open3d" not in sys.modules:
        _preload_libusb()
    try:
        import open3d
    except ImportError as error:
        hint = "'pip install open3d'"
        if "libusb" in str(error):
            hint = "the system's libusb-1.0 or 'pip install libusb-package'"
        raise ImportError(f"Open3D cannot be imported ({error}); install {hint}") from error
    return open3d


def is_open3d(value: object, name: str, *, tensor: bool) -> bool:
    """Whether ``value`` is Open3D's legacy (or tensor) class ``name``; imports nothing."""
    kind = type(value)
    is_tensor = ".t.geometry" in kind.__module__
    return kind.__module__.startswith("open3d.") and kind.__name__ == name and is_tensor == tensor
