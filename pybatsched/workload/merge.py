"""Several logs as one workload: the jobs of a grid, each with the cluster that it comes from.

Every log has been cut and moved before, so that all of them begin at the same time 0. Some of the jobs may be
*external*: submitted by users of their cluster, past the grid's own scheduler.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pybatsched.errors import InputError
from pybatsched.workload.formats.checks import shown
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import RECEIVED, as_list, parts_of

#: What clusters, and the parts of a campaign, can be called, and the same in words.
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,79}")
NAME_IN_WORDS: Final = "letters, digits and . _ + -, of which the first is a letter or a digit, and at most 80 of them"
#: How Batsim calls workloads: an id that has one of these in it would be read as WORKLOAD!JOB.
_OF_BATSIM: Final = re.compile(r"w[0-9]")


class Part(NamedTuple):
    """A log that is merged with others: the name of its cluster, and its jobs."""

    name: str
    workload: Workload


def check_name(name: str) -> None:
    """Raise InputError for what cannot be the name of a cluster, with which ids of jobs begin."""
    if not NAME.fullmatch(name):
        raise InputError(f"name {shown(name)}: expected {NAME_IN_WORDS}")
    if kept := _OF_BATSIM.search(name):
        raise InputError(f"name {shown(name)}: expected one without {kept[0]}, as Batsim calls workloads")


def merged(parts: Sequence[Part], external: float | None = None, seed: int = 0) -> Workload:
    """Make one workload of several, in order of submission; at one instant in the order of the parts. O(n log n).

    Jobs are named NAME-ID and have ``cluster: NAME``. Each is external (``external: true``) with the probability
    `external`, by dice that each part has of its own; where that is None, those are that were. Profiles of one name
    are one profile if they are alike; else the later one gets another name. The machine is as large as those of all
    parts together. Nothing that is given is changed. Raises InputError for names that cannot be told apart.
    """
    if external is not None and not 0 <= external <= 1:
        raise InputError(f"external: expected a share from 0 to 1, found {external:g}")
    jobs: list[dict[str, Any]] = []
    profiles: dict[str, dict[str, Any]] = {}
    told: dict[str, dict[str, Any]] = {}
    whose: dict[str, str] = {}
    for name, workload in parts:
        check_name(name)
        if name in told:
            raise InputError(f"name {shown(name)}: expected another one for each log, found it twice")
        renamed = _renamed(name, workload.profiles, profiles)
        profiles |= {renamed.get(own, own): _with_parts(profile, renamed) for own, profile in workload.profiles.items()}
        own_jobs = [_job_of(name, job, renamed) for job in workload.jobs]
        for job in own_jobs:
            if job["id"] in whose:
                both = f"one of {whose[job['id']]} and one of {name}"
                raise InputError(f"job {shown(job['id'])}: expected an id of its own, found {both}")
            whose[job["id"]] = name
        own_jobs.sort(key=lambda job: job["subtime"])
        if external is not None:
            _draw(own_jobs, external, f"{seed}/external/{name}")
        n_external = sum(job.get("external") is True for job in own_jobs)
        jobs += own_jobs
        counts = {"name": name, "nb_res": workload.n_procs, "jobs": len(own_jobs), "external": n_external}
        told[name] = counts | workload.about
    jobs.sort(key=lambda job: job["subtime"])
    about: dict[str, Any] = {"merged": list(told.values())}
    if external is not None and 0 < external < 1:
        about["external"] = {"share": external, "seed": seed}
    return Workload(jobs, profiles, sum(part.workload.n_procs for part in parts), "", about)


def _draw(jobs: Sequence[dict[str, Any]], share: float, seed: str) -> None:
    """Mark each of these jobs as external with a probability."""
    dice = random.Random(seed)  # noqa: S311  no secret
    for job in jobs:
        job.pop("external", None)
        if dice.random() < share:
            job["external"] = True


def _job_of(name: str, job: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Give a job of a part as one of the whole."""
    made = {**job, "id": _id_of(name, job["id"]), "profile": renamed.get(job["profile"], job["profile"])}
    if "depends_on" in job:
        on = [_id_of(name, other) for other in as_list(job["depends_on"])]
        made["depends_on"] = on if isinstance(job["depends_on"], list) else on[0]
    return made | {"cluster": name}


def _id_of(name: str, own: Any) -> str:
    """Give a job's id in the whole; the name of a workload before a ! is that of its file.

    >>> _id_of("ctc", 12), _id_of("ctc", "w0!12")
    ('ctc-12', 'ctc-12')
    """
    return f"{name}-{str(own).rpartition('!')[2]}"


def _renamed(
    name: str, own: Mapping[str, Mapping[str, Any]], others: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Give new names for profiles whose names others have that do something else. O(profiles and their parts)."""
    made_of: dict[str, list[str]] = {}
    for one, profile in own.items():
        for part in parts_of(profile):
            made_of.setdefault(part, []).append(one)
    clashing = {one for one, profile in own.items() if one in others and others[one] != profile}
    to_see = list(clashing)
    while to_see:  # what is made of something else is something else
        new = {one for one in made_of.get(to_see.pop(), ()) if one in others} - clashing
        clashing |= new
        to_see += new
    taken = {*own, *others}
    return {one: _free_name(f"{name}-{one}", taken) for one in own if one in clashing}


def _free_name(wanted: str, taken: set[str]) -> str:
    """Give a name that nobody has, and take it."""
    found, number = wanted, 1
    while found in taken:
        number += 1
        found = f"{wanted}-{number}"
    taken.add(found)
    return found


def _with_parts(profile: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Give a profile with the new names of those that it is made of."""
    made = dict(profile)
    if not renamed.keys().isdisjoint(parts_of(profile)):
        if "seq" in made:
            made["seq"] = [renamed.get(part, part) for part in made["seq"]]
        for outcome in RECEIVED:
            if outcome in made:
                made[outcome] = renamed.get(made[outcome], made[outcome])
    return made
