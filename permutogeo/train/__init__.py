"""Training: trainer, losses, metrics, checkpoints, schedules and search."""

from permutogeo.train.checkpoint import load_state, load_weights, save_state, save_weights
from permutogeo.train.log import draw_curve, write_csv
from permutogeo.train.losses import logistic, logistic_step, mse, mse_step
from permutogeo.train.metrics import Confusion, Mean, Metric, confusion, scores
from permutogeo.train.process_group import is_main_process
from permutogeo.train.run_folder import Checkpoints
from permutogeo.train.schedules import cosine, drops, one_cycle
from permutogeo.train.search import SearchResult, grid_search, hold_out, scale_search
from permutogeo.train.trainer import Trainer

__all__ = [
    "Checkpoints",
    "Confusion",
    "Mean",
    "Metric",
    "SearchResult",
    "Trainer",
    "confusion",
    "cosine",
    "draw_curve",
    "drops",
    "grid_search",
    "hold_out",
    "is_main_process",
    "load_state",
    "load_weights",
    "logistic",
    "logistic_step",
    "mse",
    "mse_step",
    "one_cycle",
    "save_state",
    "save_weights",
    "scale_search",
    "scores",
    "write_csv",
]
