"""Reservations of hosts as users describe them: tables of a TOML file, or the option `host_reservations`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from pybatsched.core.instants import A_SPAN, span_of


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
        return f"{self.source}: reservation {self.name}" if self.source else f"reservation {self.name}"

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
