import numpy as np
import pytest
import torch

from permutogeo.ops.stencils import gaussian, stencil

OFFSETS = stencil(2, 1).numpy()


def respond(lattice, x, weight):
    """Splat, convolve and slice by the float64 reference."""
    return lattice.slice(lattice.convolve(lattice.splat(x), weight, OFFSETS))


def gaussian_response(lattice, x):
    return respond(lattice, x, np.asarray(gaussian(2, 1, "full"), np.float64)[:, None, None])


@pytest.fixture
def reference():
    """A convolution and the Gaussian on the reference lattice, in two dimensions."""
    return respond, gaussian_response


def make_drawings(count=3, extent=20.0, dtype=torch.float64):
    sizes = torch.tensor([40 + 5 * i for i in range(count)])
    feature = extent * torch.rand(int(sizes.sum()), 2, dtype=dtype)
    return (
        torch.rand(len(feature), 1, dtype=dtype),
        feature,
        torch.arange(count).repeat_interleave(sizes),
    )


@pytest.fixture
def drawings():
    """Values, features and graphs of a batch of sparse drawings."""
    return make_drawings
