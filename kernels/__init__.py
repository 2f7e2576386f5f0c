"""Warp kernels of the lattice, one file per operation, free of torch.

A file offers ``make(...)``: a cached factory that returns the kernels of that operation for one
dimension, scalar type or key width, grouped in one Warp module so that they compile together.

Every kernel takes ``start`` first and adds it to its thread index, so that a CPU launch can be cut
into pieces, and writes only what its own index owns.
"""
