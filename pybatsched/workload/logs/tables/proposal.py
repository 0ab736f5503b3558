"""Propose a mapping for a table: the fields that its columns seem to be, by their names and values."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from pybatsched.errors import InputError
from pybatsched.workload.formats.detection import format_of
from pybatsched.workload.logs import slurm_values as values
from pybatsched.workload.logs.table import LogTable
from pybatsched.workload.logs.tables.dates import DAY_FIRST, MONTH_FIRST, Dates, Order, dates_of
from pybatsched.workload.logs.tables.files import Table, open_table
from pybatsched.workload.logs.tables.mapping import FIELDS, detected, mapping_of
from pybatsched.workload.logs.tables.reader import DECIMAL_COMMA, DECIMAL_POINT, read_rows

#: How a comment with a question begins.
QUESTION: Final = "# Is "
_ROWS: Final = 10_000
_MOST_STATES: Final = 20
_MAYBE_THOUSANDS: Final = re.compile(r"[-+]?[1-9][0-9]{0,2},[0-9]{3}")
_THOUSANDS: Final = re.compile(r"[-+]?[0-9]{1,3}(?:(?:,[0-9]{3})+\.[0-9]*|(?:,[0-9]{3}){2,})")
#: Names of columns by field, the likeliest first, in small letters and without other characters.
_NAMES: Final[Mapping[str, str]] = {
    "id": "jobid idjob jid job jobnumber jobnum id nr jobidraw cobaltjobid applicationid",
    "submit": "submit submitted sent submission qtime ctime adt queued enqueued arrival arrived created creation",
    "eligible": "eligible etime qdt",
    "start": "start started startedon starting begin began begun dispatch dispatched launch launched sdt",
    "end": "end ended endedon finish finished completion completed stop stopped terminated edt",
    "wait": "wait waittime waits queuetime queuewait queuedwaitseconds waitseconds waitingtime",
    "run_time": "runtime run elapsed elapsedraw elapsedtime duration walltimeused usedwalltime executiontime "
    "actualruntime",
    "limit": "timelimit limit walltime walltimelimit requestedtime reqtime wallclockreq walltimeseconds elpl "
    "requestedwalltime reqwalltime wallclocklimit timereq walltimereq resourcewalltime timelimitraw "
    "timerequested requestedduration requestedruntime reqruntime maxruntime maxwalltime maxtime runtimelimit runlimit",
    "nodes": "nodes nnodes nodesalloc nodesused allocnodes numnodes numnodesalloc nodenum nnuma nodecount "
    "nodesallocated numberofnodes nodecnt",
    "cores": "cores ncpus cpus ncores procs nprocs processors numcores numcpus numcoresalloc numcpusalloc cpunum "
    "alloccpus coresused cnumat coresalloc cpusalloc nproc slots nslots numprocs numprocessors cpucount corecount "
    "numberofcores numberofcpus numberofprocessors cpusused procsused",
    "gpus": "gpus ngpus numgpus numgpusalloc gpunum gpusalloc gpusused gpucount usedgpus",
    "requested_nodes": "nodesreq reqnodes numnodesreq nodesrequested requestednodes nnumr nodect neednodes",
    "requested_cores": "cpusreq reqcpus coresreq processorsreq numcpusreq numcoresreq coresrequested cnumr reqprocs "
    "procsreq requestedcpus cpusrequested procsrequested processorsrequested requestedslots "
    "requestedprocs requestedprocessors requestedcores requestednumberofresources",
    "requested_gpus": "gpusreq reqgpus numgpusreq gpusrequested requestedgpus",
    "memory": "memreq reqmem memoryreq mem memory requestedmemory reqmemory mszl",
    "used_memory": "maxrss usedmemory memused memoryused mmszu usedmem",
    "user": "user username userid iduser usr uid usernamegenid owner userhash login submitter who",
    "group": "group groupid idgroup gid groupname",
    "account": "account project projectname projectid projectnamegenid accounthash acct",
    "partition": "partition queue queuename vc class queueid partitionname",
    "qos": "qos idqos",
    "job_name": "jobname name jnam",
    "priority": "priority pri",
    "energy": "energy consumedenergy consumedenergyraw energyj econ energyconsumption",
    "power": "power avgpower meanpower avgpcon powerw powerconsumption nodepowerconsumption",
    "state": "state status jobstate exitstate finalstate newstatus jobstatus outcome",
    "exit_code": "exitcode exitstatus ec derivedec",
    "cores_per_node": "corespernode cpuspernode ppn",
    "exclusive": "exclusive isexclusive",
    "features": "constraints constraint features",
    "gpu_type": "gputype gpumodel",
    "dependency": "dependency dependencies dependson",
}
#: How names of times begin and end.
_OF_TIMES: Final = ("{}", "{}time", "{}at", "time{}", "{}timestamp", "{}ts", "{}date", "{}datetime")
_BY_NAME: Final = {
    form.format(one): what
    for what, names in _NAMES.items()
    for one in names.split()
    for form in (_OF_TIMES if FIELDS[what] == "time" else ("{}",))
}
_SUFFIXES: Final = (
    (re.compile(r"(?:^|_|\b)(?:seconds|secs?|s)$", re.IGNORECASE), "s"),
    (re.compile(r"(?:^|_|\b)(?:minutes|mins?)$", re.IGNORECASE), "min"),
    (re.compile(r"(?:^|_|\b)(?:hours?|hrs?|h)$", re.IGNORECASE), "h"),
    (re.compile(r"(?:^|_|\b)(?:milliseconds|millis|ms)$", re.IGNORECASE), "ms"),
)


def describe_table(path: str | Path) -> str:
    """Return a proposed mapping for a table as TOML, with comments. Raises InputError.

    Reads the first rows, and more if these do not show which number of a date is the day.
    """
    table = open_table(path)
    name = detected(table.columns)
    shown = _printable(path)
    if name is not None:
        return (
            f"# {shown}: the columns are those of the public set {name}, which needs no mapping:\n"
            f"#   pybatsched workload lint {shown} --format {name}\n"
        )
    rows = _first_rows(table)
    samples = {
        name: [row[name] for row in rows if not values.is_unknown(str(row[name]).strip())]
        for name in filter(None, table.columns)
    }
    chosen = _chosen(table.columns)
    dates = _dates(table, chosen, samples)

    def log_of(mapping: str) -> LogTable | None:
        try:
            return read_rows(replace(table, objects=[rows]), mapping_of(mapping, "proposal"))
        except InputError:  # a column is missing
            return None

    undecided = [one for one in dates.values() if one.is_undecided]
    if undecided:  # these columns have one order
        logs = []
        usual = DAY_FIRST if any(one.usual == DAY_FIRST for one in undecided) else MONTH_FIRST
        for order in (DAY_FIRST, MONTH_FIRST):
            for one in undecided:
                one.order = order
            logs.append(log_of(_mapping(table, chosen, samples, dates)))
        found = _plausible(*logs)
        for one in undecided:
            one.order, one.usual = found, usual
    text = _mapping(table, chosen, samples, dates)
    if "limit" in chosen and (log := log_of(text)) is not None and _most_ran_longer(log):
        text = _mapping(table, chosen, samples, dates, limit_unit="min")
    start = [
        f"# Mapping of {shown}: {len(table.columns)} columns, found by their names. Check them and the units, then"
    ]
    if format_of(path) == "Slurm":
        start = [f"# This is a log of Slurm, which needs no mapping: pybatsched workload lint {shown}", "#", *start]
    return "\n".join([*start, f"#   pybatsched workload lint {shown} --mapping THIS_FILE", text])


def _mapping(
    table: Table,
    chosen: Mapping[str, str],
    samples: Mapping[str, Sequence[Any]],
    dates: Mapping[str, Dates],
    limit_unit: str = "s",
) -> str:
    """Return the text of a mapping. `limit_unit` is that of limits without a unit in the name of the column."""
    lines = ["[table]", 'timezone = "UTC"  # of times without a zone']
    if (size_in := _size_in(chosen)) is not None:
        lines.append(f'size_in = "{size_in}"  # what the sizes of jobs count: cores, nodes or gpus')
    if table.delimiter:
        lines.append(f"delimiter = {json.dumps(table.delimiter)}")
    lines += _decimal({what: samples[column] for what, column in chosen.items() if what not in dates})
    if any(
        _has(samples[column], "-1")
        for what, column in chosen.items()
        if FIELDS[what] not in {"id", "number", "text", "state"}
    ):
        lines.append('unknown = ["-1"]  # values that mean: unknown')
    if "submit" in chosen and _has(samples[chosen["submit"]], "0"):
        lines.append('origin = "2000-01-01"  # the date of time 0; without it, 0 is an unknown time')
    lines += ["", "[columns]"]
    # one question for each character between day and month
    lines += {
        one.mark: f"{QUESTION}{one.meaning()}? If not, use {one.exchanged()}"
        for one in reversed(list(dates.values()))
        if one.is_undecided and one.example
    }.values()
    for what in FIELDS:
        if what in chosen:
            usual = limit_unit if what == "limit" else "s"
            lines.append(_line(what, chosen[what], samples[chosen[what]], usual, dates.get(what)))
    lines += [f"# {one}" for one in _missing(chosen)]
    others = [one for one in table.columns if one and one not in chosen.values()]
    lines += ["", "# Columns that were not recognised:"] if others else []
    lines += [f"#   {_printable(one)}{_such_as(samples[one])}" for one in others]
    if "state" in chosen:
        lines += _states(samples[chosen["state"]])
    return "\n".join(lines) + "\n"


def _first_rows(table: Table) -> list[dict[str, Any]]:
    """Return the first rows, by column."""
    names = list(dict.fromkeys(filter(None, table.columns)))
    chunk = next(table.chunks(names, lambda *_: None), None)
    return [] if chunk is None else chunk.cells.head(_ROWS).rows(named=True)


def _dates(table: Table, chosen: Mapping[str, str], samples: Mapping[str, Sequence[Any]]) -> dict[str, Dates]:
    """Return the dates of each field that has some. Reads rows until the days of all are known, or all rows."""
    made = {what: dates_of(samples[column]) for what, column in chosen.items() if FIELDS[what] == "time"}
    found = {what: one for what, one in made.items() if one is not None}
    undecided = {chosen[what]: one for what, one in found.items() if one.is_undecided}
    if undecided:
        for chunk in table.chunks(list(undecided), lambda *_: None):
            for column, one in undecided.items():
                one.take(chunk.cells[column])
            if not any(one.is_undecided for one in undecided.values()):
                break
    for one in undecided.values():  # columns with the same character between day and month are alike
        orders = {other.order for other in found.values() if other.mark == one.mark} - {None}
        if one.order is None and len(orders) == 1:
            (one.order,) = orders
    return found


def _plausible(day_first: LogTable | None, month_first: LogTable | None) -> Order | None:
    """Return the order of day and month with which no time is too early, if some are with the other order."""
    if day_first is not None and month_first is not None:
        for day, month in zip(_disorder(day_first), _disorder(month_first), strict=True):
            if day != month:
                return MONTH_FIRST if day else DAY_FIRST
    return None


def _disorder(log: LogTable) -> tuple[bool, bool]:
    """Return whether a job starts before its submission or ends before its start, and whether submissions decrease."""
    at = log.jobs["submitted_at"].drop_nulls()
    is_early = bool((log.jobs["started_at"] < log.jobs["submitted_at"]).any())
    return is_early or bool(log.bad), not at.is_sorted()


def _most_ran_longer(log: LogTable) -> bool:
    """Return whether most jobs ran longer than their limits."""
    with_limit = log.jobs.filter((pl.col("requested_s") > 0) & (pl.col("run_s") != 0))
    return 2 * with_limit.filter(pl.col("run_s") > pl.col("requested_s")).height > with_limit.height


def _decimal(samples: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the line of the decimal separator if numbers in texts have commas, or else a comment about these."""
    cells = [
        (what, cell.strip())
        for what, sample in samples.items()
        if FIELDS[what] not in {"id", "text", "state"}
        for cell in sample
        if isinstance(cell, str)
    ]
    if thousands := next((cell for _, cell in cells if _THOUSANDS.fullmatch(cell)), None):
        return [f"# Commas between thousands, such as {thousands}, are errors: remove them"]
    commas = [
        cell
        for what, cell in cells
        if DECIMAL_COMMA.fullmatch(cell)
        if FIELDS[what] != "count" or not cell.partition(",")[2].strip("0")  # else a list of nodes
    ]
    sure = next((cell for cell in commas if not _MAYBE_THOUSANDS.fullmatch(cell)), None)
    if sure is None:
        return [f'{QUESTION}{one} a number with decimals? If so, add decimal = ","' for one in commas[:1]]
    lines = [f'decimal = ","  # such as {_printable(sure)[:40]}']
    if point := next((cell for _, cell in cells if DECIMAL_POINT.fullmatch(cell)), None):
        lines.append(
            f"# Numbers with a point and no comma, such as {_printable(point)[:40]}, are errors: use one separator"
        )
    return lines


def _has(sample: Sequence[Any], number: str) -> bool:
    """Return whether a whole number, with or without decimals, is among the values."""
    return any(re.fullmatch(rf"{number}(?:[.,]0*)?", str(one).strip()) for one in sample)


def _chosen(columns: Sequence[str]) -> dict[str, str]:
    """Return a column for each field, by the likeliest names."""
    found: dict[str, str] = {}
    order = list(_BY_NAME)
    keys = [
        (key, name)
        for name in columns
        for text in (name, _without_unit(name))
        for whole in [re.sub(r"[^a-z0-9]", "", text.lower())]
        for key in (whole, whole.removeprefix("job"))
    ]
    known = [(order.index(key), key, name) for key, name in keys if key in _BY_NAME and columns.count(name) == 1]
    for _, key, name in sorted(known):
        found.setdefault(_BY_NAME[key], name)
    return found


def _without_unit(name: str) -> str:
    """Return the name of a column without a unit at its end, such as run_time for run_time_min."""
    return next((pattern.sub("", name) for pattern, _ in _SUFFIXES if pattern.search(name)), name)


def _size_in(chosen: Iterable[str]) -> str | None:
    present = set(chosen)
    return next((one for one in ("cores", "nodes", "gpus") if present & {one, f"requested_{one}"}), None)


def _line(what: str, column: str, sample: Sequence[Any], usual: str, dates: Dates | None) -> str:
    """Return the line of a field, with its unit or format, and a value. `usual` is the unit of numbers."""
    kind = FIELDS[what]
    quoted = json.dumps(column, ensure_ascii=False)
    unit = {"duration": "s", "memory": "MB", "energy": "J", "power": "W"}.get(kind, "")
    texts = (one.replace(".", "").replace(",", ".") if "," in one else one for one in map(str, sample))
    numbers = [float(one) for one in texts if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", one)]
    if dates is not None:
        other = (
            f"; a time such as {_printable(dates.other)} is an error: a column has one format" if dates.other else ""
        )
        return f'{what} = {{ column = {quoted}, format = "{dates.format}" }}  #{_such_as(sample)}{other}'
    if kind == "time" and numbers:
        size = max(numbers)
        unit = "us" if size > 1e14 else "ms" if size > 1e11 else "s"
    elif kind == "duration":
        unit = next((one for pattern, one in _SUFFIXES if pattern.search(column)), usual if numbers else "auto")
    made = f"{what} = {quoted}" if not unit else f'{what} = {{ column = {quoted}, unit = "{unit}" }}'
    why = ": most jobs ran longer than so many seconds" if usual != "s" else ""
    check = f" (check the unit{why})" if unit and kind != "time" else ""
    return f"{made}  #{_such_as(sample) or ' no value in the first rows'}{check}"


def _such_as(sample: Sequence[Any]) -> str:
    return f" such as {_printable(sample[0])[:40]}" if sample else ""


def _printable(value: Any) -> str:
    """Return a value on one line, without characters that TOML forbids."""
    return "".join(one if one.isprintable() else "?" for one in " ".join(str(value).split()))


def _missing(chosen: Mapping[str, str]) -> list[str]:
    """Return what a mapping still needs, as comments."""
    found = []
    if "submit" not in chosen:
        found.append('Missing: the time of submission, submit = "COLUMN"')
    if "run_time" not in chosen and not {"start", "end"} <= chosen.keys():
        found.append("Missing: the run time, run_time, or start and end")
    if _size_in(chosen) is None:
        found.append("Missing: a size, one of cores, nodes, gpus, requested_cores, requested_nodes, requested_gpus")
    if "limit" not in chosen:
        found.append(
            'No time limit: jobs are planned with their run times. limit = { column = "COLUMN", unit = "min" }'
        )
    return found


def _states(sample: Sequence[Any]) -> list[str]:
    """Return the table of states: the values that are not those of Slurm need names."""
    counts = Counter(str(one).strip() for one in sample).most_common(_MOST_STATES)
    lines = ["", "[states]", 'drop = []  # states whose jobs are dropped, such as "CANCELLED"']
    unknown = []
    for text, _ in counts:
        try:
            values.state_of(text)
        except ValueError:
            unknown.append(text)
    if unknown:
        lines += ["", "[states.names]  # these are not states of Slurm: COMPLETED, FAILED, CANCELLED, TIMEOUT, …"]
        lines += [f"{json.dumps(text, ensure_ascii=False)} = {json.dumps(_guess(text))}" for text in unknown]
    return lines


def _guess(text: str) -> str:
    """Return the state of Slurm that a word seems to mean."""
    word = text.lower()
    if any(one in word for one in ("fail", "error", "crash", "abort")):
        return "FAILED"
    if any(one in word for one in ("kill", "cancel", "delete", "removed")):
        return "CANCELLED"
    return "COMPLETED"
