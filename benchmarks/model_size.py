"""Sizes of networks: parameters, and multiplications of a forward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch_geometric.nn import Linear

from permutogeo import Lattice
from permutogeo.nn import BilateralConv, LatticeConv


def count_parameters(model: torch.nn.Module) -> int:
    """Return the number of parameters."""
    return sum(parameter.numel() for parameter in model.parameters())


@torch.no_grad()
def operations(model: torch.nn.Module, call: Callable[[Any], object]) -> float:
    """Return the millions of multiplications in the filters, absent neighbors included.

    Args:
        model: The network.
        call: Calls the network with a batch.
    """
    total = []

    def spatial(layer: Any, inputs: Any, out: torch.Tensor) -> None:
        total.append(out.numel() * layer.weight[0].numel())

    def on_lattice(layer: Any, inputs: Any, out: torch.Tensor) -> None:
        lattice = inputs[-1]
        if lattice is None:  # a first layer builds one
            _, feature, batch, _ = inputs
            if isinstance(feature, torch.Tensor):
                lattice = Lattice.build(feature, batch)
            else:
                lattice, _ = Lattice.build_bipartite(*feature, *batch)
        total.append(lattice.num_vertices * layer.filter_weight.numel())

    kinds = {torch.nn.Conv2d: spatial, torch.nn.Linear: spatial, Linear: spatial}
    kinds |= {LatticeConv: on_lattice, BilateralConv: on_lattice}
    hooks = [
        module.register_forward_hook(count)
        for module in model.modules()
        for kind, count in kinds.items()
        if isinstance(module, kind)
    ]
    was_training = model.training
    call(model.eval())
    model.train(was_training)
    for hook in hooks:
        hook.remove()
    return sum(total) / 1e6
