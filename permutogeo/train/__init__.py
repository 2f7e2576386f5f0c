"""Training: one trainer for all experiments, with losses, metrics, checkpoints and search."""

from permutogeo.train._team import is_main_process
from permutogeo.train.checkpoint import load_state, load_weights, save_state, save_weights
from permutogeo.train.log import draw_curve, write_csv
from permutogeo.train.losses import logistic, logistic_step, mse, mse_step
from permutogeo.train.metrics import Confusion, Mean, Metric, confusion, scores
from permutogeo.train.schedules import cosine, drops, one_cycle
from permutogeo.train.search import SearchResult, grid_search, hold_out, scale_search
from permutogeo.train.trainer import Trainer

__all__ = [
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
