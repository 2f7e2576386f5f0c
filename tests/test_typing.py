import typing

import numpy as np

from permutogeo.typing import Array


def test_array_is_a_numpy_array():
    assert typing.get_origin(Array) is np.ndarray
