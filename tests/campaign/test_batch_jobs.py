"""Workers in jobs of a batch system: the jobs, the errors, and campaigns with commands that play a batch system."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.campaign_runs import campaign, hold, n_done, start, write, write_gated
from support.patience import PATIENCE_OF_WORK_S, PATIENCE_S, wait_until
from support.process import run_cli

from pybatsched.campaign.batch_jobs import BatchSpec, job_of

OPTIONS = ("--on", "slurm", "--interface", "lo")


def job_lines(**settings: Any) -> list[str]:
    """Return the directives of a job and its command without the name of the interpreter."""
    dask_jobqueue = pytest.importorskip("dask_jobqueue")
    spec = BatchSpec(**settings)
    name = {"slurm": "SLURM", "moab": "Moab"}.get(str(spec.on), str(spec.on).upper())
    job_class = getattr(dask_jobqueue, f"{name}Cluster").job_cls
    script = job_of(job_class, spec, "tls://192.0.2.1:5", "job-1", logs="/out/logs", keys="/my out/keys").job_script()
    *lines, command = [line for line in script.splitlines() if line][1:]
    return [*lines, command.removeprefix(sys.executable)]


def test_the_job_of_slurm() -> None:
    settings = {"walltime": "90m", "partition": "short", "cores": 4, "directive": ["--account=geo"]}
    *directives, command = job_lines(on="slurm", **settings)
    assert directives == [
        "#SBATCH -J pybatsched",
        "#SBATCH -e /out/logs/pybatsched-%J.err",
        "#SBATCH -o /out/logs/pybatsched-%J.out",
        "#SBATCH -p short",
        "#SBATCH -n 1",
        "#SBATCH --cpus-per-task=4",
        "#SBATCH --mem=8G",
        "#SBATCH -t 01:30:00",
        "#SBATCH --account=geo",
    ]
    assert command == (
        " -m distributed.cli.dask_worker tls://192.0.2.1:5 --name job-1 --nthreads 4 --memory-limit 7.45GiB --no-nanny"
        # patience: an option of Dask
        " --death-timeout 60 --tls-ca-file='/my out/keys' --tls-cert='/my out/keys' --tls-key='/my out/keys'"
        " --memory-limit 0 --no-dashboard --preload pybatsched.campaign.on_dask"
    )


@pytest.mark.parametrize(
    ("system", "line"),
    [
        ("slurm", "#SBATCH -t 30:00:01"),
        ("pbs", "#PBS -l walltime=30:00:01"),
        ("moab", "#PBS -l walltime=30:00:01"),
        ("oar", "#OAR -l /nodes=1/core=1,walltime=30:00:01"),
        ("sge", "#$ -l h_rt=30:00:01"),
        ("lsf", "#BSUB -W 30:01"),
    ],
)
def test_the_walltime_in_each_batch_system(system: str, line: str) -> None:
    """Walltimes are rounded up: LSF has whole minutes."""
    lines = job_lines(on=system, walltime=30 * 3600 + 0.5, partition="short")
    assert line in lines
    assert any(one.endswith((" -p short", " -q short")) for one in lines)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--jobs", "4"], "--jobs: works only with --on"),
        (["--on", "slurm", "--walltime", "0"], "--walltime: expected a time above 0: seconds, or a number with m"),
        (["--on", "slurm", "--jobs", "0"], "--jobs: expected a whole number from 1 to 10,000, found 0"),
        (["--on", "slurm", "--dask", "127.0.0.1:1"], "--dask and --on were both given; expected only one"),
        (["--on", "slurm"], "--on slurm: sbatch is not on the PATH; expected the commands of the batch system"),
        (["--on", "pbs"], "--on pbs: qsub is not on the PATH; expected the commands of the batch system"),
    ],
)
def test_wrong_options(args: list[str], message: str, tmp_path: Path) -> None:
    done = run_cli("campaign", "run", str(write(tmp_path / "s.toml")), "--output", str(tmp_path / "out"), *args)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize("package", ["dask_jobqueue", "cryptography"])
def test_a_package_is_not_installed(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    done = run_cli("campaign", "run", str(write(tmp_path / "s.toml")), "--output", str(tmp_path / "out"), *OPTIONS)
    assert done.returncode == 2
    assert (
        "jobs of a batch system need dask-jobqueue and cryptography; run pip install '.[cluster]' in a clone"
        in done.stderr
    )


#: sbatch starts the script as a process of its own, with its output in the file of the job.
SBATCH = """
cp "$1" "$0.$$"
log=$(sed -n 's/^#SBATCH -e //p' "$1" | sed "s/%J/$$/")
setsid bash "$0.$$" 2> "$log" > /dev/null < /dev/null &
echo $! >> "$0.ids"
echo "Submitted batch job $!"
"""
SCANCEL = """
echo "$1" >> "$0.ids"
kill -KILL -- "-$1" 2> /dev/null
"""
#: The jobs that still run, without the program ps, which small systems do not have.
RUNNING = r'for id in $(cat $(dirname $0)/sbatch.ids); do ! grep -qs "^State:.[^ZX]" /proc/$id/status || echo $id; done'
SQUEUE = f"""
echo JOBID
{RUNNING}
"""
#: The limits that a test of an event would wait for are short, and a cell may have no second job.
_IMPATIENT = """
import sys
from pybatsched.campaign import batch_jobs, on_dask
from pybatsched.cli import main
batch_jobs.QUEUE_S, on_dask.LOOK_AT_WORKERS_S, batch_jobs.CONNECT_S = float(sys.argv.pop(1)), 0, 1
batch_jobs._SCHEDULING["distributed.scheduler.allowed-failures"] = 0
sys.exit(main(sys.argv[1:]))
"""


class Commands:
    """Commands of a batch system in a directory that is first on the PATH."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        self.write("sbatch", SBATCH)
        self.write("scancel", SCANCEL)
        self.write("squeue", SQUEUE)

    def write(self, name: str, text: str) -> None:
        (self.place / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.place / name).chmod(0o755)

    def ids(self, name: str) -> list[str]:
        """Return the ids of the jobs that were submitted or cancelled."""
        path = self.place / f"{name}.ids"
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    pytest.importorskip("dask_jobqueue")
    found = Commands(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{found.place}{os.pathsep}{os.environ['PATH']}")
    yield found
    for job in found.ids("sbatch"):
        if job not in found.ids("scancel"):
            subprocess.run([found.place / "scancel", job], timeout=PATIENCE_OF_WORK_S, check=False)


def python(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_OF_WORK_S, check=False)


def impatient(spec: Path, folder: Path, *more: str, queue_s: str = "1") -> subprocess.CompletedProcess[str]:
    return python(_IMPATIENT, queue_s, "campaign", "run", str(spec), "--output", str(folder), *OPTIONS, *more)


def test_a_campaign_whose_job_is_killed_is_that_of_one_machine(commands: Commands, tmp_path: Path) -> None:
    spec, out = write_gated(tmp_path, seeds=10, keep="files"), tmp_path / "out"
    assert campaign(spec, tmp_path / "local").returncode == 0
    hold(tmp_path, out, 5)
    process = start(spec, out, *OPTIONS, "--jobs", "2")
    wait_until(lambda: n_done(out) >= 5, by=process, limit_s=PATIENCE_OF_WORK_S)
    os.killpg(int(commands.ids("sbatch")[0]), signal.SIGKILL)
    wait_until(lambda: len(commands.ids("sbatch")) == 3, by=process, limit_s=PATIENCE_OF_WORK_S)
    (tmp_path / "gate").unlink()
    _, errors = process.communicate(timeout=PATIENCE_OF_WORK_S)
    assert process.returncode == 0, errors
    assert "30 of 30 cells done (0 before), 0 failed" in errors
    assert sorted(commands.ids("scancel")) == sorted(commands.ids("sbatch"))
    for path in (tmp_path / "local" / "results.parquet", *(tmp_path / "local").glob("runs/*/run_jobs.csv")):
        assert (out / path.relative_to(tmp_path / "local")).read_bytes() == path.read_bytes()
    assert len([*(out / "logs").iterdir()]) == 3
    assert [*out.glob(".part-*")] == []  # the keys are removed


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_cancels_the_jobs(signum: signal.Signals, commands: Commands, tmp_path: Path) -> None:
    spec, out = write_gated(tmp_path, seeds=2), tmp_path / "out"
    hold(tmp_path, out, 1)
    process = start(spec, out, *OPTIONS, "--cores", "2")
    wait_until(lambda: n_done(out) >= 1, by=process, limit_s=PATIENCE_OF_WORK_S)
    process.send_signal(signum)
    _, errors = process.communicate(timeout=PATIENCE_OF_WORK_S)
    assert process.returncode == 128 + signum
    assert f"finished cells are kept in {out}; continue with --resume" in errors
    assert commands.ids("scancel") == commands.ids("sbatch")
    assert len(commands.ids("sbatch")) == 1
    assert [*out.glob(".part-*")] == []  # the keys are removed


FATAL = '''
import os, signal
from pybatsched_schedulers.fcfs import Fcfs


class Fatal(Fcfs):
    """Ends the job in which it runs, as a walltime that is too short."""

    def on_begin(self, cluster):
        os.kill(os.getppid(), signal.SIGKILL)
'''


def test_a_cell_whose_jobs_always_end_fails_alone(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "fatal.py").write_text(FATAL)
    spec = write(tmp_path / "s.toml", seeds=2, more='[[policy]]\nname = "fatal.py:Fatal"\nworkloads = ["drawn"]\n')
    done = impatient(spec, tmp_path / "out")
    assert done.returncode == 7, done.stderr
    assert "6 of 8 cells done (0 before), 2 failed" in done.stderr
    status = run_cli("campaign", "status", str(tmp_path / "out")).stdout
    assert status.count("WorkerDied: ") == 2
    assert "its Dask worker ended 1 time while it ran; expected a longer walltime" in status


def test_a_rejected_job(commands: Commands, tmp_path: Path) -> None:
    commands.write("sbatch", "echo 'sbatch: error: invalid account' >&2; exit 1")
    done = impatient(write(tmp_path / "s.toml"), tmp_path / "out")
    assert done.returncode == 2
    assert "--on slurm: a job was rejected: sbatch: error: invalid account; expected values that the" in done.stderr


#: How sbatch lets workers wait as long as they need to connect.
# patience: workers connect long before, on any machine
_PATIENT = 'sed -i "s/--death-timeout 1/--death-timeout 600/" "$1"'


@pytest.mark.parametrize(
    ("queue", "n_jobs"),
    [
        (RUNNING, 3),
        ("false", 2),
        ("[ $(wc -l < readings) -ge 3 ] || cat sbatch.ids", 2),
    ],
    ids=["replaced", "the queue cannot be read", "the queue no longer lists even the job of the worker"],
)
def test_a_job_that_ends_before_its_worker_connects(
    queue: str, n_jobs: int, commands: Commands, tmp_path: Path
) -> None:
    """The first job ends at once. The worker of the second waits until a third is submitted, or for 5 readings."""
    open_gate = f"rm -f {tmp_path}/gate"
    ends_first = 'mkdir "$0.first" 2> /dev/null && sed -i "2i exit" "$1"'
    third = f'[ $(wc -l < "$0.ids") -lt 3 ] || {open_gate}'
    commands.write("sbatch", f"{_PATIENT}; {ends_first}; {SBATCH}{third}")
    has_worker = f"ls {tmp_path}/out/cells/*.json > /dev/null 2>&1"
    reading = f"if {has_worker}; then echo >> readings; [ $(wc -l < readings) -lt 5 ] || {open_gate}; fi"
    commands.write("squeue", f"cd $(dirname $0); {reading}; echo JOBID; {queue}")
    spec = write_gated(tmp_path)
    hold(tmp_path, tmp_path / "out", 1)
    done = impatient(spec, tmp_path / "out", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    assert len(commands.ids("sbatch")) == n_jobs
    assert sorted(commands.ids("scancel")) == sorted(commands.ids("sbatch"))


def answer(address: tuple[str, int], own: ssl.SSLContext | None) -> bytes:
    """Connect, by TLS if there is a context, send some bytes, and return the first byte of the answer, if any."""
    with contextlib.ExitStack() as opened, contextlib.suppress(ConnectionError, ssl.SSLError):
        end = opened.enter_context(socket.create_connection(address, timeout=PATIENCE_S))
        if own is not None:
            end = opened.enter_context(own.wrap_socket(end))
        end.sendall(bytes(64))
        return end.recv(1)
    return b""


def test_only_owners_of_the_key_can_connect(commands: Commands, tmp_path: Path) -> None:
    psutil = pytest.importorskip("psutil")
    spec, out = write_gated(tmp_path), tmp_path / "out"
    hold(tmp_path, out, 1)
    process = start(spec, out, *OPTIONS)
    wait_until(lambda: n_done(out) >= 1, by=process, limit_s=PATIENCE_OF_WORK_S)
    (script,) = commands.place.glob("sbatch.[0-9]*")
    found = re.search(r"tls://(127\.0\.0\.1):(\d+) .* --tls-key=(\S+)", script.read_text())
    assert found is not None
    address, keys = (found[1], int(found[2])), Path(found[3])
    assert keys.parent == out
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600

    def context(certificate: Path | None) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
        if certificate is not None:
            made.load_cert_chain(certificate)
        return made

    other = tmp_path / "other"
    code = (
        "from dask.distributed import Security; s = Security.temporary(); print(s.tls_client_cert + s.tls_client_key)"
    )
    other.write_text(python(code).stdout)
    assert answer(address, None) in {b"", b"\x15"}  # TLS's record of an alert
    assert answer(address, context(None)) == answer(address, context(other)) == b""
    assert answer(address, context(keys)) != b""
    own = [job.net_connections() for job in psutil.Process(int(commands.ids("sbatch")[0])).children(recursive=True)]
    (port,) = {one.laddr.port for found in own for one in found if one.status == "LISTEN"}  # of the worker
    assert answer(("127.0.0.1", port), None) in {b"", b"\x15"}
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_OF_WORK_S)
    (tmp_path / "gate").unlink()
    assert keys.exists()
    done = impatient(spec, out, "--resume")
    assert done.returncode == 0, done.stderr
    assert [*out.glob(".part-*")] == []


@pytest.mark.parametrize(("queue_s", "n_calls"), [("1", 3), ("1e9", 2)])
def test_a_limit_of_submitted_jobs(queue_s: str, n_calls: int, commands: Commands, tmp_path: Path) -> None:
    """The second of two jobs is rejected. The campaign runs in the first, and tries again at the next reading."""
    spec = write_gated(tmp_path)
    if n_calls == 3:
        hold(tmp_path, tmp_path / "out", 1)
    reject = "mkdir $0.2 2> /dev/null && echo limit >&2 && exit 1"
    commands.write(
        "sbatch",
        f"echo >> $0.calls; {_PATIENT}; mkdir $0.1 2> /dev/null || {{ {reject}; rm {tmp_path}/gate; }}; {SBATCH}",
    )
    done = impatient(spec, tmp_path / "out", "--jobs", "2", queue_s=queue_s)
    assert done.returncode == 0, done.stderr
    assert len((commands.place / "sbatch.calls").read_text()) == n_calls
    assert len(commands.ids("sbatch")) == n_calls - 1
    said = f"--on slurm: 1 of 2 jobs rejected: limit; {_ADVICE} {float(queue_s):g} s, later ones less often. The"
    assert done.stderr.count(said) == 1
    assert "The campaign ends if no job runs for 86400 s (--start-within)\n" in done.stderr


_ADVICE = "expected values that the batch system accepts, such as a smaller --jobs. The next job is submitted in"


def test_rejected_jobs_are_submitted_one_by_one_and_less_often(commands: Commands, tmp_path: Path) -> None:
    """The first of three jobs runs the campaign until the fourth rejection after the first two."""
    spec = write_gated(tmp_path)
    hold(tmp_path, tmp_path / "out", 1)
    first = 'mkdir "$0.1" 2> /dev/null'
    rejected = f"cut -d ' ' -f 1 /proc/uptime >> $0.at; [ $(wc -l < $0.at) -lt 6 ] || rm -f {tmp_path}/gate"
    commands.write("sbatch", f"{first} || {{ {rejected}; echo limit >&2; exit 1; }}; {_PATIENT}; {SBATCH}")
    done = impatient(spec, tmp_path / "out", "--jobs", "3", queue_s="0.3")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("2 of 3 jobs rejected: limit") == done.stderr.count(": limit") == 1
    at = [float(line) for line in (commands.place / "sbatch.at").read_text().split()][1:]
    for n, (one, other) in enumerate(itertools.pairwise(at)):
        assert other - one > 0.3 * 2**n - 0.02  # resolution: times have 0.01 s


def test_a_rejected_job_while_no_other_starts(commands: Commands, tmp_path: Path) -> None:
    commands.write("sbatch", 'mkdir "$0.1" 2> /dev/null || { echo limit >&2; exit 1; }; echo "Submitted batch job 17"')
    # patience: the event that ends the wait never comes, so any time will do
    done = impatient(write(tmp_path / "s.toml"), tmp_path / "out", "--jobs", "2", "--start-within", "1")
    assert done.returncode == 4, done.stderr
    assert "The campaign ends if no job runs for 1 s (--start-within)\n" in done.stderr
    assert "no job has run for 1 s; expected at least one, or a longer --start-within; limit. squeue" in done.stderr


_NO_ANSWER = """
import signal
import sys
from pathlib import Path
from unittest import mock
from pybatsched.campaign import batch_jobs

spec = batch_jobs.BatchSpec(on="slurm", interface="lo")
before = signal.getsignal(signal.SIGINT)
from dask.distributed import SpecCluster
with (
    mock.patch.object(SpecCluster, "close", autospec=True, side_effect=SpecCluster.close) as close,
    mock.patch.object(batch_jobs.DaskWorkers, "__init__", side_effect=OSError("no answer")),
):
    try:
        batch_jobs.BatchWorkers(spec, str, 0.0, Path(sys.argv[1]), print)
    except OSError:
        print(close.call_count, signal.getsignal(signal.SIGINT) is before)
"""


def test_a_scheduler_that_does_not_answer_is_closed_and_ctrl_c_works_as_before(
    commands: Commands, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    done = python(_NO_ANSWER, str(tmp_path / "out"))
    assert (done.stdout, done.stderr) == ("1 True\n", "")
    assert [*(tmp_path / "out").iterdir()] == []  # the keys are removed, too


def test_a_queue_in_which_no_job_starts(commands: Commands, tmp_path: Path) -> None:
    commands.write("sbatch", 'echo 17 >> "$0.ids"; echo "Submitted batch job 17"')
    commands.write("squeue", "echo 'JOBID ST REASON'; echo '17 PD (Priority)'; echo '170 R'")
    # patience: the event that ends the wait never comes, so any time will do
    done = impatient(write(tmp_path / "s.toml"), tmp_path / "out", "--start-within", "1")
    assert done.returncode == 4
    assert "no job has run for 1 s; expected at least one, or a longer --start-within" in done.stderr
    assert done.stderr.endswith(" prints:\nJOBID ST REASON\n17 PD (Priority)\n")
    assert commands.ids("scancel") == ["17"]


def test_jobs_that_end_before_their_workers_connect(commands: Commands, tmp_path: Path) -> None:
    """Nothing listens at the address that the workers get."""
    commands.write("sbatch", f"sed -i 's#tls://127.0.0.1:[0-9]*#tls://127.0.0.1:1#' \"$1\"\n{SBATCH}")
    old = tmp_path / "out" / "logs" / "pybatsched-1.err"
    old.parent.mkdir(parents=True)
    old.write_text("of an earlier run")
    os.utime(old, (2**32, 2**32))
    done = impatient(write(tmp_path / "s.toml"), tmp_path / "out", "--resume")
    assert done.returncode == 4
    assert "all jobs ended before a worker connected to tls://127.0.0.1:" in done.stderr
    assert "expected an address that the nodes reach (--interface) and the same Python on all nodes" in done.stderr
    assert f"The end of {tmp_path}/out/logs/pybatsched-" in done.stderr
    assert "Timed out starting worker" in done.stderr
    assert "of an earlier run" not in done.stderr


def test_an_interface_that_this_machine_does_not_have(commands: Commands, tmp_path: Path) -> None:
    done = impatient(write(tmp_path / "s.toml"), tmp_path / "out", "--interface", "no0")
    assert done.returncode == 2
    assert "--interface no0: 'no0' is not a valid network interface. Valid network interfaces are: [" in done.stderr
    assert commands.ids("sbatch") == []
