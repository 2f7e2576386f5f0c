import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("name", ["segment_parts", "classify_shapes"])
def test_examples_say_what_is_missing(name, tmp_path):
    env = {k: v for k, v in os.environ.items() if k != "PERMUTOGEO_DATA"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--quick"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**env, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 2
    assert "PERMUTOGEO_DATA" in done.stderr and ".npz" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
