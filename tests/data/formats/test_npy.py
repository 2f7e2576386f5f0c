"""NPY and NPZ files."""

import tracemalloc
import zipfile

import numpy as np

from permutogeo.data import from_point_cloud, to_point_cloud


def test_arrays():
    points = np.random.default_rng(0).random((8, 7))
    data = from_point_cloud(points)
    assert (data.pos.shape, data.x.shape) == ((8, 3), (8, 4))
    assert from_point_cloud(points[:, :2]).pos.shape == (8, 2)
    data.x.zero_()
    assert points.all()
    assert from_point_cloud(points[:, :3], x=points[:, 3]).x.shape == (8, 1)
    flat = from_point_cloud(points[:, :2])
    assert to_point_cloud(flat, kind="numpy").shape == (8, 2)
    assert np.asarray(to_point_cloud(flat).points).shape == (8, 3)


def test_no_pickle(tmp_path, check_error):
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", pos=np.array([{}], object))
    for name in ("a.npy", "a.npz"):
        with check_error(ValueError, name, "damaged"):
            from_point_cloud(tmp_path / name)


def test_npy_that_claims_more_than_memory(tmp_path, check_error):
    np.save(tmp_path / "a.npy", np.zeros((4, 3)))
    content = (tmp_path / "a.npy").read_bytes()
    padded = content.replace(b"(4, 3), }             ", b"(40000000000000, 3), }")
    assert len(padded) == len(content) and padded != content
    (tmp_path / "a.npy").write_bytes(padded)
    with check_error(ValueError, "a.npy"):
        from_point_cloud(tmp_path / "a.npy")


def test_unneeded_arrays_are_not_loaded(tmp_path):
    unneeded = np.zeros(2**25)
    np.savez_compressed(tmp_path / "a.npz", pos=np.eye(3), label=np.arange(3), other=unneeded)
    assert (tmp_path / "a.npz").stat().st_size < 2**19
    tracemalloc.start()
    data = from_point_cloud(tmp_path / "a.npz")
    assert tracemalloc.get_traced_memory()[1] < 2**23
    tracemalloc.stop()
    assert set(data.to_dict()) == {"pos", "label"}


def test_members_that_claim_more_than_they_hold(tmp_path, check_error):
    np.savez(tmp_path / "a.npz", pos=np.zeros((4, 3)))
    content = (tmp_path / "a.npz").read_bytes()
    for claim in (b"(40000000000000, 3), }", b"(3, 3), }             "):
        changed = content.replace(b"(4, 3), }             ", claim)
        assert len(changed) == len(content) and changed != content
        (tmp_path / "b.npz").write_bytes(changed)
        with check_error(ValueError, "b.npz", "claims|CRC"):
            from_point_cloud(tmp_path / "b.npz")


def test_members_that_are_no_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", pos=np.eye(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("notes.txt", "made by hand")
    assert set(from_point_cloud(tmp_path / "a.npz").to_dict()) == {"pos"}
