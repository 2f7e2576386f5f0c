import pytest

from permutogeo.train import cosine, drops, one_cycle
from permutogeo.train.schedules import resolve_schedule


def test_one_cycle_rises_in_the_first_tenth_and_falls_to_zero():
    assert [one_cycle(t) for t in (0.0, 0.05, 0.1, 1.0)] == pytest.approx([0.04, 0.52, 1.0, 0.0])
    assert one_cycle(0.55) == pytest.approx(0.5)


def test_cosine_stays_at_zero_after_the_end():
    assert cosine(1.5) == 0.0


def test_drops():
    schedule = drops(0.5, 0.75, factor=0.1)
    assert [schedule(t) for t in (0.0, 0.49, 0.5, 0.8)] == pytest.approx([1.0, 1.0, 0.1, 0.01])


def test_names():
    assert resolve_schedule(None)(0.3) == resolve_schedule("constant")(0.9) == 1.0
    assert resolve_schedule("cosine") is cosine and resolve_schedule(one_cycle) is one_cycle
    with pytest.raises(ValueError, match="Expected 'schedule' in constant, cosine, one_cycle"):
        resolve_schedule("warm")
