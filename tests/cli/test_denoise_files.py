from permutogeo.cli.denoise_files import DenoiseOptions, is_comparable
from permutogeo.denoising import MeshDenoiser


def test_the_model_is_loaded_once(scan, run, monkeypatch, tmp_path):
    loads = []
    load = MeshDenoiser.from_pretrained

    def counted(*args):
        loads.append(args)
        return load(*args)

    monkeypatch.setattr(MeshDenoiser, "from_pretrained", counted)
    for name in ("a.ply", "b.ply"):
        (tmp_path / name).write_bytes(scan.read_bytes())
    result = run("denoise", scan, tmp_path / "a.ply", tmp_path / "b.ply", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert loads == [("default",)]


def test_options_for_the_report():
    options = DenoiseOptions("learned", 1.0, None, "default", "cpu").prepare()
    assert options.model is not None and options.as_table()["model"] is None


def test_meshes_of_other_connectivity_are_not_comparable(cube):
    assert is_comparable(cube(1), cube(1))
    assert not is_comparable(cube(1), cube(2))
    other = cube(1)
    other.face = other.face.roll(1, 1)
    assert not is_comparable(cube(1), other)
