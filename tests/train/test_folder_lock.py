import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from permutogeo.train import Trainer
from permutogeo.train.folder_lock import lock_folder

ROOT = Path(__file__).parent.parent.parent
# Holds the lock until it is killed; the module alone, without torch.
HOLDER = """
import importlib.util, sys, time
from pathlib import Path

spec = importlib.util.spec_from_file_location("folder_lock", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
with module.lock_folder(Path(sys.argv[2])):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_another_process_is_refused_until_it_ends(tmp_path):
    module = ROOT / "permutogeo" / "train" / "folder_lock.py"
    command = [sys.executable, "-c", HOLDER, str(module), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(ValueError, match="no other trainer"), lock_folder(tmp_path):
            pass
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    with lock_folder(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    assert list(tmp_path.iterdir()) == []


def test_a_second_trainer_is_refused(tmp_path, loader, make_model):
    """The second would overwrite the checkpoints of the first."""

    def start_another(row):
        with pytest.raises(ValueError, match=f"'{tmp_path}': Expected a folder that no other"):
            Trainer(make_model(), epochs=1, checkpoints=tmp_path).fit(loader)
        rows.append(row)

    rows = []
    trainer = Trainer(make_model(), epochs=2, checkpoints=tmp_path, report=start_another)
    assert trainer.fit(loader) == rows
    assert Trainer(make_model(), epochs=1, checkpoints=tmp_path).fit(loader)
