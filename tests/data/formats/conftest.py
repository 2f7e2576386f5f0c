"""A LAS file with dimensions, scales and records of all kinds, written by laspy."""

import numpy as np
import pytest

laspy = pytest.importorskip("laspy")
COUNT = 500
WKT = 'PROJCS["ETRS89 / UTM zone 32N",AUTHORITY["EPSG","25832"]]'


def make_las(version="1.4", point_format=7):
    from laspy.vlrs.known import WktCoordinateSystemVlr
    from laspy.vlrs.vlrlist import VLRList

    rng = np.random.default_rng(0)
    header = laspy.LasHeader(version=version, point_format=point_format)
    header.scales, header.offsets = [0.01, 0.01, 0.001], [500_000, 5_400_000, 0]
    header.system_identifier = "a scanner"
    one = laspy.ExtraBytesParams
    scaled = one("reflectance", "i2", scales=np.array([0.01]), offsets=np.array([5.0]))
    header.add_extra_dims([one("Pulse width", "f4"), scaled, one("vec", "3f8"), one("big", "u8")])
    header.vlrs.append(laspy.VLR("mine", 7, "a record", b"hello\0\1"))
    if version == "1.4":
        header.vlrs.append(WktCoordinateSystemVlr(WKT))
    las = laspy.LasData(header)
    las.x = 500_000 + rng.random(COUNT) * 1000
    las.y = 5_400_000 + rng.random(COUNT) * 1000
    las.z = rng.random(COUNT) * 100
    las.intensity = rng.integers(0, 2**16, COUNT)
    las.classification = rng.integers(0, 32, COUNT)
    las.return_number = rng.integers(0, 8, COUNT)
    las.point_source_id = rng.integers(0, 2**16, COUNT)
    if "gps_time" in las.point_format.dimension_names:
        las.gps_time = rng.random(COUNT) * 1e9
    if "red" in las.point_format.dimension_names:
        las.red, las.green, las.blue = rng.integers(0, 2**16, (3, COUNT))
    las["Pulse width"] = rng.random(COUNT)
    las.reflectance = rng.integers(-100, 100, COUNT) * 0.01 + 5
    las.vec = rng.random((COUNT, 3))
    las.big = rng.integers(0, 2**40, COUNT)
    if version == "1.4":
        las.evlrs = VLRList([laspy.VLR("after", 9, "after the points", b"z" * 100)])
    return las


@pytest.fixture
def las_file(tmp_path):
    """Write such a file, compressed or not; ``las_file(name, version, point_format)``."""

    def write(name="a.laz", **options):
        path = tmp_path / name
        make_las(**options).write(str(path))
        return path

    return write
