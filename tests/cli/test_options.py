import pytest

from permutogeo.cli.options import check_device, check_positive


def test_devices():
    check_device("cpu")
    for name in ("abacus", "cuda:77"):
        with pytest.raises(ValueError, match=f"a device of this machine .got '{name}'"):
            check_device(name)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_numbers_in_the_units_of_the_user(value):
    with pytest.raises(
        ValueError, match=rf"^Expected --sigma-color greater than 0 \(got {value:g}"
    ):
        check_positive("--sigma-color", value)
