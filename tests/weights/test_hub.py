"""Models of the Hub, with the library but without its server."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from permutogeo.models import LatticeUNet
from permutogeo.weights import hub


def model():
    torch.manual_seed(0)
    return LatticeUNet(2, 8, 3, dim=3, depth=1).eval()


X, FEATURE = torch.rand(60, 2), 4 * torch.rand(60, 3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("owner/name", True), ("o-w.n/n_a", True), ("a/b/c", False), ("./a", True), ("name", False)],
)
def test_repository_names(name, expected):
    assert hub.is_repository(name) is expected
    assert not hub.is_repository(Path(name))


def test_a_model_is_downloaded(tmp_path, monkeypatch):
    """`from_pretrained("owner/name")` reads the snapshot that the library returns."""
    library = pytest.importorskip("huggingface_hub")
    model().save_pretrained(tmp_path / "snapshot")
    calls = []

    def snapshot_download(name, **options):
        calls.append((name, options))
        return str(tmp_path / "snapshot")

    monkeypatch.setattr(library, "snapshot_download", snapshot_download)
    again = LatticeUNet.from_pretrained("owner/name", revision="v2")
    assert torch.equal(again(X, FEATURE), model()(X, FEATURE))
    files = {"allow_patterns": ["config.json", "model.safetensors"]}
    assert calls == [("owner/name", {**files, "revision": "v2"})]


def test_a_model_is_uploaded(monkeypatch):
    library = pytest.importorskip("huggingface_hub")
    seen = {}

    class Api:
        def __init__(self, token):
            seen["token"] = token

        def create_repo(self, name, private, exist_ok):
            return library.RepoUrl(f"https://huggingface.co/{name}")

        def upload_folder(self, repo_id, folder_path, commit_message):
            seen[repo_id] = sorted(path.name for path in Path(folder_path).iterdir())
            seen["message"] = commit_message
            seen["card"] = Path(folder_path, "README.md").read_text()

    monkeypatch.setattr(library, "HfApi", Api)
    address = model().push_to_hub("owner/name", token="t", commit_message="First")
    assert address == "https://huggingface.co/owner/name"
    assert seen["token"] == "t" and seen["message"] == "First"
    assert seen["owner/name"] == ["README.md", "config.json", "model.safetensors"]
    assert "from permutogeo.models import LatticeUNet" in seen["card"]


def test_no_such_model():
    """Errors of the library name the place that was looked for."""
    pytest.importorskip("huggingface_hub")
    options = {"local_files_only": True}
    with pytest.raises(FileNotFoundError, match=r"Expected a file, a folder or .*'runs/best'"):
        LatticeUNet.from_pretrained("runs/best", **options)


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"pip install 'permutogeo\[hub\]'"):
        LatticeUNet.from_pretrained("owner/name")


def test_the_mixin_reads_and_writes_the_same_folders(tmp_path):
    """A class with huggingface_hub's own mixin shares its folders with ours, in both directions."""
    library = pytest.importorskip("huggingface_hub")

    class Shared(library.PyTorchModelHubMixin, LatticeUNet):
        pass

    ours = model()
    ours.save_pretrained(tmp_path / "ours")
    theirs = Shared.from_pretrained(tmp_path / "ours")
    assert torch.equal(theirs.eval()(X, FEATURE), ours(X, FEATURE))
    theirs.save_pretrained(tmp_path / "theirs")
    assert {"config.json", "model.safetensors"} <= {p.name for p in (tmp_path / "theirs").iterdir()}
    again = LatticeUNet.from_pretrained(tmp_path / "theirs")
    assert torch.equal(again(X, FEATURE), ours(X, FEATURE))


def test_arguments_have_the_names_of_the_mixin():
    library = pytest.importorskip("huggingface_hub")
    ours, theirs = (
        inspect.signature(kind.push_to_hub).parameters
        for kind in (LatticeUNet, library.PyTorchModelHubMixin)
    )
    assert set(ours) <= set(theirs)


def test_nothing_is_imported_or_downloaded_at_import():
    code = (
        "import permutogeo.weights, permutogeo.models, sys; print('huggingface_hub' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
