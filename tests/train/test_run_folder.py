import csv

import numpy as np
import pytest
import torch
from PIL import Image

from permutogeo.train import Checkpoints, Trainer


def test_files(tmp_path, loader, make_model):
    rows = Trainer(make_model(), epochs=3, checkpoints=tmp_path / "run").fit(loader, loader)
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names == ["best.safetensors", "curve.png", "last.safetensors", "log.csv"]
    with open(tmp_path / "run" / "log.csv", newline="") as file:
        table = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    assert table == rows
    assert list(rows[0]) == ["epoch", "steps", "seconds", "lr", "train_loss", "val_loss"]
    with Image.open(tmp_path / "run" / "curve.png") as picture:
        assert min(picture.size) > 100 and np.asarray(picture.convert("L")).std() > 5


class Crash(Exception):
    pass


def test_without_resume_a_run_begins_anew(tmp_path, loader, make_model, same_rows):
    first = Trainer(make_model(), epochs=2, checkpoints=tmp_path).fit(loader)
    again = make_model()
    rows = Trainer(again, epochs=2, checkpoints=tmp_path).fit(loader)
    same_rows(rows, first)

    def fail(model, batch):
        raise Crash

    with pytest.raises(Crash):
        Trainer(make_model(), fail, epochs=2, checkpoints=tmp_path).fit(loader)
    # Nothing is left that a later run could take for its own.
    assert list(tmp_path.iterdir()) == []


def test_another_run_is_not_continued(tmp_path, loader, make_model):
    Trainer(make_model(), epochs=1, checkpoints=tmp_path, seed=3).fit(loader)
    with pytest.raises(ValueError, match=r"last.safetensors': Expected 'seed' of 3.*got 4"):
        Trainer(make_model(), seed=4, checkpoints=Checkpoints(tmp_path, resume=True)).fit(loader)
    with pytest.raises(ValueError, match="Expected the weights of Linear"):
        Trainer(torch.nn.Linear(3, 1), seed=3, checkpoints=Checkpoints(tmp_path, resume=True)).fit(
            loader
        )
    with pytest.raises(ValueError, match="Expected 'optimizer' of 'SGD'"):
        Trainer(
            make_model(), optimizer="adam", seed=3, checkpoints=Checkpoints(tmp_path, resume=True)
        ).fit(loader)
