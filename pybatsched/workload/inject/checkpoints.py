"""Lengthen jobs by the dumps of their checkpoints, and set the job fields of checkpoints. Daly's interval is here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from pybatsched.core.checkpoints import DUMP, INTERVAL, READ, WORK, n_dumps, with_dumps_s
from pybatsched.core.derive import delay_of, shortened_profile
from pybatsched.core.instants import A_SPAN
from pybatsched.errors import InputError, quantity, setting
from pybatsched.settings import TIME, Checked, Kind, given, record_of_settings
from pybatsched.workload.model import Workload
from pybatsched.workload.walltimes import tidy

#: The interval by Daly's formula, from the MTBF of the job and the time of a dump.
DALY: Final = "daly"
#: A job that needs more attempts than this on average to complete a checkpoint is worth a remark.
_MANY_ATTEMPTS: Final = 20_000


def _interval(value: Any) -> str | None:
    text = str(value)
    return text if text == DALY or round(TIME.of(text) or 0, 6) else None


def _time(value: Any) -> str | None:
    return str(value) if TIME.of(str(value)) is not None else None


@record_of_settings
class Checkpointing(Checked):
    """Checkpoints of all jobs that have no fields of their own. Times are texts, as the user wrote them."""

    prefix = "checkpoint."

    interval: str = given(
        "jobs write checkpoints after every T of work (1h), or by Daly's formula from the MTBF and their size "
        "(default: no checkpoints; daly if Python or a campaign gives other settings of checkpoints)",
        Kind(f"{DALY}, or more than 0 {A_SPAN}", _interval, "T|daly"),
        DALY,
        "--checkpoint",
    )
    dump: str = given("time to write a checkpoint", Kind(A_SPAN, _time, "T"), "5m", "--checkpoint-dump")
    read: str | None = given(
        "time to read a checkpoint (default: as to write it)", Kind(A_SPAN, _time, "T"), None, "--checkpoint-read"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dump_s <= 0:
            raise InputError(field="checkpoint.dump", expected="more than 0 seconds", found=self.dump)

    @classmethod
    def of_settings(cls, value: Any) -> Checkpointing:
        """Return the checkpoints of an interval, or of settings by name: ``{"interval": "daly", "dump": "10m"}``.

        >>> Checkpointing.of_settings("1h").interval, Checkpointing.of_settings({"dump": "1m"}).dump_s
        ('1h', 60.0)
        """
        if isinstance(value, Checkpointing):
            return value
        given_settings = {"interval": value} if isinstance(value, str | int | float) else value
        if not isinstance(given_settings, Mapping):
            raise InputError(field="checkpoint", expected="daly, a time, or settings by name", found=value)
        return cls.by_name(given_settings)

    @property
    def dump_s(self) -> float:
        """The time of a dump."""
        return float(TIME.of(self.dump))

    @property
    def read_s(self) -> float:
        """The time to read a checkpoint."""
        return float(TIME.of(self.dump if self.read is None else self.read))

    def as_dict(self) -> dict[str, Any]:
        """Return the settings by name, for summaries."""
        return asdict(self)


def daly_interval_s(dump_s: float, mtbf_s: float) -> float:
    """Return Daly's interval of work between two checkpoints, of higher order, for a dump of C and an MTBF of M.

    It is sqrt(2 C M) (1 + sqrt(r) / 3 + r / 9) - C with r = C / 2 M, and M if C is 2 M or more. J. T. Daly: A higher
    order estimate of the optimum checkpoint interval for restart dumps, 2006.

    >>> round(daly_interval_s(50.0, 40_000.0), 3), daly_interval_s(100.0, 20.0)
    (1966.806, 20.0)
    """
    ratio = dump_s / (2 * mtbf_s)
    if ratio >= 1:
        return mtbf_s
    return math.sqrt(2 * dump_s * mtbf_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - dump_s


def has_checkpoints(workload: Workload) -> bool:
    """Return whether a job has the fields of checkpoints, and is not lengthened yet. O(jobs)."""
    return INTERVAL in workload.fields and any(INTERVAL in job and WORK not in job for job in workload.jobs)


def with_checkpoints(
    workload: Workload, settings: Checkpointing | None, *, node_mtbf_s: float | None, speed: float | None
) -> Workload:
    """Return the workload with jobs that are longer by the dumps of their checkpoints. O(jobs).

    A job's own fields override the `settings` for all jobs. A walltime grows by the dumps of a job whose work is the
    walltime, and an estimate likewise. Computations run at the `speed` of all hosts in flop/s; None if they differ. The
    MTBF of a job is that of one host, `node_mtbf_s`, divided by its number of hosts. Jobs without a dump stay as they
    are. Raises InputError.
    """
    jobs: list[dict[str, Any]] = []
    profiles = dict(workload.profiles)
    for job in workload.jobs:
        if WORK in job or (settings is None and INTERVAL not in job):
            jobs.append(job)
            continue
        where = f"{workload.source}: job {job['id']}"
        times = _times_of(job, settings, node_mtbf_s, where)
        profile = workload.profiles[job["profile"]]
        work_s = _work_s(profile, workload.profiles, job["res"], speed)
        if work_s is None:
            raise InputError(
                f"{where}: profile {job['profile']}: checkpoints need delays, or computations without communication "
                "on hosts of one speed"
            )
        jobs.append(_lengthened(job, times, work_s, workload, profiles))
    about = dict(workload.about)
    return Workload(jobs, profiles, workload.n_procs, workload.source, about)


def progress_remark(workload: Workload, node_mtbf_s: float) -> str:
    """Return a remark if jobs would hardly complete: with MTBF M and period P it takes e^(P / M) attempts."""

    def ratio(job: Mapping[str, Any]) -> float:
        return float((job[INTERVAL] + job[DUMP]) * job["res"] / node_mtbf_s)

    jobs = workload.jobs if WORK in workload.fields else ()
    slow = [job for job in jobs if WORK in job and ratio(job) > math.log(_MANY_ATTEMPTS)]
    if not slow:
        return ""
    worst = max(slow, key=ratio)
    others = f" (more than {_MANY_ATTEMPTS:,} also for {quantity(len(slow) - 1, 'other job')})" if len(slow) > 1 else ""
    return (
        f"{workload.source}: job {worst['id']}: its hosts fail every {node_mtbf_s / worst['res']:g} s on average, so "
        f"that it needs about {_power_of_e(ratio(worst))} attempts{others} for one checkpoint after "
        f"{worst[INTERVAL]:g} s of work that takes {worst[DUMP]:g} s, if it is requeued after failures; a shorter "
        "interval and dump, or a longer MTBF, need fewer"
    )


def _power_of_e(exponent: float) -> str:
    """Write e^exponent, which may be larger than the largest float.

    >>> _power_of_e(12), _power_of_e(5000)
    ('162,755', 'e^5000')
    """
    return f"{math.exp(exponent):,.0f}" if exponent < 30 else f"e^{exponent:.0f}"


def _times_of(
    job: Mapping[str, Any], settings: Checkpointing | None, node_mtbf_s: float | None, where: str
) -> tuple[float, float, float]:
    """Return the interval, the time of a dump and the time of a read of a job."""
    dump_s = _seconds(job, DUMP, None if settings is None else settings.dump_s, where)
    read_s = _seconds(job, READ, dump_s if settings is None or DUMP in job else settings.read_s, where)
    interval: Any = job.get(INTERVAL, None if settings is None else settings.interval)
    if interval == DALY:
        if node_mtbf_s is None:
            raise InputError(
                f"{where}: the interval {DALY} needs the MTBF of machines; expected {setting('failures.mtbf')}, or a "
                "time"
            )
        interval_s = daly_interval_s(dump_s, node_mtbf_s / job["res"])
        if not round(interval_s, 6):
            raise InputError(
                f"{where}, field {DUMP}: expected more than 0 seconds for the interval {DALY}, found {dump_s:g}"
            )
        return interval_s, dump_s, read_s
    if INTERVAL in job:
        interval_s = _seconds(job, INTERVAL, None, where)
        if not round(interval_s, 6):
            raise InputError(
                f"{where}, field {INTERVAL}: expected more than 0 seconds, or {DALY!r}, found {interval_s:g}"
            )
        return interval_s, dump_s, read_s
    return float(TIME.of(str(interval))), dump_s, read_s


def _seconds(job: Mapping[str, Any], name: str, default: float | None, where: str) -> float:
    value = job.get(name, default)
    if value is None:
        raise InputError(f"{where}, field {name}: expected seconds, found nothing")
    if type(value) not in {int, float} or not 0 <= value < math.inf:
        raise InputError(f"{where}, field {name}: expected 0 seconds or more, found {value!r:.40}")
    return float(value)


def _work_s(
    profile: Mapping[str, Any], profiles: Mapping[str, Mapping[str, Any]], n: int, speed: float | None
) -> float | None:
    """Return the run time of a profile without dumps; None if it is not known."""
    delay_s = delay_of(profile, profiles)
    if delay_s is not None:
        return delay_s
    cpu: Any = profile.get("cpu")
    com: Any = profile.get("com", 0)
    amounts = cpu if isinstance(cpu, list) else [cpu]
    if speed is None or any(com if isinstance(com, list) else [com]):
        return None
    if any(type(amount) not in {int, float} for amount in amounts) or not amounts:
        return None
    if profile.get("type") == "parallel_homogeneous_total":
        return float(amounts[0]) / n / speed
    return float(max(amounts)) / speed if profile.get("type") in {"parallel", "parallel_homogeneous"} else None


def _lengthened(
    job: dict[str, Any],
    times: tuple[float, float, float],
    work_s: float,
    workload: Workload,
    profiles: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """Return a job with dumps, and add its profile."""
    interval_s, dump_s, read_s = times
    interval_s, exact_s, work_s = round(interval_s, 6), work_s, round(work_s, 6)
    own = {name: value for name, value in job.items() if name not in {INTERVAL, DUMP, READ}}
    if not n_dumps(work_s, interval_s):
        return own
    total_s = with_dumps_s(work_s, interval_s, dump_s)
    name = f"{job['profile']}+{n_dumps(work_s, interval_s)}x{tidy(dump_s)}"
    profile = workload.profiles[job["profile"]]
    if profile.get("type") == "parallel_homogeneous_total":  # the dumps of more hosts are more work
        name += f"/{job['res']}"
    made = dict(shortened_profile(profile, workload.profiles, exact_s, exact_s + total_s - work_s))
    while profiles.get(name, made) != made:  # another profile has this name
        name += "+"
    profiles[name] = made
    own["profile"] = name
    for field in ("walltime", "estimate"):
        span_s = own.get(field)
        if type(span_s) in {int, float} and span_s is not None and span_s > 0:
            own[field] = tidy(with_dumps_s(span_s, interval_s, dump_s))
    return {**own, INTERVAL: tidy(interval_s), DUMP: tidy(dump_s), READ: tidy(read_s), WORK: tidy(work_s)}
