"""Merge several logs that start at the same time 0 into one workload: a grid, each job with its cluster."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pybatsched.core.dependencies import with_ids
from pybatsched.errors import InputError
from pybatsched.workload.formats.checks import shown
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import RECEIVED, parts_of

#: Valid names of clusters and of parts of a campaign, and the same as text.
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,79}")
NAME_IN_WORDS: Final = "letters, digits and . _ + -, a letter or digit first, at most 80 characters"
#: Batsim's names of workloads: an id that contains one would be read as WORKLOAD!JOB.
_OF_BATSIM: Final = re.compile(r"w[0-9]")


class ClusterLog(NamedTuple):
    """A log to merge: the name of its cluster, and its jobs."""

    name: str
    workload: Workload


def check_name(name: str) -> None:
    """Raise InputError for an invalid name of a cluster. Ids of jobs start with it."""
    if not NAME.fullmatch(name):
        raise InputError(f"name {shown(name)}: expected {NAME_IN_WORDS}")
    if kept := _OF_BATSIM.search(name):
        raise InputError(f"name {shown(name)}: expected a name without {kept[0]}, which is a workload's name in Batsim")


def merged(parts: Sequence[ClusterLog], external: float | None = None, seed: int = 0) -> Workload:
    """Merge workloads in order of submission; jobs of the same time are in the order of the parts. O(n log n).

    Ids of jobs are NAME-ID, and jobs have ``cluster: NAME``. Each job is external (``external: true``) with probability
    `external`, by a random generator per part. If that is None, the field of the input is kept. Equal profiles of the
    same name are one profile; a different one is renamed. The machine has the processors of all parts. The inputs
    are not changed. Raises InputError for duplicate names or ids.
    """
    if external is not None and not 0 <= external <= 1:
        raise InputError(f"external: expected a share from 0 to 1, found {external:g}")
    jobs: list[dict[str, Any]] = []
    profiles: dict[str, dict[str, Any]] = {}
    counts: dict[str, dict[str, Any]] = {}
    cluster_of: dict[str, str] = {}
    for name, workload in parts:
        check_name(name)
        if name in counts:
            raise InputError(f"name {shown(name)}: expected a different name for each log, found it twice")
        renamed = _renamed(name, workload.profiles, profiles)
        profiles |= {renamed.get(own, own): _with_parts(profile, renamed) for own, profile in workload.profiles.items()}
        own_jobs = [_job_of(name, job, renamed) for job in workload.jobs]
        for job in own_jobs:
            if job["id"] in cluster_of:
                both = f"one of {cluster_of[job['id']]} and one of {name}"
                raise InputError(f"job {shown(job['id'])}: expected a unique id, found {both}")
            cluster_of[job["id"]] = name
        own_jobs.sort(key=lambda job: job["subtime"])
        if external is not None:
            _mark_external(own_jobs, external, f"{seed}/external/{name}")
        n_external = sum(job.get("external") is True for job in own_jobs)
        jobs += own_jobs
        of_log = {"name": name, "nb_res": workload.n_procs, "jobs": len(own_jobs), "external": n_external}
        counts[name] = of_log | workload.about
    jobs.sort(key=lambda job: job["subtime"])
    about: dict[str, Any] = {"merged": list(counts.values())}
    if external is not None and 0 < external < 1:
        about["external"] = {"share": external, "seed": seed}
    return Workload(jobs, profiles, sum(part.workload.n_procs for part in parts), "", about)


def _mark_external(jobs: Sequence[dict[str, Any]], share: float, seed: str) -> None:
    """Mark each job as external with probability `share`."""
    rng = random.Random(seed)  # noqa: S311  no secret
    for job in jobs:
        job.pop("external", None)
        if rng.random() < share:
            job["external"] = True


def _job_of(name: str, job: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Return a job of a part as a job of the merged workload."""
    made = {**job, "id": _id_of(name, job["id"]), "profile": renamed.get(job["profile"], job["profile"])}
    if "depends_on" in job:
        made, _ = with_ids(made, lambda other: _id_of(name, other))
    made |= {"array": _id_of(name, job["array"])} if "array" in job else {}
    return made | {"cluster": name}


def _id_of(name: str, own: Any) -> str:
    """Return a job's id in the merged workload, without the part before a !, the name of its old workload.

    >>> _id_of("ctc", 12), _id_of("ctc", "w0!12")
    ('ctc-12', 'ctc-12')
    """
    return f"{name}-{str(own).rpartition('!')[2]}"


def _renamed(
    name: str, own: Mapping[str, Mapping[str, Any]], others: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Return new names for profiles that differ from another of the same name. O(profiles and their parts)."""
    made_of: dict[str, list[str]] = {}
    for one, profile in own.items():
        for part in parts_of(profile):
            made_of.setdefault(part, []).append(one)
    clashing = {one for one, profile in own.items() if one in others and others[one] != profile}
    to_visit = list(clashing)
    while to_visit:  # a profile with a renamed part differs, too
        new = {one for one in made_of.get(to_visit.pop(), ()) if one in others} - clashing
        clashing |= new
        to_visit += new
    taken = {*own, *others}
    return {one: _free_name(f"{name}-{one}", taken) for one in own if one in clashing}


def _free_name(wanted: str, taken: set[str]) -> str:
    """Return an unused name and add it to the used ones."""
    found, number = wanted, 1
    while found in taken:
        number += 1
        found = f"{wanted}-{number}"
    taken.add(found)
    return found


def _with_parts(profile: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Return a profile with the new names of its parts."""
    made = dict(profile)
    if not renamed.keys().isdisjoint(parts_of(profile)):
        if "seq" in made:
            made["seq"] = [renamed.get(part, part) for part in made["seq"]]
        for outcome in RECEIVED:
            if outcome in made:
                made[outcome] = renamed.get(made[outcome], made[outcome])
    return made
