"""Workloads made ready for the cells of a campaign, once each, and kept beside the results.

A prepared workload is addressed by the digest of its source and of all steps, so that a resumed campaign finds it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

from pybatsched import workload as workload_package
from pybatsched.campaign.workloads import Drawn, Weeks, WorkloadSpec
from pybatsched.errors import InputError
from pybatsched.workload import merge, prepare, reading
from pybatsched.workload.formats import batsim4, files, swf
from pybatsched.workload.generate.models import Recipe, generate
from pybatsched.workload.model import Workload
from pybatsched.workload.selection import Selection
from pybatsched.workload.walltimes import Walltimes
from pybatsched.workload.weeks import busy_weeks, weeks_of, workloads_of


def digest_of(content: Any) -> str:
    """Give a short digest of anything that JSON can say."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def digest_of_files(root: Path, paths: Iterable[Path]) -> str:
    """Give a digest of files, by their names below a directory and their contents. O(bytes)."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


_FILES: Final = {"__all__": {"file"}}


class Prepared(NamedTuple):
    """A workload that is ready: its name in tables, its file, the digest of its content, and its machine's size.

    `family` is the name of the workload in the campaign's file, of which it may be a week.
    """

    name: str
    path: str
    digest: str
    n_procs: int
    family: str = ""


class Preparer:
    """Prepares workloads into a directory. `places` are where files are looked for."""

    def __init__(self, folder: Path, places: Iterable[Path]) -> None:
        self._folder = folder
        self._places = list(places)
        self._digests: dict[Path, str] = {}

    def prepare(self, spec: WorkloadSpec, seed: int) -> list[Prepared]:
        """Give the workloads of a spec: one, or one for each week. What was prepared before is not done again."""
        if spec.optional and not all(map(self._is_there, spec.sources)):
            return []
        sources = [self._find(name) for name in spec.sources]
        depends_on = {"seed": seed} if spec.draws else {}
        # Not the names of files: the same content must be the same workload.
        steps = spec.model_dump(mode="json", exclude={"name": True, "file": True, "optional": True, "merge": _FILES})
        made_of = {"sources": [self._digest(source) for source in sources], "steps": steps, "code": _code_digest()}
        key = digest_of(made_of | depends_on)
        index = self._folder / f"{key}.index.json"
        found = _read_index(index)
        if found and all((self._folder / row.path).exists() for row in found):
            return [self._placed(spec, row) for row in found]
        rows = []
        try:
            made = list(_made(spec, sources, seed))
        except InputError as error:
            raise InputError(f"workload {spec.name}: {str(error).removeprefix(': ')}") from None
        for label, workload in made:
            if not workload.jobs:
                raise InputError(f"workload {spec.name}{label}: there is no job to run ({workload.why_empty})")
            text = batsim4.text_of(workload)
            name = f"{key}{label}.json"
            files.write_text(self._folder / name, [text])
            rows.append(Prepared(label, name, hashlib.sha256(text.encode()).hexdigest(), workload.n_procs))
        files.write_text(index, [json.dumps(rows)])
        return [self._placed(spec, row) for row in rows]

    def _placed(self, spec: WorkloadSpec, row: Prepared) -> Prepared:
        return row._replace(name=f"{spec.name}{row.name}", family=spec.name, path=str(self._folder / row.path))

    def _is_there(self, name: str) -> bool:
        return any((place / name).is_file() for place in self._places)

    def _find(self, name: str) -> Path:
        for place in self._places:
            path = place / name
            if path.is_file():
                return path
        shown = ", ".join(str(place) for place in self._places)
        raise InputError(f"workload file {name}: not found in {shown} (give --traces, or set PYBATSCHED_TRACES)")

    def _digest(self, path: Path) -> str:
        if path not in self._digests:
            self._digests[path] = hashlib.sha256(path.read_bytes()).hexdigest()
        return self._digests[path]


def _made(spec: WorkloadSpec, sources: Sequence[Path], seed: int) -> Iterator[tuple[str, Workload]]:
    """Make the workloads of a spec, with what their names end in."""
    for label, workload in _loaded(spec, sources, seed):
        workload.source = spec.file or ""  # not where it lay: the same content must be the same file
        yield label, reduce(lambda made, step: step.applied(made, seed), spec.injections, workload)


def _loaded(spec: WorkloadSpec, sources: Sequence[Path], seed: int) -> Iterator[tuple[str, Workload]]:
    walltimes = Walltimes.parse(spec.walltimes or ("requested" if sources else "exact"))
    if spec.generate is not None:
        yield "", generate(_recipe(spec.generate, walltimes, seed))
        return
    options = swf.SwfOptions(
        walltimes,
        size=spec.size or "allocated",
        run_times=spec.run_times or "logged",
        memory_unit=spec.memory_unit or swf.DEFAULT_MEMORY_UNIT,
    )
    if spec.merge:
        yield "", _merged(spec, sources, options, seed)
        return
    (source,) = sources
    _check_format(spec, source)
    options = replace(options, n_procs=spec.procs)
    if spec.weeks is not None:
        yield from _weeks(spec, spec.weeks, source, options)
        return
    yield "", reading.read(source, options, replace(spec.window, max_jobs=spec.max_jobs))[0]


def _merged(spec: WorkloadSpec, sources: Sequence[Path], options: swf.SwfOptions, seed: int) -> Workload:
    parts = []
    for log, source in zip(spec.merge, sources, strict=True):
        try:
            _check_format(spec, source)
            own = replace(options, n_procs=log.procs)
            parts.append(merge.ClusterLog(log.name, reading.read(source, own, spec.window)[0]))
        except InputError as error:
            raise InputError(f"{log.name}: {error}") from None
    whole = merge.merged(parts, spec.external, seed)
    return whole if spec.max_jobs is None else prepare.select(whole, Selection(max_jobs=spec.max_jobs))[0]


def _check_format(spec: WorkloadSpec, source: Path) -> None:
    """Raise InputError for what only a log in SWF has."""
    kind = files.format_of(source)
    if kind == "SWF":
        return
    found = "a Batsim file" if kind == "Batsim JSON" else "a file of the Rackham format"
    if spec.weeks is not None:
        raise InputError(f"weeks: expected a log in SWF, found {found}")
    for name, value in spec.of_swf.items():
        if value is not None:
            raise InputError(f"{name}: expected a log in SWF, found {found}, which needs none")


def _weeks(spec: WorkloadSpec, wanted: Weeks, source: Path, options: swf.SwfOptions) -> Iterator[tuple[str, Workload]]:
    trace = swf.read_swf(source)
    if spec.partitions:
        trace = trace.of_partitions(spec.partitions)
    weeks = weeks_of(trace, swf.machine_of(trace, options)[0], options.size)
    least, most = wanted.utilisation
    chosen = busy_weeks(weeks, least, math.inf if most is None else most, keep_ends=wanted.keep_ends)
    chosen = chosen[: wanted.max_weeks]
    if not chosen:
        raise InputError(f"no week of {spec.file} has such a utilisation")
    for week, workload, _ in workloads_of(trace, chosen, options, replace(spec.window, max_jobs=spec.max_jobs)):
        yield f"-week{week.number:02}", workload


def _recipe(drawn: Drawn, walltimes: Walltimes, seed: int) -> Recipe:
    return Recipe(
        drawn.model,
        drawn.procs,
        seed=seed,
        n_jobs=drawn.jobs,
        days=drawn.days,
        load=drawn.load,
        runtimes=drawn.runtimes,
        sizes=drawn.sizes,
        walltimes=walltimes,
        n_users=drawn.users,
    )


def _read_index(path: Path) -> list[Prepared]:
    """Read what was prepared; nothing if there is no such file, or a damaged one."""
    try:
        return [Prepared(*row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []


@cache
def _code_digest() -> str:
    """Give a digest of the code that prepares: what another version made may be something else."""
    root = Path(str(workload_package.__file__)).parent
    return digest_of([Path(__file__).read_text(encoding="utf-8"), digest_of_files(root, root.rglob("*.py"))])
