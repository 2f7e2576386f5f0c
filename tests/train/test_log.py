import numpy as np
from PIL import Image

from permutogeo.train import Trainer, draw_curve, write_csv


def test_no_noise(capfd, loader, make_model):
    Trainer(make_model(), epochs=1).fit(loader, loader)
    assert capfd.readouterr() == ("", "")
    Trainer(make_model(), epochs=1, progress=True, report=print).fit(loader)
    out, err = capfd.readouterr()
    assert out.startswith("{'epoch': 1") and "epoch 1/1" in err


def test_a_table_has_the_columns_of_all_rows(tmp_path):
    write_csv([{"a": 1, "b": 0.5}, {"a": 2, "c": "x, y"}], tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == 'a,b,c\n1,0.5,\n2,,"x, y"\n'


def test_a_panel_for_the_losses_and_one_for_each_metric(tmp_path):
    rows = [{"epoch": i, "lr": 0.1, "train_loss": 1 / i, "val_loss": 2 / i} for i in (1, 2, 3)]
    widths = []
    for metrics in ({}, {"accuracy": 0.5}, {"accuracy": 0.5, "mean_iou": 0.4}):
        path = tmp_path / f"{len(metrics)}.png"
        draw_curve([{**row, **metrics} for row in rows], path)
        with Image.open(path) as picture:
            widths.append(picture.width)
            assert np.asarray(picture.convert("L")).std() > 5
    assert widths == [540, 1080, 1620]
