"""The command, settings and title that an experiment's record and page carry."""

from permutogeo.benchmarks.record import command_line as command

__all__ = ["command", "settings_of", "titled"]


def settings_of(args):
    """Return the parsed arguments as text, by name."""
    return {name: str(value) for name, value in vars(args).items()}


def titled(title, args):
    """Return the title of a page, marked if the run was a quick one."""
    return f"{title} (quick run: few data, few steps)" if args.quick else title
