import ast
import re
from pathlib import Path

import warp as wp

from permutogeo.kernels import splat
from permutogeo.kernels.module import named


def test_module_names_tell_the_factory_call():
    assert named("blur", wp.float32, 2).name == "permutogeo_blur_float32_2"
    assert named("blur", wp.float32, 2) is named("blur", wp.float32, 2)


def test_kernels_have_no_adjoint():
    made = splat.make(3, wp.float32)
    assert made is splat.make(3, wp.float32)
    assert not made.scatter.options["enable_backward"]


def used_builtins():
    """Names of Warp that the kernels use, by file."""
    found = {}
    for path in sorted(Path(splat.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "wp":
                found.setdefault(node.attr, set()).add(path.stem)
    return found


def test_no_kernel_uses_blocks_or_barriers():
    """Threads of a kernel meet in atomics of the hash table alone, so that an execution of them in
    any order, as on the simulated GPU, covers what a block of a real one can do."""
    used = used_builtins()
    assert {"tid", "array1d", "atomic_cas"} <= set(used)
    cooperative = re.compile(r"tile|block|barrier|sync|shared|lane|fence|ballot|shuffle")
    assert not [name for name in used if cooperative.search(name)]
    atomics = {name: files for name, files in used.items() if "atomic" in name}
    assert set().union(*atomics.values()) == {"table"}, atomics
