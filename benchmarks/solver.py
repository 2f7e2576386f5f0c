"""The bilateral solver on a megapixel, beside the filter."""

from __future__ import annotations

import torch

from permutogeo.benchmarks.timing import in_turn, ms, table
from permutogeo.benchmarks.workloads import image_features
from permutogeo.functional import gaussian_filter
from permutogeo.lattice import Lattice
from permutogeo.solvers import SolveReport, bilateral_solve


def solver(quick: bool = False) -> None:
    """Time the solver on one megapixel with three channels, lattice included."""
    rows = []
    for kind in ("clean", "noisy"):
        feature, x = image_features(64 if quick else 1024, kind == "noisy")
        for share, lam in ((1.0, 1.0), (1.0, 30.0), (0.01, 1.0)):
            generator = torch.Generator().manual_seed(0)
            confidence = (torch.rand(len(x), generator=generator) < share).float()
            report: list[SolveReport] = []

            def solve(
                feature=feature, x=x, confidence=confidence, lam=lam, report=report
            ) -> torch.Tensor:
                lattice = Lattice.build(feature)
                return bilateral_solve(x, confidence, None, None, lam, lattice=lattice,
                                       report=report)  # fmt: skip

            calls = {"solver": solve, "filter": lambda f=feature, v=x: gaussian_filter(v, f)}
            found = in_turn(calls, 1 if quick else 5)
            rows.append([
                f"{kind}, {share:.0%} known, lam {lam:g}", ms(found["filter"]), ms(found["solver"]),
                str(report[-1].iterations), f"{report[-1].residual:.1e}",
            ])  # fmt: skip
    columns = ["image", "filter ms", "solver ms", "iterations", "residual"]
    table("Bilateral solver, one megapixel, three channels, with the lattice", columns, rows)
