"""Warp kernels, one file per operation, free of torch.

``make(...)`` is a cached factory: it returns the kernels of one operation for one dimension, scalar
type or key width, in one Warp module that is compiled as a whole.

Launch contract of every kernel: ``start`` comes first and is added to the thread index, so that a
CPU launch can be split over threads, and a thread writes only what its own index owns.
"""
