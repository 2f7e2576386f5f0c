"""Pages of the API reference, one a module, written from its ``__all__`` before each build."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from enum import Enum
from pathlib import Path
from types import ModuleType

# Modules in the order of the contents. A module of permutogeo.__all__ that is missing is an error.
MODULES = [
    "permutogeo",
    "permutogeo.functional",
    "permutogeo.nn",
    "permutogeo.models",
    "permutogeo.image",
    "permutogeo.denoising",
    "permutogeo.solvers",
    "permutogeo.data",
    "permutogeo.transforms",
    "permutogeo.datasets",
    "permutogeo.train",
    "permutogeo.viz",
    "permutogeo.weights",
    "permutogeo.tiles",
    "permutogeo.cluster",
    "permutogeo.distributed",
    "permutogeo.compat.pydensecrf.densecrf",
    "permutogeo.compat.pydensecrf.utils",
    "permutogeo.compat.pydensecrf.eigen",
    "permutogeo.compat.spconv",
    "permutogeo.compat.spconv.pytorch",
    "permutogeo.ops",
]


# Methods of our base classes are shown, those of these are not.
FOREIGN = (
    "ABC BaseTransform BatchNorm1d Dataset Enum Exception Identity Module MessagePassing ReLU "
    "SyncBatchNorm UserWarning dict int ndarray tuple"
)
CLASS_OPTIONS = [
    "   :members:",
    f"   :inherited-members: {', '.join(FOREIGN.split())}",
]


def public_names(module: ModuleType) -> list[str]:
    """Return the public names of a module that are not modules themselves."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [
            name
            for name, value in vars(module).items()
            if not name.startswith("_")
            and getattr(value, "__module__", "").startswith(module.__name__)
        ]
    values = {name: getattr(module, name) for name in names if not name.startswith("__")}
    return sorted(name for name, value in values.items() if not inspect.ismodule(value))


def public_bases(value: type) -> list[type]:
    """Return the base classes but ``object``, with those of a private base in its place."""
    found: list[type] = []
    for base in value.__bases__:
        if base.__name__.startswith("_"):
            found += public_bases(base)
        elif base is not object:
            found.append(base)
    return list(dict.fromkeys(found))


def kind(value: object) -> str:
    """Return the autodoc directive of a value."""
    if inspect.isclass(value):
        return "autoexception" if issubclass(value, BaseException) else "autoclass"
    return "autofunction" if callable(value) else "autodata"


# Constants have no docstrings.
CONSTANTS = {
    "permutogeo.cluster.MANIFEST_NAME": "Name of the manifest in an output folder.",
    "permutogeo.denoising.METHODS": "Methods of :func:`denoise`.",
    "permutogeo.weights.FOLDER": "Folder of the shipped weights and cards.",
    "permutogeo.weights.SETTINGS": "Metadata entry that holds the arguments of the constructor.",
}


def has_docstring(module: ModuleType, name: str) -> bool:
    """Return whether a name has a docstring of its own, for the table of its module."""
    return f"{module.__name__}.{name}" not in CONSTANTS and not isinstance(
        getattr(module, name), Enum
    )


def operators(module: ModuleType) -> dict[str, list[str]]:
    """Return the entries of custom operators of torch: their schema, and what their module says."""
    import torch

    entries = {}
    for each in pkgutil.iter_modules(module.__path__, module.__name__ + "."):
        part = importlib.import_module(each.name)
        source = inspect.getsource(part)
        for name in public_names(module):
            if f"\n{name} = define(" in source:
                schema = getattr(torch.ops.permutogeo, name).default._schema
                arguments = ", ".join(argument.name for argument in schema.arguments)
                text = " ".join((part.__doc__ or "").split("\n\n")[0].split())
                entries[name] = [f".. py:function:: {name}({arguments})", "", f"   {text}", ""]
                entries[name] += ["   .. code-block:: none", "", f"      {schema}"]
    return entries


def entry(module: ModuleType, name: str, written: dict[str, list[str]]) -> list[str]:
    """Return the entry of a name."""
    value, text = getattr(module, name), CONSTANTS.get(f"{module.__name__}.{name}")
    if name in written:
        return written[name]
    if text is not None:
        shown = [] if isinstance(value, Path) else [f"   :value: {value!r}"]
        return [f".. py:data:: {name}", *shown, "", f"   {text}"]
    if isinstance(value, Enum):
        role = f":class:`{type(value).__name__}`"
        return [f".. py:data:: {name}", f"   :value: {value.value}", "", f"   Member of {role}."]
    lines = [f".. {kind(value)}:: {name}"]
    if inspect.isclass(value):
        lines += [] if issubclass(value, BaseException) else CLASS_OPTIONS
        lines += ["   :show-inheritance:"] * bool(public_bases(value))
    return lines


def page(name: str, shown: set[str]) -> str:
    """Return the page of a module in reStructuredText; examples use the names ``shown``."""
    module = importlib.import_module(name)
    names = public_names(module)
    title = name.replace("_", r"\_").replace(".", ".\u200b")  # may break after a dot
    lines = [title, "=" * len(title), "", f".. automodule:: {name}", ""]
    lines += [f".. currentmodule:: {name}", ""]
    written = operators(module) if name == "permutogeo.ops" else {}
    if not written:
        lines += [".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   {each}" for each in names if has_docstring(module, each)]
    for each in names:
        lines += ["", each, "-" * len(each), "", *entry(module, each, written)]
        full = f"{name}.{each}"
        if found := sorted(key for key in shown if key == full or key.startswith(f"{full}.")):
            lines += ["", ".. rubric:: Examples", "", f".. minigallery:: {' '.join(found)}"]
    return "\n".join(lines) + "\n"


def write_pages(app) -> None:
    """Write the pages whose contents changed."""
    import permutogeo

    modules = {f"permutogeo.{name}" for name in permutogeo.__all__}
    modules = {name for name in modules if inspect.ismodule(getattr(permutogeo, name[11:], None))}
    missing = {name for name in modules if not any(each.startswith(name) for each in MODULES)}
    if missing:
        raise RuntimeError(f"Expected the reference to have {', '.join(sorted(missing))}")
    # Written by sphinx-gallery, whose step comes before this one.
    found = Path(app.srcdir, "gallery", "backreferences", "backreferences_all.json")
    shown = set(json.loads(found.read_text(encoding="utf-8")))
    for name in MODULES:
        path = Path(app.srcdir, "api", f"{name}.rst")
        text = page(name, shown)
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


def tidy_signature(app, what, name, obj, options, signature, returns):
    """Replace defaults that are not Python, such as ``<factory>``, so that types become links."""
    if signature:
        # Such as <function f.<lambda> at 0x1>.
        signature = re.sub(r"<[^<>]*(<[^<>]*>[^<>]*)*>", "...", signature)
        signature = re.sub(r", _\w+: [^=]*= \.\.\.", "", signature)
    return signature, returns


def hide_private_bases(app, name, obj, options, bases):
    """Show public base classes only."""
    bases[:] = public_bases(obj)


def link_pages(app, what, name, obj, options, lines):
    """Replace paths of pages by links."""
    lines[:] = [re.sub(r"docs/([\w/]+)\.md", r":doc:`/\1`", line) for line in lines]


def setup(app):
    """Register the steps."""
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-bases", hide_private_bases)
    app.connect("autodoc-process-docstring", link_pages)
    app.connect("autodoc-process-signature", tidy_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
