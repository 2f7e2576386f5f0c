from permutogeo.testing.mesh import sound


def test_sound():
    vertices = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (float("nan"), 0, 0)]
    faces = [(0, 1, 2), (0, 0, 1), (0, 1, 3), (1, 2, 0), (2, 1, 0)]
    assert sound(vertices, faces) == ([0, 1, 2], [0, 4])
