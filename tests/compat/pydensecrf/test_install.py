"""``install``, ``python -m`` and aliases, each in a process of its own."""

import subprocess
import sys

import pytest

USE = """
import numpy as np
import pydensecrf.densecrf as dcrf
import pydensecrf.eigen
from pydensecrf.utils import unary_from_labels
crf = dcrf.DenseCRF2D(5, 4, 2)
crf.setUnaryEnergy(unary_from_labels(np.arange(20) % 2, 2, 0.7, False))
crf.addPairwiseGaussian(sxy=2, compat=3)
q, *scratch = crf.startInference()
crf.stepInference(pydensecrf.eigen.matrixXf(np.array(q, order="C")), *scratch)
assert dcrf.__name__ == "permutogeo.compat.pydensecrf.densecrf", dcrf.__name__
assert pydensecrf.eigen is dcrf.eigen
"""


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    "start",
    [
        "import permutogeo.compat.pydensecrf as p; p.install(); p.install()",
        "import sys, permutogeo.compat.pydensecrf as p; sys.modules['pydensecrf'] = p",
    ],
    ids=["install", "alias"],
)
def test_one_copy_of_each_submodule(start):
    done = run("-c", start + "\n" + USE + "print('ok')")
    assert done.stdout == "ok\n", done.stderr


def test_refuses_beside_the_original():
    pytest.importorskip("pydensecrf")
    program = "import pydensecrf, permutogeo.compat.pydensecrf as p; p.install()"
    done = run("-c", program)
    assert "RuntimeError: Expected to install before pydensecrf is imported" in done.stderr


def test_run_a_script(tmp_path):
    script = tmp_path / "script.py"
    (tmp_path / "beside.py").write_text("WORD = 'beside'")
    script.write_text(
        USE + "import sys, beside\nassert __name__ == '__main__'\nprint(beside.WORD, *sys.argv[1:])"
    )
    done = run("-m", "permutogeo.compat.pydensecrf", script, "a", "--b")
    assert done.stdout == "beside a --b\n", done.stderr
    missing = run("-m", "permutogeo.compat.pydensecrf", tmp_path / "none.py")
    assert missing.returncode == 1 and "Expected the path of a script" in missing.stderr
    assert run("-m", "permutogeo.compat.pydensecrf").returncode == 2
