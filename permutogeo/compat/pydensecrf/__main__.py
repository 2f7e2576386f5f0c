"""Run a script with this package in place of ``pydensecrf``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from permutogeo.compat.pydensecrf import install


def main(arguments: list[str]) -> None:
    """Run ``script.py args...``."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print("Usage: python -m permutogeo.compat.pydensecrf script.py [args...]")
        sys.exit(0 if arguments else 2)
    script = Path(arguments[0])
    if not script.is_file():
        sys.exit(f"Expected the path of a script (got '{script}')")
    install()
    sys.argv = arguments
    sys.path[0] = str(script.resolve().parent)
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
