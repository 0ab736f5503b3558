"""The member `extra_data` of Batsim 5's files: all that it does not read itself, as one JSON object in a text.

Batsim 5 forwards it to schedulers, and nothing else. A file may have an object there, or any text; what is no object,
or would say something else of what Batsim reads, stays in one piece.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from pybatsched.workload.checks import Place, is_number, is_text

EXTRA: Final = "extra_data"


def with_extra(made: dict[str, Any], extra: dict[str, Any], own: frozenset[str]) -> dict[str, Any]:
    """Put all that Batsim does not read into one text; a file's own `extra_data` stays as it is if it is alone.

    `own` are the members that Batsim may read there.
    """
    if not extra:
        return made
    alone = extra.get(EXTRA) if len(extra) == 1 else None
    if type(alone) in {str, dict, list} and _expanded(alone, own, has_walltime="walltime" in made) is None:
        return {**made, **extra}
    return {**made, EXTRA: json.dumps(extra, allow_nan=False)}


def with_expanded(made: dict[str, Any], extra: Any, own: frozenset[str], place: Place) -> dict[str, Any]:
    """Give the members of an `extra_data` to those made already, as far as they can stand beside Batsim's `own`."""
    if type(extra) not in {str, dict, list}:
        place.refuse(f"field {EXTRA}", "a text, an object or an array", extra)
    members = _expanded(extra, own, has_walltime="walltime" in made)
    return {**made, EXTRA: extra} if members is None else made | members


def _expanded(extra: Any, own: frozenset[str], *, has_walltime: bool) -> dict[str, Any] | None:
    """Give the members in an `extra_data`; None if they are none that can stand beside Batsim's own."""
    found: dict[str, Any] | None = extra if type(extra) is dict else object_in(extra) if type(extra) is str else None
    if found is None:
        return None
    clash = own & found.keys()
    if clash == {"walltime"} and not has_walltime and is_number(found["walltime"]) and found["walltime"] == -1:
        clash = frozenset()
    return None if clash else found


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def object_in(text: str) -> dict[str, Any] | None:
    """Read a text that is a JSON object with nothing in it that could not be written again; None for all else."""
    try:
        found = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    if type(found) is not dict or ("\\u" in text and not is_text(json.dumps(found, ensure_ascii=False))):
        return None
    return found
