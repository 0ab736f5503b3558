"""The member `extra_data` of Batsim 5's files: all that it does not read itself, as one JSON object in a text.

Batsim 5 forwards it to schedulers, and nothing else. A file may have an object there, or any text; what is no object,
or would say something else of what Batsim reads, stays in one piece (`pybatsched.core.extra_data`).
"""

from __future__ import annotations

import json
from typing import Any

from pybatsched.core.extra_data import EXTRA, WALLTIME, fields_in
from pybatsched.workload.checks import Place


def with_extra(made: dict[str, Any], extra: dict[str, Any], own: frozenset[str]) -> dict[str, Any]:
    """Put all that Batsim does not read into one text; a file's own `extra_data` stays as it is if it is alone.

    `own` are the members that Batsim may read there.
    """
    if not extra:
        return made
    alone = extra.get(EXTRA) if len(extra) == 1 else None
    if type(alone) in {str, dict, list} and fields_in(alone, own, has_walltime=WALLTIME in made) is None:
        return {**made, **extra}
    return {**made, EXTRA: json.dumps(extra, allow_nan=False)}


def with_expanded(made: dict[str, Any], extra: Any, own: frozenset[str], place: Place) -> dict[str, Any]:
    """Give the members of an `extra_data` to those made already, as far as they can stand beside Batsim's `own`."""
    if type(extra) not in {str, dict, list}:
        place.refuse(f"field {EXTRA}", "a text, an object or an array", extra)
    members = fields_in(extra, own, has_walltime=WALLTIME in made)
    return {**made, EXTRA: extra} if members is None else made | members
