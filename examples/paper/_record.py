"""The command, settings and title that an experiment's record and page carry."""

import shlex
import sys
from pathlib import Path


def command():
    """Return the command line as typed, from the root of the repository."""
    return shlex.join(["python", f"examples/paper/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def settings_of(args):
    """Return the parsed arguments as text, by name."""
    return {name: str(value) for name, value in vars(args).items()}


def titled(title, args):
    """Return the title of a page, marked if the run was a quick one."""
    return f"{title} (quick run: few data, few steps)" if args.quick else title
