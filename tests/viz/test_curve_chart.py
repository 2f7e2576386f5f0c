import numpy as np
import pytest
from PIL import Image

from permutogeo.viz import curve_chart

CURVES = {"a": [(1, 0.1), (2, 0.5)], "b": [(1, 0.2)]}


def pixels(path):
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"), np.int64)


def test_curves_level_and_styles_are_drawn(tmp_path):
    first = pixels(curve_chart(tmp_path / "1.png", CURVES, "epoch", "accuracy"))
    for options in ({"level": 0.3}, {"log": True}, {"styles": {"a": {"color": "C3"}}}):
        other = pixels(curve_chart(tmp_path / "2.png", CURVES, "epoch", "accuracy", **options))
        assert other.shape == first.shape and (other != first).any()
    again = pixels(curve_chart(tmp_path / "2.png", CURVES, "epoch", "accuracy"))
    assert (again == first).all()


def test_epochs_are_whole_numbers(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    seen = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *args, **options: seen.append(self))
    curve_chart(tmp_path / "a.png", CURVES, "epoch", "accuracy")
    ticks = seen[0].axes[0].get_xticks()
    assert all(tick == round(tick) for tick in ticks)


def test_errors(tmp_path):
    with pytest.raises(ValueError, match=r"at least one point \(got \{'a': 0\}\)"):
        curve_chart(tmp_path / "a.png", {"a": []}, "x", "y")
    with pytest.raises(ValueError, match=r"\.png"):
        curve_chart(tmp_path / "a.gif", CURVES, "x", "y")
    assert not list(tmp_path.iterdir())
