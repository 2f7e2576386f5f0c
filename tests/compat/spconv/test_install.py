import subprocess
import sys

PROGRAM = """
from permutogeo.compat.spconv import install
install()
install()  # again, without effect
import torch
import spconv
import spconv.pytorch as sp
from spconv.core import ConvAlgo
from spconv.pytorch import functional as Fsp
from spconv.pytorch.conv import SparseConvolution
from spconv.pytorch.core import SparseConvTensor
from spconv.pytorch.modules import SparseModule
from spconv.pytorch.pool import SparseMaxPool3d
from spconv.pytorch.tables import AddTable
assert spconv.__version__.startswith("2.")
assert isinstance(sp.SubMConv3d(1, 1, 3), SparseConvolution)
assert sp.modules.is_spconv_module(sp.SubMConv3d(1, 1, 3))
assert sp.SparseConvTensor is SparseConvTensor and sp.ConvAlgo is ConvAlgo
print(sp.__name__)
"""
TOO_LATE = """
import sys, types
sys.modules["spconv"] = types.ModuleType("spconv")
sys.modules["spconv"].__file__ = "elsewhere"
from permutogeo.compat.spconv import install
try:
    install()
except RuntimeError as error:
    print(error)
"""


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_install():
    assert run(PROGRAM) == "permutogeo.compat.spconv.pytorch"


def test_install_comes_first():
    message = "Expected to install before spconv is imported (got 'spconv' of elsewhere)"
    assert run(TOO_LATE) == message
