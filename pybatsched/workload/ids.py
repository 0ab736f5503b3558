"""The names of jobs: in their workload, and in a whole run."""

from __future__ import annotations

import re
from typing import Any, Final

from pybatsched.errors import InputError

#: Batsim aborts on these in an id, or its files could not be read again.
FORBIDDEN_IN_IDS: Final = '!,"\\\r\n'
_FORBIDDEN: Final = re.compile(f"[{re.escape(FORBIDDEN_IN_IDS)}]")


def full_id(workload: str, given: Any) -> str:
    """Give a job's id in a run.

    >>> full_id("w0", 12), full_id("w0", "w0!12")
    ('w0!12', 'w0!12')
    """
    return f"{workload}!{name_in(workload, given)}"


def name_in(workload: str, given: Any) -> str:
    """Give a job's name in its workload. As in Batsim, an id that contains the workload's name must be a full one."""
    name = text = str(given)
    if workload in text:
        prefix, mark, name = text.partition("!")
        if not mark or prefix != workload or not name:
            raise InputError(
                f"workload {workload}: job id {text!r} contains the workload's name, so Batsim reads it as "
                f"WORKLOAD!JOB; rename the job, or write {workload}!{text}"
            )
    if _FORBIDDEN.search(name) is not None:
        raise InputError(
            f"workload {workload}: job id {text!r}: Batsim takes no '!', commas, quotes or line ends in ids"
        )
    return name
