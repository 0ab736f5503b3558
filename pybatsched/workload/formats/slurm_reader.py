"""Read the accounting of Slurm: output of `sacct --parsable`, or the same columns as CSV.

The first line has the names of the columns, in any order. Lines of steps (`123.batch`) are merged into their job. Lines
with the same id are attempts of a job that was requeued. Text columns may contain line ends and separators.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from pybatsched.errors import InputError, setting
from pybatsched.workload import progress
from pybatsched.workload.formats import slurm_values as values
from pybatsched.workload.formats.checks import shown
from pybatsched.workload.formats.conversion import SizeIn, gc_paused, zone_of
from pybatsched.workload.formats.files import BadLineError, lines_of, opened, parts_of, separator_of, text_of_line
from pybatsched.workload.formats.job_log import JobLog, LoggedJob, sizes
from pybatsched.workload.formats.slurm_columns import CORES, GPUS, NODES, column_of, missing_column
from pybatsched.workload.formats.slurm_values import JobId, LoggedTime, Memory
from pybatsched.workload.report import Tally

_Given = TypeVar("_Given")
_Value = TypeVar("_Value")
#: Columns whose text may contain separators, the likeliest first.
_FREE: Final = ("SubmitLine", "Comment", "JobName", "AdminComment", "SystemComment", "WorkDir", "Constraints", "Reason")
_ALLOCATED: Final = frozenset({"NCPUS", "AllocCPUS", "NNodes", "AllocNodes", "AllocTRES"})
_MOST_JOINED: Final = 1000  # lines of one record
_IS_RECORD: Final = re.compile(r'"?[0-9]+(?:[_+.][^|,;\t]*)?"?\s*[|,;\t]')
_HINT: Final = (
    "; the header must name the columns, as `pybatsched traces sacct-command` writes them. To read another table, "
    f"write a mapping (`pybatsched workload describe-table FILE`) and use {setting('mapping')}"
)
_SKIP_OR_WRITE: Final = (
    f"use {setting('lenient', True)} to skip such lines, or write the log with `sacct --parsable2 --delimiter=';'`"
)


def read_slurm(path: str | Path, *, timezone: str | None = None, lenient: bool = False) -> JobLog:
    """Read a log, or the parts of one in a directory. About 60 µs per line of 18 columns.

    Each part has a header. Lines are counted over all parts. Times without a zone are local times in `timezone`. An
    invalid line is an InputError that names the file, the line and the field. A lenient reading skips such lines and
    counts them in `bad`.
    """
    trace = JobLog(str(path), timezone or "UTC")
    reader = _Reader(trace, zone_of(trace.zone), lenient=lenient)
    parts = parts_of(path)
    with gc_paused():
        for number, file in enumerate(parts):
            with progress.share(number, len(parts)), opened(file) as content:
                texts = (text_of_line(file, line, raw) for line, raw in enumerate(lines_of(content), 1))
                reader.read(str(file), texts)
    reader.finish()
    return trace


class _Records:
    """The records of a file as lists of cells, each with its first line. The header is the first record."""

    def __init__(self, source: str, lines: Iterator[tuple[int, str]], bad: Callable[[int, str], None]) -> None:
        self._lines = lines
        self._bad = bad
        self._waiting: list[tuple[int, str]] = []  # lines that were read too far, the next one last
        first = next(((line, text) for line, text in lines if text.strip()), None)
        if first is None:
            raise InputError(f"{source}: expected a log of Slurm, found an empty file")
        self.header_line, text = first
        separator = separator_of(text)
        if separator is None:
            raise InputError(
                f"{source}: line {self.header_line}: expected columns separated by | (`sacct --parsable2`) or commas, "
                f"found {shown(text[:60])}"
            )
        self._separator = separator
        self.names = [cell.strip() for cell in self._split(text)]
        self._n = len(self.names)
        self.ends_in_separator = self._n > 1 and not self.names[-1]
        self._free: int | None = None
        self._id = 0

    def set_columns(self, job_id: int, free: int | None) -> None:
        """Set the column of ids, and the one that takes surplus cells: its text contains separators."""
        self._id = job_id
        self._free = free

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        while (one := self._next()) is not None:
            line, text = one
            if not text.strip():
                continue
            if '"' in text and self._separator != "|":
                cells = self._quoted(line, text)
            else:
                cells = text.split(self._separator)
                if self._separator != "|":
                    cells = self._completed(cells)  # text with separators or line ends has quotes
                elif len(cells) < self._n:
                    cells = self._joined(text)
                elif self._free == self._n - 1 and len(cells) == self._n:
                    self._skip_rest()
            if cells is not None:
                yield line, cells

    def _next(self) -> tuple[int, str] | None:
        return self._waiting.pop() if self._waiting else next(self._lines, None)

    def _split(self, text: str) -> list[str]:
        if '"' in text and self._separator != "|":
            return next(csv.reader([text], delimiter=self._separator, strict=False), [])
        return text.split(self._separator)

    def _quoted(self, line: int, text: str) -> list[str] | None:
        """Return the cells of a record with quotes, which may continue on the next lines."""
        read: list[tuple[int, str]] = []
        n_quotes = text.count('"')
        while n_quotes % 2 and len(read) < _MOST_JOINED:
            more = self._next()
            if more is None:
                break
            read.append(more)
            n_quotes += more[1].count('"')
        if n_quotes % 2:
            self._waiting += reversed(read)
            self._bad(line, "expected a quote at the end of the text")
            return None
        whole = "\n".join([text, *(one for _, one in read)])
        try:
            cells = next(csv.reader([whole], delimiter=self._separator, strict=False), [])
        except csv.Error:
            self._bad(line, "expected a line of CSV")
            return None
        return self._completed(cells)

    def _joined(self, text: str) -> list[str]:
        """Return the cells of a record whose text columns have line ends: the following lines belong to it."""
        n_read, n_cells = 0, text.count(self._separator) + 1
        pieces = [text]
        while n_cells < self._n and n_read < _MOST_JOINED:
            more = self._next()
            if more is None:
                break
            n_more = more[1].count(self._separator)
            if self._starts_record(more[1], self._n - n_cells):
                self._waiting.append(more)
                break
            pieces.append(more[1])
            n_cells += n_more
            n_read += 1
        return self._completed("\n".join(pieces).split(self._separator))

    def _starts_record(self, text: str, n_missing: int) -> bool:
        """Return whether a line is not the rest of a record, which lacks some cells, but the next record."""
        n = text.count(self._separator) + 1
        if self._id == 0:
            return n >= self._n - 1 and _IS_RECORD.match(text) is not None
        return n == self._n and n - 1 > n_missing

    def _skip_rest(self) -> None:
        """Skip the following lines of the text in the last column: they are not the start of a record."""
        while (more := self._next()) is not None:
            is_whole = more[1].count(self._separator) + 1 >= self._n
            if is_whole or (self._id == 0 and _IS_RECORD.match(more[1])):
                self._waiting.append(more)
                return

    def _completed(self, cells: list[str]) -> list[str]:
        """Add the empty last cell of `sacct --parsable`, if it is missing."""
        if len(cells) == self._n - 1 and self.ends_in_separator:
            return [*cells, ""]
        return cells

    def fitted(self, cells: list[str]) -> list[str]:
        """Return as many cells as there are columns. Surplus cells belong to a text column. Raises BadLineError."""
        surplus = len(cells) - self._n
        if not surplus:
            return cells
        if surplus < 0 or self._free is None or self._separator != "|":
            raise self.misfit(cells)
        end = self._free + surplus + 1
        return [*cells[: self._free], self._separator.join(cells[self._free : end]), *cells[end:]]

    def misfit(self, cells: Sequence[str], shifted: str = "") -> BadLineError:
        """Return the error about a line with more or fewer cells than the header."""
        hint = ""
        if len(cells) > self._n and self._separator == "," and "=" in "".join(cells):
            hint = "; resources contain commas: write them with quotes, or use `sacct --parsable2`"
        elif len(cells) > self._n:
            hint = f"{shifted}; a text such as a job name contains {shown(self._separator)}: {_SKIP_OR_WRITE}"
        return BadLineError(f"expected {self._n} fields", f"{len(cells)}{hint}")


class _Step(NamedTuple):
    """What a job gets from a step."""

    id: JobId
    used_gb: float | None
    energy_j: float | None
    line: int


#: Columns of text that jobs keep, by the names of their fields; the first known column is used.
_LABELS: Final = {
    "user": ("User", "UID"),
    "group": ("Group", "GID"),
    "account": ("Account",),
    "partition": ("Partition",),
    "qos": ("QOS",),
    "job_name": ("JobName",),
    "exit_code": ("ExitCode",),
    "dependency": ("Dependency",),
}


class _Reader:
    """Makes jobs of records."""

    def __init__(self, trace: JobLog, zone: tzinfo, *, lenient: bool) -> None:
        self.trace = trace
        self.zone = zone
        self.lenient = lenient
        self._file = ""
        self._n_lines = 0  # of the file
        self._n_before = 0  # lines of the files before it
        self._index: dict[str, int] = {}
        self._steps: list[_Step] = []
        self._labels: list[tuple[str, tuple[int, ...]]] = []
        self._seen: dict[str, str] = {}

    def bad(self, line: int, rule: str, found: str = "") -> None:
        """Report an invalid line, or count it."""
        if not self.lenient:
            raise InputError(f"{self._file}: line {line}: {rule}{f', found {found}' if found else ''}")
        self.trace.bad.setdefault(rule, Tally(rule, "dropped")).add(self._n_before + line)

    def read(self, file: str, texts: Iterable[str]) -> None:
        """Read all records of a file. O(n)."""
        self._file = file
        records = _Records(file, self._numbered(texts), self.bad)
        self._read_header(records)
        free = next((self._index[name] for name in _FREE if name in self._index), None)
        records.set_columns(self._index.get("JobID", self._index.get("JobIDRaw", 0)), free)
        for line, cells in records:
            if cells == records.names:
                continue  # the header again, as in files that were put together
            try:
                self._take(records.fitted(cells), self._n_before + line)
            except BadLineError as error:
                self._check_is_no_header(line, cells)
                if len(cells) > len(records.names) and error.rule.startswith("field"):
                    error = records.misfit(cells, f" ({error.found} for {error.rule.partition(':')[0]})")
                self.bad(line, error.rule, error.found)
        self._n_before += self._n_lines

    def _check_is_no_header(self, line: int, cells: Sequence[str]) -> None:
        """Raise InputError for a header with other columns: the lines after it cannot be read by the first header."""
        if {"JobID", "Submit"} <= {column_of(cell) for cell in cells}:
            raise InputError(
                f"{self._file}: line {line}: expected the columns of the first header, found a header with others, "
                f"{shown(', '.join(cells)[:60])}; put files with different columns into a directory"
            )

    def _numbered(self, texts: Iterable[str]) -> Iterator[tuple[int, str]]:
        for line, text in enumerate(texts, 1):
            self._n_lines = line
            yield line, text

    def _read_header(self, records: _Records) -> None:
        source, line = self._file, records.header_line
        self._index, self._labels = {}, []
        ignored: list[str] = []
        for index, given in enumerate(records.names):
            name = column_of(given)
            if name is None:
                ignored += [given] if given else []
            elif name in self._index:
                raise InputError(f"{source}: line {line}: column {given}: expected once, found twice")
            else:
                self._index[name] = index
        found = f", found {shown(', '.join(records.names)[:200])}"
        if missing := missing_column(self._index.keys()):
            raise InputError(f"{source}: line {line}: expected {missing}{found}{_HINT}")
        self.trace.columns = tuple(dict.fromkeys((*self.trace.columns, *self._index)))
        self.trace.ignored = tuple(dict.fromkeys((*self.trace.ignored, *ignored)))
        for label, names in _LABELS.items():
            self._labels.append((label, tuple(self._index[name] for name in names if name in self._index)))

    def _take(self, cells: list[str], line: int) -> None:
        job_id = self._value(cells, "JobID", values.job_id_of) or self._value(cells, "JobIDRaw", values.job_id_of)
        if job_id is None:
            raise BadLineError(f"field JobID: expected {values.A_JOB_ID}", "nothing")
        if job_id.step is not None:
            used = self._value(cells, "MaxRSS", lambda text: values.memory_of(text, "K"))
            energy_j = self._energy(cells)
            self._steps.append(_Step(job_id, None if used is None else used.gb, energy_j, line))
            self.trace.n_steps += 1
            return
        self.trace.jobs.append(self._job(cells, job_id, line))

    def _job(self, cells: list[str], job_id: JobId, line: int) -> LoggedJob:
        submitted_at = self._time(cells, "Submit")
        state = self._value(cells, "State", values.state_of)
        started_at, ended_at = self._time(cells, "Start"), self._time(cells, "End")
        if self.trace.n_ambiguous:
            started_at = values.not_before(started_at, submitted_at, self.zone)
            ended_at = values.not_before(ended_at, started_at, self.zone)
        if state is None and "End" in self._index and started_at is not None and ended_at is None:
            state = "RUNNING"
        elapsed_s = self._value(cells, "ElapsedRaw", values.number_of)
        if elapsed_s is None:
            elapsed_s = self._value(cells, "Elapsed", values.duration_of)
        limit_s, is_unlimited = self._limit(cells)
        used = self._value(cells, "MaxRSS", lambda text: values.memory_of(text, "K"))
        priority = self._value(cells, "Priority", values.number_of)
        allocated, requested = self._sizes(cells)
        made = LoggedJob(
            job_id,
            submitted_at,
            self._time(cells, "Eligible"),
            started_at,
            ended_at,
            elapsed_s,
            limit_s,
            is_unlimited,
            allocated,
            requested,
            self._memory(cells),
            None if used is None else used.gb,
            state,
            None if priority is None else int(priority),
            self._energy(cells),
            None,
            self._texts_of(cells),
            line,
        )
        self._check(made, cells)
        return made

    def _check(self, job: LoggedJob, cells: Sequence[str]) -> None:
        """Raise BadLineError for a job that ran, but whose times or sizes cannot be right."""
        run_s = job.run_s
        if run_s is not None and run_s < 0:
            found = f"{shown(cells[self._index['End']])} after {shown(cells[self._index['Start']])}"
            raise BadLineError("field End: expected a time that is not before Start", found)
        if not run_s or not job.has_ended:
            return
        if job.submitted_at is None:
            raise BadLineError(f"field Submit: expected {values.A_TIME}", "nothing")
        known = {**job.requested, **{name: n for name, n in job.allocated.items() if n}}
        if known.values() and not any(known.values()):
            name = next(one for one in (*CORES, *NODES, *GPUS) if one in self._index)
            found = shown(cells[self._index[name]])
            raise BadLineError(f"field {name}: expected at least 1, because the job ran", found)

    def _sizes(self, cells: list[str]) -> tuple[Mapping[SizeIn, int | None], Mapping[SizeIn, int | None]]:
        """Return cores, nodes and GPUs, allocated and requested."""
        given = self._value(cells, "AllocTRES", values.resources_of) or {}
        wanted = self._value(cells, "ReqTRES", values.resources_of) or {}
        n_cores, n_nodes = self._count(cells, "NCPUS"), self._count(cells, "NNodes")
        allocated = sizes(
            _first(self._count(cells, "AllocCPUS"), self._resource(given, "AllocTRES", "cpu"), n_cores),
            _first(self._count(cells, "AllocNodes"), self._resource(given, "AllocTRES", "node"), n_nodes),
            _first(self._gpus(given, "AllocTRES"), self._gres(cells, "AllocGRES", n_nodes)),
        )
        requested = sizes(
            _first(self._count(cells, "ReqCPUS"), self._resource(wanted, "ReqTRES", "cpu")),
            _first(self._count(cells, "ReqNodes"), self._resource(wanted, "ReqTRES", "node")),
            _first(self._gpus(wanted, "ReqTRES"), self._gres(cells, "ReqGRES", n_nodes)),
        )
        return allocated, requested

    def _resource(self, resources: Mapping[str, str], column: str, name: str) -> int | None:
        return _read(resources.get(name, ""), f"{column}: {name}", values.count_of)

    def _gpus(self, resources: Mapping[str, str], column: str) -> int | None:
        return _read(resources, f"{column}: gres/gpu", values.gpus_of)

    def _gres(self, cells: list[str], column: str, n_nodes: int | None) -> int | None:
        """Read generic resources of old versions: `gpu:2` or `gpu:v100:2`, for each node."""
        text = self._text(cells, column)
        counts = [int(n) for n in re.findall(r"(?:^|,)gpu(?::[A-Za-z][^:,(]*)?:([0-9]{1,6})", text)]
        return min(sum(counts) * max(n_nodes or 1, 1), (1 << 31) - 1) if counts else None

    def _limit(self, cells: list[str]) -> tuple[float | None, bool]:
        """Return the time limit, and whether the log says that it is unlimited or that of the partition."""
        for column in ("Timelimit", "TimelimitRaw"):
            text = self._text(cells, column)
            if text.lower() in values.NO_LIMIT:
                return None, True
            limit_s = self._value(cells, column, values.limit_of)
            if limit_s is not None:
                return limit_s or None, False
        return None, False

    def _memory(self, cells: list[str]) -> Memory | None:
        """Return the requested memory, else the allocated one."""
        found: Memory | None = self._value(cells, "ReqMem", values.memory_of)
        for column in ("ReqTRES", "AllocTRES"):
            if found is not None and found.gb:
                break
            resources = self._value(cells, column, values.resources_of) or {}
            found = _read(resources.get("mem", ""), f"{column}: mem", values.memory_of)
        return found

    def _energy(self, cells: list[str]) -> float | None:
        raw: float | None = self._value(cells, "ConsumedEnergyRaw", values.energy_of)
        short: float | None = self._value(cells, "ConsumedEnergy", values.energy_of)
        return raw or short if raw is None or short is not None else raw

    def _count(self, cells: list[str], column: str) -> int | None:
        found: int | None = self._value(cells, column, values.count_of)
        return found

    def _time(self, cells: list[str], column: str) -> float | None:
        found: LoggedTime | None = self._value(cells, column, lambda text: values.time_of(text, self.zone))
        if found is None:
            return None
        if found.is_local:
            self.trace.local_times = True
            self.trace.n_ambiguous += found.is_ambiguous
            self.trace.n_missing += found.is_missing
        return found.at

    def _text(self, cells: list[str], column: str) -> str:
        index = self._index.get(column)
        return "" if index is None else cells[index].strip()

    def _value(self, cells: list[str], column: str, read: Callable[[str], Any]) -> Any:
        """Read a cell; None if the file does not have the column. Raises BadLineError."""
        index = self._index.get(column)
        if index is None:
            return None
        text = cells[index].strip()
        return None if not text and column != "JobID" else _read(text, column, read)

    def _texts_of(self, cells: list[str]) -> dict[str, str]:
        """Return the text fields that are known. Equal texts are one object."""
        found: dict[str, str] = {}
        for label, indices in self._labels:
            for index in indices:
                text = cells[index].strip()
                if text and text.lower() not in values.UNKNOWN and text != "(null)":
                    found[label] = self._seen.setdefault(text, text)
                    break
        return found

    def finish(self) -> None:
        """Merge steps into their jobs, and drop copies. O(n)."""
        trace = self.trace
        if not trace.jobs and not trace.bad and not self._steps:
            raise InputError(f"{trace.source}: expected a log of Slurm with jobs, found a header alone")
        trace.has_allocated = not _ALLOCATED.isdisjoint(trace.columns)
        trace.set_digits()
        trace.drop_copies()
        if self._steps:
            self._merge_steps()

    def _merge_steps(self) -> None:
        """Add memory and energy of steps to their jobs: the attempt on the last line before the step."""
        attempts: dict[JobId, list[int]] = {}
        for place, job in enumerate(self.trace.jobs):
            attempts.setdefault(job.id, []).append(place)
        used: dict[int, float] = {}
        energy: dict[int, float] = {}
        for step in self._steps:
            places = attempts.get(step.id.whole)
            if places is None:
                self.trace.lost_steps.add(step.line)
                continue
            before = [place for place in places if self.trace.jobs[place].line < step.line]
            place = before[-1] if before else places[0]
            if step.used_gb is not None:
                used[place] = max(used.get(place, 0.0), step.used_gb)
            if step.energy_j is not None and step.id.step != "extern":  # that step lasts as long as the job
                energy[place] = math.fsum((energy.get(place, 0.0), step.energy_j))
        for place in used.keys() | energy.keys():
            job = self.trace.jobs[place]
            self.trace.jobs[place] = job._replace(
                used_gb=_first(job.used_gb, used.get(place)), energy_j=job.energy_j or energy.get(place)
            )


def _read(given: _Given, field: str, read: Callable[[_Given], _Value]) -> _Value:
    """Read a cell, or a part of one. Raises BadLineError that names the field."""
    try:
        return read(given)
    except ValueError as error:
        raise BadLineError(f"field {field}: expected {error}", shown(given)) from None


def _first(*found: Any) -> Any:
    """Return the first value that is known and not 0, else the first that is known, else None."""
    known = [value for value in found if value is not None]
    return next((value for value in known if value), known[0] if known else None)
