import warp as wp

from permutogeo.kernels import splat
from permutogeo.kernels.module import named


def test_module_names_tell_the_factory_call():
    assert named("blur", wp.float32, 2).name == "permutogeo_blur_float32_2"
    assert named("blur", wp.float32, 2) is named("blur", wp.float32, 2)


def test_kernels_have_no_adjoint():
    made = splat.make(3, wp.float32)
    assert made is splat.make(3, wp.float32)
    assert not made.scatter.options["enable_backward"]
