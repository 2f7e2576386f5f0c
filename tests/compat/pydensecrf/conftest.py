"""The two packages side by side, and random programs for them."""

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

OURS = "permutogeo.compat.pydensecrf"
KINDS = ("number", "vector", "matrix")


def modules(package):
    names = ("densecrf", "utils", "eigen")
    return SimpleNamespace(**{name: importlib.import_module(f"{package}.{name}") for name in names})


@pytest.fixture(scope="session")
def ours():
    return modules(OURS)


@pytest.fixture(scope="session")
def theirs():
    pytest.importorskip("pydensecrf", reason="the reference is built by pip install pydensecrf2")
    return modules("pydensecrf")


def make_compat(rng, labels, kind):
    """Mostly attractive: labels that repel each other make mean field swing, which amplifies the
    last bits of both packages."""
    if kind == "number":
        return float(rng.uniform(-1, 5))
    if kind == "vector":
        return rng.uniform(-4, 0.5, labels).astype(np.float32)
    return (rng.normal(size=(labels, labels)) - 3 * np.eye(labels)).astype(np.float32)


def image_term(rng, height, width, common):
    sxy = tuple(rng.uniform(0.5, 8, 2)) if rng.random() < 0.5 else int(rng.integers(1, 6))
    if rng.random() < 0.5:
        return "addPairwiseGaussian", {"sxy": sxy, **common}
    srgb = tuple(rng.uniform(5, 60, 3)) if rng.random() < 0.5 else 13
    image = rng.integers(0, 256, (height, width, 3)).astype(np.uint8)
    return "addPairwiseBilateral", {"sxy": sxy, "srgb": srgb, "rgbim": image, **common}


def feature_term(rng, points, common):
    """Features anywhere, or on a grid, where rounding decides between simplices."""
    shape = (int(rng.integers(1, 7)), points)
    if rng.random() < 0.5:
        feature = rng.normal(size=shape) * rng.uniform(0.1, 3)
    else:
        feature = rng.integers(-6, 6, shape) / rng.integers(1, 5)
    return "addPairwiseEnergy", {"features": feature.astype(np.float32), **common}


def make_program(seed):
    """A CRF and calls on it: ``make(densecrf)`` and ``[(method, arguments)]``."""
    rng = np.random.default_rng(seed)
    labels = (1, 2, 3, 7, 21)[seed % 5]
    height, width = (int(size) for size in rng.integers(1, 25, 2))
    on_image, points = bool(seed % 2), height * width
    calls = []
    for _ in range(rng.integers(0, 4)):
        common = {
            "compat": make_compat(rng, labels, KINDS[rng.integers(3)]),
            "kernel": int(rng.integers(3)),
            "normalization": int(rng.integers(4)),
        }
        if on_image and rng.random() < 0.7:
            calls.append(image_term(rng, height, width, common))
        else:
            calls.append(feature_term(rng, points, common))
    for _ in range(rng.choice([0, 1, 1, 1, 1, 2])):
        energy = (rng.normal(size=(labels, points)) * rng.uniform(0.1, 5)).astype(np.float32)
        calls.insert(rng.integers(len(calls) + 1), ("setUnaryEnergy", {"u": energy}))

    def make(densecrf):
        if on_image:
            crf = densecrf.DenseCRF2D(width, height, labels)
        else:
            crf = densecrf.DenseCRF(points, labels)
        for method, arguments in calls:
            getattr(crf, method)(**arguments)
        return crf

    return make, calls


@pytest.fixture(scope="session")
def program():
    return make_program
