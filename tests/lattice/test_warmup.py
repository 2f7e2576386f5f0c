import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import permutogeo as pg

ROOT = Path(__file__).parents[2]


def test_labels():
    labels = []
    pg.warmup([1], ["float32", "float64"], on_progress=labels.append)
    assert labels == ["1-D, float32", "1-D, float64"]


def test_several_dimensions():
    labels = []
    pg.warmup((1, 2), on_progress=labels.append)
    assert labels == ["1-D, float32", "2-D, float32"]


def test_dimensions_from_an_iterator_serve_every_type():
    labels = []
    pg.warmup(iter([1, 2]), iter(["float32", "float64"]), on_progress=labels.append)
    assert len(labels) == 4


def test_without_progress():
    assert pg.warmup([1]) is None


def test_works_without_gradients():
    with torch.no_grad():
        pg.warmup([1])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0],), ValueError, r"'dims' of at least 1 \(got 0\)"),
        (([2, -1],), ValueError, r"'dims' of at least 1 \(got -1\)"),
        (([1], ["float16"]), ValueError, r"'dtypes' of 'float32' and 'float64' \(got 'float16'\)"),
        (([1], "float32"), TypeError, r"'dtypes'"),
        ((["2"],), (TypeError, ValueError), r"'dims'"),
        ((3,), (TypeError, ValueError), r"'dims'"),
        (([1], ["float32"], "cpu", None, [0]), ValueError, r"'labels' of at least 1 \(got 0\)"),
        (([1], ["float32"], "cuda:77"), (ValueError, RuntimeError), r"cuda|CUDA"),
    ],
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        pg.warmup(*arguments)


def test_bad_arguments_are_refused_before_anything_compiles():
    labels = []
    with pytest.raises(ValueError, match="'float16'"):
        pg.warmup([1], ["float32", "float16"], on_progress=labels.append)
    assert labels == []


AFTERWARDS = """
import sys
import torch, warp
import permutogeo as pg, permutogeo.nn

pg.warmup([1], labels=[5])
build = warp._src.build.build_cpu
compiled = []

def count(path, *args, **options):
    compiled.append(path)
    return build(path, *args, **options)

warp._src.build.build_cpu = count
feature = (torch.rand(300, 1) * 5).requires_grad_()
other = torch.rand(10, 1, requires_grad=True)
lattice, at = pg.Lattice.build_bipartite(feature, other)
x = torch.rand(300, 4, requires_grad=True)
values = lattice.blur(lattice.splat(x))
values = lattice.convolve(values, torch.rand(3, 4, 2, requires_grad=True))
values = lattice.convolve(values, torch.rand(3, 1, 2, requires_grad=True), groups=2)
values = lattice.convolve(values, torch.rand(3, requires_grad=True), shared=True)
out = lattice.slice(values, at).sum() + lattice.slice(values).sum()
out = out + lattice.slice(values, lattice.locate(other)).sum()
out.backward(create_graph=True)
feature.grad.square().sum().backward()
coarse, at = lattice.coarsen()
coarse.splat(values.detach(), at=at)
pg.functional.gaussian_filter(x.detach(), feature.detach())
pg.functional.gaussian_filter(torch.rand(30000, 3), torch.rand(30000, 1) * 5)
crf = pg.nn.DenseCRF(5, [pg.nn.GaussianKernel(1)], num_steps=2)
with torch.no_grad():
    crf(torch.rand(30000, 5), [torch.rand(30000, 1)])
print(compiled)
"""


def test_nothing_is_left_to_compile(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", AFTERWARDS],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "WARP_CACHE_PATH": str(tmp_path / "cache")},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"
