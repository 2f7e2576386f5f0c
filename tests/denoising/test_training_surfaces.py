import torch

from permutogeo.denoising import TrainingSettings
from permutogeo.denoising.training_surfaces import noisy_mesh


def test_a_mesh_keeps_faces_and_normals_together(cube):
    made = noisy_mesh(
        cube(), TrainingSettings(levels=(0.0, 0.0), stretch=1.0), torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(made.surface.input_normal, made.target, atol=1e-5, rtol=0)
    patch = noisy_mesh(cube(), TrainingSettings(faces=100), torch.Generator().manual_seed(0))
    assert patch.target.shape == (100, 3)
    assert patch.elements.face.unique().tolist() == list(range(len(patch.pos)))
