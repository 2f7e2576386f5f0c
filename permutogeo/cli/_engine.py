"""The commands about the engine itself: ``info``, ``warmup`` and ``bench``."""

import json
import os
import platform
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from permutogeo._version import __version__

DTYPES = ("float32", "float64")


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print versions, devices, threads and the kernel cache: what a bug report needs."""
    report = _environment()
    if as_json:
        typer.echo(json.dumps(report, indent=2))
        return

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


def warmup(
    dims: Annotated[str, typer.Option(help="Feature dimensions, separated by commas.")],
    dtype: Annotated[str, typer.Option(help="float32, float64 or both.")] = "float32",
    device: Annotated[str, typer.Option(help="Where the kernels will run: cpu, cuda:0, …")] = "cpu",
    labels: Annotated[
        str, typer.Option(help="Numbers of labels of dense CRFs over such features.")
    ] = "",
) -> None:
    """Compile the kernels ahead of their first use."""
    dim_list = _parse_counts("--dims", dims)
    label_list = _parse_counts("--labels", labels) if labels else ()
    dtype_list = _parse_dtypes(dtype)

    from rich.console import Console

    import permutogeo

    console = Console()

    def on_progress(label: str) -> None:
        console.print(f"compiling {label}", markup=False, highlight=False)

    try:
        with console.status(f"Compiling for {device}"):
            permutogeo.warmup(
                dim_list,
                dtypes=dtype_list,
                device=device,
                on_progress=on_progress,
                labels=label_list,
            )
    except (ValueError, RuntimeError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="What to time: all of it if not given.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, to see it work.")] = False,
) -> None:
    """Time the engine beside its peers: bilateral, building, convolution, paper, operators, ...

    Peers that are not installed are left out: pip install 'permutogeo[bench]'.
    """
    from permutogeo.benchmarks import BENCHMARKS, run

    unknown = [name for name in names or () if name not in BENCHMARKS]
    if unknown:
        raise typer.BadParameter(
            f"Expected some of {', '.join(BENCHMARKS)} (got {', '.join(unknown)})",
            param_hint="NAMES",
        )
    run(names or list(BENCHMARKS), quick)


def _parse_counts(option: str, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(
            f"Expected positive integers separated by commas, such as 2,3,5 (got {text!r})",
            param_hint=option,
        )
    return tuple(dict.fromkeys(map(int, parts)))


def _parse_dtypes(text: str) -> tuple[str, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part in DTYPES for part in parts):
        raise typer.BadParameter(
            f"Expected {' or '.join(DTYPES)}, or both separated by a comma (got {text!r})",
            param_hint="--dtype",
        )
    return tuple(dict.fromkeys(parts))


def _environment() -> dict[str, Any]:
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
    """Say what is wrong where Warp does not start: that is when a report is wanted most."""
    try:
        from permutogeo import _warp

        versions = _warp.versions()
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
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # another process may be tidying up
            total += path.stat().st_size if path.is_file() else 0
    return total


def _cpu_name() -> str:
    """Read the model name where Linux keeps it; elsewhere what the platform says."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
