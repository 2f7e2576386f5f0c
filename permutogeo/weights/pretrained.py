"""Weights of trained models: those shipped with the package, files, folders and the Hub.

A folder has the Hub's layout: ``config.json`` with the arguments of the constructor,
``model.safetensors`` and a model card, ``README.md``. A single ``.safetensors`` file holds the
arguments in its metadata.
"""

from __future__ import annotations

import inspect
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from permutogeo.data.files import check_readable, replacing
from permutogeo.weights import hub
from permutogeo.weights.storage import read_safetensors, write_safetensors

if TYPE_CHECKING:
    from typing_extensions import Self

FOLDER = Path(__file__).parent
# Name of the metadata entry that holds the arguments of the model's constructor.
SETTINGS = "settings"
SUFFIX = ".safetensors"
CONFIG, TENSORS = hub.FILES
CARD = "README.md"
# Entry of config.json that names the class.
CLASS = "_class_name"


def names() -> list[str]:
    """Return the names of the weights shipped with the package."""
    return sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}"))


def card(name: str) -> str:
    """Return the model card of shipped weights: data, training command, metrics and limits."""
    if name not in names():
        raise ValueError(f"Expected one of {', '.join(names())} (got '{name}')")
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def load(
    source: str | os.PathLike[str], **options: Any
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of a model and the arguments of its constructor.

    Args:
        source: One of :func:`names`, the path of a ``.safetensors`` file, a folder with
            ``config.json`` and ``model.safetensors``, or a model of the Hub, ``"owner/name"``.
        options: For models of the Hub, arguments of ``huggingface_hub.snapshot_download``.
    """
    return _load(source, names(), options)


def _load(
    source: str | os.PathLike[str], known: Iterable[str], options: dict[str, Any]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    path = FOLDER / f"{source}{SUFFIX}" if source in names() else Path(source)
    if not path.exists() and path.suffix != SUFFIX and hub.is_repository(source):
        path = hub.download_model(os.fspath(source), **options)
    if path.is_dir():
        return read_safetensors(path / TENSORS)[0], _read_config(path / CONFIG)
    if not path.is_file():
        expected = ", ".join([*known, "a .safetensors file"])
        raise FileNotFoundError(f"Expected {expected} or a folder with {CONFIG} (got '{source}')")
    tensors, settings = read_safetensors(path, SETTINGS)
    return tensors, _checked(path, settings)


def save(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], settings: Mapping[str, Any]
) -> None:
    """Write a file for :func:`load`; a failed write leaves the previous file in place."""
    write_safetensors(path, tensors, {SETTINGS: dict(settings)})


class Pretrained(torch.nn.Module):
    """Base class that adds ``from_pretrained`` and ``save_pretrained`` to a model.

    The arguments of the constructor are recorded, so that a subclass needs no code of its own. They
    must be numbers, strings, lists and the like.
    """

    #: Short names of the shipped weights of this class, and the names of their files.
    pretrained: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = _recording(cls.__init__)  # type: ignore[method-assign]

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike[str] | None = None, **options: Any) -> Self:
        """Return a trained model in evaluation mode.

        Args:
            name: A key of ``pretrained``, a file or folder written by :meth:`save_pretrained`, or a
                model of the Hub, ``"owner/name"``; by default the first key.
            options: For models of the Hub, arguments of ``huggingface_hub.snapshot_download``, such
                as ``revision`` and ``token``.
        """
        if name is None and not cls.pretrained:
            raise ValueError(
                f"{cls.__name__}: Expected a .safetensors file, a folder or a model of the Hub "
                "(the package ships no weights of this model)"
            )
        if name is None:
            name = next(iter(cls.pretrained))
        source = cls.pretrained.get(os.fspath(name), name)
        tensors, settings = _load(source, cls.pretrained, options)
        expected = f"'{name}': Expected the weights of a {cls.__name__}"
        settings.pop(CLASS, None)
        parameters = inspect.signature(cls.__init__).parameters
        unknown = set(settings) - set(parameters)
        if unknown and not _takes_options(parameters):
            raise ValueError(f"{expected} (got a model with {', '.join(sorted(unknown))})")
        try:
            model = cls(**settings)
        except (TypeError, RuntimeError, ValueError) as error:
            raise ValueError(f"{expected} ({error})") from error
        state = model.state_dict(keep_vars=True)
        if state.keys() != tensors.keys() or any(
            not is_lazy(value) and value.shape != tensors[key].shape for key, value in state.items()
        ):
            raise ValueError(f"{expected} (got tensors of other names or shapes)")
        model.load_state_dict(tensors)
        return model.eval()

    def save_pretrained(self, path: str | os.PathLike[str]) -> None:
        """Write the weights and settings; a failed write leaves the previous files in place.

        Args:
            path: A file, if it ends in ``.safetensors``; otherwise a folder, which gets
                ``config.json``, ``model.safetensors`` and, unless it has one, a model card to fill
                in, ``README.md``.
        """
        path, settings = Path(path), self.settings
        try:
            config = json.dumps({CLASS: type(self).__name__, **settings}, indent=2, sort_keys=True)
        except TypeError as error:
            raise TypeError(
                f"{type(self).__name__}: Expected arguments of the constructor that JSON can hold "
                f"({error})"
            ) from error
        if path.suffix == SUFFIX:
            return save(path, self.state_dict(), settings)
        path.mkdir(parents=True, exist_ok=True)
        save(path / TENSORS, self.state_dict(), settings)
        _write_text(path / CONFIG, config + "\n")
        if not (path / CARD).exists():
            text = (FOLDER / "new_card.md").read_text(encoding="utf-8")
            kind = type(self)
            module = ".".join(kind.__module__.split(".")[:2])  # the room exports the class
            text = text.format(module=module, model=kind.__name__, name=path.name)
            _write_text(path / CARD, text)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        commit_message: str = "Upload the model",
        private: bool | None = None,
        token: str | None = None,
    ) -> str:
        """Upload the model to the Hub and return its address. Needs ``huggingface_hub``.

        Args:
            repo_id: ``"owner/name"``; the repository is created if it does not exist.
            commit_message: Message of the commit.
            private: Whether a new repository is private.
            token: Token of the Hub; by default that of ``hf auth login``.
        """
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary, repo_id.rpartition("/")[2])
            self.save_pretrained(folder)
            return hub.upload_model(
                folder, repo_id, private=private, token=token, message=commit_message
            )

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of the constructor that gave this model."""
        return dict(vars(self)["_settings"])


def _recording(init: Callable[..., None]) -> Callable[..., None]:
    """Wrap a constructor so that it keeps the arguments of the outermost call."""
    signature = inspect.signature(init)

    @wraps(init)
    def wrapped(self: Pretrained, *args: Any, **kwargs: Any) -> None:
        if "_settings" not in vars(self):
            try:
                bound = signature.bind(self, *args, **kwargs).arguments
            except TypeError:
                bound = {}  # the constructor itself raises
            given = {name: value for name, value in bound.items() if name != "self"}
            for name, parameter in signature.parameters.items():
                if parameter.kind is parameter.VAR_KEYWORD:
                    given.update(given.pop(name, {}))
            vars(self)["_settings"] = given
        init(self, *args, **kwargs)

    return wrapped


def _takes_options(parameters: Mapping[str, inspect.Parameter]) -> bool:
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


def _read_config(path: Path) -> dict[str, Any]:
    check_readable(path)
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'{path}': Expected JSON ({error})") from error
    return _checked(path, settings)


def _checked(path: Path, settings: Any) -> dict[str, Any]:
    if not isinstance(settings, dict):
        raise ValueError(f"'{path}': Expected the settings of a model (got {settings!r})")
    return settings


def _write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
