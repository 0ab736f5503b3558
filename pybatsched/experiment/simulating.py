"""Simulate workloads under policies: one run, or many on several processes or on Dask."""

from __future__ import annotations

import base64
import linecache
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from inspect import currentframe
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, overload

from pybatsched.campaign.workers import DIED, LocalWorkers
from pybatsched.core.policy import Policy
from pybatsched.errors import InputError, PolicyError, PybatschedError, quantity
from pybatsched.experiment.arguments import PACKAGE, checked_type, public, warn
from pybatsched.experiment.log import Log, as_log
from pybatsched.experiment.one_run import Folder, RunRequest, run_one, warn_all
from pybatsched.experiment.policies import PolicyLike, policy as choose
from pybatsched.experiment.runs import Run, Runs, WorkerDiedError, run_of
from pybatsched.runs.policies import PolicySpec
from pybatsched.runs.spec import INSTEAD_OF_OPTIONS, MachineSpec, RunSpec, WorkloadSpec
from pybatsched.settings import taken, takes, whole
from pybatsched.workload.names import ending

if TYPE_CHECKING:
    from distributed import Client

#: A workload: a log, the path of a file, or a function of the seed that makes one.
LogLike: TypeAlias = Log | str | Path | Callable[[int], Log]

#: Settings that `simulate` does not take: those of files, which `read_workload` takes, and the seed, given as `seeds`.
NOT_OF_SIMULATE: Final = frozenset({*WorkloadSpec.settings()} - {"load", "scale_load"}) - {"n_procs"} | {"seed"}
#: What to write in Python instead of settings of files and options of commands.
INSTEAD: Final = {
    name: f"read_workload(…, {name}=…)" for name in WorkloadSpec.settings() if name in NOT_OF_SIMULATE
} | INSTEAD_OF_OPTIONS
#: Short work shows no progress bar.
_BAR_AFTER_S: Final = 1.0


@overload
def simulate(log: LogLike, policy: PolicyLike, *, seeds: None = None, **options: Any) -> Run: ...


@overload
def simulate(
    log: LogLike | Sequence[LogLike] | Mapping[str, LogLike],
    policy: PolicyLike | Sequence[PolicyLike],
    *,
    seeds: Iterable[int] | None = None,
    **options: Any,
) -> Runs: ...


@public
@takes(MachineSpec, RunSpec, WorkloadSpec, without=NOT_OF_SIMULATE, instead=INSTEAD)
def simulate(
    log: LogLike | Sequence[LogLike] | Mapping[str, LogLike],
    policy: PolicyLike | Sequence[PolicyLike],
    *,
    journal: bool = False,
    seeds: Iterable[int] | None = None,
    workers: int = 1,
    client: Client | None = None,
    progress: bool = True,
    **options: Any,
) -> Run | Runs:
    """Simulate one or several workloads under one or several policies with the embedded simulator.

    One workload and one policy give a `Run`; lists give `Runs`, each workload under each policy. Other keywords are
    options of the policy: ``simulate(log, "easy", order="sjf")``. The machine has `n_procs` processors, or is a
    `platform` (the name of a machine, or a SimGrid file); by default it has as many processors as the log says.

    With `seeds`, policies that use random numbers run once per seed. So do workloads that are functions of the seed:
    ``lambda seed: generate_workload("lublin", n_jobs=1000, n_procs=64, seed=seed)``. All other runs would be equal and
    are done once.

    `load` may be a list, as in a campaign: each workload then runs at each offered load, under names such as
    ``kth-load0.7``, and tables of figures have the column `load`.

    With `failures`, machines fail at random times: ``failures={"mtbf": "30d", "repair": "4h"}``. Jobs on them are
    killed and requeued (option `on_failure` of the policy). With `checkpoint` ("daly", a time, or settings), they
    continue from their last checkpoint.

    With `workers`, runs are distributed over processes of this machine; with `client`, over a Dask cluster. Ctrl-C
    returns the runs that are finished. Raises InputError for wrong inputs, PolicyError if a policy fails, and
    WorkerDiedError with the finished runs if a process dies.

    >>> from pybatsched import read_workload
    >>> log = read_workload("examples/workload.json")
    >>> run = simulate(log, "easy", n_procs=32, progress=False)
    >>> run.figures["n_completed"] == len(log)
    True
    """
    if workers > 1 or client is not None:
        _check_is_not_imported()
    settings = taken(simulate, options)
    is_one_policy = isinstance(policy, str | type | PolicySpec)
    load = settings.pop("load", None)
    loads = load if isinstance(load, list | tuple) else None
    is_single = is_one_policy and _is_one_log(log) and seeds is None and loads is None
    chosen: Sequence[PolicyLike] = [policy] if is_one_policy else list(policy)  # type: ignore[list-item, arg-type]
    if options and not is_one_policy:
        names = ", ".join(options)
        raise InputError(
            f"{names}: works only with one policy; for several, use policy('easy', {next(iter(options))}=…)"
        )
    choices = [choose(one, **options) for one in chosen]
    whole().read("workers", workers)
    if client is not None and not hasattr(client, "submit"):
        raise InputError(f"client: expected a Dask client, found {client!r:.60}")
    runs = [("", RunSpec.of({**settings, "load": load}))] if loads is None else list(_of_loads(settings, loads))
    draws = any(run.machine.draws for _, run in runs)
    all_seeds = None if seeds is None else tuple(checked_type("seeds", seed, int) for seed in seeds)
    if all_seeds == ():
        raise InputError("seeds: expected at least one, found none")
    requests = [
        RunRequest(one.as_jobs(), f"{one.name}{end}", one.origin, replace(run, policy=choice, seed=seed))
        for make in _logs(log)
        for end, run in runs
        for choice in choices
        for one, seed in _per_seed(make, choice.has_seed or draws, all_seeds)
    ]
    _check_labels(requests)
    if workers > 1 or client is not None:
        found = Runs(_parallel(requests, workers, client, journal=journal, progress=progress))
    else:
        found = Runs(_one_by_one(requests, journal=journal, progress=progress))
    return found[0] if is_single else found


def _check_is_not_imported() -> None:
    """Raise InputError if a file with policies calls this while it is imported: each worker would import it again."""
    frame = currentframe()
    while frame is not None:
        code, names = frame.f_code, frame.f_globals
        is_import = code.co_name == "<module>" and code.co_filename == names.get("__file__")
        classes = [one for one in names.values() if is_import and isinstance(one, type) and issubclass(one, Policy)]
        if names.get("__name__") != "__main__" and any(one.__module__ == names.get("__name__") for one in classes):
            raise InputError(
                f"{code.co_filename}: line {frame.f_lineno}: `simulate` with workers or a client is called while this "
                "file is imported, and each worker imports it again; expected the call under "
                '`if __name__ == "__main__":`'
            )
        frame = frame.f_back


def _of_loads(settings: Mapping[str, Any], loads: Sequence[Any]) -> Iterator[tuple[str, RunSpec]]:
    """Yield a run for each offered load, with the ending of the workload's name, as in a campaign."""
    if not loads:
        raise InputError("load: expected at least one offered load, found none")
    for load in loads:
        run = RunSpec.of({**settings, "load": load})
        yield ending("load", run.workloads[0].load or 0), run


def _is_one_log(log: Any) -> bool:
    """Return whether this is one workload, or a function that makes one, and no collection of them."""
    return isinstance(log, Log | str | Path) or callable(log)


def _logs(log: Any) -> list[Log | Callable[[int], Log]]:
    """Return the workloads, each with its name. A function makes each workload once per seed."""
    if isinstance(log, Mapping):
        return [as_log(one).named(name) for name, one in log.items()]
    found = [log] if _is_one_log(log) else log
    return [cache(one) if callable(one) else as_log(one) for one in found]


def _per_seed(
    make: Log | Callable[[int], Log], has_seed: bool, seeds: Sequence[int] | None
) -> Iterator[tuple[Log, int | None]]:
    """Yield a workload for each seed; once, without a seed, if nothing depends on it (`has_seed`)."""
    if isinstance(make, Log) and (seeds is None or not has_seed):
        yield make, None
        return
    if seeds is None:
        raise InputError(
            "seeds: needed by a workload that is a function of the seed; give some, such as seeds=[1, 2, 3]"
        )
    for seed in seeds:
        yield (make if isinstance(make, Log) else as_log(make(seed))), seed


def _check_labels(requests: Sequence[RunRequest]) -> None:
    """Raise InputError if two runs have the same workload, label and seed, or if there is no run."""
    if not requests:
        raise InputError("expected at least one workload and one policy")
    seen: set[tuple[str, str, int | None]] = set()
    for request in requests:
        key = (request.workload, request.label, request.spec.seed)
        if key in seen:
            raise InputError(
                f"policy {request.label} on {request.workload}: expected different labels and loads; use "
                "policy(…, label=…) or log.named(…)"
            )
        seen.add(key)


def _one_by_one(requests: Sequence[RunRequest], *, journal: bool, progress: bool) -> list[Run]:
    """Run all requests in this process. A KeyboardInterrupt returns the finished runs."""
    runs: list[Run] = []
    with _bar(sum(request.n_jobs for request in requests), "job", is_shown=progress) as bar:
        for request in requests:
            folder = Folder()
            done = 0

            def update(_now: float, n_over: int) -> None:
                nonlocal done
                bar.update(n_over - done)
                done = n_over

            bar.set_description(request.label, refresh=False)  # a bar that is not shown yet stays hidden
            try:
                warn_all(run_one(request, f"{folder.name}/run", progress=update if progress else None, journal=journal))
            except KeyboardInterrupt:
                if not runs:
                    raise
                _warn_interrupted(len(runs), len(requests))
                break
            bar.update(request.n_jobs - done)
            runs.append(run_of(request, folder))
    return runs


def _warn_interrupted(n_done: int, n: int) -> None:
    warn(f"interrupted: {n_done} of {quantity(n, 'run')} are finished")


def _bar(total: int, unit: str, *, is_shown: bool) -> Any:
    """Return a progress bar: in a notebook a widget if possible, which stays; else text on a terminal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without ipywidgets, a notebook gets a bar of text
        from tqdm.auto import tqdm  # noqa: PLC0415  slow to import
    tqdm.monitor_interval = 0  # no thread
    is_notebook = "ipykernel" in sys.modules
    hidden = not is_shown or not (is_notebook or sys.stderr.isatty())
    return tqdm(total=total, unit=f" {unit}s", leave=is_notebook, disable=hidden, delay=_BAR_AFTER_S)


@dataclass(frozen=True)
class _Call:
    """A request as a cell of the worker processes of campaigns: a pickled call."""

    address: str
    request: RunRequest
    prefix: str
    journal: bool

    def as_dict(self) -> dict[str, Any]:
        """Return what the worker process reads."""
        call = _pickled(run_in_worker, self.request, self.prefix, self.journal)
        return {"address": self.address, "call": call, "path": sys.path}


def _parallel(
    requests: Sequence[RunRequest], workers: int, client: Client | None, *, journal: bool, progress: bool
) -> list[Run]:
    """Run all requests in other processes. A KeyboardInterrupt returns the finished runs, in order.

    If a process dies, the other requests are run, and WorkerDiedError has the finished runs.
    """
    folders = [Folder() for _ in requests]
    done: dict[int, Run] = {}
    died: list[str] = []
    if client is None:
        results = _on_this_machine(requests, folders, workers, journal)
    else:
        results = _on_dask(requests, folders, client, journal)
    with _bar(len(requests), "run", is_shown=progress) as bar, closing(results):
        try:
            for number, result in results:
                for stream, text in ((sys.stdout, result.get("stdout")), (sys.stderr, result.get("stderr"))):
                    if text:
                        bar.write(text, file=stream, end="")  # above the bar
                bar.update(1)
                request = requests[number]
                if str(result.get("error", "")).startswith(DIED):
                    seed = "" if request.spec.seed is None else f", seed {request.spec.seed}"
                    died.append(
                        f"policy {request.label} on {request.workload}{seed}: {result['error'].removeprefix(DIED)}"
                    )
                    continue
                if "error" in result:
                    raise _as_error(result)
                warn_all(result["warnings"])
                done[number] = run_of(request, folders[number])
        except KeyboardInterrupt:
            if not done:
                raise
            _warn_interrupted(len(done), len(requests))
    runs = [done[number] for number in sorted(done)]
    if died:
        died.append(
            "expected processes that end after their runs; SIGKILL often means too little memory: use fewer workers. "
            f"{len(runs)} of {quantity(len(requests), 'run')} finished: see `runs` of this error"
        )
        raise WorkerDiedError("\n".join(died), Runs(runs))
    return runs


def _on_this_machine(
    requests: Sequence[RunRequest], folders: Sequence[Folder], workers: int, journal: bool
) -> Generator[tuple[int, dict[str, Any]], None, None]:
    calls = [
        _Call(str(number), request, f"{folder.name}/run", journal)
        for number, (request, folder) in enumerate(zip(requests, folders, strict=True))
    ]
    with LocalWorkers(workers, lambda _address: "") as pool:
        for result in pool.run(calls):
            if result is not None:
                yield int(result["address"]), result


def _on_dask(
    requests: Sequence[RunRequest], folders: Sequence[Folder], client: Client, journal: bool
) -> Generator[tuple[int, dict[str, Any]], None, None]:
    """Run requests on a Dask cluster, whose workers need not share a file system with this process."""
    from dask.distributed import KilledWorker, as_completed  # noqa: PLC0415  an optional dependency

    numbers = {
        client.submit(_run_elsewhere, _pickled(run_in_worker, request, None, journal), pure=False): number
        for number, request in enumerate(requests)
    }
    try:
        for future in as_completed(list(numbers)):
            number = numbers[future]
            try:
                result = future.result()
            except KilledWorker as error:
                result = {"error": f"{DIED}{error}"}
            for name, content in result.pop("files", {}).items():
                Path(folders[number].name, name).write_bytes(content)
            yield number, result
    finally:
        client.cancel(list(numbers))


def _pickled(function: Callable[..., Any], *args: Any) -> str:
    """Return a call as text. Classes of a notebook are pickled with their code."""
    try:
        import cloudpickle  # noqa: PLC0415  an optional dependency
    except ImportError:
        raise InputError.not_installed("workers and client need cloudpickle", "notebook") from None
    return base64.b64encode(cloudpickle.dumps((function, args))).decode()


def _run_elsewhere(payload: str) -> dict[str, Any]:
    function, args = pickle.loads(base64.b64decode(payload))  # noqa: S301  of our own process
    result: dict[str, Any] = function(*args)
    return result


def run_in_worker(request: RunRequest, prefix: str | None, journal: bool) -> dict[str, Any]:
    """Run a request in a worker process, and return its warnings or its error; without a prefix also its files."""
    folder = Folder()
    try:
        found = run_one(request, prefix or f"{folder.name}/run", journal=journal)
    except PybatschedError as error:
        cause = error.__cause__
        frames = [] if cause is None else traceback.extract_tb(cause.__traceback__)
        places = [(frame.filename, frame.lineno or 0, frame.name) for frame in frames]
        about = (
            {"policy": error.policy, "rule": error.rule, "text": error.text} if isinstance(error, PolicyError) else {}
        )
        return {"error": error.whole(), "frames": places, **about}
    files = {path.name: path.read_bytes() for path in Path(folder.name).iterdir()}  # none if there is a prefix
    return {"warnings": found, **({"files": files} if files else {})}


def _as_error(result: Mapping[str, Any]) -> PybatschedError:
    """Return the error of a worker. A line of the user's code is shown if this process has it, as a notebook does."""
    text = str(result.get("text", result["error"]))
    for filename, lineno, name in result.get("frames", []):
        line = linecache.getline(filename, lineno).strip()
        if line and not Path(filename).is_relative_to(PACKAGE):
            text += f"\n  line {lineno}, in {name}: {line}"
    return PolicyError(text, policy=result["policy"], rule=result["rule"]) if "rule" in result else InputError(text)
