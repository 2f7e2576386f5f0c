"""Image denoisers of scikit-image and OpenCV."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

Function = Callable[..., np.ndarray]


class ImageDenoiser(torch.nn.Module):
    """A filter of another library on the pixels of an image.

    Args:
        function: Called with the image ``[H, W]`` and the settings.
        settings: Settings by name.
    """

    def __init__(self, function: Function, settings: Mapping[str, float]):
        super().__init__()
        self.function, self.settings = function, dict(settings)

    def forward(self, data: Data) -> torch.Tensor:
        """Return the intensities ``[H W, 1]`` of an image with ``x``, ``height`` and ``width``."""
        # Other libraries expect intensities from 0 to 1.
        image = data.x.view(data.height, data.width).clamp(0, 1).numpy()
        out = np.asarray(self.function(image, **self.settings), np.float32)
        return torch.from_numpy(out).reshape(-1, 1)


def image_denoisers(sigma: float) -> dict[str, tuple[Function, dict[str, float]]]:
    """Return functions and initial settings by name, for the libraries that are installed.

    Args:
        sigma: Standard deviation of the noise, of intensities from 0 to 1.
    """
    found: dict[str, tuple[Any, dict[str, float]]] = {}
    if importlib.util.find_spec("skimage"):
        from skimage.restoration import denoise_bilateral, denoise_nl_means

        def bilateral(image: np.ndarray, pos: float, intensity: float) -> np.ndarray:
            return denoise_bilateral(image, sigma_color=intensity, sigma_spatial=pos)

        def means(image: np.ndarray, h: float) -> np.ndarray:
            return denoise_nl_means(image, h=h, sigma=sigma, fast_mode=True)

        found["scikit-image bilateral"] = bilateral, {"pos": 1.5, "intensity": 0.25}
        found["scikit-image non-local means"] = means, {"h": 0.8 * sigma}
    if importlib.util.find_spec("cv2"):
        import cv2

        def cv_bilateral(image: np.ndarray, pos: float, intensity: float) -> np.ndarray:
            return cv2.bilateralFilter(image, -1, intensity, pos)

        def cv_means(image: np.ndarray, h: float) -> np.ndarray:
            return cv2.fastNlMeansDenoising(np.rint(255 * image).astype(np.uint8), h=h) / 255

        found["OpenCV bilateral"] = cv_bilateral, {"pos": 1.5, "intensity": 0.25}
        found["OpenCV non-local means"] = cv_means, {"h": 25.0}
    return found
