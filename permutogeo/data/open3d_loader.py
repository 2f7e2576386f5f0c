"""Import of Open3D and of the libusb that its wheel lacks."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType


def _preload_libusb() -> None:
    """Load libusb from its own wheel if the system has none, visible to later libraries."""
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
    """Import and return Open3D; raises an ``ImportError`` that says what to install.

    Open3D links against ``libusb-1.0``, which its wheel does not include. Import it through this
    function only, and when needed: it takes seconds.
    """
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
    """Whether ``value`` is Open3D's legacy or tensor class ``name``, without importing Open3D."""
    kind = type(value)
    is_tensor = ".t.geometry" in kind.__module__
    return kind.__module__.startswith("open3d.") and kind.__name__ == name and is_tensor == tensor
