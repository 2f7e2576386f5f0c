"""Runs a command and tells a hang from a machine that is busy, by processor time."""

import os
import signal
import subprocess
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def session_seconds(session):
    """Return the processor time of all living processes of a session and of their dead children."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # has ended
            continue
        if int(fields[3]) == session:
            total += sum(map(int, fields[11:15]))
    return total / _TICKS


def run_watched(command, idle, busy):
    """Return exit code, output and errors of a command; the exit code is ``None`` if it hangs.

    It hangs if its processes use no processor time for ``idle`` seconds in a row, or more than
    ``busy`` seconds in all. A process that is starved or stopped by others is given time.
    """
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    used, since = 0.0, time.monotonic()
    while True:
        try:
            out, errors = child.communicate(timeout=min(5.0, idle / 4))
            return child.returncode, out, errors
        except subprocess.TimeoutExpired:
            now = session_seconds(child.pid)
        if now > used + 0.05:
            used, since = now, time.monotonic()
        if time.monotonic() - since > idle or now > busy:
            os.killpg(child.pid, signal.SIGKILL)  # workers of the command too
            return None, *child.communicate()
