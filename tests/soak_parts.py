"""Computations of the soak, each a function of its seed alone: ``PARTS[name](seed)``."""

import numpy as np
import torch


def sample(seed, count=400, dim=3, dtype=torch.float32):
    """Return values and features of a random cloud."""
    draw = {"generator": torch.Generator().manual_seed(seed), "dtype": dtype}
    return torch.randn(count, 4, **draw), 4 * torch.rand(count, dim, **draw)


def layer(seed, count=400):
    """Return a learned convolution of a random cloud."""
    from permutogeo.lattice import Lattice

    x, feature = sample(seed, count)
    weight = torch.randn(15, 4, 4, generator=torch.Generator().manual_seed(seed))
    lattice = Lattice.build(feature)
    return lattice.slice(lattice.convolve(lattice.splat(x), weight))


def _weights(module, seed):
    """Give a module weights that depend on the seed alone, on any thread."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    return module.double().eval()


def _gradients(module, loss):
    parameters = [each for each in module.parameters() if each.requires_grad]
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return torch.cat(
        [loss.detach().view(1), *(each.flatten() for each in found if each is not None)]
    )


def transformer(seed):
    """Return the gradients of a network with attention, max pooling and a learned slice."""
    from permutogeo.models import BilateralTransformer

    x, feature = sample(seed, dtype=torch.float64)
    model = _weights(BilateralTransformer(4, 8, 3, dim=3, depth=1), seed)
    return _gradients(model, model(x, feature).square().mean())


def crf(seed):
    """Return the marginals of a dense CRF, in its fused form."""
    from permutogeo.nn import DenseCRF, GaussianKernel

    x, feature = sample(seed, 2000, 5)
    with torch.no_grad():
        return DenseCRF(4, [GaussianKernel(5, 1.0, 3.0)])(x, [feature]).double()


def solver(seed):
    """Return the solution of the bilateral solver, and its gradient."""
    from permutogeo.nn import BilateralSolver

    x, feature = sample(seed, dtype=torch.float64)
    module = BilateralSolver(3, learn_lam=True, tolerance=1e-12).double()
    return _gradients(module, module(x, x[:, 0].abs() + 0.1, feature).square().mean())


def voxels(seed):
    """Return the gradients of strided sparse convolutions with the interface of spconv."""
    import permutogeo.compat.spconv.pytorch as spconv

    generator = torch.Generator().manual_seed(seed)
    indices = (torch.rand(2, 9, 10, 8, generator=generator) < 0.3).nonzero().int()
    x = torch.randn(len(indices), 4, generator=generator, dtype=torch.float64)
    down = spconv.SparseConv3d(4, 6, 3, 2, 1, indice_key="down")
    layers = spconv.SparseSequential(
        spconv.SubMConv3d(4, 4, 3), down, spconv.SparseInverseConv3d(6, 4, 3, indice_key="down")
    )
    _weights(layers, seed)
    out = layers(spconv.SparseConvTensor(x, indices, [9, 10, 8], 2))
    return _gradients(layers, out.features.square().mean())


def encoding(seed):
    """Return the gradients of a hash encoding."""
    from permutogeo.nn import PermutohedralEncoding

    _, position = sample(seed, dtype=torch.float64)
    module = _weights(PermutohedralEncoding(3, num_levels=4, table_size=2**10), seed)
    return _gradients(module, module(position / 4).square().mean())


def drop_in(seed, height=120, width=160):
    """Return the marginals of the drop-in for pydensecrf, at the size of a small photograph."""
    import permutogeo.compat.pydensecrf.densecrf as dcrf

    rng = np.random.default_rng(seed)
    model = dcrf.DenseCRF2D(width, height, 4)
    model.setUnaryEnergy(rng.random((4, height * width), np.float32))
    model.addPairwiseGaussian(sxy=3, compat=3)
    image = rng.integers(0, 256, (height, width, 3), np.uint8)
    model.addPairwiseBilateral(sxy=40, srgb=13, rgbim=image, compat=5)
    return torch.from_numpy(np.array(model.inference(3))).double()


PARTS = {
    part.__name__: part for part in (layer, transformer, crf, solver, voxels, encoding, drop_in)
}


def difference(found, expected):
    """Return the largest difference, relative to the largest number."""
    if found.shape != expected.shape:
        return float("inf")
    return float((found - expected).abs().max() / expected.abs().max().clamp_min(1e-30))
