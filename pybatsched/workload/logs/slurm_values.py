"""Read single values of Slurm's accounting; None for an unknown one. Raises ValueError with what was expected."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

#: Values that mean: unknown.
UNKNOWN: Final = frozenset({"", "unknown", "none", "n/a", "na", "nan", "null", "(null)", "not_set", "invalid"})
#: Time limits that are no numbers, as numbers, and their names: no limit, or that of the partition.
NO_LIMIT: Final = {"unlimited": -1.0, "infinite": -1.0, "partition_limit": -2.0}
LIMIT_NAMES: Final = {-1.0: "UNLIMITED", -2.0: "Partition_Limit"}
_LATEST: Final = 253_402_300_800  # the year 10000
_DAY_S: Final = 86_400
_MOST_S: Final = 100 * 366 * _DAY_S  # a century
_MOST_COUNT: Final = (1 << 31) - 1  # Batsim's

_EPOCH: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")
_DURATION: Final = re.compile(
    r"(?:(?P<days>[0-9]{1,6})-)?(?P<first>[0-9]{1,9})(?::(?P<second>[0-9]{1,9}))?(?::(?P<third>[0-9]{1,9}))?"
    r"(?P<fraction>\.[0-9]{1,9})?"
)
_NUMBER: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_AMOUNT: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([KMGTPE]?)(?:i?B)?([nc]?)", re.IGNORECASE)
_JOB_ID: Final = re.compile(
    r"(?P<number>[0-9]{1,15})(?:_(?:(?P<task>[0-9]{1,15})|(?P<waiting>\[[^\]]*\]?)))?(?:\+(?P<part>[0-9]{1,9}))?"
    r"(?:\.(?P<step>[^.|,\s][^|,\s]*))?"
)
_GPU: Final = re.compile(r"gres/gpu(?::[^=]*)?|gpu(?::[^=:]+)?")
#: A type, which may begin with a digit (2080ti, 1g.5gb), and a number.
_TYPED_GPUS: Final = re.compile(r"(?:^|,)(?:gres/)?gpu(?::([^:,(=]+))?[:=]([0-9]{1,9})(?![^,(])")

A_TIME: Final = "seconds since 1970, or a time such as 2024-01-31T12:00:00"
A_DURATION: Final = "a duration such as 1-12:00:00 or 90:00, or seconds"
A_LIMIT: Final = "a time limit such as 1-12:00:00, 30:00, 90 (minutes), UNLIMITED or Partition_Limit"
A_COUNT: Final = "a whole number, 0 or more"
A_MEMORY: Final = "an amount of memory such as 4000M, 16G, 4Gn or 2Gc"
RESOURCES: Final = "resources such as cpu=4,mem=16G,node=1,gres/gpu=2"
A_STATE: Final = "a state of Slurm such as COMPLETED, FAILED, TIMEOUT or CANCELLED by 1000"
A_JOB_ID: Final = "a job id such as 123, 123_4, 123+0 or 123.batch"


def is_unknown(text: str) -> bool:
    """Return whether a value means: unknown."""
    return text.lower() in UNKNOWN


class LoggedTime(NamedTuple):
    """A time since 1970, whether its zone was assumed, and whether that local time exists twice, or not."""

    at: float
    is_local: bool = False
    is_ambiguous: bool = False
    is_missing: bool = False


def set_back_s(there: datetime) -> float:
    """Return the seconds by which clocks are set back in the hour of a local time; below 0: forward; 0: not."""
    earlier, later = there.replace(fold=0).utcoffset(), there.replace(fold=1).utcoffset()
    return 0.0 if earlier is None or later is None else (earlier - later).total_seconds()


def not_before(at: float | None, least_at: float | None, zone: tzinfo) -> float | None:
    """Return a time that was read from a local time, or the second time of that name if the first one is too early."""
    if at is None or least_at is None or at >= least_at:
        return at
    there = datetime.fromtimestamp(at, zone)
    second_at = at + max(set_back_s(there), 0.0) * (not there.fold)
    return second_at if second_at >= least_at else at


@lru_cache(1 << 16)  # jobs of an array have the same times
def time_of(text: str, zone: tzinfo = UTC) -> LoggedTime | None:
    """Read a time. A text without a zone is local time in `zone`; of two such times the first one is returned."""
    if text.lower() in UNKNOWN:
        return None
    if _EPOCH.fullmatch(text):
        at = float(text)
        if at >= _LATEST:
            raise ValueError(A_TIME)
        return LoggedTime(at) if at > 0 else None
    if len(text) < 10 or not text[:4].isdigit():
        raise ValueError(A_TIME)
    try:
        there = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(A_TIME) from None
    is_local = there.tzinfo is None
    back_s = 0.0
    try:
        if is_local:
            there = there.replace(tzinfo=zone)
            back_s = set_back_s(there)
        at = (there - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1)
    except OverflowError:
        raise ValueError(A_TIME) from None
    if at <= 0:
        raise ValueError(A_TIME)
    return LoggedTime(at, is_local, back_s > 0, back_s < 0)


def duration_of(text: str) -> float | None:
    """Read the time that a job ran: `[D-]HH:MM:SS`, `MM:SS`, or seconds."""
    if text.lower() in UNKNOWN:
        return None
    if _NUMBER.fullmatch(text):
        return _plausible(float(text), A_DURATION)
    seconds = _clock_s(text)
    if seconds is None:
        raise ValueError(A_DURATION)
    return _plausible(seconds, A_DURATION)


@lru_cache(1 << 12)
def limit_of(text: str) -> float | None:
    """Read a time limit in seconds: all forms that Slurm accepts. A number alone is minutes. None: no number."""
    if text.lower() in UNKNOWN or text.lower() in NO_LIMIT:
        return None
    if _NUMBER.fullmatch(text):
        return _plausible(60 * float(text), A_LIMIT)
    seconds = _clock_s(text)
    if seconds is None:
        raise ValueError(A_LIMIT)
    return _plausible(seconds, A_LIMIT)


def _clock_s(text: str) -> float | None:
    """Return the seconds of D-HH, D-HH:MM, D-HH:MM:SS, HH:MM:SS or MM:SS; None for another text."""
    match = _DURATION.fullmatch(text)
    if match is None or (match["second"] is None and match["days"] is None):
        return None
    parts = [int(part) for part in match.group("first", "second", "third") if part is not None]
    fraction = float(match["fraction"] or 0)
    if match["days"] is not None:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, parts
    return int(match["days"] or 0) * _DAY_S + hours * 3600 + minutes * 60 + seconds + fraction


def _plausible(seconds: float, expected: str) -> float:
    if seconds > _MOST_S:
        raise ValueError(f"{expected}, at most a century")
    return seconds


def number_of(text: str) -> float | None:
    """Read a number, 0 or more."""
    if text.lower() in UNKNOWN:
        return None
    if not _NUMBER.fullmatch(text):
        raise ValueError("a number, 0 or more")
    return float(text)


@lru_cache(1 << 12)
def count_of(text: str) -> int | None:
    """Read a number of cores, nodes or GPUs. Slurm writes 2K for 2,048."""
    if text.lower() in UNKNOWN:
        return None
    match = re.fullmatch(r"([0-9]{1,12})(?:\.0*)?([KM]?)", text)
    value = int(match[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20}[match[2]] if match else -1
    if not 0 <= value <= _MOST_COUNT:
        raise ValueError(A_COUNT)
    return value


class Memory(NamedTuple):
    """An amount of memory in GB (of 1,024 MB, as in Slurm), and what it is for: a node, a core (`n`, `c`), or all."""

    gb: float
    per: str = ""


_IN_A_GB: Final = {"K": 1 << 20, "M": 1 << 10, "G": 1, "T": 1 / 1024, "P": 1 / 1024**2, "E": 1 / 1024**3}


@lru_cache(1 << 14)
def memory_of(text: str, unit: str = "M") -> Memory | None:
    """Read an amount of memory. `unit` is that of a number without one: MB in requests."""
    if text.lower() in UNKNOWN:
        return None
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(A_MEMORY)
    return Memory(float(match[1]) / _IN_A_GB[match[2].upper() or unit], match[3].lower())


def energy_of(text: str) -> float | None:
    """Read an energy in joules. Slurm writes 1.50K for 1,500."""
    if text.lower() in UNKNOWN:
        return None
    match = re.fullmatch(r"([0-9]{1,20}(?:\.[0-9]{1,9})?)([KMGT]?)", text)
    if match is None:
        raise ValueError("joules, such as 1500 or 1.50K")
    value = float(match[1]) * {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[match[2]]
    return value if value < 1e17 else None  # a counter that was not read: nearly 2^64


@lru_cache(1 << 14)
def resources_of(text: str) -> Mapping[str, str]:
    """Read trackable resources, `cpu=4,mem=16G,node=1,gres/gpu=2`, by name."""
    if text.lower() in UNKNOWN:
        return {}
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise ValueError(RESOURCES)
        found[name.strip().lower()] = value.strip()
    return found


def gpus_of(resources: Mapping[str, str]) -> int | None:
    """Return the GPUs among trackable resources: `gres/gpu`, else the sum over all types (`gres/gpu:a100`)."""
    if (total := resources.get("gres/gpu")) is not None:
        return count_of(total)
    counts = [count_of(value) for name, value in resources.items() if _GPU.fullmatch(name)]
    known = [n for n in counts if n is not None]
    return sum(known) if known else None


def gpu_types_of(text: str) -> str | None:
    """Return the types of GPUs in trackable or generic resources, joined by commas; None if some have no type.

    >>> gpu_types_of("cpu=4,gres/gpu:1g.5gb=2,gres/gpu=2"), gpu_types_of("gpu:v100:2"), gpu_types_of("gres/gpu=2")
    ('1g.5gb', 'v100', None)
    """
    counts = {kind: int(n) for kind, n in _TYPED_GPUS.findall(text.lower()) if int(n)}
    total = counts.pop("", 0)
    return ",".join(sorted(counts)) if counts and total in {0, sum(counts.values())} else None


def gres_gpus_of(text: str) -> int | None:
    """Read generic resources of old versions: `gpu:2` or `gpu:v100:2`, for each node."""
    counts = [int(n) for _, n in _TYPED_GPUS.findall(text)]
    return sum(counts) if counts else None


class JobId(NamedTuple):
    """The parts of an id: job, task of an array, part of a heterogeneous job, and step.

    `is_waiting` marks the tasks of an array that have not started, which Slurm writes as one line (`123_[5-9]`).
    """

    number: int
    task: int | None = None
    part: int | None = None
    step: str | None = None
    is_waiting: bool = False


def job_id_of(text: str) -> JobId:
    """Read the id of a job or a step."""
    match = _JOB_ID.fullmatch(text)
    if match is None:
        raise ValueError(A_JOB_ID)
    number, task, part = (None if found is None else int(found) for found in match.group("number", "task", "part"))
    assert number is not None
    return JobId(number, task, part, match["step"], match["waiting"] is not None)


def limit_of_tasks(text: str) -> int | None:
    """Return how many tasks of an array may run at a time: 4 of `0-99%4`; None for no limit."""
    found = re.search(r"%([1-9][0-9]{0,8})(?![0-9])", text)
    return int(found[1]) if found else None


class Constraint(NamedTuple):
    """Features that nodes must have: groups joined by `|`, each of features joined by `&`."""

    text: str
    is_simplified: bool = False


_FEATURE: Final = re.compile(r"\s*(?:([\w.:=-]+)(?:\*([0-9]+))?|([&|,()\[\]]))\s*", re.ASCII)
_MOST_GROUPS: Final = 64


def features_of(text: str) -> Constraint:
    """Read a constraint of Slurm. Operators count from left to right. Raises ValueError.

    A number of nodes (`a*2`) is left out: the features that have one are alternatives. Nodes may have different
    features of `[a|b]`.

    >>> features_of("a&b").text, features_of("(a|b)&c").text, features_of("[rack1*2&rack2*4]")
    ('a&b', 'a&c|b&c', Constraint(text='rack1|rack2', is_simplified=True))
    """
    tokens, at = [], 0
    while at < len(text):
        found = _FEATURE.match(text, at)
        if found is None:
            raise ValueError("features such as a&b, [a|b] or (a|b)&c")
        tokens.append(found.groups())
        at = found.end()
    has_counts = any(number for _, number, _ in tokens)
    groups, end = _groups_of(tokens, 0, has_counts=has_counts)
    if end < len(tokens):
        raise ValueError("features such as a&b, with as many brackets opened as closed")
    made = ("&".join(dict.fromkeys(group)) for group in groups)
    return Constraint("|".join(dict.fromkeys(made)), has_counts or "[" in text)


def _groups_of(
    tokens: Sequence[tuple[str | None, ...]], at: int, *, has_counts: bool
) -> tuple[list[tuple[str, ...]], int]:
    """Return the groups of features that suffice, and the place after them: the end, or a closing bracket."""
    groups: list[tuple[str, ...]] = []
    operator: str | None = "|"
    while operator in {"&", "|", ","}:
        name, _, sign = tokens[at] if at < len(tokens) else (None, None, None)
        at += 1
        some: list[tuple[str, ...]] = [] if name is None else [(name,)]
        if sign in {"(", "["}:
            some, at = _groups_of(tokens, at, has_counts=has_counts)
            if at == len(tokens) or tokens[at][2] != {"(": ")", "[": "]"}[str(sign)]:
                raise ValueError("features such as (a|b)&c, with as many brackets opened as closed")
            at += 1
        if not some:
            raise ValueError("features such as a&b")
        joins = operator == "|" or has_counts
        groups = groups + some if joins else [one + other for one in groups for other in some]
        if len(groups) > _MOST_GROUPS:
            raise ValueError(f"at most {_MOST_GROUPS} alternatives of features")
        operator = tokens[at][2] if at < len(tokens) else None
        at += operator in {"&", "|", ","}
    return groups, at


def option_of(line: str, name: str, short: str = "") -> str:
    """Return the value of an option in the command line of a submission; empty if it does not have it.

    >>> option_of("sbatch -d afterok:12 --array=1-9%2 job.sh", "dependency", "d")
    'afterok:12'
    >>> option_of("sbatch -d afterok:12 --array=1-9%2 job.sh", "array", "a")
    '1-9%2'
    """
    brief = rf"|-{short}\s*=?" if short else ""
    found = re.search(rf"\s(?:--{name}[=\s]\s*{brief})['\"]?([^\s'\"]+)", line)
    return found[1] if found else ""


def cores_per_node_of(line: str) -> int | None:
    """Return the cores on each node by the command line of a submission; None if it does not say them.

    >>> cores_per_node_of("sbatch --ntasks-per-node=8 -c 2 job.sh"), cores_per_node_of("sbatch -n 16 job.sh")
    (16, None)
    """
    tasks = option_of(line, "ntasks-per-node")
    cores = option_of(line, "cpus-per-task", "c") or "1"
    counts = [int(one) for one in (tasks, cores) if re.fullmatch("[1-9][0-9]{0,5}", one)]
    return counts[0] * counts[1] if len(counts) == 2 else None


#: Short codes of states.
_CODES: Final = {
    "BF": "BOOT_FAIL",
    "CA": "CANCELLED",
    "CD": "COMPLETED",
    "CF": "CONFIGURING",
    "CG": "COMPLETING",
    "DL": "DEADLINE",
    "F": "FAILED",
    "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY",
    "PD": "PENDING",
    "PR": "PREEMPTED",
    "R": "RUNNING",
    "RQ": "REQUEUED",
    "RS": "RESIZING",
    "RV": "REVOKED",
    "S": "SUSPENDED",
    "TO": "TIMEOUT",
}
#: States of jobs that have ended, and their codes in SWF: 0 failed, 1 completed, 5 cancelled.
ENDED: Final[Mapping[str, int]] = {
    "BOOT_FAIL": 0,
    "CANCELLED": 5,
    "COMPLETED": 1,
    "DEADLINE": 0,
    "FAILED": 0,
    "LAUNCH_FAILED": 0,
    "NODE_FAIL": 0,
    "OUT_OF_MEMORY": 0,
    "PREEMPTED": 0,
    "RECONFIG_FAIL": 0,
    "REQUEUED": 0,
    "REVOKED": 5,
    "SPECIAL_EXIT": 0,
    "STOPPED": 0,
    "TIMEOUT": 0,
}
#: States of jobs that have not ended.
ALIVE: Final = frozenset(
    {
        *("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "REQUEUE_HOLD", "REQUEUE_FED"),
        *("RESV_DEL_HOLD", "SIGNALING", "STAGE_OUT", "POWER_UP_NODE"),
    }
)


@lru_cache(1 << 12)
def state_of(text: str) -> str | None:
    """Read a state: its first word, in capitals. `CANCELLED by 1000` and a cut `CANCELLED+` are CANCELLED."""
    if text.lower() in UNKNOWN:
        return None
    word = text.split(maxsplit=1)[0].upper().rstrip("+")
    state = _CODES.get(word, word)
    if state in ENDED or state in ALIVE:
        return state
    known = sorted(one for one in (*ENDED, *ALIVE) if one.startswith(state)) if len(state) > 3 else []
    if len(known) != 1:  # a narrow column cuts names
        raise ValueError(A_STATE)
    return known[0]
