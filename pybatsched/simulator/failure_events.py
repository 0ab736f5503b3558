"""Random failures of machines, and failures from a log: external events in Batsim's format.

A *unit* is a host, or all hosts with the same value of a platform property (`together`), which fail at once. Units fail
independently of each other (`of = "node"`), or the whole machine has one process of failures (`of = "system"`). Every
unit has random numbers of its own, so a longer period adds events and changes none.
"""

from __future__ import annotations

import csv
import heapq
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from pybatsched.core.instants import TICK
from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError, setting
from pybatsched.platform.groups import groups
from pybatsched.platform.model import Platform
from pybatsched.settings import INTEGER, TEXT, TIME, Checked, Kind, given, one_of, record, record_of_settings
from pybatsched.simulator.external_events import AVAILABLE, UNAVAILABLE, ExternalEvent
from pybatsched.workload.inject.checkpoints import Checkpointing, has_checkpoints, with_checkpoints
from pybatsched.workload.model import Workload

#: A failure from a log: the host, the time of the failure, and the time of the repair.
Outage = tuple[int, float, float]
_LAWS: Final = "exponential, weibull:SHAPE, with a shape of 0.01 or more"
_REPAIRS: Final = "a time such as 4h, exponential:MEAN, or lognormal:MEDIAN:SIGMA"
#: Columns of a log of failures by their meaning; the second names are those of LANL's data.
_COLUMNS: Final = {
    "node": ("node", "nodenum", "nodenumz"),
    "down": ("down", "prob started (mm/dd/yy hh:mm)", "prob started"),
    "up": ("up", "prob fixed (mm/dd/yy hh:mm)", "prob fixed"),
}
_DATES: Final = ("%m/%d/%Y %H:%M", "%m/%d/%y %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S")

#: The least share of machines that must be available on average.
_LEAST_UP: Final = 0.05


def _law_text(value: Any) -> str:
    """Return a law of failures that `_law_of` reads. Raises InputError."""
    _law_of(str(value))
    return str(value)


def _repair_text(value: Any) -> str:
    """Return a time of repairs that `_repair_of` reads. Raises InputError."""
    _repair_of(str(value))
    return str(value)


@record_of_settings
class FailureModel(Checked):
    """How machines fail: the mean time between failures of a unit or of the system, its law, and the repair."""

    prefix = "failures."

    mtbf: float = given(
        "simulate failures of machines, with this mean time between failures of a host (seconds, or 12h, 30d)",
        Kind("a time above 0, such as 30d", lambda value: TIME.of(value) or None, "T", unit="s"),
    )
    of: Literal["node", "system"] = given(
        "whether the time between failures is that of one host (node) or of all together (system)",
        one_of("node", "system"),
        "node",
        "--mtbf-of",
    )
    law: str = given("exponential or weibull:SHAPE", record(_law_text, _LAWS, "LAW"), "exponential", "--failure-law")
    repair: str = given(
        "time of a repair: 4h, exponential:MEAN or lognormal:MEDIAN:SIGMA", record(_repair_text, _REPAIRS, "T"), "1h"
    )
    together: str = given(
        "hosts with the same value of a platform property fail together",
        TEXT,
        "",
        "--fail-together",
        metavar="PROPERTY",
    )
    seed: int | None = given(
        "seed of the failures (default: the seed of the run, else 0)", INTEGER, None, "--failure-seed"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mtbf is None:
            raise InputError(f"{setting('failures.mtbf')}: is missing; expected a time such as 30d")

    @classmethod
    def of_settings(cls, settings: Any) -> FailureModel:
        """Return the failures that settings by name describe: ``{"mtbf": "30d", "repair": "4h"}``. Raises InputError.

        >>> FailureModel.of_settings({"mtbf": "30d", "of": "system"}).as_dict()["mtbf_s"]
        2592000.0
        """
        if isinstance(settings, FailureModel):
            return settings
        if not isinstance(settings, Mapping):
            raise InputError(field="failures", expected="settings such as {'mtbf': '30d'}", found=settings)
        return cls.by_name(settings)

    @property
    def fixed_repair_s(self) -> float | None:
        """The time of a repair; None if it is random."""
        return None if ":" in self.repair else _repair_of(self.repair)[1]

    def as_dict(self) -> dict[str, Any]:
        """Return the settings by name, for summaries."""
        found = asdict(self) | {"seed": self.seed or 0}
        return {"mtbf_s": found.pop("mtbf"), **found}

    def on(self, platform: Platform) -> RandomFailures:
        """Return the failures of a platform. Raises InputError if nearly all machines would be away at any time."""
        return RandomFailures(self, self._units(platform))

    def _units(self, platform: Platform) -> list[IntervalSet]:
        hosts = IntervalSet.span(0, platform.n_procs)
        if not self.together:
            units = [IntervalSet.span(host, host + 1) for host in hosts]
        else:
            by_value = groups(platform, self.together)
            if not by_value:
                expected = f"a property of hosts of {platform.source}"
                raise InputError(
                    ", which no host has", field="failures.together", expected=expected, found=self.together
                )
            units = list(by_value.values())
            alone = hosts
            for unit in units:
                alone = alone - unit
            units += [IntervalSet.span(host, host + 1) for host in alone]
        mean_s = _repair_of(self.repair)[1]
        n = len(units)
        n_up = n * self.mtbf / (self.mtbf + mean_s) if self.of == "node" else n - mean_s / self.mtbf
        if n_up < max(0.5, _LEAST_UP * n):
            raise InputError(
                f"{setting('failures.mtbf')}: {self.mtbf:g} s with repairs of {mean_s:g} s leaves hardly any machine: "
                f"{max(n_up, 0):.2g} of {n} would be available; expected a longer MTBF or shorter repairs"
            )
        return units

    def node_mtbf_s(self, platform: Platform) -> float:
        """Return the mean time between failures of one host."""
        return self.mtbf if self.of == "node" else self.mtbf * len(self._units(platform))


class RandomFailures(Iterable[ExternalEvent]):
    """An endless sequence of failures and repairs in order of time; each iteration yields the same events."""

    def __init__(self, model: FailureModel, units: Sequence[IntervalSet]) -> None:
        self.model = model
        self.units = units

    def __iter__(self) -> FailureStream:
        return FailureStream(self.model, self.units)

    def until(self, end_at: float) -> list[ExternalEvent]:
        """Return the failures before a time, each with its repair, in order of time. O(events * log units)."""
        stream = iter(self)
        stream.ends_at = end_at
        return list(stream)


class FailureStream(Iterator[ExternalEvent]):
    """The failures of one run. O(log units) for each event. From `ends_at` on, there are only repairs."""

    def __init__(self, model: FailureModel, units: Sequence[IntervalSet]) -> None:
        self.ends_at = math.inf
        self._model = model
        self._units = units
        self._next_s = _law_of(model.law)
        self._repair_s = _repair_of(model.repair)[0]
        self._is_system = model.of == "system"
        self._up = list(range(len(units)))  # only for the system's process
        self._random = random.Random(f"{model.seed or 0}")  # noqa: S311
        self._randoms = [random.Random(f"{model.seed or 0}:{unit}") for unit in units if not self._is_system]  # noqa: S311
        # The next events: time, 0 for a repair and 1 for a failure, and the unit (-1: any unit of the system).
        self._heap: list[tuple[float, int, int]] = []
        for nth in [-1] if self._is_system else range(len(units)):
            heapq.heappush(self._heap, (self._after(0.0, nth), 1, nth))

    def _after(self, at: float, nth: int) -> float:
        drawn = self._next_s(self._random if nth < 0 else self._randoms[nth], self._model.mtbf)
        return max(round(at + drawn, 6), round(at + TICK, 6))

    def __next__(self) -> ExternalEvent:
        while self._heap:
            at, is_failure, nth = heapq.heappop(self._heap)
            if not is_failure:
                if self._is_system:
                    self._up.append(nth)
                else:
                    heapq.heappush(self._heap, (self._after(at, nth), 1, nth))
                return _event(at, AVAILABLE, self._units[nth])
            if at >= self.ends_at:
                continue
            if nth < 0:
                heapq.heappush(self._heap, (self._after(at, nth), 1, nth))
                if not self._up:
                    continue
                self._up.sort()
                nth = self._up.pop(self._random.randrange(len(self._up)))
            dice = self._random if self._is_system else self._randoms[nth]
            back_at = max(round(at + self._repair_s(dice), 6), round(at + TICK, 6))
            heapq.heappush(self._heap, (back_at, 0, nth))
            return _event(at, UNAVAILABLE, self._units[nth])
        raise StopIteration


def _event(at: float, kind: str, procs: IntervalSet) -> ExternalEvent:
    return ExternalEvent(at, kind, procs, {"timestamp": at, "type": kind, "resources": str(procs)})


def _law_of(text: str) -> Callable[[random.Random, float], float]:
    """Return a function that draws a time with a given mean."""
    name, _, shape_text = text.partition(":")
    if text == "exponential":
        return lambda dice, mean_s: dice.expovariate(1 / mean_s)
    shape = _positive(shape_text) if name == "weibull" else None
    if shape is None or shape < 0.01:  # the gamma function of a smaller one is too large
        raise InputError(field="failures.law", expected=_LAWS, found=text)
    scale = 1 / math.gamma(1 + 1 / shape)
    return lambda dice, mean_s: dice.weibullvariate(mean_s * scale, shape)


def _repair_of(text: str) -> tuple[Callable[[random.Random], float], float]:
    """Return a function that draws the time of a repair, and its mean."""
    name, _, rest = text.partition(":")
    if name == "exponential":
        mean_s = TIME.of(rest) or 0.0
        if mean_s > 0:
            return lambda dice: dice.expovariate(1 / mean_s), mean_s
    elif name == "lognormal":
        median, _, sigma_text = rest.partition(":")
        median_s, sigma = TIME.of(median) or 0.0, _positive(sigma_text)
        if sigma is not None and sigma < 10 and median_s > 0:
            return lambda dice: median_s * math.exp(sigma * dice.gauss(0, 1)), median_s * math.exp(sigma * sigma / 2)
    elif not rest:
        fixed_s = TIME.of(text) or 0.0
        if fixed_s > 0:
            return lambda _dice: fixed_s, fixed_s
    raise InputError(field="failures.repair", expected=f"{_REPAIRS}, more than 0", found=text)


def _positive(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def checkpointed(
    workloads: Mapping[str, Workload],
    checkpointing: Checkpointing | None,
    platform: Platform,
    failures: FailureModel | None,
) -> Mapping[str, Workload]:
    """Return workloads whose jobs are lengthened by the dumps of their checkpoints. O(jobs). Raises InputError."""
    if checkpointing is None and not any(map(has_checkpoints, workloads.values())):
        return workloads
    speeds = {host.speed for host in platform.compute}
    speed = speeds.pop() if len(speeds) == 1 else None
    mtbf_s = None if failures is None else failures.node_mtbf_s(platform)
    return {
        name: with_checkpoints(workload, checkpointing, node_mtbf_s=mtbf_s, speed=speed)
        for name, workload in workloads.items()
    }


def read_log(path: str | Path, n_hosts: int) -> list[Outage]:
    """Read failures from a table (CSV): node, down and up, or LANL's names. O(rows). Raises InputError."""
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; expected a table with the columns node, down and up") from None
    reader = csv.reader(lines)
    try:
        head, *table = list(reader) or [[]]
    except csv.Error as error:
        raise InputError(
            f"{path}: line {reader.line_num}: {error}; expected a table with the columns node, down and up"
        ) from None
    header = [name.strip().lower() for name in head]
    where: dict[str, int] = {}
    for meaning, names in _COLUMNS.items():
        found = next((name for name in names if name in header), None)
        if found is None:
            raise InputError(
                f"{path}: line 1: expected a column {meaning}, found {', '.join(header)[:80] or 'nothing'}"
            )
        where[meaning] = header.index(found)
    rows: list[tuple[int, int, float | datetime, float | datetime]] = []
    for number, row in enumerate(table, 2):
        if not any(cell.strip() for cell in row):
            continue
        try:
            cells = {meaning: row[i].strip() for meaning, i in where.items()}
            node = _node(cells["node"], n_hosts)
            rows.append((number, node, _time(cells["down"]), _time(cells["up"])))
        except IndexError:
            raise InputError(f"{path}: line {number}: expected {len(header)} cells, found {len(row)}") from None
        except ValueError as error:
            raise InputError(f"{path}: line {number}: {error}") from None
    if not rows:
        raise InputError(f"{path}: expected a table with failures, found a header alone")
    return _outages(path, rows)


def _node(text: str, n_hosts: int) -> int:
    if not text.isdecimal() or int(text) >= n_hosts:
        raise ValueError(f"node: expected a number below {n_hosts}, found {text!r:.40}")
    return int(text)


def _time(text: str) -> float | datetime:
    try:
        value = float(text)
    except ValueError:
        for pattern in _DATES:
            try:
                return datetime.strptime(text, pattern)  # noqa: DTZ007  only differences count
            except ValueError:
                continue
        raise ValueError(f"expected seconds or a date such as 06/27/2003 14:05, found {text!r:.40}") from None
    if not 0 <= value < math.inf:
        raise ValueError(f"expected seconds, 0 or more, found {text!r:.40}")
    return value


def _outages(path: str | Path, rows: list[tuple[int, int, float | datetime, float | datetime]]) -> list[Outage]:
    dates = [down for _, _, down, _ in rows if isinstance(down, datetime)]
    origin = min(dates).replace(hour=0, minute=0, second=0) if dates else None
    found: list[tuple[float, float, int, int]] = []
    for number, node, down, up in rows:
        if isinstance(down, datetime) != (origin is not None) or type(down) is not type(up):
            raise InputError(f"{path}: line {number}: expected either dates or seconds in the whole file, found both")
        down_at, up_at = (
            ((at - origin).total_seconds() if isinstance(at, datetime) and origin is not None else at)
            for at in (down, up)
        )
        assert not isinstance(down_at, datetime)
        assert not isinstance(up_at, datetime)
        if up_at <= down_at:
            raise InputError(
                f"{path}: line {number}: node {node} is repaired at {up_at:g}, before it fails, {down_at:g}"
            )
        found.append((round(down_at, 6), round(up_at, 6), node, number))
    found.sort()
    until: dict[int, float] = {}
    outages: list[Outage] = []
    for down_at, up_at, node, number in found:
        if down_at < until.get(node, -1.0):
            raise InputError(
                f"{path}: line {number}: node {node} fails at {down_at:g}, but is down until {until[node]:g}"
            )
        until[node] = up_at
        outages.append((node, down_at, up_at))
    return outages


def events_of(outages: Iterable[Outage]) -> list[ExternalEvent]:
    """Return the events of failures from a log, those of equal times as one, in order of time. O(n log n)."""
    by_times: dict[tuple[float, float], list[int]] = {}
    for node, down_at, up_at in outages:
        by_times.setdefault((down_at, up_at), []).append(node)
    events = []
    for (down_at, up_at), nodes in by_times.items():
        events += [_event(down_at, UNAVAILABLE, IntervalSet(nodes)), _event(up_at, AVAILABLE, IntervalSet(nodes))]
    events.sort(key=lambda event: (event.at, event.kind == UNAVAILABLE, event.procs.lowest))
    return events
