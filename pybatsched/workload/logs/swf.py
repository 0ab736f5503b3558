"""Read files in the Standard Workload Format (version 2): comments as header, then a line of 18 fields per job.

The Parallel Workloads Archive defines the format. An unknown number is -1. Some logs have names instead of numbers of
users, groups, applications, queues or partitions; these are kept as text. A line may have more than 18 fields. The
others are kept if comments name them, as `; 18: used_GPUs (of all nodes)` does in a list of fields that starts with 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Final, Literal, NamedTuple

import polars as pl

from pybatsched.errors import InputError, setting
from pybatsched.workload.formats.conversion import NO_SUBMISSION
from pybatsched.workload.formats.files import BYTE_ORDER_MARK, decoded, opened, text_of_line
from pybatsched.workload.logs.table import PART_STATUS, WHOLE_NUMBER, LogTable, first_of
from pybatsched.workload.report import RuleCount


class Field(NamedTuple):
    """One of the 18 fields: its name in messages, the column of the table, and what it holds."""

    name: str
    column: str
    kind: Literal["a whole number", "a number", "a label"]


#: The 18 fields, in the order of the format.
FIELDS: Final = (
    Field("job number", "id", "a whole number"),
    Field("submit time", "submitted_at", "a number"),
    Field("wait time", "wait_s", "a number"),
    Field("run time", "run_s", "a number"),
    Field("allocated processors", "allocated_procs", "a whole number"),
    Field("average CPU time", "cpu_s", "a number"),
    Field("used memory", "used_memory", "a number"),
    Field("requested processors", "requested_procs", "a whole number"),
    Field("requested time", "requested_s", "a number"),
    Field("requested memory", "requested_memory", "a number"),
    Field("status", "status", "a whole number"),
    Field("user", "user", "a label"),
    Field("group", "group", "a label"),
    Field("application", "application", "a label"),
    Field("queue", "queue", "a label"),
    Field("partition", "partition", "a label"),
    Field("preceding job", "depends_on", "a whole number"),
    Field("think time", "think_s", "a number"),
)
_N_FIELDS: Final = len(FIELDS)
_TYPES: Final = {"a whole number": pl.Int64, "a number": pl.Float64, "a label": pl.String}
_SCHEMA: Final = {field.column: _TYPES[field.kind] for field in FIELDS} | {"line": pl.Int64}
_EXACT: Final = 1 << 53  # larger whole numbers are not all exact in floating point; no log needs more
_CHUNK: Final = 1 << 22
_BLANKS: Final = bytes.maketrans(b"\t\r\v\f", b"    ")
_WORD: Final = re.compile(rb"\S+")

#: Part of the error for a file whose first line is not a comment and does not start with a number.
_NEITHER: Final = (
    "; the file is neither a log (SWF, Slurm) nor a workload of Batsim (JSON); a table (CSV) needs "
    f"{setting('mapping')}, which `pybatsched workload describe-table` proposes"
)
#: A name in a list of fields: its position, a colon, the name, and perhaps an explanation.
_NAMED: Final = re.compile(r"([0-9]{1,3})\s*:\s*([A-Za-z][A-Za-z0-9_-]{0,40})(?![^\s(,;])")
#: A key starts with a capital and is not a URL: continued comments are indented and often contain URLs.
_HEADER: Final = re.compile(r"([A-Z][A-Za-z0-9_ ]{0,40}?)\s*:(?!//)\s*(.*)")
#: A description of nodes: their number, after names, and the cores of each.
_NODES: Final = r"^[^:]+:[^:]+:([0-9]{1,9})x[0-9]{1,9}$"
DESCRIBED: Final = "sizes are the numbers of nodes in {}, not those in fields 5 and 8 ({:,} jobs have others)"
#: Names of the fields after the 18th in logs as Alea NG and Frontier's have them, by index.
FRONTIER: Final[Mapping[int, str]] = {18: "used_GPUs", 19: "soft_walltime", 20: "required_properties"}
PART: Final = "a part of a job that also has a line for the whole: dropped"
UNNAMED: Final = "more than 18 fields, and the header does not name the others: these are ignored"
EXTRA_FIELDS: Final = "fields after the 18th that the header names: kept as {}"
TAKEN_FIELDS: Final = "fields after the 18th with the name of another field of jobs: ignored ({})"
#: Usual names of fields after the 18th, in small letters, and the names of these fields of jobs.
_EXTRA_NAMES: Final[Mapping[str, str]] = {"used_gpus": "gpus", "allocated_gpus": "gpus", "num_gpus": "gpus"}
#: Fields of jobs that come from the 18 fields of the format, or from a warm-up.
_OWN_FIELDS: Final = frozenset(
    {
        *("id", "subtime", "res", "profile", "walltime", "estimate", "user", "group", "application", "queue"),
        *("partition", "status", "memory_gb", "requested_procs", "requested_time", "depends_on", "think_time"),
        *("logged_wait_s", "evaluated"),
    }
)


def read_swf(path: str | Path, *, lenient: bool = False, names: Mapping[int, str] | None = None) -> LogTable:
    """Read a log, plain or compressed. About 1.5 µs per job.

    A line with fewer than 18 fields, or with an invalid number, is an InputError that names the file, the line and the
    field. A lenient reading skips such lines and counts them in `bad`. `names` are those of fields after the 18th, by
    index from 0, if the header does not have them. If one of these fields describes nodes, as `frontier:excl:25x112`
    does, sizes are its numbers of nodes.
    """
    reader = _Reader(str(path), lenient=lenient, names=names)
    n_lines = 0
    with opened(path) as content:
        # 4 MB at a time, up to the end of a line: the log is never in memory as text.
        while chunk := content.read(_CHUNK) + content.readline():
            if not n_lines and b"\n" not in chunk:  # all lines of the file end in CR
                chunk = chunk.replace(b"\r", b"\n")
            n_lines += reader.take(chunk if n_lines else chunk.removeprefix(BYTE_ORDER_MARK), n_lines)
    log = reader.log()
    if not n_lines or not (len(log) or log.n_bad or reader.n_comments):
        raise InputError(f"{path}: expected a log in the Standard Workload Format, found an empty file")
    return log


def extra_names(named: Mapping[int, str]) -> dict[int, str]:
    """Return the names of fields after the 18th by index from 0, given a list of fields by position.

    The list counts from 0 if it has a position 0, or if it starts with 18, the first field that is not of the format;
    otherwise from 1. Lists of fewer than two fields do not count: they are comments.
    """
    if len(named) < 2 and not any(position >= _N_FIELDS for position in named):
        return {}
    first = 0 if min(named) in {0, _N_FIELDS} else 1
    found = {position - first: name for position, name in sorted(named.items()) if position - first >= _N_FIELDS}
    by_name = {name: index for index, name in reversed(found.items())}
    return {index: name for index, name in found.items() if by_name[name] == index}


def extra_name(given: str) -> str:
    """Return the name of the job field for a field after the 18th, by its name in the header.

    >>> extra_name("used_GPUs"), extra_name("soft-walltime")
    ('gpus', 'soft_walltime')
    """
    name = given.lower().replace("-", "_")
    return _EXTRA_NAMES.get(name, name)


class _Reader:
    """Converts chunks of lines to tables. All lines are checked at once; invalid ones are then looked up."""

    def __init__(self, source: str, *, lenient: bool, names: Mapping[int, str] | None) -> None:
        self.n_comments = 0
        self._source = source
        self._lenient = lenient
        self._given_names = names or {}
        self._named: dict[int, str] = {}
        self._header: dict[str, str] = {}
        self._key = ""
        self._tables = [pl.DataFrame(schema=_SCHEMA)]
        self._extras: dict[str, None] = {}  # names in the header, in order
        self._unnamed = RuleCount(UNNAMED, "noted")
        self._bad: dict[str, RuleCount] = {}

    def take(self, text: bytes, n_before: int) -> int:
        """Read complete lines, which follow `n_before` others, and return their number. O(length)."""
        if b";" in text:
            for line in text.split(b"\n"):
                if line.lstrip().startswith(b";"):
                    self._take_comment(line)
        names = extra_names(self._named) or self._given_names
        first_unnamed = next(index for index in count(_N_FIELDS) if index not in names)
        rows = _split(text, sorted({*range(_N_FIELDS + 1), first_unnamed, *names}))
        rows = rows.with_row_index("line", n_before + 1).with_columns(pl.col("line").cast(pl.Int64))
        rows = self._valid_rows(rows.filter(~pl.col("0").str.starts_with(";")), text, n_before)  # null: an empty line
        table = rows.select(*(_column(index, field) for index, field in enumerate(FIELDS)), "line")
        if self._extras or rows[str(_N_FIELDS)].is_not_null().any():
            self._extras.update(dict.fromkeys(names.values()))
            extras = [_label(index).alias(_extra_column(name)) for index, name in names.items()]
            table = table.hstack(rows.select(extras))
            self._unnamed.add_all(rows.filter(pl.col(str(first_unnamed)).is_not_null())["line"].to_list())
        self._tables.append(table)
        return text.count(b"\n") + (not text.endswith(b"\n"))

    def log(self) -> LogTable:
        """Return the log."""
        jobs = pl.concat(self._tables, how="diagonal", rechunk=True)
        remarks: list[str] = []
        kept: dict[str, str] = {}
        taken: list[str] = []
        for given in self._extras:
            column, name = _extra_column(given), extra_name(given)
            if not remarks and (found := _with_described_nodes(jobs, column)) is not None:
                jobs, n_other = found
                remarks.append(DESCRIBED.format(given, n_other))
            if name in _OWN_FIELDS or name in kept:
                taken.append(name)
            else:
                kept[name] = column
        notes = [EXTRA_FIELDS.format(", ".join(kept))] if kept else []
        notes += [TAKEN_FIELDS.format(", ".join(taken))] if taken else []
        is_part = pl.col("status").is_in(PART_STATUS).fill_null(value=False)
        whole = jobs.filter(~is_part)["id"]
        waits = pl.when(pl.col("wait_s") >= 0).then("wait_s")
        reasons = {
            PART: is_part & pl.col("id").is_in(whole.implode()),
            NO_SUBMISSION: pl.col("submitted_at").fill_null(-1) < 0,
        }
        jobs = jobs.with_columns(
            (pl.col("submitted_at") + waits).alias("started_at"), first_of(reasons.items()).alias("left_out")
        )
        return LogTable(
            self._source,
            "SWF",
            jobs,
            header=self._header,
            names={field.column: f"field {index + 1} ({field.name})" for index, field in enumerate(FIELDS)},
            extras=kept,
            bad=self._bad,
            rule_counts=[self._unnamed] if self._unnamed.count else [],
            remarks=remarks,
            notes=notes,
        )

    def _take_comment(self, line: bytes) -> None:
        """Read a line of the header. A line without a key continues the last value."""
        self.n_comments += 1
        text = decoded(line).strip().lstrip(";").strip()
        if named := _NAMED.match(text):
            self._named.setdefault(int(named[1]), named[2])
        match = _HEADER.fullmatch(text)
        if match:
            self._key = match[1]
            text = match[2]
        elif not text:
            self._key = ""
        if self._key and (text or match):
            before = self._header.get(self._key)
            self._header[self._key] = text if before is None else f"{before}\n{text}"

    def _valid_rows(self, rows: pl.DataFrame, text: bytes, n_before: int) -> pl.DataFrame:
        """Return the rows with valid fields, numbers as numbers. Count or report the others, first too short ones."""
        numbers = {str(index): field for index, field in enumerate(FIELDS) if field.kind != "a label"}
        is_short = pl.col(str(_N_FIELDS - 1)).is_null()
        rows = rows.with_columns(pl.col(*numbers).cast(pl.Float64, strict=False), is_short=is_short)
        faults = [pl.when(~_is_valid(name, field)).then(pl.lit(int(name))) for name, field in numbers.items()]
        fault = rows.select(fault=pl.coalesce(pl.when("is_short").then(pl.lit(-1)), *faults)).to_series()
        if fault.null_count() == len(rows):
            return rows
        bad = rows.select("line", fault).drop_nulls().sort(pl.col("fault") >= 0, maintain_order=True)
        lines = text.split(b"\n")
        for line, index in bad.iter_rows():
            self._take_bad_line(line, lines[line - n_before - 1], index)
        return rows.filter(fault.is_null())

    def _take_bad_line(self, line: int, raw: bytes, index: int) -> None:
        """Count or report a line with an invalid field, or, if its index is -1, with too few fields."""
        words = raw.split()
        if index < 0:
            if b"\0" in raw:
                text_of_line(self._source, line, raw)  # raises InputError
            rule = f"expected at least {_N_FIELDS} fields, found {len(words)}"
            found = _NEITHER if line == 1 and not words[0].isdigit() else ""
        else:
            bound = " below 2^53" if _is_large(words[index]) else ""
            rule = f"field {index + 1} ({FIELDS[index].name}): expected {FIELDS[index].kind}{bound}"
            found = f", found {words[index][:40].decode('utf-8', 'backslashreplace')}"
        if not self._lenient:
            raise InputError(f"{self._source}: line {line}: {rule}{found}")
        self._bad.setdefault(rule, RuleCount(rule, "dropped")).add(line)


def _is_large(word: bytes) -> bool:
    """Return whether a word is a number that cannot be read exactly."""
    try:
        return not re.search(rb"[_nN]", word) and abs(float(word)) >= _EXACT  # neither 1_000 nor inf is a number here
    except ValueError:
        return False


def _split(text: bytes, indices: Sequence[int]) -> pl.DataFrame:
    """Return words of each line as columns of text, named by their index. An empty line is a row of nulls."""
    text = text.translate(_BLANKS)
    while b"  " in text:
        text = text.replace(b"  ", b" ")
    text = text.replace(b"\n ", b"\n").removeprefix(b" ")
    try:
        text.decode()
    except UnicodeDecodeError:  # some words are in Latin-1
        lines = (
            line if line.isascii() else _WORD.sub(lambda word: decoded(word[0]).encode(), line)
            for line in text.split(b"\n")
        )
        text = b"\n".join(lines)
    header = " ".join(map(str, range(indices[-1] + 1))).encode()
    return pl.read_csv(
        header + b"\n" + text,
        columns=list(map(str, indices)),
        separator=" ",
        quote_char=None,
        infer_schema=False,
        truncate_ragged_lines=True,
    )


def _is_valid(name: str, field: Field) -> pl.Expr:
    """Return whether the numbers of a column are valid: finite, exact, and whole if they must be."""
    value = pl.col(name)
    is_valid = value.abs() < _EXACT
    if field.kind == "a whole number":
        is_valid &= value == value.floor()
    return is_valid.fill_null(value=False)


def _column(index: int, field: Field) -> pl.Expr:
    """Return a column of the table. Only the job number, which is the id of the job, has no unknown value."""
    if field.kind == "a label":
        return _label(index).alias(field.column)
    value = pl.col(str(index)).cast(_TYPES[field.kind])
    return (value if field.column == "id" else pl.when(value != -1).then(value)).alias(field.column)


def _label(index: int) -> pl.Expr:
    """Return a column of names or numbers as text, without leading zeros of numbers."""
    text = pl.col(str(index))
    number = text.cast(pl.Int64, strict=False).cast(pl.String)
    label = pl.when(text.str.contains(WHOLE_NUMBER)).then(number).otherwise(text)
    return pl.when(label != "-1").then(label)


def _extra_column(name: str) -> str:
    """Return the column of a field after the 18th, by its name in the header; no other column has a blank."""
    return f"extra {name}"


def _with_described_nodes(jobs: pl.DataFrame, column: str) -> tuple[pl.DataFrame, int] | None:
    """Return jobs whose sizes are the numbers of nodes in a column, and how many have others. O(n).

    None if not all values of the column describe nodes.
    """
    nodes = jobs[column].str.extract(_NODES).cast(pl.Int64)
    if nodes.null_count() > jobs[column].null_count() or nodes.null_count() == len(nodes) or not (nodes > 0).all():
        return None
    n_other = int((nodes.is_not_null() & nodes.ne_missing(jobs["allocated_procs"])).sum())
    sizes = [pl.coalesce(nodes, pl.col(name)).alias(name) for name in ("allocated_procs", "requested_procs")]
    return jobs.with_columns(sizes), n_other
