"""``permutogeo warmup``: compilation of kernels ahead of their first use."""

from typing import Annotated

import typer

from permutogeo.cli.console import note_loading, report_errors, say
from permutogeo.cli.options import Device

DTYPES = ("float32", "float64")


def warmup(
    dims: Annotated[str, typer.Option(help="Feature dimensions, separated by commas.")],
    dtype: Annotated[str, typer.Option(help="float32, float64 or float32,float64.")] = "float32",
    device: Device = "cpu",
    labels: Annotated[
        str, typer.Option(help="Numbers of labels of dense CRFs, separated by commas.")
    ] = "",
) -> None:
    """Compile kernels into the cache before their first use.

    Example:

    \b
    permutogeo warmup --dims 2,5 --labels 21
    """
    dim_list = _parse_counts("--dims", dims)
    label_list = _parse_counts("--labels", labels) if labels else ()
    dtype_list = _parse_dtypes(dtype)
    note_loading()
    import permutogeo

    with report_errors():
        permutogeo.warmup(
            dim_list,
            dtypes=dtype_list,
            device=device,
            on_progress=lambda label: say(f"compiling {label}"),
            labels=label_list,
        )


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
