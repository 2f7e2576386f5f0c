"""Many files by one function: failures, resuming, and a worker that is killed."""

import os

import pytest

from permutogeo.cluster import FileJob, Manifest, map_files


@pytest.fixture
def jobs(tmp_path):
    """Ten small files with the paths of their outputs."""
    found = []
    for number in range(10):
        source = tmp_path / "in" / f"{number}.txt"
        source.parent.mkdir(exist_ok=True)
        source.write_text(f"file {number}")
        found.append(FileJob(source, tmp_path / "out" / "deep" / f"{number}.txt"))
    return found


def shout(job):
    text = job.source.read_text()
    if text == "bad":
        raise ValueError("Expected a good file")
    job.target.write_text(text.upper())
    return len(text)


def test_in_this_process(jobs, tmp_path):
    jobs[3].source.write_text("bad")
    seen = []
    report = map_files(shout, jobs, tmp_path / "out", on_done=lambda *args: seen.append(args))
    assert len(report.done) == 9 and [job for job, _ in report.failed] == [jobs[3]]
    assert report.failed[0][1] == f"'{jobs[3].source}': Expected a good file"
    assert seen[0] == (jobs[0], 6, None, 0.1) and seen[-1][3] == 1.0
    assert jobs[9].target.read_text() == "FILE 9" and not jobs[3].target.exists()


def test_resume(jobs, tmp_path):
    jobs[3].source.write_text("bad")
    out, settings = tmp_path / "out", {"volume": 11}
    map_files(shout, jobs, out, settings=settings)
    jobs[3].source.write_text("good")
    os.utime(jobs[5].source, ns=(1, 1))
    report = map_files(shout, jobs, out, settings=settings, resume=True)
    assert report.done == [jobs[3], jobs[5]] and len(report.skipped) == 8
    assert len(map_files(shout, jobs, out, settings={"volume": 1}, resume=True).done) == 10
    assert len(map_files(shout, jobs, out, settings={"volume": 1}).done) == 10


@pytest.mark.slow
def test_a_worker_is_killed_in_the_middle(jobs, tmp_path):
    """Every output is there, whole, once; the worker that died is replaced."""
    pytest.importorskip("distributed")
    flag, log = tmp_path / "killed", tmp_path / "log"
    log.mkdir()

    def slow(job):  # defined here, so that it is pickled by value
        import os
        import signal
        import time

        from permutogeo.data.files import replacing

        number = int(job.source.stem)
        if number == 7:
            raise ValueError("Expected another number")
        with replacing(job.target) as temporary, open(temporary, "w") as file:
            file.write("half")
            file.flush()
            time.sleep(0.1)
            if number == 2 and not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            file.seek(0)
            file.write(f"whole {number}")
        (log / f"{number}-{os.getpid()}").touch()
        return os.getpid()

    processes = []
    report = map_files(
        slow,
        jobs,
        tmp_path / "out",
        scheduler="local:2",
        memory=2**30,
        on_done=lambda job, result, error, fraction: processes.append(result),
    )
    assert flag.exists(), "no worker was killed"
    assert sorted(job.source.stem for job in report.done) == [str(i) for i in range(10) if i != 7]
    assert report.failed == [(jobs[7], f"'{jobs[7].source}': Expected another number")]
    for job in report.done:
        assert job.target.read_text() == f"whole {job.source.stem}"
    manifest = Manifest(tmp_path / "out")
    assert len(manifest.entries) == 9
    assert all(manifest.is_done(job.source, job.target) for job in report.done)
    assert len(manifest.path.read_text().splitlines()) == 9
    assert len(set(processes) - {None}) >= 2 and os.getpid() not in processes
    again = map_files(slow, jobs, tmp_path / "out", resume=True)
    assert again.done == [] and len(again.failed) == 1


@pytest.mark.slow
def test_a_scheduler_by_its_address(jobs, tmp_path):
    distributed = pytest.importorskip("distributed")

    def double(job):
        job.target.write_text(job.source.read_text() * 2)

    with distributed.LocalCluster(
        n_workers=1, processes=False, protocol="tcp://", dashboard_address=None
    ) as cluster:
        report = map_files(double, jobs, tmp_path / "out", scheduler=cluster.scheduler_address)
    assert len(report.done) == 10 and jobs[4].target.read_text() == "file 4file 4"
