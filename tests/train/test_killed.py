"""Training killed by SIGKILL and resumed; ``kill_training.py`` is the long version."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_runs_resume_to_the_same_bits():
    script = Path(__file__).with_name("kill_training.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, str(script), "--kills", "6"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.match(r"killed \d+ times in \d+ runs", done.stdout)
