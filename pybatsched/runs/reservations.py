"""Files of reservations of hosts. This module imports pydantic."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

from pydantic import ValidationError

from pybatsched import pydantic_errors
from pybatsched.core.reservation_specs import ReservationSpec
from pybatsched.errors import InputError, toml_problem

_MEMBERS: Final = tuple(name for name in ReservationSpec.model_fields if name != "source")


def read_reservations(text: str, source: str) -> list[dict[str, Any]]:
    """Return the tables ``[[reservation]]`` of a TOML file, checked. InputError names the source and the line."""
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


def _line_of(key: str, text: str, first: int) -> int:
    """Return the line of a key in the table that begins in line `first`; that line if the key is not there. O(text)."""
    for number, line in enumerate(text.splitlines()[first:], first + 1):
        if line.lstrip().startswith("["):
            break
        if line.partition("=")[0].strip() == key:
            return number
    return first
