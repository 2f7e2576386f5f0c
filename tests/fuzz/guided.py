"""Coverage-guided fuzzing of the parsers with atheris (``pip install permutogeo[fuzz]``).

    python tests/fuzz/guided.py ply --seconds 60

Starts from the corpus of the suffix. Inputs that reach new code are added to ``--work``; an input
that makes a parser fail other than by a ValueError ends the run and is written beside them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["permutogeo.data"]):
    import fuzz

    from permutogeo.data import from_mesh  # noqa: F401


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suffix", help="format, as in 'ply'")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--work", type=Path, help="folder of the inputs found")
    options = parser.parse_args()
    seeds = [(name, path) for name, path in fuzz.corpus() if path.suffix == f".{options.suffix}"]
    if not seeds:
        parser.error(f"Expected a format of the corpus (got '{options.suffix}')")
    work = options.work or Path(tempfile.mkdtemp(prefix="permutogeo-fuzz-"))
    work.mkdir(parents=True, exist_ok=True)
    for _, path in seeds:
        shutil.copy(path, work)
    readers = [fuzz.READERS[name] for name in {name for name, _ in seeds}]
    target = Path(tempfile.mkdtemp()) / f"input.{options.suffix}"
    warnings.simplefilter("ignore")

    def test_one(content: bytes) -> None:
        target.write_bytes(content)
        for reader in readers:
            try:
                reader(target)
            except ValueError as error:
                if target.name not in str(error):
                    raise

    limits = [f"-max_total_time={options.seconds}", "-rss_limit_mb=4096", "-timeout=20"]
    atheris.Setup([sys.argv[0], str(work), f"-artifact_prefix={work}/failed-", *limits], test_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
