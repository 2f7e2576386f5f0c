import pytest

from permutogeo.cli.options import ClusterOptions, check_device, check_positive, parse_size


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


def test_options_without_effect_are_refused():
    assert ClusterOptions.parse("local:2", True, "2GB").worker_memory == 2 * 10**9
    for scheduler in (None, "tcp://host:8786"):
        with pytest.raises(
            ValueError, match="Expected --worker-memory only with --scheduler local"
        ):
            ClusterOptions.parse(scheduler, False, "2GB")
    ClusterOptions().check_folder(False)
    for options in (ClusterOptions("local"), ClusterOptions(resume=True)):
        options.check_folder(True)
        with pytest.raises(ValueError, match="Expected a folder of images with --scheduler"):
            options.check_folder(False)
