"""The names, arguments and results of the ``pydensecrf`` package, computed here.

Change the import and nothing else:

>>> import numpy as np
>>> import permutogeo.compat.pydensecrf.densecrf as dcrf
>>> from permutogeo.compat.pydensecrf.utils import unary_from_labels
>>> image = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
>>> labels = (image[:, :, 0] > 127).astype(int)
>>> crf = dcrf.DenseCRF2D(30, 20, 2)  # width, height, labels
>>> crf.setUnaryEnergy(unary_from_labels(labels, 2, gt_prob=0.7, zero_unsure=False))
>>> crf.addPairwiseGaussian(sxy=3, compat=3)
>>> crf.addPairwiseBilateral(sxy=80, srgb=13, rgbim=image, compat=10)
>>> marginals = crf.inference(5)
>>> np.argmax(marginals, axis=0).reshape(20, 30).shape
(20, 30)

Marginals agree with pydensecrf's up to rounding. Where that package would read or write beyond its
arrays, a ``ValueError`` is raised here.
"""
