"""Resample the users of a log: a new log of any length with the same users' behaviour, another one for each seed.

Zakay and Feitelson (Workload resampling for performance evaluation of parallel job schedulers, ICPE 2013 and CCPE 2014)
split a log into the jobs of each user, and combine them anew, so that daily and weekly cycles are kept. Here:

* The weeks of a log have 168 hours, from the first submission on. A job keeps its place within the week.
* A *long-term* user is active for `long_term_weeks` or more, from the week of the first job to that of the last.
  All weeks of such a user are shifted by the same random number of weeks, modulo the weeks of the log.
* Other users are *temporary*. The number of temporary users that arrive in a week is that of a random week of the
  log. Each of them is a random temporary user of the log, with all jobs of that user. Some arrive before the new log
  begins, so that its first weeks are not empty.
* For another load, the number of users changes. A long-term user has several copies, each shifted on its own, or is
  left out. More or fewer temporary users arrive.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pybatsched.core.dependencies import with_ids
from pybatsched.core.derive import delay_of
from pybatsched.errors import InputError, quantity
from pybatsched.workload.formats.checks import is_number
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import check_load, load_factor, offered_load, resubmitted, used_profiles
from pybatsched.workload.walltimes import tidy
from pybatsched.workload.weeks import WEEK_S

_DAY_S: Final = 86_400
_MOST_WEEKS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Resampling:
    """Options of a resample: `weeks` and `load` (None: of the log), and the least weeks of a long-term user."""

    weeks: int | None = None
    long_term_weeks: int = 12
    load: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("weeks", self.weeks), ("long-term weeks", self.long_term_weeks)):
            if value is not None and not 1 <= value <= _MOST_WEEKS:
                raise InputError(f"resample: {name}: expected 1 to {_MOST_WEEKS:,}, found {value:,}")
        if self.load is not None:
            check_load(self.load, "resample: load")

    def as_json(self) -> dict[str, Any]:
        """Return the options that are set, for the workload file."""
        options = {"weeks": self.weeks, "long_term_weeks": self.long_term_weeks, "load": self.load}
        return {name: value for name, value in options.items() if value is not None}


class _User(NamedTuple):
    """A user of a log: the name (None for jobs without one), and the jobs by their weeks, counted from 0."""

    name: Any
    weeks: Mapping[int, Sequence[Mapping[str, Any]]]

    @property
    def first(self) -> int:
        return min(self.weeks)

    @property
    def n_active(self) -> int:
        """The number of weeks from the first job to the last."""
        return max(self.weeks) - self.first + 1


def resample(workload: Workload, options: Resampling, seed: int | str = 0) -> Workload:
    """Return a log of resampled users. The same seed gives the same one. O(n log n). Raises InputError.

    Jobs are numbered from 1. A user that occurs several times has several names: 17, 17.2, 17.3, … Deadlines keep their
    distance from the submission, and jobs depend on the same job of their copy of the user, the latest earlier one.
    """
    users, n_log_weeks, first_at = _users(workload)
    factor = 1.0 if options.load is None else load_factor([workload], options.load, workload.n_procs)
    rng = random.Random(f"{seed}/resample")  # noqa: S311  no secret
    n_weeks = options.weeks or n_log_weeks
    made: list[tuple[float, int, int, Mapping[str, Any], Any]] = []
    seen: Counter[Any] = Counter()
    for copy, (user, own) in enumerate(_copies(users, n_log_weeks, n_weeks, options, factor=factor, rng=rng)):
        seen[user.name] += 1
        name = user.name if seen[user.name] == 1 or user.name is None else f"{user.name}.{seen[user.name]}"
        made += [(at, copy, place, job, name) for place, (at, job) in enumerate(own)]
    if not made:
        raise InputError(
            f"{workload.source}: resample: no job is left in {quantity(n_weeks, 'week')}; expected more weeks or users"
        )
    made.sort(key=lambda row: row[:3])
    ids: dict[tuple[int, str], int | str] = {}
    jobs = []
    for number, row in enumerate(made, start=1):
        jobs.append(_renamed(number, row, ids))
        ids[row[1], str(row[3]["id"])] = number
    about = {name: value for name, value in workload.about.items() if name not in {"report", "selection", "week"}}
    shift = workload.about.get("shifted_by", 0)
    about["shifted_by"] = tidy(first_at + (shift if is_number(shift) else 0))  # the same day and hour as in the log
    about["resampled"] = {**options.as_json(), "weeks": n_weeks, "seed": seed}
    return Workload(jobs, used_profiles(jobs, workload.profiles), workload.n_procs, workload.source, about)


def resamples(workload: Workload, n: int, options: Resampling, seed: int) -> Iterator[Workload]:
    """Yield `n` resamples of a log, all different. O(n log n) each."""
    for number in range(1, n + 1):
        yield resample(workload, options, f"{seed}/{number}")


def _users(workload: Workload) -> tuple[list[_User], int, float]:
    """Return the users in the order of their first jobs, the number of weeks of the log, and its first submission."""
    if not any(job.get("user") is not None for job in workload.jobs):
        raise InputError(
            f"{workload.source}: resample: expected jobs with the field user, found none; a log without users can be "
            "shaken, not resampled"
        )
    first_at = min(job["subtime"] for job in workload.jobs)
    weeks: dict[Any, dict[int, list[Mapping[str, Any]]]] = {}
    for job in sorted(workload.jobs, key=lambda job: job["subtime"]):
        own = weeks.setdefault(job.get("user"), {})
        own.setdefault(int((job["subtime"] - first_at) // WEEK_S), []).append(job)
    users = [_User(name, own) for name, own in weeks.items()]
    n_weeks = max(max(user.weeks) for user in users) + 1
    if n_weeks < 2:
        raise InputError(f"{workload.source}: resample: expected a log of 2 weeks or more, found 1")
    if n_weeks > _MOST_WEEKS:
        raise InputError(f"{workload.source}: resample: expected at most {_MOST_WEEKS:,} weeks, found {n_weeks:,}")
    return [user._replace(weeks=_relative(user, first_at)) for user in users], n_weeks, first_at


def _relative(user: _User, first_at: float) -> dict[int, list[Mapping[str, Any]]]:
    """Return the jobs of a user by week, with submissions counted from the start of their week."""
    return {
        week: [resubmitted(job, tidy(job["subtime"] - first_at - week * WEEK_S)) for job in jobs]
        for week, jobs in user.weeks.items()
    }


def _copies(
    users: Sequence[_User], n_log_weeks: int, n_weeks: int, options: Resampling, *, factor: float, rng: random.Random
) -> Iterator[tuple[_User, list[tuple[float, Mapping[str, Any]]]]]:
    """Yield users of the new log with their jobs and submissions. Users without a job in it are left out."""
    stays = [user for user in users if user.n_active >= options.long_term_weeks]
    temporary = [user for user in users if user.n_active < options.long_term_weeks]
    for user in stays:
        for _ in range(_rounded(factor, rng)):
            shift = rng.randrange(n_log_weeks)
            jobs = [
                (tidy(week * WEEK_S + job["subtime"]), job)
                for week in range(n_weeks)
                for job in user.weeks.get((week + shift) % n_log_weeks, ())
            ]
            if jobs:
                yield user, jobs
    arrivals = Counter(user.first for user in temporary)
    before = max((user.n_active for user in temporary), default=1) - 1
    for week in range(-before, n_weeks if temporary else -before):
        for _ in range(_rounded(factor * arrivals[rng.randrange(n_log_weeks)], rng)):
            user = rng.choice(temporary)
            jobs = [
                (tidy((week + own - user.first) * WEEK_S + job["subtime"]), job)
                for own, found in user.weeks.items()
                if 0 <= week + own - user.first < n_weeks
                for job in found
            ]
            if jobs:
                yield user, jobs


def _rounded(value: float, rng: random.Random) -> int:
    """Round a number up or down at random, so that its mean is kept."""
    low = math.floor(value)
    return low if low == value else low + (rng.random() < value - low)


def _renamed(
    number: int, row: tuple[float, int, int, Mapping[str, Any], Any], ids: dict[tuple[int, str], int | str]
) -> dict[str, Any]:
    """Return a job of the new log. Dependencies on jobs that are not among the earlier ones, `ids`, are removed."""
    at, copy, _, job, name = row
    made = {**resubmitted(job, at), "id": number}
    if name is not None:
        made["user"] = name
    if "array" in job:
        made["array"] = ids[copy, str(job["array"])] = f"{job['array']}.{copy}"
    if "depends_on" in job:
        made, _ = with_ids(made, lambda other: ids.get((copy, other)))
    return made


class Check(NamedTuple):
    """A figure of the log and of its resample."""

    name: str
    log: float
    resample: float


def checks(log: Workload, made: Workload) -> list[Check]:
    """Return figures that a resample should keep: load, users, cycles, distributions and locality. O(n log n).

    Differences of distributions are the largest difference of the two shares up to any value (Kolmogorov and Smirnov),
    or of the shares of any hour or day; of the log with itself they are 0. The locality is the share of jobs that have
    the size of the user's job before, and a run time within a factor of two of it.
    """
    both = (log, made)
    loads = [_load(one) for one in both]
    weeks = [_by_week(one) for one in both]
    per_week = [len(one.jobs) / len(own) for one, own in zip(both, weeks, strict=True)]
    n_users = [sum(map(len, own)) / len(own) for own in weeks]
    sizes, run_s = ([[get(one, job) for job in one.jobs] for one in both] for get in (_size, _run_s))
    hours, days = ([_shares(one, log, unit_s, n) for one in both] for unit_s, n in ((3600, 24), (_DAY_S, 7)))
    local = [_locality(one) for one in both]
    return [
        Check("jobs per week", *per_week),
        Check("users per week", *n_users),
        Check("offered load", *loads),
        Check("difference of sizes", 0.0, _distance(*sizes)),
        Check("difference of run times", 0.0, _distance(*run_s)),
        Check("difference of the daily cycle", 0.0, max(abs(a - b) for a, b in zip(*hours, strict=True))),
        Check("difference of the weekly cycle", 0.0, max(abs(a - b) for a, b in zip(*days, strict=True))),
        Check("locality of users", *local),
    ]


def _load(workload: Workload) -> float:
    try:
        return offered_load([workload], workload.n_procs)
    except InputError:  # run times are not known
        return math.nan


def _by_week(workload: Workload) -> list[set[Any]]:
    """Return the users of each week."""
    first_at = min(job["subtime"] for job in workload.jobs)
    n = int((max(job["subtime"] for job in workload.jobs) - first_at) // WEEK_S) + 1
    found: list[set[Any]] = [set() for _ in range(n)]
    for job in workload.jobs:
        found[int((job["subtime"] - first_at) // WEEK_S)].add(job.get("user"))
    return found


def _size(_workload: Workload, job: Mapping[str, Any]) -> float:
    return float(job["res"])


def _run_s(workload: Workload, job: Mapping[str, Any]) -> float:
    known = delay_of(workload.profiles[job["profile"]], workload.profiles)
    return -1.0 if known is None else known


def _shares(workload: Workload, log: Workload, unit_s: float, n: int) -> list[float]:
    """Return the shares of submissions in each hour of a day, or day of a week, from the log's first submission."""
    start = min(job["subtime"] for job in log.jobs) if workload is log else 0
    counts = Counter(int((job["subtime"] - start) // unit_s) % n for job in workload.jobs)
    return [counts[k] / len(workload.jobs) for k in range(n)]


def _distance(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the largest difference of the shares of values up to any value. O(n log n)."""
    a, b = Counter(first), Counter(second)
    below_a = below_b = 0
    greatest = 0.0
    for value in sorted({*a, *b}):
        below_a += a[value]
        below_b += b[value]
        greatest = max(greatest, abs(below_a / len(first) - below_b / len(second)))
    return greatest


def _locality(workload: Workload) -> float:
    """Return the share of jobs that are like the job of the same user before, in size and run time."""
    last: dict[Any, tuple[int, float]] = {}
    n = n_same = 0
    for job in workload.jobs:
        size, run_s = job["res"], _run_s(workload, job)
        user = job.get("user")
        if user in last:
            before = last[user]
            n += 1
            n_same += before[0] == size and before[1] / 2 <= run_s <= before[1] * 2
        last[user] = size, run_s
    return n_same / n if n else math.nan
