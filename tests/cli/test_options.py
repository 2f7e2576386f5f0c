import pytest

from permutogeo.cli.options import check_device, check_positive, parse_size


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


def test_sizes():
    for text, size in (("4GB", 4 * 10**9), ("1.5 GiB", 3 * 2**29), ("300", 300), ("2m", 2 * 10**6)):
        assert parse_size("--memory", text) == size
    assert parse_size("--memory", None) is None
    for wrong in ("", "GB", "-1", "0", "4XB"):
        with pytest.raises(ValueError, match="Expected --memory as a size such as 4GB"):
            parse_size("--memory", wrong)
