"""``permutogeo info``: versions and devices."""

import json
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from permutogeo import __version__
from permutogeo.cli.console import report_errors


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print versions, devices, threads and the kernel cache, for bug reports."""
    with report_errors():
        report = environment()
        if as_json:
            typer.echo(json.dumps(report, indent=2))
        else:
            _print_table(report)


def _print_table(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in report.items():
        text = ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
        table.add_row(name.replace("_", " "), Text(text))
    Console().print(table)


def environment() -> dict[str, Any]:
    """Return versions, devices, threads and the kernel cache."""
    from importlib import metadata

    import torch

    report: dict[str, Any] = {
        "permutogeo": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": metadata.version("torch-geometric"),
        "numpy": metadata.version("numpy"),
        "platform": platform.platform(),
        "cpu": _cpu_name(),
        "cpu_count": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "cuda_devices": [
            torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())
        ],
    }
    return report | _warp_report()


def _warp_report() -> dict[str, Any]:
    """Return versions and devices of Warp; a failed start is reported, not raised."""
    try:
        from permutogeo.runtime import bridge

        versions = bridge.versions()
    except (ImportError, OSError, RuntimeError) as error:
        return {"warp": f"not available: {error}"}
    cache = Path(versions["kernel_cache_dir"])
    return {
        "warp": versions["warp"],
        "warp_cuda_toolkit": versions.get("cuda_toolkit", "unknown"),
        "warp_devices": [str(device) for device in versions["devices"]],
        "kernel_cache_dir": str(cache),
        "kernel_cache_mb": round(_size(cache) / 1e6, 1),
    }


def _size(folder: Path) -> int:
    """Return the total size of the files in a folder, in bytes."""
    total = 0
    for parent, _, names in os.walk(folder):  # without those that another process removes
        for name in names:
            with suppress(FileNotFoundError):
                total += os.stat(os.path.join(parent, name)).st_size
    return total


def _cpu_name() -> str:
    """Return the model name of the CPU, on Linux from /proc/cpuinfo."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
