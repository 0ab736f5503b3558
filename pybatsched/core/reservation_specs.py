"""Reservations of hosts as users describe them: tables of a TOML file, or the option `host_reservations`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from pybatsched.core import pydantic_errors
from pybatsched.core.instants import A_SPAN, span_of
from pybatsched.errors import InputError, toml_problem


def _seconds(value: Any) -> Any:
    """Read a time such as 12h; other values stay."""
    if not isinstance(value, str):
        return value
    seconds = span_of(value)
    if seconds is None:
        raise ValueError(f"expected {A_SPAN}")
    return seconds


_Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0, allow_inf_nan=False)]


class ReservationSpec(BaseModel):
    """A reservation, as a table of the user's file. Times are seconds or texts such as 12h.

    `hosts` are host names, processors such as ``0-15 32``, or a number of hosts. No user may use it unless there are
    `users` or `accounts`. It is known from the start of the run, or `notice` before it begins. With `every`, it is
    repeated `count` times. `source` is the file and the line of its table, for errors; files cannot set it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    start: _Seconds
    duration: _Seconds = Field(gt=0)
    hosts: int | str | tuple[str, ...]
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    conflict: Literal["wait", "requeue", "kill"] = "wait"
    notice: _Seconds | None = None
    every: _Seconds | None = Field(default=None, gt=0)
    count: int = Field(default=1, ge=1, le=100_000, validate_default=True)
    source: str = Field(default="", exclude=True)

    @property
    def title(self) -> str:
        """The reservation for errors: its file and line, if it has one, and its name."""
        return _title(self.source, self.name)

    @field_validator("hosts", mode="before")
    @classmethod
    def _some(cls, hosts: Any) -> Any:
        is_list = isinstance(hosts, list | tuple) and all(isinstance(name, str) for name in hosts)
        if not (is_list or type(hosts) in {int, str}) or not hosts or (type(hosts) is int and hosts < 0):
            raise ValueError("expected a number of hosts, processors such as '0-15 32', or a list of host names")
        return hosts

    @field_validator("count")
    @classmethod
    def _repeated(cls, count: int, info: ValidationInfo) -> int:
        every = info.data.get("every", ...)  # ... if it is wrong itself
        if count > 1 and every is None:
            raise ValueError("expected the member every as well: the time from one start to the next")
        if count == 1 and every not in {None, ...}:
            raise ValueError("expected 2 or more windows, because every is given")
        return count


def read_reservations(text: str, source: str) -> list[dict[str, Any]]:
    """Return the tables ``[[reservation]]`` of a TOML file, checked. InputError names the source and the line."""
    import tomllib  # noqa: PLC0415  only for files of reservations

    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: {toml_problem(error)}") from None
    tables = content.get("reservation")
    if set(content) != {"reservation"} or not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise InputError(f"{source}: expected tables [[reservation]] only, found {', '.join(content) or 'nothing'}")
    lines = [n for n, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*reservation\s*\]\]", line)]
    found = []
    for nth, table in enumerate(tables):
        # Tables may also be written in one array; only headers have a line.
        line = lines[nth] if len(lines) == len(tables) else 0
        where = f"{source}: line {line}" if line else source
        try:
            if "source" in table:
                raise InputError(f"{where}: reservation: source: unknown member; expected {', '.join(_MEMBERS)}")
            spec = ReservationSpec.model_validate(table)
        except ValidationError as error:
            problem = pydantic_errors.problems(error, ReservationSpec)[0]
            key = str(error.errors(include_url=False)[0]["loc"][0])
            place = f"{source}: line {_line_of(key, text, line)}" if line else source
            raise InputError(f"{place}: reservation: {problem}") from None
        found.append({**spec.model_dump(mode="json", exclude_defaults=True), "source": where})
    return found


_MEMBERS = tuple(name for name in ReservationSpec.model_fields if name != "source")


def _line_of(key: str, text: str, first: int) -> int:
    """Return the line of a key in the table that begins in line `first`; that line if the key is not there. O(text)."""
    for number, line in enumerate(text.splitlines()[first:], first + 1):
        if line.lstrip().startswith("["):
            break
        if line.partition("=")[0].strip() == key:
            return number
    return first


def _title(source: str, name: str) -> str:
    return f"{source}: reservation {name}" if source else f"reservation {name}"


def check_members(tables: Iterable[Mapping[str, Any]], jobs: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Raise InputError for users, accounts and reservations that are unknown. O(jobs)."""
    users: set[str] = set()
    accounts: set[str] = set()
    asked: dict[str, str] = {}
    for source, job in jobs:
        users.add(str(job.get("user", "")))
        accounts.update((str(job.get("account", "")), str(job.get("group", ""))))
        if "reservation" in job:
            asked.setdefault(str(job["reservation"]), f"{source}: job {job['id']}")
    names = set()
    for table in tables:
        names.add(table["name"])
        for kind, known in (("users", users), ("accounts", accounts)):
            for name in table.get(kind, ()):
                if name not in known:
                    title = _title(table.get("source", ""), table["name"])
                    raise InputError(f"{title}: {kind}: expected {kind} of jobs, found {name!r:.60}, which no job has")
    for name, where in asked.items():
        if name not in names:
            raise InputError(f"{where}, field reservation: expected one of {sorted(names)}, found {name!r:.60}")
