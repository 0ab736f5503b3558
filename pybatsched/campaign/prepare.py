"""Prepare the workloads of a campaign, once each, and keep them in the campaign's directory.

The address of a prepared workload is a digest of its source and of all steps, so that a resumed campaign finds it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

from pybatsched import workload as workload_package
from pybatsched.campaign.workloads import GeneratedWorkload, Weeks, WorkloadSpec
from pybatsched.errors import InputError
from pybatsched.workload import merge, prepare, reading
from pybatsched.workload.formats import batsim4, files, job_log, swf
from pybatsched.workload.formats.conversion import DEFAULT_MEMORY_UNIT
from pybatsched.workload.generate.models import Recipe, generate
from pybatsched.workload.model import Workload
from pybatsched.workload.names import ending
from pybatsched.workload.resample.feedback import with_feedback
from pybatsched.workload.resample.shaking import shaken
from pybatsched.workload.resample.users import resamples
from pybatsched.workload.selection import Selection
from pybatsched.workload.sequences import sequences_of
from pybatsched.workload.walltimes import Walltimes
from pybatsched.workload.weeks import weekly


def digest_of(content: Any) -> str:
    """Return a short digest of a JSON value."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def digest_of_files(root: Path, paths: Iterable[Path]) -> str:
    """Return a digest of files, by their names below a directory and their contents. O(bytes)."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


_FILES: Final = {"__all__": {"file"}}
#: The members of a workload that apply to logs of some formats only.
_MEMBERS_OF: Final = {
    "SWF": frozenset({"size", "run_times", "unknown_runtime", "memory_unit"}),
    "Slurm": frozenset({"size", "run_times", "size_in", "timezone"}),
    "table": frozenset({"size", "run_times", "size_in", "timezone"}),
}


class Prepared(NamedTuple):
    """A prepared workload: its name in tables, its file, the digest of its content, and its machine's size.

    `family` is the name of the workload in the campaign's file; the prepared workload may be a week or a
    sequence of it.
    """

    name: str
    path: str
    digest: str
    n_procs: int
    family: str = ""


class Preparer:
    """Prepares workloads in a directory. `sources` are the directories to search for files."""

    def __init__(self, folder: Path, sources: Iterable[Path]) -> None:
        self._folder = folder
        self._source_folders = list(sources)
        self._digests: dict[Path, str] = {}

    def prepare(self, spec: WorkloadSpec, seed: int) -> list[Prepared]:
        """Return the workloads of a spec: one, or one per week or sequence. Prepared workloads are reused."""
        if spec.optional and not all(map(self._is_there, spec.sources)):
            return []
        sources = [self._find(name) for name in spec.sources]
        mapping = None if spec.mapping is None else self._find(spec.mapping)
        depends_on: dict[str, Any] = {"seed": seed} if spec.draws else {}
        depends_on |= {} if mapping is None else {"mapping": self._digest(mapping)}
        # Without file names: equal content is the same workload.
        steps = spec.model_dump(mode="json", exclude={"name": True, "file": True, "optional": True, "merge": _FILES})
        content = {"sources": [self._digest(source) for source in sources], "steps": steps, "code": _code_digest()}
        key = digest_of(content | depends_on)
        index = self._folder / f"{key}.index.json"
        found = _read_index(index)
        if found and all((self._folder / row.path).exists() for row in found):
            return [self._with_path(spec, row) for row in found]
        rows = []
        try:
            found_mapping = spec.model_copy(update={"mapping": None if mapping is None else str(mapping)})
            workloads = list(_workloads(found_mapping, sources, seed))
        except InputError as error:
            raise InputError(f"workload {spec.name}: {str(error).removeprefix(': ')}") from None
        for label, workload in workloads:
            if not workload.jobs:
                raise InputError(f"workload {spec.name}{label}: there is no job to run ({workload.why_empty})")
            text = batsim4.text_of(workload)
            name = f"{key}{label}.json"
            files.write_text(self._folder / name, [text])
            rows.append(Prepared(label, name, hashlib.sha256(text.encode()).hexdigest(), workload.n_procs))
        files.write_text(index, [json.dumps(rows)])
        return [self._with_path(spec, row) for row in rows]

    def _with_path(self, spec: WorkloadSpec, row: Prepared) -> Prepared:
        return row._replace(name=f"{spec.name}{row.name}", family=spec.name, path=str(self._folder / row.path))

    def _is_there(self, name: str) -> bool:
        return any(name and (folder / name).exists() for folder in self._source_folders)

    def _find(self, name: str) -> Path:
        for folder in self._source_folders:
            path = folder / name
            if name and path.exists():
                return path
        shown = ", ".join(str(folder) for folder in self._source_folders)
        raise InputError(f"workload file {name}: not found in {shown}; use --traces DIR or set PYBATSCHED_TRACES")

    def _digest(self, path: Path) -> str:
        if path not in self._digests:
            self._digests[path] = files.digest_of(path)
        return self._digests[path]


def _workloads(spec: WorkloadSpec, sources: Sequence[Path], seed: int) -> Iterator[tuple[str, Workload]]:
    """Yield the workloads of a spec, each with the suffix of its name."""
    for label, workload in _shaken(spec, _scaled(spec, _split(spec, _followed(spec, sources, seed), seed)), seed):
        workload.source = spec.file or ""  # without its directory: equal content gives equal files
        yield label, reduce(lambda jobs, step: step.applied(jobs, seed), spec.injections, workload)


def _followed(spec: WorkloadSpec, sources: Sequence[Path], seed: int) -> Iterator[tuple[str, Workload]]:
    """Yield the workloads of a spec before they are changed, with feedback if that is wanted."""
    for label, workload in _loaded(spec, sources, seed):
        yield label, with_feedback(workload) if spec.feedback else workload


def _scaled(spec: WorkloadSpec, workloads: Iterator[tuple[str, Workload]]) -> Iterator[tuple[str, Workload]]:
    """Yield each workload with its load scaled, one for each load of the spec."""
    for label, workload in workloads:
        if spec.scale_load is not None:
            yield label, prepare.scale_load(workload, spec.scale_load)
        for load in spec.load:
            yield f"{label}{ending('load', load)}", prepare.with_load(workload, load)
        if spec.scale_load is None and not spec.load:
            yield label, workload


def _shaken(spec: WorkloadSpec, workloads: Iterator[tuple[str, Workload]], seed: int) -> Iterator[tuple[str, Workload]]:
    """Yield the shaken copies of each workload, or the workload itself."""
    wanted = spec.shake
    for label, workload in workloads:
        if wanted is None:
            yield label, workload
            continue
        for number, copy in enumerate(shaken(workload, wanted.n, wanted.by_s, seed), start=1):
            yield f"{label}{ending('shake', number, wanted.n)}", copy


def _split(spec: WorkloadSpec, workloads: Iterator[tuple[str, Workload]], seed: int) -> Iterator[tuple[str, Workload]]:
    """Yield the sequences or resamples of each workload, or the workload itself."""
    wanted = spec.sequences
    if spec.resample is not None:
        for label, workload in workloads:
            found = resamples(workload, spec.resample.n, spec.resample.options, seed)
            for number, made in enumerate(found, start=1):
                yield f"{label}{ending('resample', number, spec.resample.n)}", made
        return
    if wanted is None:
        yield from workloads
        return
    for label, workload in workloads:
        for number, sequence in enumerate(sequences_of(workload, wanted.number, wanted.jobs, seed), start=1):
            yield f"{label}{ending('seq', number)}", sequence


def _loaded(spec: WorkloadSpec, sources: Sequence[Path], seed: int) -> Iterator[tuple[str, Workload]]:
    walltimes = Walltimes.parse(spec.walltimes or ("requested" if sources else "exact"))
    if spec.generate is not None:
        yield "", prepare.select(generate(_recipe(spec.generate, walltimes, seed)), spec.window)[0]
        return
    options = swf.SwfOptions(
        walltimes,
        size=spec.size or "allocated",
        run_times=spec.run_times or "logged",
        unknown_runtime_s=spec.unknown_runtime,
        memory_unit=spec.memory_unit or DEFAULT_MEMORY_UNIT,
        format=spec.format,
        mapping=spec.mapping,
        with_waits=spec.feedback,
    )
    if spec.merge:
        yield "", _merged(spec, sources, options, seed)
        return
    (source,) = sources
    options = _options_for(source, spec, replace(options, n_procs=spec.procs))
    if spec.weeks is not None:
        yield from _weeks(spec, spec.weeks, source, options)
        return
    yield "", reading.read(source, options, replace(spec.window, max_jobs=spec.max_jobs))[0]


def _merged(spec: WorkloadSpec, sources: Sequence[Path], options: swf.SwfOptions, seed: int) -> Workload:
    parts = []
    for log, source in zip(spec.merge, sources, strict=True):
        try:
            own = _options_for(source, spec, replace(options, n_procs=log.procs))
            parts.append(merge.ClusterLog(log.name, reading.read(source, own, spec.window)[0]))
        except InputError as error:
            raise InputError(f"{log.name}: {error}") from None
    whole = merge.merged(parts, spec.external, seed)
    return whole if spec.max_jobs is None else prepare.select(whole, Selection(max_jobs=spec.max_jobs))[0]


def _options_for(source: Path, spec: WorkloadSpec, options: swf.SwfOptions) -> swf.SwfOptions:
    """Return the options for a file, with those for logs of Slurm and tables. Raises InputError for other members."""
    kind = files.format_of(source, spec.format, spec.mapping)
    others = {"Batsim JSON": "a Batsim file", "Slurm": "a log of Slurm", "SWF": "a log in SWF", "table": "a table"}
    found = others.get(kind, "a file of the Rackham format")
    own = _MEMBERS_OF.get(kind, frozenset())
    for name, value in spec.of_logs.items():
        if value is not None and name not in own:
            expected = "a log in SWF" if name in _MEMBERS_OF["SWF"] else "a log of Slurm or a table"
            raise InputError(f"{name}: expected {expected}, found {found}; remove this member")
    return job_log.JobLogOptions.of(options, spec.size_in, spec.timezone) if kind in {"Slurm", "table"} else options


def _weeks(spec: WorkloadSpec, wanted: Weeks, source: Path, options: swf.SwfOptions) -> Iterator[tuple[str, Workload]]:
    selection = replace(spec.window, max_jobs=spec.max_jobs)
    for week, workload, _ in weekly(source, options, selection, wanted.choice, str(spec.file)):
        yield ending("week", week.number), workload


def _recipe(spec: GeneratedWorkload, walltimes: Walltimes, seed: int) -> Recipe:
    return Recipe(
        spec.model,
        spec.procs,
        seed=seed,
        n_jobs=spec.jobs,
        days=spec.days,
        load=spec.load,
        runtimes=spec.runtimes,
        sizes=spec.sizes,
        walltimes=walltimes,
        n_users=spec.users,
    )


def _read_index(path: Path) -> list[Prepared]:
    """Read the index of prepared workloads; empty if the file is missing or damaged."""
    try:
        return [Prepared(*row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []


@cache
def _code_digest() -> str:
    """Return a digest of the code that prepares workloads: another version may prepare different ones."""
    root = Path(str(workload_package.__file__)).parent
    return digest_of([Path(__file__).read_text(encoding="utf-8"), digest_of_files(root, root.rglob("*.py"))])
