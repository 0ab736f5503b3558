"""The table of docs/slurm.md: parameters of slurm.conf and limits with an effect that is not simulated."""

from __future__ import annotations

from collections.abc import Iterator

from pybatsched.machines.slurm_conf import parameters
from pybatsched_schedulers.slurm import accounts


def tables() -> dict[str, str]:
    """Return the rows of the table, with its head, by the name in its marker: equal effects are one row."""
    rows: dict[tuple[str, str], list[str]] = {}
    for place, name, effect in _all():
        rows.setdefault((place, effect), []).append(f"`{name}`")
    lines = [f"| {place} | {', '.join(names)} | {effect} |" for (place, effect), names in rows.items()]
    return {"slurm": "\n".join(("| in | not simulated | instead |", "|---|---|---|", *lines, ""))}


def _all() -> Iterator[tuple[str, str, str]]:
    for name, (_, effect) in parameters.NOT_SIMULATED.items():
        yield "slurm.conf", name, effect
    for name, effect in parameters.NOT_SIMULATED_OPTIONS.items():
        yield "SchedulerParameters", name, effect
    for name, (_, effect) in parameters.NOT_SIMULATED_OF_PARTITIONS.items():
        yield "partitions", name, effect
    for name, (_, effect) in accounts.NOT_SIMULATED.items():
        yield "QOS, associations", name, effect
