"""Many files (or tiles) by one function, on this machine or on a Dask cluster.

:func:`map_files` runs a picklable function over jobs and keeps a manifest, so that a run can be
resumed. In reading order: ``jobs`` (the public function), ``manifest`` (what was made from what),
``dask_pool`` (the only module that imports dask).

>>> import tempfile
>>> from pathlib import Path
>>> from permutogeo.cluster import FileJob, map_files
>>> def upper(job):
...     job.target.write_text(job.source.read_text().upper())
>>> with tempfile.TemporaryDirectory() as folder:
...     source, target = Path(folder, "a.txt"), Path(folder, "out", "a.txt")
...     _ = source.write_text("hello")
...     report = map_files(upper, [FileJob(source, target)], Path(folder, "out"))
...     again = map_files(upper, [FileJob(source, target)], Path(folder, "out"), resume=True)
...     target.read_text(), len(report.done), len(again.skipped)
('HELLO', 1, 1)
"""

from permutogeo.cluster.dask_pool import check_scheduler
from permutogeo.cluster.jobs import FileJob, JobReport, map_files
from permutogeo.cluster.manifest import MANIFEST_NAME, Manifest, file_digest, fingerprint

__all__ = [
    "MANIFEST_NAME",
    "FileJob",
    "JobReport",
    "Manifest",
    "check_scheduler",
    "file_digest",
    "fingerprint",
    "map_files",
]
