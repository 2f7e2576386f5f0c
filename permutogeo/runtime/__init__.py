"""Devices, threads and memory: the only seam between torch and Warp.

- :mod:`~permutogeo.runtime.bridge`: kernel compilation, array descriptors and launches.
- :mod:`~permutogeo.runtime.threads`: a persistent thread pool for work that releases the GIL.
- :mod:`~permutogeo.runtime.memory`: allocation with huge pages, and the workspace limit.

Nothing here knows about lattices.
"""
