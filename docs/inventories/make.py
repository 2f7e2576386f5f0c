"""Writes the intersphinx inventories beside this file, from the installed packages.

The inventories list the public names of each package with the place that its documentation gives
them, so that the site links to them without a network while it is built. Run it after an upgrade:
``python docs/inventories/make.py``.
"""

import importlib
import inspect
import zlib
from pathlib import Path

HERE = Path(__file__).parent
GENERATED = "generated/{name}.html"
NUMPY = "reference/generated/{name}.html"

# Project -> module -> page of its names. Later modules win.
PAGES = {
    "torch": {
        "torch.nn": GENERATED,
        "torch.nn.functional": GENERATED,
        "torch.nn.parallel": GENERATED,
        "torch.optim": GENERATED,
        "torch.optim.lr_scheduler": GENERATED,
        "torch.utils.data": "data.html",
        "torch.distributed": "distributed.html",
        "torch.export": "user_guide/torch_compiler/export/api_reference.html",
        "torch.library": "library.html",
    },
    "torch_geometric": {
        "torch_geometric.nn.conv": GENERATED,
        "torch_geometric.nn.models": GENERATED,
        "torch_geometric.nn.norm": GENERATED,
        "torch_geometric.data": GENERATED,
        "torch_geometric.transforms": GENERATED,
        "torch_geometric.datasets": GENERATED,
        "torch_geometric.loader": "modules/loader.html",
    },
    "numpy": {},
    "python": {
        "builtins": "library/functions.html",
        "abc": "library/abc.html",
        "collections.abc": "library/collections.abc.html",
        "enum": "library/enum.html",
        "os": "library/os.html",
        "pathlib": "library/pathlib.html",
        "typing": "library/typing.html",
        "warnings": "library/warnings.html",
    },
}
STANDARD_TYPES = (
    *("bytearray", "bytes", "dict", "frozenset", "list"),
    *("memoryview", "range", "set", "str", "tuple"),
)
# Names with a place of their own.
PLACES = {
    "torch": {
        "torch.Tensor": "tensors.html",
        "torch.nn.Parameter": "generated/torch.nn.parameter.Parameter.html",
        "torch.nn.Buffer": "generated/torch.nn.parameter.Buffer.html",
        "torch.nn.Flatten": "generated/torch.nn.modules.flatten.Flatten.html",
        "torch.nn.Unflatten": "generated/torch.nn.modules.flatten.Unflatten.html",
        "torch.optim.Optimizer": "optim.html",
        "torch.device": "tensor_attributes.html",
        "torch.dtype": "tensor_attributes.html",
        "torch.Generator": GENERATED,
        "torch.compile": GENERATED,
        "torch.no_grad": GENERATED,
        "torch.load": GENERATED,
        "torch.save": GENERATED,
        "torch.manual_seed": GENERATED,
        "torch.set_num_threads": GENERATED,
        "torch.use_deterministic_algorithms": GENERATED,
    },
    "torch_geometric": {},
    "numpy": {
        "numpy.ndarray": NUMPY,
        "numpy.dtype": NUMPY,
        "numpy.uint8": "reference/arrays.scalars.html",
        "numpy.random.Generator": "reference/random/generator.html",
    },
    "python": {
        **dict.fromkeys(STANDARD_TYPES, "library/stdtypes.html"),
        "bool": "library/functions.html",
        "int": "library/functions.html",
        "float": "library/functions.html",
        "None": "library/constants.html",
        "os.PathLike": "library/os.html",
        "slice": "library/functions.html",
    },
}
MODULES = {
    "torch": ["torch.distributed"],
    "torch_geometric": [],
    "numpy": [],
    "python": [],
}


def look_up(name: str) -> object:
    """Return what a dotted name stands for."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module or "builtins"), attribute, None)


def role(name: str, value: object) -> str:
    """Return the role of a name in Sphinx's Python domain."""
    if inspect.isclass(value):
        return "exception" if issubclass(value, BaseException) else "class"
    return "function" if callable(value) else "data"


def names_of(module_name: str) -> list[str]:
    """Return the public classes and functions of a module, with their full names."""
    module = importlib.import_module(module_name)
    names = [name for name in getattr(module, "__all__", dir(module)) if not name.startswith("_")]
    prefix = "" if module_name == "builtins" else f"{module_name}."
    values = ((name, getattr(module, name, None)) for name in names)
    return [
        f"{prefix}{name}"
        for name, value in values
        if inspect.isroutine(value) or inspect.isclass(value)
    ]


def entries(project: str) -> dict[str, tuple[str, str]]:
    """Return role and address by name; the defining modules are further names of the same thing."""
    pages = {}
    for module, page in PAGES[project].items():
        for name in names_of(module):
            value = look_up(name)
            exception = inspect.isclass(value) and issubclass(value, BaseException)
            pages[name] = "library/exceptions.html" if exception and module == "builtins" else page
    pages |= PLACES[project]
    found = {}
    for name, page in pages.items():
        # The page of an inner name, as that of torch.nn.parameter.Parameter, has its anchor.
        page, value = page.format(name=name), look_up(name)
        own = page.removeprefix("generated/").removesuffix(".html")
        address = f"{page}#{own if page.startswith('generated/') else name}"
        kind = role(name, value)
        inner = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
        found.setdefault(inner, (kind, address))
        found[name] = (kind, address)
    for name, page in PAGES[project].items():
        if name in MODULES[project]:
            found[name] = ("module", f"{page}#module-{name}")
    if project == "torch_geometric":  # documented below nn.conv, used as nn
        found |= {name.replace(".nn.conv.", ".nn."): v for name, v in found.items()}
    return {name: value for name, value in found.items() if not name.startswith(".")}


def write(project: str) -> int:
    """Write the inventory of a project; return the number of names."""
    found = entries(project)
    lines = [f"{name} py:{kind} 1 {place} -\n" for name, (kind, place) in sorted(found.items())]
    head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
    head += "# The remainder of this file is compressed using zlib.\n"
    body = zlib.compress("".join(lines).encode(), 9)
    (HERE / f"{project}.inv").write_bytes(head.encode() + body)
    return len(found)


if __name__ == "__main__":
    for each in PAGES:
        print(f"{each}.inv: {write(each)} names")
