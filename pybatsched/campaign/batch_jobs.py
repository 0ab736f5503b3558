"""Run cells in jobs of a batch system: dask-jobqueue submits the jobs, and each of them is a worker of Dask.

The Dask scheduler runs in this process. A job that ends, for example at its walltime, is replaced as long as cells are
left, and the cells that it ran are run again in another job. When this process ends, the jobs end, too.

All connections use TLS with a certificate of this process. The jobs read it, and its key, from a file in the campaign's
directory that only its owner can read. The file is removed at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

from pybatsched.campaign.on_dask import DaskWorkers
from pybatsched.errors import InputError, PeerLostError, quantity, setting
from pybatsched.results.atomic_files import TEMPORARY
from pybatsched.settings import NUMBER, TEXT, TEXTS, TIME, Checked, Kind, given, one_of, record_of_settings, whole


class _System(NamedTuple):
    """A batch system: its cluster class in dask-jobqueue, and the command that lists the jobs of a user."""

    cluster: str
    queue: str


_SYSTEMS: Final = {
    "slurm": _System("SLURMCluster", "squeue --user={user}"),
    "pbs": _System("PBSCluster", "qstat -u {user}"),
    "oar": _System("OARCluster", "oarstat -u {user}"),
    "lsf": _System("LSFCluster", "bjobs -u {user}"),
    "sge": _System("SGECluster", "qstat -u {user}"),
    "moab": _System("MoabCluster", "showq -w user={user}"),
}
#: Memory of a job for each of its cores, unless it is given.
_GB_PER_CORE: Final = 2.0
#: A cell fails if its tenth job ends during it. Workers get no cells in advance, which would count, too. No pages of
#: the scheduler, which other users of this machine could read.
_SCHEDULING: Final = {
    "distributed.scheduler.allowed-failures": 9,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.http.routes": [],
}
#: After how many seconds a job ends whose worker cannot connect.
CONNECT_S = 60
#: How often the queue is read while a job has no worker, and the limit of a reading; the wait after a rejected job.
QUEUE_S = 30.0
#: How many times the wait is doubled, once for each rejection that follows: up to 16 minutes.
_N_DOUBLINGS: Final = 5
_N_LINES: Final = 10
_LIMIT: Final = Kind(
    f"a time above 0: {TIME.expected}", lambda value: TIME.of(value) or None, "T", unit="s", also="str"
)


@record_of_settings
class BatchSpec(Checked):
    """The jobs of a batch system that run the cells of a campaign."""

    on: str | None = given("run the cells in jobs of this batch system, with dask-jobqueue", one_of(*_SYSTEMS))
    jobs: int = given("number of jobs at a time", whole(1, 10_000), 1)
    cores: int = given("cores of a job; each core runs a cell at a time", whole(1, 4096), 1)
    memory_gb: float | None = given(
        f"memory of a job in GB (default: {_GB_PER_CORE:g} for each core)", NUMBER, metavar="GB"
    )
    walltime: float = given("walltime of a job", _LIMIT, 3600.0)
    partition: str | None = given("partition or queue of the jobs (default: as the batch system chooses)", TEXT)
    directive: tuple[str, ...] = given("another directive of the job script, such as '-A geo'", TEXTS, ())
    interface: str | None = given(
        "network interface of this machine that the nodes reach, such as ib0 (default: that of the default route)",
        TEXT,
    )
    start_within: float = given("fail if for this time there is no running job", _LIMIT, 86400.0)


class BatchWorkers(DaskWorkers):
    """Workers in jobs of a batch system. The output of the jobs is in the directory `logs` of the campaign's `folder`.

    `say` prints a message for the user.
    """

    def __init__(
        self,
        spec: BatchSpec,
        folder_of: Callable[[str], str],
        timeout_s: float,
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        on_interrupt = signal.getsignal(signal.SIGINT)
        try:
            import dask_jobqueue  # noqa: PLC0415  an optional dependency
            from dask import config  # noqa: PLC0415  an optional dependency
            from dask.distributed import Scheduler, Security, SpecCluster  # noqa: PLC0415  an optional dependency

            security = Security.temporary()
        except ImportError:
            raise InputError.not_installed(
                "jobs of a batch system need dask-jobqueue and cryptography", "cluster"
            ) from None
        signal.signal(signal.SIGINT, on_interrupt)  # the import lets Ctrl-C end with exit code 0
        assert spec.on is not None
        self._spec, self._say, self._logs = spec, say, folder / "logs"
        self._old_logs = {*self._logs.glob("*")}
        self._system = _SYSTEMS[spec.on]
        self._job_class = getattr(dask_jobqueue, self._system.cluster).job_cls
        submit = shlex.split(self._job_class.submit_command)[0]
        if shutil.which(submit) is None:
            raise InputError(
                f"{setting('on', spec.on)}: {submit} is not on the PATH; expected the commands of the batch system: "
                "run this command on a machine from which you submit jobs"
            )
        self._jobs: dict[str, Any] = {}
        self._connected: set[str] = set()
        self._n_named = 0
        self._has_connected = False
        self._refusal = ""
        self._n_refusals = 0
        self._retry_at = 0.0
        self._last_worker_at = self._checked_at = time.monotonic()
        options = {
            "protocol": "tls://",
            "security": security,
            "interface": spec.interface,
            "dashboard": False,
            "dashboard_address": "127.0.0.1:0",
        }
        scheduler = {"cls": Scheduler, "options": options}
        with contextlib.ExitStack() as started:
            # If this process is killed, the next run in this directory removes the file, as all temporary files.
            prefix = f"{TEMPORARY}{os.getpid()}."
            keys = started.enter_context(tempfile.NamedTemporaryFile("w", dir=folder, prefix=prefix))
            keys.write(security.tls_worker_cert + security.tls_worker_key)
            keys.flush()
            self._keys = keys.name
            try:
                with config.set(_SCHEDULING):
                    cluster = SpecCluster(scheduler=scheduler, security=security, silence_logs="critical")
            except RuntimeError as error:  # with the names of all interfaces
                raise InputError(f"{setting('interface', spec.interface or '')}: {error.__cause__ or error}") from None
            self._cluster = started.enter_context(cluster)
            super().__init__(cluster.scheduler_address, folder_of, timeout_s, security)
            self._started = started.pop_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._started:
            self._cluster.sync(_cancel, self._jobs.values())
            super().__exit__(kind, error, trace)

    def _look_at_workers(self) -> None:
        super()._look_at_workers()
        now = time.monotonic()
        is_due = now - self._checked_at > min(QUEUE_S, self._spec.start_within)
        if is_due:
            self._checked_at = now
        if self._cluster.sync(self._replace_jobs, now):
            self._last_worker_at = now
        elif not self._jobs and not self._has_connected:
            raise InputError(
                f"{setting('on', self._spec.on)}: a job was rejected: {self._refusal}; expected values that the batch "
                f"system accepts, such as that of {setting('partition')}"
            )
        if is_due and (not self._jobs or self._jobs.keys() - self._connected):
            self._check_queue(now - self._last_worker_at)

    async def _replace_jobs(self, now: float) -> bool:
        """Submit jobs in the place of those that have ended, as long as there are cells. Return if there is a worker.

        A job has ended when its worker is no longer there. After a rejection, one job is submitted at a time: when
        another job has ended, or after a wait that grows with each rejection.
        """
        names = {worker.name for worker in self._cluster.scheduler.workers.values()}
        ended = [self._jobs.pop(name) for name in self._connected - names]
        await _cancel(ended)
        self._connected = names & self._jobs.keys()
        self._has_connected |= bool(names)
        if now < self._retry_at and not ended:
            return bool(names)
        n_missing = min(self._spec.jobs, math.ceil(self._n_left / self._spec.cores)) - len(self._jobs)
        new = [self._new_job() for _ in range(min(n_missing, 1) if self._refusal else n_missing)]
        self._jobs |= {job.name: job for job in new}
        refusals = [one for one in await asyncio.gather(*new, return_exceptions=True) if isinstance(one, Exception)]
        self._jobs = {name: job for name, job in self._jobs.items() if job.job_id is not None}
        if refusals:
            self._refused(_said(refusals[0]), len(refusals), len(new))
        elif new:
            self._refusal, self._n_refusals = "", 0
        return bool(names)

    def _refused(self, refusal: str, n_rejected: int, n_submitted: int) -> None:
        """Wait before the next job is submitted, and name the reason once."""
        wait_s = QUEUE_S * 2 ** min(self._n_refusals, _N_DOUBLINGS)
        self._retry_at = time.monotonic() + wait_s
        if not self._refusal and (self._jobs or self._has_connected):
            self._say(
                f"{setting('on', self._spec.on)}: {n_rejected} of {quantity(n_submitted, 'job')} rejected: {refusal}; "
                f"expected values that the batch system accepts, such as a smaller {setting('jobs')}. The next job is "
                f"submitted in {wait_s:g} s, later ones less often. The campaign ends if no job runs for "
                f"{self._spec.start_within:g} s ({setting('start_within')})"
            )
        self._refusal = refusal
        self._n_refusals += 1

    def _new_job(self) -> Any:
        self._n_named += 1
        address, name = self._cluster.scheduler_address, f"job-{self._n_named}"
        return job_of(self._job_class, self._spec, address, name, logs=str(self._logs), keys=self._keys)

    def _check_queue(self, waited_s: float) -> None:
        """Raise PeerLostError if no job has run for too long, or if all jobs ended before a worker connected.

        Jobs that left the queue without a worker are replaced if earlier ones had workers: nodes fail.
        """
        ids = {job.job_id: name for name, job in self._jobs.items()}
        left: set[str] = set()
        command = self._system.queue.format(user=getpass.getuser())
        try:
            done = subprocess.run(  # noqa: S603  a command of the table above
                shlex.split(command), capture_output=True, text=True, timeout=QUEUE_S, check=False, errors="replace"
            )
            head, *lines = (done.stdout or done.stderr).splitlines() or [""]
            found = [line for line in lines if re.search(rf"\b({'|'.join(ids)})\b", line)]
            if done.returncode == 0 and (found or not self._connected):  # a worker's job is in the queue
                left = {ids[job] for job in ids.keys() - re.findall(r"\w+", done.stdout)}
            shown = "\n".join([head, *found[:_N_LINES]])
        except (OSError, subprocess.TimeoutExpired) as error:
            shown = str(error)
        if waited_s > self._spec.start_within:
            refusal = f"; {self._refusal}" if self._refusal else ""
            raise PeerLostError(
                f"no job has run for {self._spec.start_within:g} s; expected at least one, or a longer "
                f"{setting('start_within')}{refusal}. {command} prints:\n{shown}"
            )
        if self._has_connected:
            self._cluster.sync(_cancel, [self._jobs.pop(name) for name in left - self._connected])
        elif left == self._jobs.keys():
            raise PeerLostError(
                f"all jobs ended before a worker connected to {self._cluster.scheduler_address}; expected an address "
                f"that the nodes reach ({setting('interface')}) and the same Python on all nodes. {self._last_output()}"
            )

    def _last_output(self) -> str:
        """Return the last lines that the last job has written."""
        files = [path for path in {*self._logs.iterdir()} - self._old_logs if path.stat().st_size]
        if not files:
            return f"The jobs wrote nothing to {self._logs}"
        last = max(files, key=lambda path: path.stat().st_mtime)
        lines = last.read_text(encoding="utf-8", errors="replace").splitlines()[-_N_LINES:]
        return "\n".join([f"The end of {last}:", *lines])


def job_of(job_class: Any, spec: BatchSpec, address: str, name: str, *, logs: str, keys: str) -> Any:
    """Return a job that is not submitted yet: of a class of dask-jobqueue, with a worker of the scheduler `address`.

    `keys` is the file of the certificate and its key.
    """
    minutes, seconds = divmod(math.ceil(spec.walltime), 60)
    if spec.on == "lsf":  # which has no seconds
        walltime = "{:02}:{:02}".format(*divmod(minutes + (seconds > 0), 60))
    else:
        walltime = "{:02}:{:02}:{:02}".format(*divmod(minutes, 60), seconds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # OAR has no directive for memory
        return job_class(
            address,
            name=name,
            job_name="pybatsched",
            queue=spec.partition,
            walltime=walltime,
            cores=spec.cores,
            processes=1,
            memory=f"{spec.memory_gb or _GB_PER_CORE * spec.cores:g}GB",
            job_extra_directives=list(spec.directive) or None,  # None: those of the configuration of Dask
            death_timeout=CONNECT_S,
            log_directory=logs,
            nanny=False,
            worker_extra_args=[
                *(f"{name}={shlex.quote(keys)}" for name in ("--tls-ca-file", "--tls-cert", "--tls-key")),
                # The batch system limits the memory, not Dask: it would pause the worker.
                *("--memory-limit", "0", "--no-dashboard", "--preload", DaskWorkers.__module__),
            ],
        )


async def _cancel(jobs: Iterable[Any]) -> None:
    """Cancel jobs, also those that are just being submitted. Jobs that have ended are no error."""

    async def cancel(job: Any) -> None:
        async with job.lock:
            await job.close()

    await asyncio.gather(*map(cancel, jobs))


def _said(error: Exception) -> str:
    """Return what the command that submits jobs has written to its standard error."""
    return str(error).rpartition("stderr:")[2].strip() or str(error)
