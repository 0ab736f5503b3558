"""Mappings in TOML, checked twice: which column of a table is what, in which unit (docs/traces.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from pybatsched.errors import InputError, toml_problem
from pybatsched.workload.formats.files import SETS
from pybatsched.workload.logs import slurm_values

Kind = Literal["id", "time", "duration", "count", "memory", "energy", "power", "number", "state", "flag", "text"]
#: What a column can be, and the kind of its values.
FIELDS: Final[Mapping[str, Kind]] = {
    "id": "id",
    **dict.fromkeys(("submit", "eligible", "start", "end"), "time"),
    **dict.fromkeys(("wait", "run_time", "limit"), "duration"),
    **dict.fromkeys(("cores", "nodes", "gpus", "requested_cores", "requested_nodes", "requested_gpus"), "count"),
    **dict.fromkeys(("memory", "used_memory"), "memory"),
    "energy": "energy",
    "power": "power",
    "priority": "number",
    "state": "state",
    **dict.fromkeys(("user", "group", "account", "partition", "qos", "job_name", "exit_code", "dependency"), "text"),
    "cores_per_node": "count",
    "exclusive": "flag",
    **dict.fromkeys(("features", "gpu_type"), "text"),
}
#: Fields of jobs that are written for the columns that they come from.
_OTHER_NAMES: Final[Mapping[str, str]] = {"depends_on": "dependency"}
SIZES: Final = tuple(name for name, kind in FIELDS.items() if kind == "count" and name != "cores_per_node")

#: Seconds of a unit of time.
SECONDS: Final[Mapping[str, float]] = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
AUTO: Final = "auto"
#: Units of each kind, the default first. Memory is in units of 1,024 each, energy in joules, power in watts.
UNITS: Final[Mapping[Kind, Mapping[str, float]]] = {
    "time": {AUTO: 1, **SECONDS},
    "duration": {AUTO: 1, **SECONDS},
    "memory": {"MB": 2**-10, "B": 2**-30, "KB": 2**-20, "GB": 1, "TB": 2**10},
    "energy": {"J": 1, "kJ": 1e3, "MJ": 1e6, "Wh": 3600, "kWh": 3.6e6},
    "power": {"W": 1, "kW": 1e3, "MW": 1e6},
}
#: What an amount may be for, besides the whole job.
PER: Final[Mapping[Kind, tuple[str, ...]]] = {
    "memory": ("job", "node", "core"),
    "power": ("job", "node"),
    "count": ("job", "node"),
}
_OF_COLUMN: Final = ("column", "unit", "format", "per", "resource", "true")
#: Texts of flags that mean: true.
_TRUE: Final = ("1", "true", "yes", "y", "exclusive")
_OF_TABLE: Final = ("timezone", "size_in", "delimiter", "decimal", "unknown", "origin", "layout")
_OF_STATES: Final = ("drop", "keep", "names")
_SIZE_IN: Final = ("cores", "nodes", "gpus")
_LAYOUTS: Final = ("rows", "attempts")
_DECIMALS: Final = (".", ",")
_HEADER: Final = re.compile(r"\s*\[([^\[\]]+)\]")
_KEY: Final = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


class Column(msgspec.Struct, frozen=True):
    """A column of the table: its name, the unit of its values, and how they are read.

    `format` is that of `strptime`. `per` says what an amount is for: the job, each node, each core. `resources` are the
    names whose amounts are added, in a list such as 1=20,2=170000. `true` are the texts of a flag that mean: true.
    """

    name: str
    unit: str = ""
    format: str = ""
    per: str = "job"
    resources: tuple[str, ...] = ()
    true: frozenset[str] = frozenset(_TRUE)


class TableMapping(msgspec.Struct, frozen=True):
    """Which columns of a table are what. `source` is the file of the mapping, `name` that of a public set.

    `detect` are the columns by which a public set is recognised, `references` what to cite for it.
    `columns` are by field; the columns of a field are alternatives, and the first one that the table has is used.
    `size_in` is what sizes count. `decimal` is the decimal separator of numbers in texts. `unknown` are texts
    that mean: unknown. `origin` is time 0 of times that are numbers.
    `layout`: rows, or objects with a list of attempts. `state_names` are states of Slurm by those of the table. Jobs of
    the states `drop` are dropped, or those that are not in `keep`. `lines` are the lines of the members in the file.
    """

    source: str
    columns: Mapping[str, tuple[Column, ...]]
    name: str = ""
    detect: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    timezone: str = "UTC"
    size_in: str | None = None
    delimiter: str | None = None
    decimal: str = "."
    unknown: frozenset[str] = frozenset()
    origin: str | None = None
    layout: str = "rows"
    state_names: Mapping[str, str] = {}
    drop: frozenset[str] = frozenset()
    keep: frozenset[str] = frozenset()
    lines: Mapping[str, int] = {}

    def at(self, member: str) -> str:
        """Return the place of a member, for errors: the file, the line if it is known, and the member."""
        line = self.lines.get(member)
        return f"{self.source}: line {line}: {member}" if line else f"{self.source}: {member}"

    def fitted(self, present: Sequence[str], table: str) -> dict[str, Column]:
        """Return the column of each field in a table with these columns. Raises InputError."""
        found: dict[str, Column] = {}
        for what, columns in self.columns.items():
            chosen = next((column for column in columns if column.name in present), None)
            if chosen is not None:
                if present.count(chosen.name) > 1:
                    raise InputError(f"{table}: column {chosen.name!r:.60}: expected once, found twice")
                found[what] = chosen
            elif not self.name:
                names = " or ".join(column.name for column in columns)
                near = [one for column in columns for one in similar(column.name, present)]
                hint = f"; similar: {', '.join(dict.fromkeys(near))}" if near else ""
                raise InputError(
                    f"{self.at(f'columns.{what}')}: expected a column of {table}, found {names!r:.80}{hint}; "
                    f"the table has {', '.join(present)[:300]}"
                )
        has = f"; the set has columns such as {', '.join(self.detect)}, the table has {', '.join(present)[:300]}"
        _check_complete(found, f"{self.source}, for {table}", has if self.name else "")
        return found


def similar(name: str, names: Iterable[str]) -> list[str]:
    """Return up to three names that are similar to a name. O(names)."""
    by_key = {_key(one): one for one in names}
    import difflib  # noqa: PLC0415  rarely needed

    return [by_key[key] for key in difflib.get_close_matches(_key(name), by_key, 3, 0.6)]


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _check_complete(found: Mapping[str, Any], where: str, more: str = "") -> None:
    """Raise InputError for a mapping without submission, run time or size."""
    if "submit" not in found:
        raise InputError(f"{where}: columns: expected submit, found {', '.join(found) or 'nothing'}{more}")
    if "run_time" not in found and not {"start", "end"} <= found.keys() and not {"wait", "end"} <= found.keys():
        raise InputError(f"{where}: columns: expected run_time, or start and end, found {', '.join(found)}{more}")
    if not found.keys() & set(SIZES):
        raise InputError(f"{where}: columns: expected a size ({', '.join(SIZES)}), found {', '.join(found)}{more}")


def read_mapping(path: str | Path) -> TableMapping:
    """Read a mapping from a TOML file. Raises InputError that names the file and the member."""
    try:
        text = Path(path).read_bytes().decode()
    except IsADirectoryError:
        raise InputError(f"{path}: expected a mapping in TOML, found a directory") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected a mapping in TOML, found a file that is not text in UTF-8") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return mapping_of(text, str(path))


@cache
def shipped(name: str) -> TableMapping:
    """Return the mapping of a public set."""
    from importlib import resources  # noqa: PLC0415  rarely needed

    file = resources.files("pybatsched.workload.logs").joinpath("tables", f"{name}.toml")
    return replace(mapping_of(file.read_text(encoding="utf-8"), f"the mapping {name}", is_of_set=True), name=name)


def detected(columns: Iterable[str]) -> str | None:
    """Return the public set whose columns these are, None for another table."""
    present = set(columns)
    return next((name for name in SETS if present.issuperset(shipped(name).detect)), None)


def mapping_of(text: str, source: str, *, is_of_set: bool = False) -> TableMapping:
    """Return the mapping in a TOML text. Raises InputError that names the source and the member."""
    import tomllib  # noqa: PLC0415  rarely needed

    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"{source}: {toml_problem(error)}") from None
    lines = _lines_of(text)
    try:
        return _checked(content, source, lines, is_of_set=is_of_set)
    except InputError as error:
        member, _, more = str(error).removeprefix(f"{source}: ").partition(": ")
        line = next((lines[name] for name in _with_parents(member) if name in lines), 0)
        raise InputError(f"{source}: line {line}: {member}: {more}" if line else str(error)) from None


def _with_parents(member: str) -> Iterator[str]:
    """Yield a member and those that contain it: columns.submit.unit, columns.submit, columns."""
    while member:
        yield member
        member = member.rpartition(".")[0]


def _lines_of(text: str) -> dict[str, int]:
    """Return the line of each key and header of a TOML text, by its name with dots. O(text)."""
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _plain_key(header[1])
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            name = _plain_key(key[1])
            found.setdefault(f"{table}.{name}" if table else name, number)
    return found


def _plain_key(text: str) -> str:
    return re.sub(r"\s*\.\s*", ".", text.strip()).replace('"', "").replace("'", "")


def _checked(content: Mapping[str, Any], source: str, lines: Mapping[str, int], *, is_of_set: bool) -> TableMapping:
    """Return the mapping in the content of a file. Raises InputError that names the source and the member."""
    members = ("table", "columns", "states", *(("detect", "references") if is_of_set else ()))
    _check_names(content, members, source, "")
    table = _table(content.get("table", {}), _OF_TABLE, source, "table")
    states = _table(content.get("states", {}), _OF_STATES, source, "states")
    given = content.get("columns")
    if not isinstance(given, dict) or not given:
        found = "nothing" if given is None else f"{given!r:.60}"
        raise InputError(
            f'{source}: columns: expected a table of columns by field, such as submit = "SUBMIT_TIME", found {found}'
        )
    given = {_OTHER_NAMES.get(what, what): one for what, one in given.items()}
    _check_names(given, tuple(FIELDS), source, "columns.")
    columns = {what: _columns(what, one, source) for what, one in given.items()}
    _check_complete(columns, source)
    names = _table(states.get("names", {}), None, source, "states.names")
    return TableMapping(
        source,
        columns,
        detect=_texts(content.get("detect", []), source, "detect"),
        references=_texts(content.get("references", []), source, "references"),
        timezone=_text(table.get("timezone", "UTC"), source, "table.timezone"),
        size_in=_one_of(table.get("size_in"), _SIZE_IN, source, "table.size_in"),
        delimiter=_delimiter(table.get("delimiter"), source),
        decimal=_one_of(table.get("decimal"), _DECIMALS, source, "table.decimal") or ".",
        unknown=frozenset(one.lower() for one in _texts(table.get("unknown", []), source, "table.unknown")),
        origin=None if "origin" not in table else str(table["origin"]),
        layout=_one_of(table.get("layout"), _LAYOUTS, source, "table.layout") or "rows",
        state_names={one.lower(): _state(state, source, f"states.names.{one}") for one, state in names.items()},
        drop=frozenset(one.lower() for one in _texts(states.get("drop", []), source, "states.drop")),
        keep=frozenset(one.lower() for one in _texts(states.get("keep", []), source, "states.keep")),
        lines=lines,
    )


def _check_names(given: Mapping[str, Any], known: Sequence[str], source: str, prefix: str) -> None:
    for name in given:
        if name not in known:
            near = similar(name, known)
            hint = f"; similar: {', '.join(near)}" if near else ""
            raise InputError(f"{source}: {prefix}{name:.60}: unknown key; expected one of {', '.join(known)}{hint}")


def _table(value: Any, known: Sequence[str] | None, source: str, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{source}: {where}: expected a table, found {value!r:.60}")
    if known is not None:
        _check_names(value, known, source, f"{where}.")
    return value


def _text(value: Any, source: str, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"{source}: {where}: expected a text, found {value!r:.60}")
    return value


def _state(value: Any, source: str, where: str) -> str:
    """Read the name of a state of Slurm, or a text that means: unknown."""
    name = _text(value, source, where)
    try:
        slurm_values.state_of(name)
    except ValueError as error:
        raise InputError(f"{source}: {where}: expected {error}, found {name!r:.60}") from None
    return name


def _texts(value: Any, source: str, where: str) -> tuple[str, ...]:
    """Read a text or a list of texts; numbers in it are texts, too."""
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str | int | float) and not isinstance(one, bool) for one in found):
        raise InputError(f"{source}: {where}: expected a list of texts, found {value!r:.60}")
    return tuple(map(str, found))


def _one_of(value: Any, known: Sequence[str], source: str, where: str) -> str | None:
    if value is None:
        return None
    if value not in known:
        raise InputError(f"{source}: {where}: expected one of {', '.join(known)}, found {value!r:.60}")
    return str(value)


def _delimiter(value: Any, source: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) != 1 or value in '"\r\n\0':
        raise InputError(f"{source}: table.delimiter: expected one character, found {value!r:.60}")
    return value


def _check_format(format: str, source: str, where: str) -> None:  # noqa: A002  as the member
    """Raise InputError for a format that `strptime` cannot read."""
    try:
        datetime.strptime(datetime(2024, 1, 31, 12).strftime(format), format)  # noqa: DTZ001, DTZ007  no time is used
    except ValueError as error:
        raise InputError(
            f"{source}: {where}.format: expected a format of strptime such as %d/%m/%Y %H:%M:%S, found {format!r:.60} "
            f"({error})"
        ) from None


def _columns(what: str, value: Any, source: str) -> tuple[Column, ...]:
    """Read the column of a field: a name, a list of alternative names, or a table with its unit."""
    where = f"columns.{what}"
    given: dict[str, Any] = {"column": value}
    if not isinstance(value, str | list):
        given = _table(value, _OF_COLUMN, source, where)
    if "column" not in given:
        raise InputError(f"{source}: {where}.column: expected the name of a column, found nothing")
    names = _texts(given["column"], source, f"{where}.column")
    if not names or not all(names):
        raise InputError(f"{source}: {where}.column: expected the name of a column, found {value!r:.60}")
    kind = FIELDS[what]
    units, pers = UNITS.get(kind, {}), PER.get(kind, ())
    for member, is_wrong, why in (
        ("unit", not units, "has no unit"),
        ("per", not pers, "has no per"),
        ("format", kind != "time", "is not a time"),
        ("unit", "format" in given and given.get("unit") != AUTO, "has a format"),
        ("resource", kind not in {"count", "memory"}, "is not a size or memory"),
        ("true", kind != "flag", "is not true or false"),
    ):
        if member in given and is_wrong:
            raise InputError(
                f"{source}: {where}.{member}: expected none, because {what} {why}, found {given[member]!r:.60}"
            )
    _one_of(given.get("unit"), tuple(units), source, f"{where}.unit")
    _one_of(given.get("per"), pers, source, f"{where}.per")
    if "format" in given:
        _check_format(_text(given["format"], source, f"{where}.format"), source, where)
    made = Column(
        "",
        given.get("unit", next(iter(units), "")),
        given.get("format", ""),
        given.get("per", "job"),
        _texts(given.get("resource", []), source, f"{where}.resource"),
        frozenset(one.lower() for one in _texts(given.get("true", list(_TRUE)), source, f"{where}.true")),
    )
    return tuple(replace(made, name=name) for name in names)
