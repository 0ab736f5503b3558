"""Read the accounting of Slurm: output of `sacct --parsable`, or the same columns as CSV.

The first line has the names of the columns, in any order. Lines of steps (`123.batch`) are merged into their job. Lines
with the same id are attempts of a job that was requeued. Text columns may contain line ends and separators.
"""

from __future__ import annotations

import csv
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import polars as pl

from pybatsched.errors import InputError, setting
from pybatsched.workload import progress
from pybatsched.workload.formats.checks import shown
from pybatsched.workload.formats.conversion import zone_of
from pybatsched.workload.formats.detection import separator_of
from pybatsched.workload.formats.files import BadLineError, lines_of, opened, parts_of, text_of_line
from pybatsched.workload.logs import slurm_values as values
from pybatsched.workload.logs.cells import read_list
from pybatsched.workload.logs.records import SCHEMA, SIZE_COLUMNS, Records, given_id
from pybatsched.workload.logs.slurm_columns import CORES, GPUS, NODES, column_of, missing_column
from pybatsched.workload.logs.slurm_values import JobId, LoggedTime, Memory
from pybatsched.workload.logs.table import LogTable
from pybatsched.workload.report import RuleCount

#: Columns whose text may contain separators, the likeliest first.
_FREE: Final = ("SubmitLine", "Comment", "Constraints", "JobName", "AdminComment", "SystemComment", "WorkDir", "Reason")
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


def read_slurm(path: str | Path, *, timezone: str | None = None, lenient: bool = False) -> LogTable:
    """Read a log, or the parts of one in a directory. About 70 µs per line of 18 columns.

    Each part has a header. Lines are counted over all parts. Times without a zone are local times in `timezone`. An
    invalid line is an InputError that names the file, the line and the field. A lenient reading skips such lines and
    counts them in `bad`.
    """
    records = Records(str(path), "Slurm", "line", "cores", timezone or "UTC")
    reader = _Reader(records, zone_of(records.zone), lenient=lenient)
    parts = parts_of(path)
    for number, file in enumerate(parts):
        with progress.share(number, len(parts)), opened(file) as content:
            texts = (text_of_line(file, line, raw) for line, raw in enumerate(lines_of(content), 1))
            reader.read(str(file), texts)
    return reader.log()


class _Line(NamedTuple):
    """A record: its first line, its cells, and the rule that it violates with what was found, if this is known already.

    `surplus` are the cells before those of a text were joined; empty if they were as many as columns.
    """

    line: int
    cells: Sequence[str]
    fault: tuple[str, str] | None = None
    surplus: Sequence[str] = ()


class _Records:
    """The records of a file as lists of cells, each with its first line. The header is the first record."""

    def __init__(self, source: str, lines: Iterator[tuple[int, str]]) -> None:
        self._lines = lines
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

    def __iter__(self) -> Iterator[_Line]:
        while (one := self._next()) is not None:
            line, text = one
            if not text.strip():
                continue
            try:
                cells = self._cells_of(text)
            except BadLineError as error:
                yield _Line(line, (), (error.rule, error.found))
                continue
            if cells != self.names:  # else the header again, as in files that were put together
                yield self._fitted(line, cells)

    def _cells_of(self, text: str) -> list[str]:
        """Return the cells of the record that starts with a line."""
        if '"' in text and self._separator != "|":
            return self._quoted(text)
        cells = text.split(self._separator)
        if self._separator != "|":
            return self._completed(cells)  # text with separators or line ends has quotes
        if len(cells) < self._n:
            return self._joined(text)
        if self._free == self._n - 1 and len(cells) == self._n:
            self._skip_rest()
        return cells

    def _next(self) -> tuple[int, str] | None:
        return self._waiting.pop() if self._waiting else next(self._lines, None)

    def _split(self, text: str) -> list[str]:
        if '"' in text and self._separator != "|":
            return next(csv.reader([text], delimiter=self._separator, strict=False), [])
        return text.split(self._separator)

    def _quoted(self, text: str) -> list[str]:
        """Return the cells of a record with quotes, which may continue on the next lines. Raises BadLineError."""
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
            raise BadLineError("expected a quote at the end of the text", "")
        whole = "\n".join([text, *(one for _, one in read)])
        try:
            cells = next(csv.reader([whole], delimiter=self._separator, strict=False), [])
        except csv.Error:
            raise BadLineError("expected a line of CSV", "") from None
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

    def _fitted(self, line: int, cells: list[str]) -> _Line:
        """Return a record with as many cells as there are columns. Surplus cells belong to a text column."""
        surplus = len(cells) - self._n
        if not surplus:
            return _Line(line, cells)
        if surplus < 0 or self._free is None or self._separator != "|":
            return _Line(line, cells, self.misfit(cells))
        end = self._free + surplus + 1
        text = self._separator.join(cells[self._free : end])
        return _Line(line, [*cells[: self._free], text, *cells[end:]], surplus=cells)

    def misfit(self, cells: Sequence[str], shifted: str = "") -> tuple[str, str]:
        """Return what is wrong with a line with more or fewer cells than the header."""
        hint = ""
        if len(cells) > self._n and self._separator == "," and "=" in "".join(cells):
            hint = "; resources contain commas: write them with quotes, or use `sacct --parsable2`"
        elif len(cells) > self._n:
            hint = f"{shifted}; a text such as a job name contains {shown(self._separator)}: {_SKIP_OR_WRITE}"
        return f"expected {self._n} fields", f"{len(cells)}{hint}"


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
    "node_list": ("NodeList",),
    "constraint": ("Constraints",),
}
LOST_STEPS: Final = "a step whose job has no line: ignored"
_ROWS: Final = 1 << 16
_Faults: TypeAlias = dict[int, tuple[str, str]]


class _Reader:
    """Makes columns of records: first the cells, then the values of each column."""

    def __init__(self, records: Records, zone: tzinfo, *, lenient: bool) -> None:
        self.records = records
        self.zone = zone
        self.lenient = lenient
        self._n_lines = 0  # of the file
        self._n_before = 0  # lines of the files before it
        self._columns: dict[str, None] = {}  # of all files
        self._steps: list[pl.DataFrame] = []

    def read(self, file: str, texts: Iterable[str]) -> None:
        """Read all records of a file. O(n)."""
        cut = _Records(file, self._numbered(texts))
        index = self._read_header(file, cut)
        free = next((index[name] for name in _FREE if name in index), None)
        cut.set_columns(index.get("JobID", index.get("JobIDRaw", 0)), free)
        lines = iter(cut)
        while found := list(itertools.islice(lines, _ROWS)):
            self._take(file, cut, index, found)
        self._n_before += self._n_lines

    def _take(self, file: str, cut: _Records, index: Mapping[str, int], found: Sequence[_Line]) -> None:
        """Read the values of some records, and report invalid ones in order."""
        faults = {one.line: one.fault for one in found if one.fault is not None}
        valid = [one for one in found if one.fault is None]
        lines = [one.line for one in valid]
        cells = {name: [one.cells[place].strip() for one in valid] for name, place in index.items()}
        ids = _Values(self.records, self.zone, cells, lines, faults).ids()
        parts = []
        for are_steps in (False, True):
            rows = [row for row, one in enumerate(ids) if one is not None and (one.step is not None) is are_steps]
            some = {name: [column[row] for row in rows] for name, column in cells.items()}
            values_of = _Values(self.records, self.zone, some, [lines[row] for row in rows], faults)
            made = values_of.steps() if are_steps else values_of.jobs()
            made |= {name: [getattr(ids[row], name) for row in rows] for name in JobId._fields}
            parts.append(pl.DataFrame(made, schema={name: SCHEMA.get(name, pl.String) for name in made}))
        for one in found if faults else ():
            if one.line in faults:
                self._report(file, cut, one, *faults[one.line])
        is_valid = ~pl.col("line").is_in(list(faults))
        jobs, steps = (part.filter(is_valid).with_columns(pl.col("line") + self._n_before) for part in parts)
        self.records.parts.append(jobs.drop("step"))
        self._steps.append(steps)

    def _report(self, file: str, cut: _Records, one: _Line, rule: str, found: str) -> None:
        """Report an invalid line, or count it. Raises InputError, also for a header with other columns."""
        cells = one.surplus or one.cells
        if {"JobID", "Submit"} <= {column_of(cell) for cell in cells}:
            raise InputError(
                f"{file}: line {one.line}: expected the columns of the first header, found a header with others, "
                f"{shown(', '.join(cells)[:60])}; put files with different columns into a directory"
            )
        if one.surplus and rule.startswith("field"):
            rule, found = cut.misfit(cells, f" ({found} for {rule.partition(':')[0]})")
        if not self.lenient:
            raise InputError(f"{file}: line {one.line}: {rule}{f', found {found}' if found else ''}")
        self.records.count_bad(rule, self._n_before + one.line)

    def _numbered(self, texts: Iterable[str]) -> Iterator[tuple[int, str]]:
        for line, text in enumerate(texts, 1):
            self._n_lines = line
            yield line, text

    def _read_header(self, file: str, cut: _Records) -> dict[str, int]:
        """Return the index of each known column."""
        line = cut.header_line
        index: dict[str, int] = {}
        for place, given in enumerate(cut.names):
            name = column_of(given)
            if name is None:
                self.records.ignored += [given] if given else []
            elif name in index:
                raise InputError(f"{file}: line {line}: column {given}: expected once, found twice")
            else:
                index[name] = place
        if missing := missing_column(index.keys()):
            found = f", found {shown(', '.join(cut.names)[:200])}"
            raise InputError(f"{file}: line {line}: expected {missing}{found}{_HINT}")
        self._columns |= dict.fromkeys(index)
        return index

    def log(self) -> LogTable:
        """Return the log: steps are merged into their jobs, and copies are dropped. O(n)."""
        records = self.records
        jobs = records.jobs()
        n_steps = sum(map(len, self._steps))
        if not len(jobs) and not records.bad and not n_steps:
            raise InputError(f"{records.source}: expected a log of Slurm with jobs, found a header alone")
        log = records.log(jobs)
        log.has_allocated = not _ALLOCATED.isdisjoint(self._columns)
        return _with_steps(log, pl.concat(self._steps)) if n_steps else log


class _Values:
    """The values of the cells of some records, column by column. Faults are added by line; the first one counts."""

    def __init__(
        self, records: Records, zone: tzinfo, cells: Mapping[str, list[str]], lines: Sequence[int], faults: _Faults
    ) -> None:
        self._records = records
        self._zone = zone
        self._cells = cells
        self._lines = lines
        self._faults = faults

    def ids(self) -> list[JobId | None]:
        """Return the ids of jobs and steps."""
        return self._of("JobID" if "JobID" in self._cells else "JobIDRaw", values.job_id_of, is_needed=True)

    def steps(self) -> dict[str, Sequence[Any]]:
        """Return what jobs get from steps, as columns."""
        return {"used_gb": self._used_gb(), "energy_j": self._energy(), "line": self._lines}

    def jobs(self) -> dict[str, Sequence[Any]]:
        """Return the columns of jobs, without ids."""
        made = dict(self._times())
        made |= {"used_gb": self._used_gb(), "energy_j": self._energy()}
        made["priority"] = [None if one is None else int(one) for one in self._of("Priority", values.number_of)]
        made |= self._sizes()
        made["memory_gb"], made["is_node_memory"] = self._memory(made)
        made |= self._requests()
        made |= {label: self._label(names) for label, names in _LABELS.items()}
        made["array_limit"] = self._array_limits()
        made["dependency"] = _first_known(made["dependency"], self._submitted("dependency", "d"))
        self._check(made)
        return made | {"line": self._lines}

    def _of(
        self, name: str, read: Callable[[str], Any], where: Sequence[bool] | None = None, *, part: str = "",
        is_needed: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Return the values of a column, None if the file does not have it; only rows of `where` can be invalid."""
        if name not in self._cells:
            return [None] * len(self._lines)
        found, faults = read_list(self._cells[name], lambda text: read(text) if text or is_needed else None)
        for fault in faults:
            if where is None or where[fault.row]:
                field = f"{name}: {part}" if part else name
                rule = f"field {field}: expected {fault.expected}", shown(fault.cell)
                self._faults.setdefault(self._lines[fault.row], rule)
        return found

    def _time(self, name: str) -> list[float | None]:
        found: list[LoggedTime | None] = self._of(name, lambda text: values.time_of(text, self._zone))
        known = [one for one in found if one is not None]
        self._records.n_local += sum(one.is_local for one in known)
        self._records.n_ambiguous += sum(one.is_ambiguous for one in known)
        self._records.n_missing += sum(one.is_missing for one in known)
        return [None if one is None else one.at for one in found]

    def _times(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield times, the state and the time limit."""
        submit_at, state = self._time("Submit"), self._of("State", values.state_of)
        start_at, end_at = self._time("Start"), self._time("End")
        if self._records.n_ambiguous:
            start_at = list(map(values.not_before, start_at, submit_at, repeat(self._zone)))
            end_at = list(map(values.not_before, end_at, start_at, repeat(self._zone)))
        if "End" in self._cells:
            state = [
                "RUNNING" if one is None and at is not None and end is None else one
                for one, at, end in zip(state, start_at, end_at, strict=True)
            ]
        raw = self._of("ElapsedRaw", values.number_of)
        elapsed_s = _first_known(raw, self._of("Elapsed", values.duration_of, [one is None for one in raw]))
        limits = self._limits("Timelimit", None)
        others = self._limits("TimelimitRaw", [one is None for one in limits])
        limits = _first_known(limits, others)
        yield from (("submitted_at", submit_at), ("started_at", start_at), ("ended_at", end_at))
        yield from (("eligible_at", self._time("Eligible")), ("state", state), ("elapsed_s", elapsed_s))
        yield "requested_s", [one if one and one > 0 else None for one in limits]
        yield "time_limit", [None if one is None else values.LIMIT_NAMES.get(one) for one in limits]

    def _limits(self, name: str, where: Sequence[bool] | None) -> list[float | None]:
        """Return time limits, below 0 if the log says that there is none, or that of the partition."""

        def limit_of(text: str) -> float | None:
            return values.NO_LIMIT.get(text.lower()) or values.limit_of(text)

        return self._of(name, limit_of, where)

    def _sizes(self) -> dict[str, list[int | None]]:
        """Return cores, nodes and GPUs, allocated and requested."""
        n_cores, n_nodes = self._of("NCPUS", values.count_of), self._of("NNodes", values.count_of)
        made = {}
        for kind, short in (("allocated", "Alloc"), ("requested", "Req")):
            tres = f"{short}TRES"
            self._of(tres, values.resources_of)
            for unit, part, alone in (("CPUS", "cpu", n_cores), ("Nodes", "node", n_nodes)):
                of_tres = self._of(tres, partial(_resource, part=part, read=values.count_of), part=part)
                found = [self._of(f"{short}{unit}", values.count_of), of_tres]
                name = f"{kind}_{'cores' if part == 'cpu' else 'nodes'}"
                made[name] = _first_positive(*found, *([alone] if kind == "allocated" else []))
            gpus = self._of(tres, _n_gpus, part="gres/gpu")
            of_nodes = zip(self._of(f"{short}GRES", values.gres_gpus_of), n_nodes, strict=True)
            gres = [None if one is None else min(one * max(n or 1, 1), (1 << 31) - 1) for one, n in of_nodes]
            made[f"{kind}_gpus"] = _first_positive(gpus, gres)
        return made

    def _used_gb(self) -> list[float | None]:
        return [None if one is None else one.gb for one in self._of("MaxRSS", lambda text: values.memory_of(text, "K"))]

    def _energy(self) -> list[float | None]:
        raw, short = (self._of(name, values.energy_of) for name in ("ConsumedEnergyRaw", "ConsumedEnergy"))
        return [one or (other if other is not None else one) for one, other in zip(raw, short, strict=True)]

    def _requests(self) -> dict[str, list[Any]]:
        """Return what jobs request of nodes, besides sizes and memory."""
        types: list[str | None] = [None] * len(self._lines)
        has_gpus = [False] * len(self._lines)
        for name in ("ReqTRES", "ReqGRES", "AllocTRES", "AllocGRES"):
            count_of = values.gres_gpus_of if name.endswith("GRES") else _n_gpus
            here = list(map(bool, self._of(name, count_of)))
            found = self._of(name, values.gpu_types_of)
            types = [one if known else other for one, known, other in zip(types, has_gpus, found, strict=True)]
            has_gpus = [known or one for known, one in zip(has_gpus, here, strict=True)]
        alone = self._of("OverSubscribe", lambda text: text.lower() in {"no", "exclusive"} or None)
        of_lines = self._of("SubmitLine", lambda line: re.search(r"\s--exclusive(?=\s|$)", line) is not None or None)
        return {
            "gpu_type": types,
            "exclusive": _first_known(alone, of_lines),
            "cores_per_node": self._of("SubmitLine", values.cores_per_node_of),
        }

    def _memory(self, jobs: Mapping[str, Sequence[Any]]) -> tuple[list[float | None], list[bool]]:
        """Return the memory of whole jobs, requested or else allocated, and whether the request was for each node."""
        found: list[Memory | None] = self._of("ReqMem", values.memory_of)
        for name in ("ReqTRES", "AllocTRES"):
            is_missing = [one is None or not one.gb for one in found]
            read = partial(_resource, part="mem", read=values.memory_of)
            others = self._of(name, read, is_missing, part="mem")
            found = [other if missing else one for one, other, missing in zip(found, others, is_missing, strict=True)]
        n_nodes, n_cores = (
            _first_known(jobs[f"allocated_{one}"], jobs[f"requested_{one}"]) for one in ("nodes", "cores")
        )
        memory = [
            None if one is None else one.gb * ({"n": nodes, "c": cores}.get(one.per) or 1)
            for one, nodes, cores in zip(found, n_nodes, n_cores, strict=True)
        ]
        are_of_nodes = (one is not None and one.per == "n" for one in found)
        return memory, [
            is_of_node or line is not None
            for is_of_node, line in zip(are_of_nodes, self._submitted("mem"), strict=True)
        ]

    def _label(self, names: Sequence[str]) -> list[str | None]:
        """Return texts that are known, of the first column of a field that has one."""

        def known(text: str) -> str | None:
            return None if text.lower() in values.UNKNOWN else text

        return _first_known(*(self._of(name, known) for name in names))

    def _array_limits(self) -> list[int | None]:
        """Return how many tasks of an array may run at a time."""
        throttles = [one or None for one in self._of("ArrayTaskThrottle", values.count_of)]
        of_ids = self._of("JobID", lambda text: values.limit_of_tasks(text) if "%" in text else None)
        of_lines = [None if text is None else values.limit_of_tasks(text) for text in self._submitted("array", "a")]
        return _first_known(of_ids, throttles, of_lines)

    def _submitted(self, name: str, short: str = "") -> list[str | None]:
        """Return an option of the commands that submitted the jobs, such as --dependency, which `sacct` lacks."""
        return self._of("SubmitLine", lambda line: values.option_of(line, name, short) or None)

    def _check(self, jobs: Mapping[str, Sequence[Any]]) -> None:
        """Add faults of jobs that ran, but whose times or sizes cannot be right."""
        columns = ("submitted_at", "started_at", "ended_at", "elapsed_s", "state")
        sizes = zip(*(column for name, column in jobs.items() if name in SIZE_COLUMNS), strict=True)
        size = next((one for one in (*CORES, *NODES, *GPUS) if one in self._cells), "")
        rows = zip(*(jobs[name] for name in columns), sizes, strict=True)
        for row, (submitted_at, started_at, ended_at, elapsed_s, state, counts) in enumerate(rows):
            run_s = elapsed_s
            if run_s is None and started_at is not None and ended_at is not None:
                run_s = ended_at - started_at
            if not run_s:
                continue
            if run_s < 0:
                found = f"{shown(self._cells['End'][row])} after {shown(self._cells['Start'][row])}"
                fault = "field End: expected a time that is not before Start", found
            elif state in values.ALIVE:
                continue
            elif submitted_at is None:
                fault = f"field Submit: expected {values.A_TIME}", "nothing"
            elif any(counts):
                continue
            else:
                fault = f"field {size}: expected at least 1, because the job ran", shown(self._cells[size][row])
            self._faults.setdefault(self._lines[row], fault)


def _resources(text: str) -> Mapping[str, str]:
    """Return resources, none for an invalid text, which is reported by itself."""
    try:
        return values.resources_of(text)
    except ValueError:
        return {}


def _resource(text: str, part: str, read: Callable[[str], Any]) -> Any:
    return read(_resources(text).get(part, ""))


def _n_gpus(text: str) -> int | None:
    return values.gpus_of(_resources(text))


def _first_known(*columns: Sequence[Any]) -> list[Any]:
    """Return the first value of each row that is known."""
    return [next((one for one in row if one is not None), None) for row in zip(*columns, strict=True)]


def _first_positive(*columns: Sequence[Any]) -> list[Any]:
    """Return the first value of each row that is known and not 0, else the first that is known."""
    return [next(filter(None, row), None) or (0 if 0 in row else None) for row in zip(*columns, strict=True)]


def _with_steps(log: LogTable, steps: pl.DataFrame) -> LogTable:
    """Add memory and energy of steps to their jobs: the attempt on the last line before the step. O(n)."""
    steps = steps.with_columns(pl.lit(None, pl.String).alias("name")).with_columns(given_id().alias("given_id"))
    ids = log.jobs.with_row_index("place").select("place", "given_id", pl.col("line").alias("of_line"))
    attempts: dict[str, list[tuple[int, int]]] = {}
    for place, given, line in ids.filter(pl.col("given_id").is_in(steps["given_id"].implode())).iter_rows():
        attempts.setdefault(given, []).append((line, place))
    used: dict[int, float] = {}
    energy: dict[int, float] = {}
    lost = RuleCount(LOST_STEPS, "noted")
    for given, line, step, used_gb, energy_j in steps.select(
        "given_id", "line", "step", "used_gb", "energy_j"
    ).iter_rows():
        places = attempts.get(given)
        if places is None:
            lost.add(line)
            continue
        place = next((place for of_line, place in reversed(places) if of_line < line), places[0][1])
        if used_gb is not None:
            used[place] = max(used.get(place, 0.0), used_gb)
        if energy_j is not None and step != "extern":  # that step lasts as long as the job
            energy[place] = math.fsum((energy.get(place, 0.0), energy_j))
    for name, of_steps in (("used_gb", used), ("energy_j", energy)):
        found = _first_positive(log.jobs[name].to_list(), [of_steps.get(place) for place in range(len(log))])
        log.jobs = log.jobs.with_columns(pl.Series(name, found, dtype=pl.Float64))
    log.rule_counts = [*log.rule_counts, *([lost] if lost.count else [])]
    if n_merged := len(steps) - lost.count:
        log.notes = [f"lines of steps: merged into their jobs ({n_merged:,} lines)", *log.notes]
    return log
