"""Denoising of meshes and point clouds.

:func:`denoise` is the function behind ``permutogeo denoise``; :class:`MeshDenoiser` is its learned
filter, and :func:`train_denoiser` trains one. In reading order: ``methods`` (the public function),
``mesh_denoiser`` (the model), ``cascade`` (the surface between stages), ``normal_filter`` (one
stage), ``triangles``, ``points``, ``scales`` and ``vertex_update`` (geometry of meshes and clouds),
``noise_estimate``, ``patterns`` and ``safety`` (what is left alone), ``report``, ``training``,
``training_surfaces`` and ``noise`` (training), ``mesh_error`` (evaluation). Clouds have a denoiser
of their own: ``cloud_denoiser`` (the model), ``cloud_noise`` (noise estimate and outliers),
``cloud_stage`` (one stage), ``local_fits`` (planes and quadrics), ``cloud_training`` and
``surface_sampling`` (training), ``cloud_error`` (evaluation).

>>> import torch
>>> from torch_geometric.data import Data
>>> from permutogeo.denoising import denoise
>>> face = torch.tensor([[0, 0, 0, 1], [1, 2, 3, 3], [2, 3, 1, 2]])
>>> denoise(Data(pos=torch.eye(4)[:, :3], face=face), method="smooth")
Data(pos=[4, 3], face=[3, 4])
"""

from permutogeo.denoising.cloud_denoiser import CloudDenoiser, CloudReport
from permutogeo.denoising.cloud_error import chamfer_distance, point_mesh_distance
from permutogeo.denoising.cloud_training import CloudTrainingSettings, train_cloud_denoiser
from permutogeo.denoising.mesh_denoiser import MeshDenoiser
from permutogeo.denoising.mesh_error import (
    normal_angle,
    surface_distance,
    vertex_distance,
    vertex_rmse,
)
from permutogeo.denoising.methods import METHODS, denoise
from permutogeo.denoising.report import DenoiseReport
from permutogeo.denoising.training import FINE_TUNING, evaluate_denoiser, train_denoiser
from permutogeo.denoising.training_surfaces import TrainingSettings

__all__ = [
    "FINE_TUNING",
    "METHODS",
    "CloudDenoiser",
    "CloudReport",
    "CloudTrainingSettings",
    "DenoiseReport",
    "MeshDenoiser",
    "TrainingSettings",
    "chamfer_distance",
    "denoise",
    "evaluate_denoiser",
    "normal_angle",
    "point_mesh_distance",
    "surface_distance",
    "train_cloud_denoiser",
    "train_denoiser",
    "vertex_distance",
    "vertex_rmse",
]
