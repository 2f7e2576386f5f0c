"""PyG datasets, one class a file, imported as ``permutogeo.datasets``."""
