import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from permutogeo import weights
from permutogeo.denoising import CloudDenoiser, MeshDenoiser
from permutogeo.models import (
    BilateralNet,
    BilateralTransformer,
    HPLFlowNet,
    LatticeNet,
    LatticeUNet,
    SplatNet,
)


def test_the_denoiser_is_there_and_small():
    assert "mesh_denoiser" in weights.names()
    path = weights.FOLDER / "mesh_denoiser.safetensors"
    # Stages for independent noise, and for noise of scanners.
    assert path.stat().st_size < 1_000_000
    tensors, settings = weights.load("mesh_denoiser")
    assert tensors and all(tensor.isfinite().all() for tensor in tensors.values())
    assert MeshDenoiser(**settings).state_dict().keys() == tensors.keys()


def test_by_path(tmp_path):
    path = tmp_path / "own.safetensors"
    save_file({"a": torch.arange(3.0)}, path, {weights.SETTINGS: json.dumps({"size": 3})})
    tensors, settings = weights.load(path)
    assert settings == {"size": 3}
    assert torch.equal(tensors["a"], torch.arange(3.0))


def test_no_such_weights(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Expected .*mesh_denoiser.*'other'"):
        weights.load("other")
    with pytest.raises(FileNotFoundError, match=r"none\.safetensors"):
        MeshDenoiser.from_pretrained(tmp_path / "none.safetensors")
    with pytest.raises(FileNotFoundError, match=r"^Expected streets, a \.safetensors .*'street'"):
        LatticeUNet.from_pretrained("street")


def test_files_that_are_no_weights(tmp_path):
    path = tmp_path / "text.safetensors"
    path.write_bytes(b"not weights at all")
    with pytest.raises(ValueError, match="Expected a safetensors file"):
        weights.load(path)
    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(ValueError, match="settings"):
        weights.load(path)
    save_file({"a": torch.zeros(2)}, path, {weights.SETTINGS: "{}"})
    with pytest.raises(ValueError, match="weights of a MeshDenoiser"):
        MeshDenoiser.from_pretrained(path)
    save_file({"a": torch.zeros(2)}, path, {weights.SETTINGS: '{"size": 3}'})
    with pytest.raises(ValueError, match="weights of a MeshDenoiser"):
        MeshDenoiser.from_pretrained(path)


def test_what_is_written_can_be_read_by_others(tmp_path):
    path = tmp_path / "own.safetensors"
    weights.save(path, {"a": torch.rand(2, 3).t()}, {"size": 3})
    plain = tmp_path / "plain.txt"
    plain.write_text("as any other file")
    assert path.stat().st_mode == plain.stat().st_mode
    assert weights.load(path)[1] == {"size": 3}


def test_weights_of_another_model():
    with pytest.raises(
        ValueError, match=r"'tiles': Expected the weights of a MeshDenoiser \(got a"
    ):
        MeshDenoiser.from_pretrained("tiles")


ROOT = Path(__file__).parent.parent.parent
MODELS = [
    LatticeUNet(2, 8, 3, dim=3, depth=1, context=True, scale=0.5),
    LatticeNet(2, 8, 3, dim=3, depth=1, task="graph"),
    BilateralTransformer(2, 16, 3, dim=3, depth=1),
    HPLFlowNet(2, 8, 3, dim=3, depth=1),
    SplatNet(2, 8, 3, dim=3, scales=(1.0, 0.5)),
    BilateralNet(2, (6, 5, 4), 2, dim=3),
    CloudDenoiser(hidden_channels=8),
    MeshDenoiser(hidden_channels=8),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_folder_holds_a_model(model, tmp_path):
    """Each model comes back from a folder of the Hub's layout with its settings and tensors."""
    folder = tmp_path / "shared" / "own"
    model.save_pretrained(folder)
    assert {p.name for p in folder.iterdir()} == {"config.json", "model.safetensors", "README.md"}
    again = type(model).from_pretrained(folder)
    assert str(again) == str(model) and not again.training
    state = again.state_dict()
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    assert json.loads((folder / "config.json").read_text())["_class_name"] == type(model).__name__


def test_own_models_need_no_code(tmp_path):
    """A subclass is stored with its own arguments."""

    class Own(LatticeUNet):
        def __init__(self, classes, width=8):
            super().__init__(2, width, classes, dim=3, depth=1)

    Own(5).save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text()) == {
        "_class_name": "Own",
        "classes": 5,
    }
    assert Own.from_pretrained(tmp_path).out_channels == 5
    own = torch.nn.Linear(2, 2)
    model = SplatNet(2, 8, 3, dim=3)
    vars(model)["_settings"]["extra"] = own
    with pytest.raises(TypeError, match=r"SplatNet: Expected arguments .* that JSON can hold"):
        model.save_pretrained(tmp_path / "other")


def test_lazy_sizes(tmp_path):
    model = LatticeUNet(-1, 8, 3, dim=3, depth=1).eval()
    x, feature = torch.rand(60, 2), 4 * torch.rand(60, 3)
    expected = model(x, feature)
    model.save_pretrained(tmp_path)
    assert torch.equal(LatticeUNet.from_pretrained(tmp_path)(x, feature), expected)


def test_a_card_is_kept(tmp_path):
    (tmp_path / "README.md").write_text("mine")
    CloudDenoiser(hidden_channels=8).save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_damaged_folders(tmp_path):
    model = CloudDenoiser(hidden_channels=8)
    model.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json': Expected JSON"):
        CloudDenoiser.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(ValueError, match="Expected the settings of a model"):
        CloudDenoiser.from_pretrained(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        CloudDenoiser.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match="Expected the weights of a LatticeUNet"):
        model.save_pretrained(tmp_path)
        LatticeUNet.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", weights.names())
def test_each_shipped_model_has_a_card(name):
    card = weights.card(name)
    for heading in ("## Use", "## Data", "## Training", "## Metrics", "## Limits"):
        assert f"\n{heading}\n" in card, heading
    page = (ROOT / "docs" / "cards.md").read_text()
    assert f"weights/{name}.md" in page, f"include the card of {name} in docs/cards.md"


def test_no_such_card():
    with pytest.raises(ValueError, match=r"Expected one of .*mesh_denoiser.* 'new_card'"):
        weights.card("new_card")
