"""Import of Open3D."""

import builtins

import pytest

from permutogeo.data.open3d_loader import is_open3d, load_open3d


def test_classes_are_told_apart():
    o3d = load_open3d()
    legacy, tensor = o3d.geometry.PointCloud(), o3d.t.geometry.PointCloud()
    assert is_open3d(legacy, "PointCloud", tensor=False)
    assert not is_open3d(legacy, "PointCloud", tensor=True)
    assert is_open3d(tensor, "PointCloud", tensor=True)
    assert not is_open3d(tensor, "TriangleMesh", tensor=True)
    assert not is_open3d(object(), "object", tensor=False)


@pytest.mark.parametrize(
    ("problem", "hint"),
    [("No module named 'open3d'", "pip install open3d"), ("libusb-1.0.so.0: cannot", "libusb")],
)
def test_the_error_says_what_to_install(monkeypatch, problem, hint):
    original = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "open3d":
            raise ImportError(problem)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=f"Open3D cannot be imported .*{hint}"):
        load_open3d()
