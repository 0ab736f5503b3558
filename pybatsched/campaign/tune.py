"""Search the options of a policy for a figure, on training workloads, and test the best ones on others.

Optuna proposes options (`[tune]` of the campaign's file, `spec.TuneSpec`). A trial runs the policy on the training
workloads, in up to four steps; a trial that is worse than the median of the others after a step is ended early. All
runs are cells of the store. The search is deterministic: a repeated search finds its cells, and continues.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from pybatsched.campaign import table
from pybatsched.campaign.all_cells import Workers, keep_result, manifest_of, points_in, prepared_of, write_parquet
from pybatsched.campaign.cells import Cell
from pybatsched.campaign.spec import PolicyTable, Spec, TuneSpec
from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.metrics.compare.paired import pair_key
from pybatsched.metrics.figure_names import better_of
from pybatsched.workload.names import parsed

#: The most steps of a trial after which it may be ended.
_N_STEPS: Final = 4
#: What is added to the label of a policy for the options that were found.
TUNED: Final = " tuned"

Point = tuple[dict[str, Any], Cell]


class Trial(NamedTuple):
    """A trial: its options, the mean of the figure, the best value so far, and all runs, also earlier ones."""

    number: int
    options: Mapping[str, Any]
    value: float | None
    state: str
    n_runs: int
    best: float | None
    error: str = ""


@dataclass(slots=True)
class Search:
    """A finished search: its trials, the best one, and how many workloads (or seeds) it was trained and tested on."""

    spec: TuneSpec
    figure: str
    trials: list[Trial] = field(default_factory=list)
    n_train: int = 0
    n_test: int = 0

    @property
    def best(self) -> Trial:
        """The best complete trial. Raises InputError if there is none."""
        done = [trial for trial in self.trials if trial.state == "complete" and trial.value is not None]
        if not done:
            why = next((trial.error for trial in self.trials if trial.error), "")
            raise InputError(f"tune: no trial has a value of {self.figure}{f': {why}' if why else ''}")
        sign = -1 if self.direction == "maximize" else 1
        return min(done, key=lambda trial: sign * (trial.value if trial.value is not None else math.inf))

    @property
    def direction(self) -> str:
        """The direction of better values, as Optuna names it."""
        return "maximize" if better_of(self.figure) == "higher" else "minimize"


def tune(
    spec: Spec,
    store: Store,
    folders: Sequence[Path],
    workers: Callable[[], AbstractContextManager[Workers]],
    *,
    spec_folder: Path | None = None,
    on_trial: Callable[[Trial], None] = lambda _trial: None,
    command: str = "",
) -> Search:
    """Search the options, test the best ones, and write the table of the test. Raises InputError."""
    wanted = spec.tune
    if wanted is None:
        raise InputError("expected a table [tune] with policy, figure and options")
    search = Search(wanted, wanted.figure)
    own = next(policy for policy in spec.policy if policy.title == wanted.policy)
    others = [policy for policy in spec.policy if policy.title == wanted.against]
    prepared = prepared_of(spec, store, folders, spec_folder)

    def points_with(*policies: PolicyTable) -> list[Point]:
        return points_in(spec.model_copy(update={"policy": policies}), prepared, spec_folder)

    train, test = _split(points_with(own), wanted.train)
    search.n_train, search.n_test = len(train), len(test)
    optuna = load_optuna()  # after the file was checked
    study = optuna.create_study(
        direction=search.direction,
        sampler=optuna.samplers.TPESampler(seed=wanted.seed),
        pruner=optuna.pruners.MedianPruner(),
    )
    with workers() as active:
        runner = _Runner(store, active, search.figure)
        base: dict[tuple[Any, ...], float] = {}
        if others:
            points = [point for point in points_with(*others) if _unit(point[0]) in train]
            base = runner.values(points)
        for number in range(wanted.trials):
            asked = study.ask()
            options = wanted.suggested(asked)
            points = points_with(own.model_copy(update={"options": {**own.options, **options}}))
            trial = _tried(number, options, asked, _steps(points, train), _Objective(runner, base))
            state = {"complete": "COMPLETE", "ended early": "PRUNED"}.get(trial.state, "FAIL")
            study.tell(asked, trial.value if state == "COMPLETE" else None, state=optuna.trial.TrialState[state])
            search.trials.append(trial)
            best = [one.value for one in search.trials if one.state == "complete" and one.value is not None]
            chosen = (max if search.direction == "maximize" else min)(best, default=None)
            search.trials[-1] = trial._replace(best=chosen)
            on_trial(search.trials[-1])
        tuned = {"spec": replace(own.spec, label=own.title + TUNED), "options": {**own.options, **search.best.options}}
        found = own.model_copy(update=tuned)
        points = [point for point in points_with(*others, own, found) if _unit(point[0]) in test]
        runner.values(points)
    about = spec.model_copy(update={"policy": (*spec.policy, found), "baseline": "", "where": {}, "chart": ()})
    store.write_manifest(manifest_of(about, [dict(point) for point, _ in points], command))
    write_parquet(store.folder / "results.parquet", table.frame(store))
    return search


def trials_frame(search: Search) -> Any:
    """Return a polars table with a row for each trial."""
    names = dict.fromkeys(name for trial in search.trials for name in trial.options)
    rows = [
        {
            "trial": trial.number,
            **{name: _plain(trial.options.get(name)) for name in names},
            "value": trial.value,
            "state": trial.state,
            "runs": trial.n_runs,
            "best": trial.best,
        }
        for trial in search.trials
    ]
    import polars as pl  # noqa: PLC0415  slow to import

    return pl.DataFrame(rows, infer_schema_length=None, strict=False)


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool) or value is None else str(value)


def _unit(point: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what is either trained or tested on: a workload with all of its copies, and its seed."""
    return parsed(point["workload"]).unit, point["seed"], point["repeat"]


def _split(points: Sequence[Point], share: float) -> tuple[list[Any], list[Any]]:
    """Return the units for training and for the test. All seeds of a workload are on the same side."""
    names = list(dict.fromkeys(parsed(point["workload"]).unit for point, _ in points))
    seeds = list(dict.fromkeys((point["seed"], point["repeat"]) for point, _ in points))
    by_name = len(names) > 1
    kept = names if by_name else seeds
    n = min(max(round(share * len(kept)), 1), len(kept) - 1)
    if len(kept) < 2:
        raise InputError(
            "tune: expected at least two workloads (weeks, resamples) or seeds, to train on some and test on others; "
            "found one"
        )
    units = list(dict.fromkeys(_unit(point) for point, _ in points))
    first = set(kept[:n])
    is_first = [(unit[0] if by_name else unit[1:]) in first for unit in units]
    both = list(zip(units, is_first, strict=True))
    return [unit for unit, own in both if own], [unit for unit, own in both if not own]


def _steps(points: Sequence[Point], train: Sequence[Any]) -> list[list[Point]]:
    """Return the points of a trial in up to four parts, in a fixed random order of their units."""
    order = list(train)
    random.Random("tune").shuffle(order)  # noqa: S311  no secret; the first weeks of a log may be alike
    n = min(_N_STEPS, len(order))
    parts = [order[len(order) * k // n : len(order) * (k + 1) // n] for k in range(n)]
    return [[point for point in points if _unit(point[0]) in part] for part in parts]


class _Runner:
    """Runs cells that are not in the store yet, and returns their figures."""

    def __init__(self, store: Store, active: Workers, figure: str) -> None:
        self._store = store
        self._active = active
        self._figure = figure

    def values(self, points: Sequence[Point]) -> dict[tuple[Any, ...], float]:
        """Return the figure of each point by its workload, platform, seed and repeat. Raises InputError."""
        cells = {cell.address: cell for _, cell in points}
        known = self._store.results(cells)
        for result in self._active.run([cell for address, cell in cells.items() if address not in known]):
            if result is not None:
                keep_result(self._store, result)
                known[result["address"]] = result
        values = {}
        for point, cell in points:
            result = known[cell.address]
            if "error" in result:
                raise InputError(f"{table.cell_text(point)}: {str(result['error']).splitlines()[0]}")
            value = result["figures"].get(self._figure)
            if value is None:
                raise InputError(
                    f"{table.cell_text(point)}: it has no figure {self._figure}; expected a figure of all workloads"
                )
            values[pair_key(point)] = float(value)
        return values


class _Objective(NamedTuple):
    """The value of a trial: the mean of the figure, or of its ratios to `base`."""

    runner: _Runner
    base: Mapping[tuple[Any, ...], float]

    def values(self, points: Sequence[Point]) -> list[float]:
        found = self.runner.values(points)
        if not self.base:
            return list(found.values())
        return [value / self.base[key] for key, value in found.items() if self.base.get(key)]


def _tried(
    number: int, options: Mapping[str, Any], asked: Any, steps: Sequence[Sequence[Point]], objective: _Objective
) -> Trial:
    """Run a trial step by step, until it is complete, ended early, or failed."""
    values: list[float] = []
    for step, points in enumerate(steps):
        try:
            values += objective.values(points)
        except InputError as error:
            return Trial(number, options, None, "failed", len(values), None, str(error))
        if not values:
            continue
        asked.report(statistics.fmean(values), step)
        if step + 1 < len(steps) and asked.should_prune():
            return Trial(number, options, statistics.fmean(values), "ended early", len(values), None)
    if not values:
        return Trial(number, options, None, "failed", 0, None, "no ratio to the baseline, which is 0")
    return Trial(number, options, statistics.fmean(values), "complete", len(values), None)


def load_optuna() -> Any:
    """Return the module optuna, without its messages. Raises InputError if it is not installed."""
    try:
        import optuna  # noqa: PLC0415  an extra
    except ImportError:
        raise InputError.not_installed("campaign tune needs Optuna", "tune") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
