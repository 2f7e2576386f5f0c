"""Everything that pydensecrf exports is there, with the same arguments."""

import enum
import inspect
import types

import pytest

MODULES = ("densecrf", "utils", "eigen")
# What the compiled modules do not say of themselves, from their documentation.
ARGUMENTS = {
    "setUnary": ["u"],
    "setUnaryEnergy": ["u", "f"],
    "addPairwiseEnergy": ["features", "compat", "kernel", "normalization"],
    "addPairwiseGaussian": ["sxy", "compat", "kernel", "normalization"],
    "addPairwiseBilateral": ["sxy", "srgb", "rgbim", "compat", "kernel", "normalization"],
    "inference": ["niter"],
    "startInference": [],
    "stepInference": ["Q", "tmp1", "tmp2"],
    "klDivergence": ["Q"],
}


def public(names):
    """Names that are not private, nor what a module merely imports."""
    return {
        name: value
        for name, value in names.items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and getattr(value, "__module__", "") not in ("numbers", "logging")
    }


@pytest.mark.parametrize("module", MODULES)
def test_no_name_is_missing(module, ours, theirs):
    wanted, got = (vars(getattr(package, module)) for package in (theirs, ours))
    assert len(public(wanted)) >= 4
    assert set(public(wanted)) <= set(got)
    for name, value in public(wanted).items():
        assert isinstance(got[name], type) == isinstance(value, type), name
        assert callable(got[name]) == callable(value), name


@pytest.mark.parametrize("name", ["DenseCRF", "DenseCRF2D", "Unary", "ConstUnary", "LogisticUnary"])
def test_no_method_is_missing(name, ours, theirs):
    wanted, got = (getattr(package.densecrf, name) for package in (theirs, ours))
    assert (
        public(dict(inspect.getmembers(wanted))).keys()
        == public(dict(inspect.getmembers(got))).keys()
    )
    assert [base.__name__ for base in wanted.__mro__] == [base.__name__ for base in got.__mro__]


@pytest.mark.parametrize("name", ["KernelType", "NormalizationType"])
def test_constants_are_equal(name, ours, theirs):
    wanted, got = (getattr(package.densecrf, name) for package in (theirs, ours))
    assert issubclass(got, enum.IntEnum)
    assert {k: int(v) for k, v in wanted.__members__.items()} == {
        k: int(v) for k, v in got.__members__.items()
    }
    for member in wanted.__members__:
        assert getattr(ours.densecrf, member) is got[member]


def test_functions_have_the_same_arguments_and_defaults(ours, theirs):
    for name, function in public(vars(theirs.utils)).items():
        wanted = inspect.signature(function).parameters.values()
        got = inspect.signature(getattr(ours.utils, name)).parameters.values()
        assert [(p.name, p.default, p.kind) for p in got] == [
            (p.name, p.default, p.kind) for p in wanted
        ], name


def test_methods_have_the_documented_arguments(ours, theirs):
    crf = ours.densecrf.DenseCRF2D
    methods = public(dict(inspect.getmembers(theirs.densecrf.DenseCRF2D)))
    assert set(methods) == set(ARGUMENTS)
    for name, arguments in ARGUMENTS.items():
        assert list(inspect.signature(getattr(crf, name)).parameters)[1:] == arguments
    defaults = inspect.signature(crf.addPairwiseBilateral).parameters
    assert defaults["kernel"].default is ours.densecrf.DIAG_KERNEL
    assert defaults["normalization"].default is ours.densecrf.NORMALIZE_SYMMETRIC
    assert inspect.signature(crf.setUnaryEnergy).parameters["f"].default is None
