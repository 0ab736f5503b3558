"""Reservations of hosts as users describe them: tables of a TOML file, or the option `host_reservations`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from pybatsched.errors import InputError, toml_problem

_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def _seconds(value: Any) -> Any:
    """Read a time such as 12h; other values stay."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhdw]?)", value.strip()) if isinstance(value, str) else None
    return float(match[1]) * _UNITS_S[match[2]] if match else value


_Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0, allow_inf_nan=False)]


class ReservationSpec(BaseModel):
    """A reservation, as a table of the user's file. Times are seconds or texts such as 12h.

    `hosts` are host names, processors such as ``0-15 32``, or a number of hosts. Nobody may use it unless there are
    `users` or `accounts`. It is known from the start of the run, or `notice` before it begins. With `every`, it is
    repeated `count` times.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    start: _Seconds
    duration: _Seconds = Field(gt=0)
    hosts: StrictInt | str | tuple[str, ...]
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    conflict: Literal["wait", "requeue", "kill"] = "wait"
    notice: _Seconds | None = None
    every: _Seconds | None = Field(default=None, gt=0)
    count: int = Field(default=1, ge=1, le=100_000)

    @field_validator("hosts")
    @classmethod
    def _some(cls, hosts: int | str | tuple[str, ...]) -> int | str | tuple[str, ...]:
        if hosts in (0, "", ()) or (isinstance(hosts, int) and hosts < 0):
            raise ValueError("expected at least one host")
        return hosts

    @field_validator("count")
    @classmethod
    def _repeated(cls, count: int, info: ValidationInfo) -> int:
        if count > 1 and "every" in info.data and info.data["every"] is None:
            raise ValueError("expected every, the time from one start to the next, beside it")
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
    lines += [0] * (len(tables) - len(lines))
    found = []
    for line, table in zip(lines, tables, strict=False):
        try:
            spec = ReservationSpec.model_validate(table)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            field = ".".join(str(part) for part in problem["loc"][:1])
            text = problem["msg"].removeprefix("Value error, ")
            raise InputError(f"{source}: line {line}: reservation: {field}: {text}") from None
        found.append(spec.model_dump(mode="json", exclude_defaults=True))
    return found


def check_members(tables: Iterable[Mapping[str, Any]], jobs: Iterable[Mapping[str, Any]], source: str) -> None:
    """Raise InputError for users and accounts that no job has, and for unknown reservations of jobs. O(jobs)."""
    users: set[str] = set()
    accounts: set[str] = set()
    asked: dict[str, Any] = {}
    for job in jobs:
        users.add(str(job.get("user", "")))
        accounts.update((str(job.get("account", "")), str(job.get("group", ""))))
        if "reservation" in job:
            asked.setdefault(str(job["reservation"]), job["id"])
    names = set()
    for table in tables:
        names.add(table["name"])
        for kind, known in (("users", users), ("accounts", accounts)):
            for name in table.get(kind, ()):
                if name not in known:
                    raise InputError(
                        f"{source}: reservation {table['name']}: {kind}: no job of the workload is of {name!r:.60}"
                    )
    for name, job_id in asked.items():
        if name not in names:
            raise InputError(f"job {job_id}, field reservation: expected one of {sorted(names)}, found {name!r:.60}")
