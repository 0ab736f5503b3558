"""Reduce a failing scene to a small one, and print it as a test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from reliability.scenes import DELAY, OTHER, Job, Outage, Scene

#: Returns the problems of a scene; no problems means that it passes.
Problems = Callable[[Scene], list[str]]
MOST_TRIES: Final = 400
_NAMES: Final = re.compile(r"\S*\d\S*")
#: Fields of checkpoints, which go together: with them, the run time of a job follows from its work.
_TOGETHER: Final = frozenset(f"checkpoint_{name}_s" for name in ("interval", "dump", "read", "work"))
_FLAGS: Final = ("acknowledged", "reuse", "forward", "dynamic")


def kind(problem: str) -> str:
    """Return what problems of one kind share: their text without names and numbers.

    >>> kind("w0!3 is started and does not wait")
    '# is started and does not wait'
    """
    return _NAMES.sub("#", problem)[:60]


def shrunk(scene: Scene, problems: Problems, most_tries: int = MOST_TRIES) -> Scene:
    """Return a smaller scene that fails in the same way. `most_tries` runs at most."""
    found = problems(scene)
    wanted = kind(found[0])
    n_tries = 0
    goes_on = True
    while goes_on:
        goes_on = False
        for smaller in _smaller(scene):
            n_tries += 1
            if n_tries > most_tries:
                return scene
            if any(kind(problem) == wanted for problem in problems(smaller)):
                scene, goes_on = smaller, True
                break
    return scene


def _smaller(scene: Scene) -> Iterator[Scene]:
    """Return smaller scenes, the greatest steps first."""
    n = len(scene.jobs)
    first_at = min(job.at for job in scene.jobs)
    if first_at > 0:
        yield _from_the_begin(scene, first_at)
    size = n // 2
    while size >= 1:
        for first in range(0, n, size):
            jobs = scene.jobs[:first] + scene.jobs[first + size :]
            if jobs:
                yield replace(scene, jobs=jobs)
        size //= 2
    yield from _fewer_faults(scene)
    if scene.batsim == 5:
        yield replace(scene, batsim=4)
    for name in _FLAGS:
        if getattr(scene, name):
            yield _with(scene, name, value=False)
    yield from _plainer_jobs(scene)
    yield from _smaller_machines(scene)


def _fewer_faults(scene: Scene) -> Iterator[Scene]:
    for name in ("outages", "drains", "kills", "late"):
        values = getattr(scene, name)
        if len(values) > 1:
            yield _with(scene, name, ())
        for nth in range(len(values)):
            yield _with(scene, name, values[:nth] + values[nth + 1 :])
    for key in scene.options:
        yield replace(scene, options={name: value for name, value in scene.options.items() if name != key})
    tables = scene.reservations
    for nth in range(len(tables) if len(tables) > 1 else 0):
        fewer = [*tables[:nth], *tables[nth + 1 :]]
        yield replace(scene, options={**scene.options, "host_reservations": fewer})


def _with(scene: Scene, name: str, value: Any) -> Scene:
    changes: dict[str, Any] = {name: value}
    return replace(scene, **changes)


def _from_the_begin(scene: Scene, first_at: float) -> Scene:
    """Move all events to an earlier time, and those before the first job to the start."""

    def earlier(at: float) -> float:
        return max(round(at - first_at, 6), 0.0)

    def without(outages: tuple[Outage, ...]) -> tuple[Outage, ...]:
        return tuple(
            replace(one, at=earlier(one.at), until=None if one.until is None else earlier(one.until)) for one in outages
        )

    tables = [{**table, "start": earlier(table["start"])} for table in scene.reservations]
    return replace(
        scene,
        jobs=tuple(replace(job, at=earlier(job.at)) for job in scene.jobs),
        options={**scene.options, "host_reservations": tables} if tables else scene.options,
        outages=without(scene.outages),
        drains=without(scene.drains),
        kills=tuple(replace(kill, at=earlier(kill.at)) for kill in scene.kills),
    )


def _plainer_jobs(scene: Scene) -> Iterator[Scene]:
    for nth, job in enumerate(scene.jobs):
        for plainer in _plainer(job):
            yield replace(scene, jobs=(*scene.jobs[:nth], plainer, *scene.jobs[nth + 1 :]))


def _plainer(job: Job) -> Iterator[Job]:
    if job.workload not in {"w0", OTHER}:
        yield replace(job, id=f"w0!{job.id.partition('!')[2]}")
    if job.kind != DELAY:
        yield replace(job, kind=DELAY)
    for key in job.fields:
        if key not in _TOGETHER:
            yield replace(job, fields={name: value for name, value in job.fields.items() if name != key})
    if "checkpoint_work_s" in job.fields:
        plain = {name: value for name, value in job.fields.items() if name not in _TOGETHER}
        yield replace(job, s=job.fields["checkpoint_work_s"], fields=plain)
    if job.n > 1:
        yield replace(job, n=1)
        yield replace(job, n=job.n - 1)
    for at in (0.0, float(int(job.at))):
        if at < job.at:
            yield replace(job, at=at)
    for s in (1.0, float(int(job.s))):
        if 0 < s < job.s and "checkpoint_work_s" not in job.fields:
            yield replace(job, s=s)


def _smaller_machines(scene: Scene) -> Iterator[Scene]:
    if scene.hosts:
        yield replace(scene, hosts=())
        return
    widest = max((job.n for job in scene.jobs), default=1)
    for n_procs in (widest, scene.n_procs // 2, scene.n_procs - 1):
        if 0 < n_procs < scene.n_procs and not (scene.outages or scene.drains or scene.reservations):
            yield replace(scene, n_procs=n_procs)


def as_test(scene: Scene, seed: int, problems: list[str]) -> str:
    """Write a scene as a whole test."""
    message = "\n    ".join(problem.replace("\\", "/").replace('"""', "'''") for problem in problems[:3])
    code = scene.as_code("        ")
    names = [name for name in ("Job", "Kill", "Outage", "Scene") if f"{name}(" in code]
    return f'''\
from reliability.scenes import {", ".join(names)}
from reliability.soak_checks import assert_sound


def test_{scene.policy}_{seed}() -> None:
    """It was found by `make soak`, as seed {seed}, and made smaller:

    {message}
    """
    assert_sound(
{code}
    )
'''
