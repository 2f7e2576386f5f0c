"""Programs that change nothing but their imports, on the photographs of pydensecrf's examples."""

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

# What users write, in the style of the package's own documentation.
IMAGE_PROGRAM = """
import numpy as np
import pydensecrf.densecrf as dcrf
from pydensecrf.utils import unary_from_labels

crf = dcrf.DenseCRF2D(image.shape[1], image.shape[0], n_labels)
crf.setUnaryEnergy(unary_from_labels(labels, n_labels, gt_prob=0.7, zero_unsure=unsure))
crf.addPairwiseGaussian(sxy=(3, 3), compat=3, kernel=dcrf.DIAG_KERNEL,
                        normalization=dcrf.NORMALIZE_SYMMETRIC)
crf.addPairwiseBilateral(sxy=(80, 80), srgb=(13, 13, 13), rgbim=image, compat=10,
                         kernel=dcrf.DIAG_KERNEL, normalization=dcrf.NORMALIZE_SYMMETRIC)
Q = crf.inference(5)
marginals = np.array(Q)
result = np.argmax(Q, axis=0).reshape(image.shape[:2])
divergences = []
Q, tmp1, tmp2 = crf.startInference()
for i in range(3):
    divergences.append(crf.klDivergence(Q))
    crf.stepInference(Q, tmp1, tmp2)
"""
GENERAL_PROGRAM = """
import numpy as np
import pydensecrf.densecrf as dcrf
from pydensecrf.utils import unary_from_labels, create_pairwise_bilateral, create_pairwise_gaussian

crf = dcrf.DenseCRF(image.shape[1] * image.shape[0], n_labels)
crf.setUnaryEnergy(unary_from_labels(labels, n_labels, gt_prob=0.7, zero_unsure=unsure))
crf.addPairwiseEnergy(create_pairwise_gaussian(sdims=(3, 3), shape=image.shape[:2]), compat=3)
feats = create_pairwise_bilateral(sdims=(80, 80), schan=(13, 13, 13), img=image, chdim=2)
crf.addPairwiseEnergy(feats, compat=10)
marginals = np.array(crf.inference(5))
result = np.argmax(marginals, axis=0).reshape(image.shape[:2])
divergences = [crf.klDivergence(crf.inference(2))]
"""
SOFTMAX_PROGRAM = """
import numpy as np
import pydensecrf.densecrf as dcrf
import pydensecrf.utils as utils

U = -utils.unary_from_labels(labels, n_labels, gt_prob=0.6, zero_unsure=unsure)
softmax = (np.exp(U) / np.exp(U).sum(0)).reshape(n_labels, *image.shape[:2])
unary = np.ascontiguousarray(utils.unary_from_softmax(softmax, scale=0.9))
crf = dcrf.DenseCRF2D(image.shape[1], image.shape[0], n_labels)
crf.setUnary(dcrf.ConstUnary(unary))
crf.addPairwiseBilateral(10, 20, image, np.full(n_labels, -4, np.float32),
                         normalization=dcrf.NORMALIZE_AFTER)
marginals = np.array(crf.inference(10)).reshape((n_labels, *image.shape[:2]))
result = marginals.argmax(axis=0)
divergences = []
"""


def run(text, package, inputs):
    names = dict(inputs)
    exec(text.replace("pydensecrf", package), names)
    return names


@pytest.fixture(scope="module", params=[1, 2, 3])
def inputs(request, data_dir):
    folder = data_dir / "pydensecrf_examples"
    image = np.array(Image.open(folder / f"im{request.param}.png").convert("RGB"))
    annotation = np.array(Image.open(folder / f"anno{request.param}.png").convert("RGB"))
    color = annotation.astype(np.uint32) @ np.array([1, 1 << 8, 1 << 16], np.uint32)
    colors, labels = np.unique(color, return_inverse=True)
    unsure = bool(0 in colors)
    n_labels = len(colors) - unsure
    return {"image": image, "labels": labels, "n_labels": n_labels, "unsure": unsure}


@pytest.mark.parametrize(
    "text", [IMAGE_PROGRAM, GENERAL_PROGRAM, SOFTMAX_PROGRAM], ids=["image", "general", "softmax"]
)
def test_only_the_import_changes(text, inputs, theirs):
    wanted = run(text, "pydensecrf", inputs)
    got = run(text, "permutogeo.compat.pydensecrf", inputs)
    assert len(np.unique(wanted["result"])) > 1
    assert np.abs(got["marginals"] - wanted["marginals"]).max() < 1e-3
    assert (got["result"] == wanted["result"]).mean() > 0.999
    np.testing.assert_allclose(got["divergences"], wanted["divergences"], rtol=1e-4)


PEAK = """
from pathlib import Path
import numpy as np
import {package}.densecrf as dcrf

def infer(height, width):
    rng = np.random.default_rng(0)
    ramp = np.add.outer(np.arange(height), np.arange(width))[..., None] // 4
    image = ((ramp + rng.integers(0, 8, (height, width, 3))) % 256).astype(np.uint8)
    energy = rng.random((21, height * width), np.float32)
    crf = dcrf.DenseCRF2D(width, height, 21)
    crf.setUnaryEnergy(energy)
    crf.addPairwiseGaussian(sxy=3, compat=3)
    crf.addPairwiseBilateral(sxy=80, srgb=13, rgbim=image, compat=10)
    return crf.inference(5)

def kilobytes(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))

infer(200, 150)
Path("/proc/self/clear_refs").write_text("5")
before = kilobytes("VmRSS")
infer(333, 500)
print(kilobytes("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_memory(theirs):
    """The peak of an inference of the size of W2 is at most half above theirs."""

    def peak(package):
        command = [sys.executable, "-c", PEAK.format(package=package)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return int(done.stdout)

    reference = peak("pydensecrf")
    assert reference > 50_000
    assert peak("permutogeo.compat.pydensecrf") < 1.5 * reference
