"""Prepare the workloads of a campaign, once each, under the digest of its source and of all steps."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

from pybatsched.campaign.workloads import Change, WorkloadTable
from pybatsched.errors import InputError
from pybatsched.machines.write import n_extra
from pybatsched.policies.loading import names_file, object_of, run_plugin, split
from pybatsched.runs.build import size_of
from pybatsched.runs.spec import MachineSpec, WorkloadSpec
from pybatsched.runs.workloads import (
    Jobs,
    Sizing,
    changed,
    check_formats,
    how_read,
    in_hosts,
    kind_of,
    load_factor,
    log_options,
    selection_of,
)
from pybatsched.workload import merge, prepare, reading
from pybatsched.workload.formats import batsim4, files
from pybatsched.workload.generate.models import Recipe, generate
from pybatsched.workload.model import Workload
from pybatsched.workload.names import ending
from pybatsched.workload.resample.shaking import shaken
from pybatsched.workload.resample.users import resamples
from pybatsched.workload.selection import Selection
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


class Prepared(NamedTuple):
    """A prepared workload: its name in tables, its file, the digest of its content, and its machine's size.

    `family` is the name of the workload in the campaign's file; the prepared workload may be a week or a
    sequence of it. `source` is the file that it was read from, `how` are the settings that it was read with.
    `warnings` are those of its preparation.
    """

    name: str
    path: str
    digest: str
    n_procs: int
    family: str = ""
    source: str = ""
    warnings: Sequence[str] = ()
    how: Mapping[str, Any] | None = None


class CampaignMachine(NamedTuple):
    """A machine of a campaign, with `alpha` more processors."""

    spec: MachineSpec = MachineSpec()
    alpha: float = 0.0
    sizing: Sizing | None = None

    def spec_for(self, n_procs: int) -> MachineSpec:
        """Return the machine of the run of a workload that was made for `n_procs` processors."""
        if self.spec.platform is not None or self.spec.nodes is not None:
            return self.spec
        n_procs = self.spec.n_procs or n_procs
        return replace(self.spec, n_procs=n_procs + n_extra(n_procs, self.alpha))


OF_WORKLOAD: Final = CampaignMachine()


_Function = Callable[..., Any]


class Preparer:
    """Prepares workloads in a directory. `sources` are the directories to search for files."""

    def __init__(self, folder: Path, sources: Iterable[Path]) -> None:
        self._folder = folder
        self._source_folders = list(sources)
        self._digests: dict[Path, str] = {}

    def prepare(self, table: WorkloadTable, seed: int, machine: CampaignMachine = OF_WORKLOAD) -> list[Prepared]:
        """Return the workloads of a table for a machine: one, or one per week or sequence. They are reused."""
        if table.optional and not all(map(self._is_there, table.sources)):
            return []
        sources = [self._find(name) for name in table.sources]
        mapping = None if table.jobs.mapping is None else self._find(table.jobs.mapping)
        depends_on: dict[str, Any] = {"seed": seed} if table.draws else {}
        depends_on |= {} if mapping is None else {"mapping": self._digest(mapping)}
        depends_on |= {"sizing": machine.sizing, "names": table.sources or table.name} if machine.sizing else {}
        if table.load:
            own = machine.spec
            n_procs = own.n_procs if own.platform is None and own.nodes is None else size_of(own, 0)
            depends_on["machine"] = [n_procs, machine.alpha, own.mmax, own.mmax_workload]
        # Without file names: equal content is the same workload.
        steps = table.model_dump(mode="json", exclude={"name": True, "optional": True, "merge": {"__all__": {"file"}}})
        steps.pop("file", None)
        content = {"sources": [self._digest(source) for source in sources], "steps": steps, "code": _code_digest()}
        functions = self._functions(table)
        depends_on |= {kind: inspect.getsource(sys.modules[one.__module__]) for kind, one in functions.items()}
        key = digest_of(content | depends_on)
        index = self._folder / f"{key}.index.json"
        found = _read_index(index)
        if found and all((self._folder / row.path).exists() for row in found):
            return [self._with_path(table, row) for row in found]
        rows = []
        try:
            preparation = _Preparation(table, sources, mapping, seed, machine, functions=functions)
            workloads = list(preparation.workloads())
        except InputError as error:
            raise InputError(f"workload {table.name}: {error.whole().removeprefix(': ')}") from None
        for label, workload in workloads:
            if not workload.jobs:
                raise InputError(f"workload {table.name}{label}: there is no job to run ({workload.why_empty})")
            text = batsim4.text_of(workload)
            name = f"{key}{label}.json"
            files.write_text(self._folder / name, [text])
            digest = hashlib.sha256(text.encode()).hexdigest()
            warnings = [text for start, text in preparation.warnings if label.startswith(start)]
            rows.append(Prepared(label, name, digest, workload.n_procs, warnings=warnings))
        files.write_text(index, [json.dumps(rows)])
        return [self._with_path(table, row) for row in rows]

    def _with_path(self, table: WorkloadTable, row: Prepared) -> Prepared:
        return row._replace(
            name=f"{table.name}{row.name}",
            family=table.name,
            path=str(self._folder / row.path),
            source=table.jobs.file or table.name,
            how=how_read(table.jobs) | ({} if table.jobs.mapping is None else {"mapping": table.jobs.mapping}),
        )

    def _is_there(self, name: str) -> bool:
        return any(name and (folder / name).exists() for folder in self._source_folders)

    def _find(self, name: str) -> Path:
        for folder in self._source_folders:
            if name and (folder / name).exists():
                return folder / name
        shown = ", ".join(str(folder) for folder in self._source_folders)
        raise InputError(f"workload file {name}: not found in {shown}; use `--traces DIR` or set PYBATSCHED_TRACES")

    def _functions(self, table: WorkloadTable) -> dict[str, _Function]:
        """Return the functions that a table names, by their key. Files are also searched beside the campaign's."""
        named = {"reader": table.reader, "change": table.change.by if table.change else ""}
        found = {}
        for kind, name in named.items():
            if not name:
                continue
            path, inner = split(name) if names_file(name) else (None, "")
            found[kind] = object_of(name if path is None else f"{self._find(str(path))}:{inner}", kind)
            if not inspect.isfunction(found[kind]):
                raise InputError(f"{kind} {name!r} is a {type(found[kind]).__name__}; expected a function")
        return found

    def _digest(self, path: Path) -> str:
        if path not in self._digests:
            self._digests[path] = files.digest_of(path)
        return self._digests[path]


#: A workload, and the suffix of its name.
_Labelled = tuple[str, Workload]


class _Preparation:
    """The preparation of the workloads of a table. `warnings` are pairs: the suffix of names, and the text."""

    def __init__(
        self,
        table: WorkloadTable,
        sources: Sequence[Path],
        mapping: Path | None,
        seed: int,
        machine: CampaignMachine,
        *,
        functions: Mapping[str, _Function],
    ) -> None:
        self._table = table
        self._sources = sources
        self._seed = seed
        self._machine = machine
        self._functions = functions
        self._spec = replace(table.jobs, mapping=None if mapping is None else str(mapping))
        self.warnings: list[tuple[str, str]] = []

    def workloads(self) -> Iterator[_Labelled]:
        """Yield the workloads, each with the suffix of its name."""
        table, seed, found = self._table, self._seed, self._read()
        if (users := table.resample) is not None:
            found = _numbered(found, "resample", lambda one: resamples(one, users.n, users.options, seed), users.n)
        elif table.change is not None:
            found = self._changed(found, table.change)
        found = self._scaled(found)
        if (shake := table.shake) is not None:
            found = _numbered(found, "shake", lambda one: shaken(one, shake.n, shake.by_s, seed), shake.n)
        for label, workload in found:
            workload.source = self._spec.file  # without its directory: equal content gives equal files
            yield label, reduce(lambda jobs, step: step.applied(jobs, seed), table.injections, workload)

    def _read(self) -> Iterator[_Labelled]:
        for label, workload in self._loaded():
            read = changed(self._spec, workload)[0]
            name = ", ".join(filter(None, (self._spec.file or self._table.name, label.removeprefix("-"))))
            yield label, read if self._table.merge else self._in_hosts(read, name, self._sources, label)

    def _in_hosts(self, workload: Workload, name: str, sources: Sequence[Path], label: str = "") -> Workload:
        """Return a workload of these files, or of none, with sizes in hosts of the machine."""
        is_log = not self._table.reader and any(kind_of(self._at(source)) != "Batsim JSON" for source in sources)
        found, warnings = in_hosts(Jobs(workload, name, is_from_log=is_log), self._machine.sizing)
        self.warnings += [(label, text) for text in warnings]
        return found

    def _changed(self, workloads: Iterator[_Labelled], change: Change) -> Iterator[_Labelled]:
        """Yield what the function of the user makes of each workload: a workload, or several that are numbered."""
        who = f"change {change.by!r}"
        for label, workload in workloads:
            call = partial(self._functions["change"], workload, seed=self._seed, **change.options)
            made = run_plugin(call, who, "failed")
            if isinstance(made, Workload):
                yield label, made
                continue
            parts = run_plugin(partial(list, made), who, "failed")
            for number, part in enumerate(parts, start=1):
                yield f"{label}{ending('part', number, len(parts))}", _workload_of(part, who)

    def _scaled(self, workloads: Iterator[_Labelled]) -> Iterator[_Labelled]:
        """Yield each workload with its load scaled, one for each load of the table."""
        loads = self._table.load
        for label, workload in workloads:
            for load in loads or (None,):
                spec = replace(self._spec, load=load)
                ended = label if load is None else f"{label}{ending('load', load)}"
                if not spec.scales_load:
                    yield ended, workload
                    continue
                n_procs = size_of(self._machine.spec_for(workload.n_procs), workload.n_procs)
                yield ended, prepare.scale_load(workload, load_factor(spec, [workload], n_procs))

    def _loaded(self) -> Iterator[_Labelled]:
        table, spec = self._table, self._spec
        selection = selection_of(spec)
        if table.generate is not None:
            one, walltimes = table.generate, Walltimes.parse(spec.walltimes)
            amount: dict[str, Any] = {"n_jobs": one.jobs, "days": one.days, "load": one.load, "n_users": one.users}
            kinds: dict[str, Any] = {"runtimes": one.runtimes, "sizes": one.sizes, "walltimes": walltimes}
            made = generate(Recipe(one.model, one.procs, seed=self._seed, **amount, **kinds))
            yield "", prepare.select(made, selection)[0]
            return
        if table.reader:
            (source,) = self._sources
            who = f"reader {table.reader!r}"
            made = _workload_of(run_plugin(partial(self._functions["reader"], source), who, "failed"), who)
            made = prepare.with_walltimes(made, Walltimes.parse(spec.walltimes))[0]
            yield "", prepare.select(made, selection)[0]
            return
        check_formats([self._at(source) for source in self._sources])
        if table.merge:
            clock = spec.window_clock
            shift = Selection.shift_of(len(self._sources), clock)
            yield "", self._merged(replace(selection, clock=clock, shift=shift, max_jobs=None))
            return
        (source,) = self._sources
        own = self._at(source)
        if table.weeks is not None:
            found = weekly(source, log_options(own), selection, table.weeks.choice, spec.file, lenient=spec.lenient)
            for week, workload, _ in found:
                yield ending("week", week.number), workload
            return
        yield "", reading.read(source, log_options(own), selection, lenient=spec.lenient)[0]

    def _merged(self, selection: Selection) -> Workload:
        parts = []
        for log, source in zip(self._table.merge, self._sources, strict=True):
            try:
                options = log_options(replace(self._at(source), n_procs=log.procs))
                found = reading.read(source, options, selection, lenient=self._spec.lenient)[0]
                parts.append(merge.ClusterLog(log.name, self._in_hosts(found, log.file, [source])))
            except InputError as error:
                raise InputError(f"{log.name}: {error}") from None
        whole = merge.merged(parts, self._table.external, self._seed)
        n = self._spec.max_jobs
        return whole if n is None else prepare.select(whole, Selection(max_jobs=n))[0]

    def _at(self, source: Path) -> WorkloadSpec:
        """Return how a source is read."""
        return replace(self._spec, file=str(source))


def _numbered(
    workloads: Iterator[_Labelled], kind: str, make: Callable[[Workload], Iterable[Workload]], *n: int
) -> Iterator[_Labelled]:
    """Yield the workloads that are made of each workload: its resamples or copies."""
    for label, workload in workloads:
        for number, made in enumerate(make(workload), start=1):
            yield f"{label}{ending(kind, number, *n)}", made


def _workload_of(made: Any, who: str) -> Workload:
    """Return what a function of the user has made. Raises InputError if it is no workload."""
    if not isinstance(made, Workload):
        raise InputError(f"{who}: expected a pybatsched.workload.Workload, found a {type(made).__name__}")
    return made


def _read_index(path: Path) -> list[Prepared]:
    """Read the index of prepared workloads; empty if the file is missing or damaged."""
    try:
        return [Prepared(*row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []


#: The code that prepares workloads.
_CODE: Final = ("workload/**/*.py", "campaign/prepare.py", "campaign/workloads.py", "runs/*.py", "settings.py")


@cache
def _code_digest() -> str:
    """Return a digest of the code that prepares workloads: another version may prepare different ones."""
    root = Path(__file__).parents[1]
    return digest_of_files(root, (path for pattern in _CODE for path in root.glob(pattern)))
