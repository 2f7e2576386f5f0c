"""Images with guides and low-resolution inputs, for guided upsampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from scipy import ndimage
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Dataset

Sample = dict[str, Any]


class GuidedSamples(Dataset):
    r"""Images, their guides, and their means over blocks, to be upsampled along the guides.

    Args:
        pairs: Pairs of a target :math:`(C, H, W)` and a guide :math:`(G, H, W)`.
        factor: The upsampling factor.
        multiple: Sizes are cropped to multiples of it, so that all factors see the same pixels.
        side: Side of the center crop; by default the whole image.
        missing: The value of unknown target pixels, which become 0. Means are over the known pixels
            of a block; blocks without any have the value of the nearest block with one.

    Each sample has its ``number``, ``small`` :math:`(C, H / factor, W / factor)`, ``guide``,
    ``target``, and ``known``, 1 for known target pixels and otherwise 0.

    Example:
        >>> import torch
        >>> from permutogeo.datasets import GuidedSamples
        >>> pairs = [(torch.rand(3, 40, 50), torch.rand(1, 40, 50))]
        >>> GuidedSamples(pairs, factor=4)[0]["small"].shape
        torch.Size([3, 8, 12])
    """

    def __init__(
        self,
        pairs: Sequence[tuple[Tensor, Tensor]],
        factor: int,
        multiple: int = 16,
        side: int | None = None,
        missing: float = math.nan,
    ):
        if factor < 1 or multiple % factor:
            raise ValueError(
                f"GuidedSamples: Expected a 'factor' that divides 'multiple' "
                f"(got {factor} and {multiple})"
            )
        self.pairs, self.factor, self.multiple = pairs, factor, multiple
        self.side, self.missing = side, missing

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, i: int) -> Sample:
        target, guide = (self._cut(image) for image in self.pairs[i])
        unknown = target.isnan() if math.isnan(self.missing) else target == self.missing
        target, known = target.masked_fill(unknown, 0.0), (~unknown).float()
        mean, share = (functional.avg_pool2d(x, self.factor) for x in (target, known))
        small = fill_unknown(mean / share.clamp_min(1e-6), share > 0)
        return {"number": i, "small": small, "guide": guide, "target": target, "known": known}

    def _cut(self, image: Tensor) -> Tensor:
        sizes = [min(n, self.side or n) // self.multiple * self.multiple for n in image.shape[1:]]
        top, left = ((n - size) // 2 for n, size in zip(image.shape[1:], sizes, strict=True))
        return image[:, top : top + sizes[0], left : left + sizes[1]].contiguous()


class RandomParts(Dataset):
    """Random crops of guided samples, mirrored at random.

    Args:
        samples: Samples as of :class:`GuidedSamples`.
        factor: Their upsampling factor.
        side: Side of the crops in pixels of the target.
    """

    def __init__(self, samples: Any, factor: int, side: int):
        self.samples, self.factor, self.side = samples, factor, side

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> Sample:
        sample = dict(self.samples[i])
        small, factor = sample["small"], self.factor
        sizes = [min(n, self.side // factor) for n in small.shape[1:]]
        top, left = (
            int(torch.randint(n - size + 1, ()))
            for n, size in zip(small.shape[1:], sizes, strict=True)
        )
        mirrored = bool(torch.rand(()) < 0.5)
        for name in ("small", "guide", "target", "known"):
            step = 1 if name == "small" else factor
            rows, columns = (slice(step * at, step * (at + size)) for at, size in
                             zip((top, left), sizes, strict=True))  # fmt: skip
            part = sample[name][:, rows, columns]
            sample[name] = part.flip(2) if mirrored else part.contiguous()
        return sample


def fill_unknown(image: Tensor, known: Tensor) -> Tensor:
    """Fill unknown pixels of an image ``[C, H, W]`` with the value of the nearest known one."""
    if known.all():
        return image
    _, rows, columns = ndimage.distance_transform_edt(
        ~known.numpy(), sampling=(1e6, 1, 1), return_distances=False, return_indices=True
    )
    return image[torch.arange(len(image)).view(-1, 1, 1), rows, columns]
