"""Lattices over clouds that are distributed over the ranks of a process group."""

from permutogeo.distributed.partition import Partition, partition
from permutogeo.distributed.sharded_incidence import ShardedIncidence
from permutogeo.distributed.sharded_lattice import ShardedLattice

__all__ = ["Partition", "ShardedIncidence", "ShardedLattice", "partition"]
