"""Rows of ``_jobs.csv``, with six decimals as in Batsim.

This module is not compiled: mypyc would drop the choice between the C function and its plain twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

JOB_COLUMNS: Final = (
    "job_id",
    "workload_name",
    "profile",
    "submission_time",
    "requested_number_of_resources",
    "requested_time",
    "success",
    "final_state",
    "starting_time",
    "execution_time",
    "finish_time",
    "waiting_time",
    "turnaround_time",
    "stretch",
    "allocated_resources",
    "consumed_energy",
    "metadata",
)

# Rows as %-templates: twice as fast as f-strings for rows with many floats.
_HEAD: Final = "%s,%s,%s,%.6f,%d,%.6f,%s,%s,"
_REJECTED: Final = _HEAD + ",,,,,,,,%s\n"
_RAN: Final = _HEAD + "%.6f,%.6f,%.6f,%.6f,%.6f,%.6f,%s,%.6f,%s\n"


def plain_job_row(*values: Any) -> str:
    """Return the row of a job that ran: a value for each of `JOB_COLUMNS`, times as floats, metadata in quotes."""
    return _RAN % values


def rejected_row(*values: Any) -> str:
    """Return the row of a rejected job: the columns up to ``final_state``, and the metadata in quotes."""
    return _REJECTED % values


if TYPE_CHECKING:
    job_row = plain_job_row
else:
    try:
        from pybatsched.core._fixed6 import row as job_row
    except ImportError:  # not built
        job_row = plain_job_row
