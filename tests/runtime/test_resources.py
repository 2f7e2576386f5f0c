"""Resources of compiled kernels. Needs no device; what needs ``cuobjdump`` is skipped without."""

import pytest
import warp as wp

from permutogeo.kernels import blur
from permutogeo.runtime import bridge, resources

OUTPUT = """
Resource usage:
 Common:
  GLOBAL:151 CONSTANT[3]:5720
 Function make__locals__locate_fbd8c0a5_cuda_kernel_forward:
  REG:40 STACK:0 SHARED:1024 LOCAL:0 CONSTANT[0]:1008 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function make__locals__adjoint_4e92d9d4_cuda_kernel_forward:
  REG:56 STACK:40 SHARED:2048 LOCAL:8 CONSTANT[0]:1128 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


def test_parse():
    assert resources.parse_usage(OUTPUT) == {
        "locate": resources.Usage(40, 0, 1024),
        "adjoint": resources.Usage(56, 48, 2048),
    }
    with pytest.raises(ValueError, match="Expected the resources of a kernel"):
        resources.parse_usage("Function a:\n nothing")


def test_parse_accesses():
    code = """
        Function : make__locals__gather_7f66bcf1_cuda_kernel_forward
    /*0100*/  LDG.E R2, desc[UR4][R2.64] ;
    /*0110*/  @P0 LDG.E.128.CONSTANT R8, [R4.64] ;
    /*0120*/  LDG.E.U8 R3, [R4.64] ;
    /*0130*/  STG.E.64 [R6.64], R8 ;
        Function : make__locals__axis_f124ff1c_cuda_kernel_forward
    /*0100*/  LDL R2, [R1] ;
"""
    assert resources.parse_accesses(code) == {
        "gather": {("load", 32): 1, ("load", 128): 1, ("load", 8): 1, ("store", 64): 1},
        "axis": {},
    }


@pytest.mark.parametrize(
    ("usage", "architecture", "expected"),
    [
        # NVIDIA's occupancy calculator, blocks of 256.
        ((32, 0, 1024), 80, 1.0),
        ((33, 0, 1024), 80, 0.75),
        ((64, 0, 1024), 80, 0.5),
        ((255, 0, 0), 80, 0.125),
        ((40, 0, 2048), 120, 1.0),
        ((48, 0, 2048), 120, 5 / 6),
        ((16, 0, 100 * 1024), 90, 0.25),
    ],
)
def test_occupancy(usage, architecture, expected):
    assert resources.Usage(*usage).occupancy(architecture) == expected


def test_usage_of_a_kernel(tmp_path):
    """The options of the module, which also runs on the CPU, are as before."""
    if resources.find_cuobjdump() is None:
        pytest.skip("needs cuobjdump: pip install nvidia-cuda-cuobjdump")
    bridge.init()
    module = blur.make(wp.float32, 1).module
    before = dict(module.options)
    (cubin,) = resources.compile_cubins(module, [80], tmp_path)
    assert module.options == before
    (usage,) = resources.read_usage(cubin).values()
    assert 0 < usage.registers <= 128 and usage.local == 0
