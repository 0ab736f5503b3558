"""Run cells in jobs of a batch system: dask-jobqueue submits the jobs, and each of them is a worker of Dask.

The Dask scheduler runs in this process. A job that ends, for example at its walltime, is replaced as long as cells are
left, and the cells that it ran are run again in another job. When this process ends, the jobs end, too.
"""

from __future__ import annotations

import asyncio
import getpass
import math
import re
import shlex
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

from pybatsched.campaign.on_dask import DaskWorkers
from pybatsched.errors import InputError, PeerLostError, setting
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
#: A cell fails if its tenth job ends during it. Workers get no cells in advance, which would count, too.
_SCHEDULING: Final = {"distributed.scheduler.allowed-failures": 9, "distributed.scheduler.worker-saturation": 1.0}
#: After how many seconds a job ends whose worker cannot connect.
CONNECT_S = 60
#: How often the queue is read while a job has no worker, and rejected jobs are tried again; the limit of a reading.
QUEUE_S = 30.0
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
    """Workers in jobs of a batch system. The output of the jobs is in the directory `logs`."""

    def __init__(self, spec: BatchSpec, folder_of: Callable[[str], str], timeout_s: float, logs: Path) -> None:
        on_interrupt = signal.getsignal(signal.SIGINT)
        try:
            import dask_jobqueue  # noqa: PLC0415  an optional dependency
            from dask import config  # noqa: PLC0415  an optional dependency
            from dask.distributed import Scheduler, SpecCluster  # noqa: PLC0415  an optional dependency
        except ImportError:
            raise InputError.not_installed("jobs of a batch system need dask-jobqueue", "cluster") from None
        signal.signal(signal.SIGINT, on_interrupt)  # the import lets Ctrl-C end with exit code 0
        assert spec.on is not None
        self._spec, self._logs, self._old_logs = spec, logs, {*logs.glob("*")}
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
        self._last_worker_at = self._checked_at = time.monotonic()
        options = {"interface": spec.interface, "dashboard": False, "dashboard_address": "127.0.0.1:0"}
        scheduler = {"cls": Scheduler, "options": options}
        try:
            with config.set(_SCHEDULING):
                self._cluster = SpecCluster(scheduler=scheduler, silence_logs="critical")
        except RuntimeError as error:  # with the names of all interfaces
            raise InputError(f"{setting('interface', spec.interface or '')}: {error.__cause__ or error}") from None
        try:
            super().__init__(self._cluster.scheduler_address, folder_of, timeout_s)
        except BaseException:
            self._cluster.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.sync(_cancel, self._jobs.values())
        super().__exit__(kind, error, trace)
        self._cluster.close()

    def _look_at_workers(self) -> None:
        super()._look_at_workers()
        now = time.monotonic()
        is_due = now - self._checked_at > min(QUEUE_S, self._spec.start_within)
        if is_due:
            self._checked_at = now
        if self._cluster.sync(self._replace_jobs, is_due):
            self._last_worker_at = now
        elif not self._jobs and not self._has_connected:
            raise InputError(
                f"{setting('on', self._spec.on)}: a job was rejected: {self._refusal}; expected values that the batch "
                f"system accepts, such as that of {setting('partition')}"
            )
        if is_due and (not self._jobs or self._jobs.keys() - self._connected):
            self._check_queue(now - self._last_worker_at)

    async def _replace_jobs(self, is_due: bool) -> bool:
        """Submit jobs in the place of those that have ended, as long as there are cells. Return if there is a worker.

        A job has ended when its worker is no longer there. After a rejected job, jobs are submitted only if `is_due`.
        """
        names = {worker.name for worker in self._cluster.scheduler.workers.values()}
        await _cancel([self._jobs.pop(name) for name in self._connected - names])
        self._connected = names & self._jobs.keys()
        self._has_connected |= bool(names)
        if self._refusal and not is_due:
            return bool(names)
        n_needed = min(self._spec.jobs, math.ceil(self._n_left / self._spec.cores))
        new = [self._new_job() for _ in range(n_needed - len(self._jobs))]
        self._jobs |= {job.name: job for job in new}
        refusals = [one for one in await asyncio.gather(*new, return_exceptions=True) if isinstance(one, Exception)]
        self._refusal = _said(refusals[0]) if refusals else ""
        self._jobs = {name: job for name, job in self._jobs.items() if job.job_id is not None}
        return bool(names)

    def _new_job(self) -> Any:
        self._n_named += 1
        return job_of(
            self._job_class, self._spec, self._cluster.scheduler_address, f"job-{self._n_named}", str(self._logs)
        )

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


def job_of(job_class: Any, spec: BatchSpec, address: str, name: str, logs: str) -> Any:
    """Return a job that is not submitted yet: of a class of dask-jobqueue, with a worker of the scheduler `address`."""
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
            # The batch system limits the memory, not Dask: it would pause the worker.
            worker_extra_args=["--memory-limit", "0", "--no-dashboard", "--preload", DaskWorkers.__module__],
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
