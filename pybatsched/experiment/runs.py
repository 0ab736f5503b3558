"""Runs and sets of runs: tables of their jobs and figures, comparisons, charts, pages and files."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, overload

import polars as pl

from pybatsched.campaign.store import Store
from pybatsched.campaign.table import (
    LOAD,
    against,
    frame as campaign_frame,
    grouped,
    groups_shown,
    shown as shown_figures,
)
from pybatsched.errors import InputError, quantity
from pybatsched.experiment.arguments import checked_type, in_python, public, warn
from pybatsched.experiment.one_run import Folder, RunRequest, run_one
from pybatsched.experiment.plots import CampaignPlots, Plots
from pybatsched.metrics import saved_runs as files, summary
from pybatsched.metrics.compare.grouped import (
    FORMATS,
    ORIGIN,
    OTHER_JOBS,
    PERCENTS,
    quantile_table,
    summary_table,
    with_other_jobs,
)
from pybatsched.metrics.compare.paired import paired
from pybatsched.metrics.figure_names import figure_title
from pybatsched.metrics.figures import figures_of_run
from pybatsched.metrics.slowdown import DEFAULT_TAU_S
from pybatsched.metrics.workload_fields import fields_of
from pybatsched.policies import registry
from pybatsched.results import run_state
from pybatsched.results.writing import Results
from pybatsched.runs.execute import JOURNAL
from pybatsched.session.explain import explain
from pybatsched.session.journal import JournalReader
from pybatsched.workload.formats import batsim4
from pybatsched.workload.formats.files import write_text
from pybatsched.workload.job_columns import plain_columns, renamed
from pybatsched.workload.names import name_of_file, parsed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Columns that identify a run in tables.
KEYS: Final = ("workload", "policy", "seed")
#: Columns of the table of jobs that users do not need, and measures that are added.
_HIDDEN: Final = ("row", "metadata")
_MEASURES: Final = ("slowdown", "bounded_slowdown")
#: Fields of jobs that the table of jobs has under the same or other names, or not at all.
_SHOWN: Final = frozenset(("id", "subtime", "res", "profile", "user", "evaluated", "alone_s"))


class Run:
    """One simulated run: its jobs, its figures, and its files. `simulate` and `read_run` make one.

    `policy` is the label of its policy, `workload` the name of its workload, `seed` its seed or None. `origin` is that
    of its `Log`; it is empty if the run was saved without it.
    """

    def __init__(
        self,
        prefix: str,
        *,
        policy: str,
        workload: str = "",
        origin: str = "",
        seed: int | None = None,
        request: RunRequest | None = None,
        folder: Folder | None = None,
    ) -> None:
        self.policy = policy
        self.workload = workload
        self.origin = origin
        self.seed = seed
        self._prefix = prefix
        self._request = request
        self._folder = folder  # removed with this object

    def __getstate__(self) -> dict[str, Any]:
        """Refuse to pickle a run in a temporary directory: its files would be missing later."""
        if self._folder is not None:
            raise TypeError("this run cannot be pickled; use run.save(prefix) and read_run(prefix)")
        return self.__dict__

    def __repr__(self) -> str:
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"Run({self.policy!r} on {self.workload!r}{seed}: {quantity(len(self.record.records), 'job')})"

    @cached_property
    def record(self) -> files.SavedRun:
        """The run as the commands read it."""
        fields = None if self._request is None else fields_of({"w0": self._request.jobs.workload})
        return replace(files.read_latest(self._prefix, own_fields=fields), name=self.policy, policy=self.policy)

    @property
    def tau_s(self) -> float:
        """The bound of bounded slowdowns, in seconds."""
        return DEFAULT_TAU_S if self.record.tau_s is None else self.record.tau_s

    @property
    def about(self) -> Mapping[str, Any]:
        """The content of its summary file: versions, inputs, options, figures, rejections, unfinished jobs."""
        return self.record.summary

    @property
    def is_finished(self) -> bool:
        """Whether all jobs have ended."""
        return bool(self.about.get("finished", True))

    @cached_property
    def figures(self) -> dict[str, float | int | None]:
        """The figures of the run by name, such as mean_wait_s; docs/metrics.md explains them."""
        return figures_of_run(self.record.jobs, self.record.n_procs, self.tau_s, self.about)

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """One row per job: its times, wait and slowdowns, facts from its metadata, and the fields of its workload.

        Jobs of a warm-up have ``evaluated`` False. A field with the name of another column, such as `policy`, becomes
        `policy_field`.
        """
        table = self.record.jobs
        frame: pl.DataFrame = table.frame.drop(_HIDDEN)
        frame = frame.with_columns(table.column(name, self.tau_s) for name in _MEASURES)
        facts = [one.alias(one.name.removeprefix("fact.")) for one in frame if one.name.startswith("fact.")]
        frame = frame.drop(f"fact.{one.name}" for one in facts)
        own = renamed([*facts, *plain_columns(table.fields, _SHOWN)], {*frame.columns, *KEYS})
        keys = [
            pl.lit(self.workload).alias("workload"),
            pl.lit(self.policy).alias("policy"),
            pl.lit(self.seed, dtype=pl.Int64).alias("seed"),
        ]
        return frame.with_columns(own).select(*keys, pl.all())

    @public
    def explain(self, job_id: str) -> list[tuple[float, str]]:
        """Return the history of a job as (time, text): why it waited, started and ended.

        The run is repeated once to record a journal, unless it has one. Raises InputError if that is not possible.
        """
        path = self._journal()
        with registry.also_known(_sources([self])):
            found = explain(JournalReader(path, is_trusted=self._request is not None), job_id)
        return [(at, in_python(text)) for at, text in found]

    def _journal(self) -> str:
        path = self.record.journal
        if path and Path(path).exists():
            return path
        if self._request is None or self._request.spec.policy is None:
            where = self._prefix if self._request is None else self.policy
            raise InputError(f"{where}: expected a run with a journal; simulate it with journal=True")
        self._journal_folder = folder = Folder()
        run_one(self._request, f"{folder.name}/run", journal=True)
        places = (self._prefix, f"{folder.name}/run")
        first, again = (Path(f"{place}{run_state.JOBS}").read_bytes() for place in places)
        if first != again:
            raise InputError(
                f"policy {self.policy}: its schedule differs when the run is repeated; expected a deterministic "
                "policy, or simulate with journal=True"
            )
        path = f"{folder.name}/run{JOURNAL}"
        self.record = replace(self.record, journal=path)
        return path

    @property
    def plot(self) -> Plots:
        """Charts of this run: ``run.plot.gantt()``, ``run.plot.cdf("wait_s")``, … Each is a matplotlib Figure."""
        return Plots([self.record])

    @public
    def gantt(self, **options: Any) -> Figure:
        """Return the Gantt chart as a matplotlib Figure: which job ran when, and on which processors."""
        return self.plot.gantt(**options)

    @public
    def report(self, path: str | Path = "report.html") -> None:
        """Write the HTML page of the run."""
        Runs([self]).report(path)

    @public
    def save(self, prefix: str | Path) -> None:
        """Write all files of the run, those of `pybatsched simulate -e PREFIX`. Existing results are replaced.

        A workload that is not the content of a file is written to PREFIX_workload.json. Raises InputError.
        """
        target = str(prefix)
        if Path(target).is_dir():
            raise InputError(f"{target}: expected a prefix of file names, such as {target}/run, found a directory")
        if Path(target).resolve() == Path(self._prefix).resolve():
            return
        content = json.loads(json.dumps(self.about))
        journal = self.record.journal if self.record.journal and Path(self.record.journal).exists() else ""
        with Results(target, journal=f"{target}{JOURNAL}" if journal else None) as results:
            results.begin(len(self.record.records), self.record.n_procs)
            results.n_over, results.cut_at = len(self.record.records), content.get("cut_at")
            for suffix in run_state.SUFFIXES:
                if Path(f"{self._prefix}{suffix}").exists():
                    shutil.copyfile(f"{self._prefix}{suffix}", f"{results.part}{suffix}")
            workload = Path(f"{results.part}{run_state.WORKLOAD}")
            if self._request is not None and self._request.jobs.how is None:
                batsim4.write(self._request.built().scenario.workloads["w0"], str(workload))
            if workload.exists():
                digest = hashlib.sha256(workload.read_bytes()).hexdigest()
                content["inputs"]["workloads"] = [{"file": f"{target}{run_state.WORKLOAD}", "sha256": digest}]
            if content:
                summary.write(f"{results.part}{run_state.SUMMARY}", content)
            if journal:
                shutil.copyfile(journal, f"{target}{JOURNAL}")
            results.finish()

    def _repr_html_(self) -> str:
        chart = ""
        try:
            image = io.BytesIO()
            self.plot.gantt(width="column").savefig(image, format="png", dpi=110)
            encoded = base64.b64encode(image.getvalue()).decode()
            chart = f'<img alt="Gantt chart" src="data:image/png;base64,{encoded}">'
        except InputError:
            pass  # without matplotlib, or without a job that ran
        return f"{Runs([self])._repr_html_()}{chart}"


class _WithFigures:
    """Runs or a campaign, with a table of figures."""

    @cached_property
    def figures(self) -> pl.DataFrame:
        """One row per run."""
        raise NotImplementedError

    def summary(
        self, by: str | Sequence[str] = (), *, ci: float = 0.95, figures: str | Sequence[str] = ()
    ) -> pl.DataFrame:
        """Return one row per group of runs: the mean of each figure, and the ends of its confidence interval."""
        raise NotImplementedError

    def _groups(self, by: str | Sequence[str]) -> tuple[str, ...]:
        """Return the columns to group by: those that are named, else the policy, and the load if there are several."""
        if by:
            return (by,) if isinstance(by, str) else tuple(by)
        has_loads = LOAD in self.figures.columns and self.figures[LOAD].n_unique() > 1
        return ("policy", LOAD) if has_loads else ("policy",)

    @public
    def table(
        self,
        by: str | Sequence[str] = (),
        *,
        figures: str | Sequence[str] = (),
        ci: float = 0.95,
        form: Literal["text", "latex", "markdown", "csv"] = "text",
        bold_best: bool = False,
    ) -> str:
        """Return the means of `summary` as a table for a paper, as `pybatsched campaign table --ci` prints it.

        `bold_best` marks the best mean of the policies in each column; in `text` it gets a star, in `csv` nothing.
        """
        return FORMATS[form](self.summary(by, ci=ci, figures=figures), bold_best=bold_best)

    @public
    def to_latex(
        self,
        by: str | Sequence[str] = (),
        *,
        figures: str | Sequence[str] = (),
        ci: float = 0.95,
        bold_best: bool = False,
    ) -> str:
        """Return the same table in LaTeX (package booktabs)."""
        return self.table(by, figures=figures, ci=ci, form="latex", bold_best=bold_best)

    @public
    def quantiles(
        self,
        by: str | Sequence[str] = (),
        *,
        figures: str | Sequence[str] = (),
        percents: Sequence[float] = PERCENTS,
    ) -> pl.DataFrame:
        """Return one row per group of runs: percentiles of each figure, such as the median over shaken copies."""
        return quantile_table(self.figures, self._groups(by), _chosen(figures, self.figures), percents)


class Runs(_WithFigures, Sequence[Run]):
    """A set of runs, in the order in which they were asked for. `runs[0]` is a run; slices are sets of runs."""

    @public
    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = tuple(runs)
        for run in self._runs:
            if not isinstance(run, Run):
                raise InputError(f"runs: expected runs of simulate or read_run, found {run!r:.60}")

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    @overload
    def __getitem__(self, index: int) -> Run: ...

    @overload
    def __getitem__(self, index: slice) -> Runs: ...

    def __getitem__(self, index: Any) -> Run | Runs:
        if isinstance(index, str):
            raise InputError(f"runs[{index!r:.40}]: expected a number; use runs.where(policy={index!r:.40})")
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __repr__(self) -> str:
        return f"Runs({quantity(len(self), 'run')}: {', '.join(dict.fromkeys(run.policy for run in self))})"

    def where(self, **wanted: Any) -> Runs:
        """Return the runs with these values: ``runs.where(policy="easy", seed=1)``."""
        for name, value in wanted.items():
            if name not in KEYS:
                raise InputError(f"{name}: unknown argument; expected one of {', '.join(KEYS)}")
            checked_type(name, value, str | int | None)
            known = list(dict.fromkeys(getattr(run, name) for run in self))
            if value not in known:
                raise InputError(f"{name}: expected one of {', '.join(map(repr, known))}, found {value!r:.60}")
        return Runs(run for run in self if all(getattr(run, name) == value for name, value in wanted.items()))

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """One row per job of each run; the first columns are workload, policy and seed."""
        return pl.concat([run.jobs for run in self._some()], how="diagonal_relaxed")

    @cached_property
    def figures(self) -> pl.DataFrame:
        """One row per run: workload, policy, seed, load if it was scaled by `simulate`, and all figures."""
        runs = self._some()
        loads = [parsed(run.workload).load for run in runs]
        has_loads = any(load is not None for load in loads)
        rows = [
            {name: getattr(run, name) for name in KEYS} | ({LOAD: load} if has_loads else {}) | dict(run.figures)
            for run, load in zip(runs, loads, strict=True)
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    @public
    def summary(
        self, by: str | Sequence[str] = (), *, ci: float = 0.95, figures: str | Sequence[str] = ()
    ) -> pl.DataFrame:
        """Return one row per group of runs: the mean of each figure, and the ends of its confidence interval.

        Groups are those of policies (and loads, if there are several), or of the columns `by`. The interval is that of
        Student's t over the independent workloads of the group, else over its shaken copies or its seeds; it is null
        for a single value. Without `figures`, the most used ones are shown.
        """
        return summary_table(self._with_origins, self._groups(by), _chosen(figures, self.figures), ci)

    @public
    def compare(self, baseline: str, measure: str = "wait_s") -> pl.DataFrame:
        """Compare each policy with a baseline, job by job, on the same workload and seed. One row per pair of runs.

        Ratios are of the policy over the baseline: below 1 the policy is better. docs/metrics.md explains the columns.
        A baseline without seeds is compared with all seeds.
        """
        base = {(run.workload, run.seed): run for run in self if run.policy == baseline}
        if not base:
            known = ", ".join(dict.fromkeys(run.policy for run in self))
            raise InputError(f"{baseline!r}: expected the label of a policy of these runs: {known}")
        rows = []
        for run in self:
            first = base.get((run.workload, run.seed)) or base.get((run.workload, None))
            if run.policy == baseline or first is None:
                continue
            run.record.evaluated.check_measure(measure, first.record.evaluated)
            pair = paired(first.record.evaluated, run.record.evaluated, measure, run.tau_s)
            rows.append({"workload": run.workload, "policy": run.policy, "seed": run.seed, **pair.as_dict()})
        if not rows:
            raise InputError(f"{baseline!r}: expected another policy on the same workload and seed, found none")
        return pl.DataFrame(rows, infer_schema_length=None)

    @public
    def against(
        self, baseline: str, *, by: str | Sequence[str] = (), figures: str | Sequence[str] = (), ci: float = 0.95
    ) -> pl.DataFrame:
        """Compare each policy with a baseline by paired bootstrap, over workloads, else shaken copies, else seeds.

        One row per policy, load and figure: the difference, its confidence interval, the probability that the policy is
        better, and the verdict. docs/experiments.md explains the columns. It needs scipy.
        """
        named = (figures,) if isinstance(figures, str) else figures
        return against(self._with_origins, baseline, self._groups(by), named, ci)

    @property
    def _with_origins(self) -> pl.DataFrame:
        """The figures, with the origins of workloads: which of them are independent."""
        return self.figures.with_columns(pl.Series(ORIGIN, [run.origin for run in self]))

    @property
    def plot(self) -> Plots:
        """Charts of these runs, one line or panel per run. Each is a matplotlib Figure."""
        return Plots(self._named())

    @public
    def report(self, path: str | Path = "report.html") -> None:
        """Write one HTML page about all runs."""
        records = self._named()
        with registry.also_known(_sources(self)):
            write_text(str(path), [_pages().of_runs(records, [], files.common_tau_s(records))])

    @public
    def save(self, folder: str | Path) -> list[str]:
        """Write the files of all runs into a directory, and return their prefixes."""
        prefixes = []
        for number, (run, record) in enumerate(zip(self, self._named(), strict=True)):
            name = "".join(c if c.isalnum() or c in "-_.=" else "_" for c in record.label)
            prefixes.append(f"{folder}/{number:0{len(str(len(self) - 1))}}-{name}")
            run.save(prefixes[-1])
        return prefixes

    def _some(self) -> tuple[Run, ...]:
        """Return the runs. Raises InputError if there is none."""
        if not self._runs:
            raise InputError("expected at least one run, found none")
        return self._runs

    def _named(self) -> list[files.SavedRun]:
        """Return the runs with labels that tell them apart."""
        self._some()
        several = [name for name in KEYS if len({getattr(run, name) for run in self}) > 1] or ["policy"]

        def label(run: Run) -> str:
            seed = [] if run.seed is None or "seed" not in several else [f"seed {run.seed}"]
            return ", ".join([*(getattr(run, name) for name in several if name != "seed"), *seed]) or run.policy

        return [replace(run.record, name=label(run)) for run in self]

    def _repr_html_(self) -> str:
        if not self._runs:
            return "<p>no runs</p>"
        keys = [key for key in KEYS if key == "policy" or len({getattr(run, key) for run in self}) > 1]
        caption = ", ".join(dict.fromkeys(run.workload for run in self))
        marked = with_other_jobs(self.figures, self.figures, KEYS)
        return _table_html(caption, marked, keys, shown_figures(self.figures.to_dicts()))


class WorkerDiedError(InputError):
    """Worker processes of `simulate` ended before their runs. `runs` are the runs that are finished."""

    def __init__(self, text: str, runs: Runs) -> None:
        super().__init__(text)
        self.runs = runs


class Campaign(_WithFigures):
    """The results of a campaign, by its directory. `read_campaign` makes one."""

    def __init__(self, folder: str) -> None:
        self._store = Store(folder)
        self._folder = folder

    def __repr__(self) -> str:
        policies = ", ".join(dict.fromkeys(self.figures["policy"])) or "no policy"
        return f"Campaign({self._folder!r}: {quantity(len(self.figures), 'finished run')}: {policies})"

    @cached_property
    def figures(self) -> pl.DataFrame:
        """One row per finished run: workload, family, platform, policy, options, seed, and all figures."""
        return campaign_frame(self._store)

    @public
    def summary(
        self, by: str | Sequence[str] = (), *, ci: float = 0.95, figures: str | Sequence[str] = ()
    ) -> pl.DataFrame:
        """Return one row per group of runs: the mean of each figure, and the ends of its confidence interval."""
        keys = self._groups(by)
        found = summary_table(self.figures, keys, _chosen(figures, self.figures), ci)
        others = [name for name in ("platform", "options") if name not in keys]
        several = [name for name in others if self.figures.select(*keys, name).n_unique() > found.height]
        if several:
            warn(f"groups contain several values of {', '.join(several)}: add them to `by`")
        return found

    @public
    def against(
        self, baseline: str, *, by: str | Sequence[str] = (), figures: str | Sequence[str] = (), ci: float = 0.95
    ) -> pl.DataFrame:
        """Compare all policies with a baseline by paired bootstrap, as `pybatsched campaign table --against` does."""
        keys = (by,) if isinstance(by, str) else tuple(by)
        return against(self.figures, baseline, keys, (figures,) if isinstance(figures, str) else figures, ci)

    @property
    def plot(self) -> CampaignPlots:
        """Charts of the campaign: ``campaign.plot.ratios("mean_wait_s", baseline="easy")``, … Each is a Figure."""
        return CampaignPlots(self._store)

    @public
    def report(self, path: str | Path = "report.html", *, baseline: str = "") -> None:
        """Write the HTML page of the campaign."""
        write_text(str(path), [_pages().of_campaign(self._store, baseline)])

    def _repr_html_(self) -> str:
        if self.figures.is_empty():
            return f"<p>campaign <b>{html.escape(self._folder)}</b>: no finished run</p>"
        keys = groups_shown(self.figures)
        names = shown_figures(self.figures.to_dicts())
        caption = f"{self._folder}: means of {quantity(len(self.figures), 'finished run')}"
        return _table_html(caption, grouped(self.figures, keys, names), [*keys, "points"], names)


def run_of(request: RunRequest, folder: Folder) -> Run:
    """Return a run that was written to a temporary directory."""
    return Run(
        f"{folder.name}/run",
        policy=request.label,
        workload=request.workload,
        origin=request.origin,
        seed=request.spec.seed,
        request=request,
        folder=folder,
    )


@public
def read_run(prefix: str | Path, *, label: str | None = None) -> Run:
    """Read a run from its files, by their prefix, as `simulate -e PREFIX` and Batsim write them.

    Raises InputError if there is none, BrokenPromiseError if it is incomplete.
    """
    found = files.read_run(str(prefix))
    policy, names = found.summary.get("policy"), found.summary.get("names")
    names = names if isinstance(names, dict) else {}
    name = names.get("policy") or (policy.get("name") if isinstance(policy, dict) else None) or found.label
    workload = names.get("workload") or ", ".join(map(name_of_file, found.workload_files))
    run = Run(
        str(Path(prefix).absolute()),
        policy=label or str(name),
        workload=workload,
        origin=str(names.get("origin", "")),
        seed=found.summary.get("seed"),
    )
    run.record = replace(found, name=run.policy)
    return run


@public
def read_campaign(folder: str | Path) -> Campaign:
    """Read the results of a campaign from its directory. Raises InputError if there is no campaign."""
    campaign = Campaign(str(folder))
    campaign.figures  # noqa: B018  raises InputError at once
    return campaign


def _sources(runs: Iterable[Run]) -> list[registry.PolicySource]:
    """Return the policies of runs of this process, which journals name: they may be classes of a notebook."""
    requests = [run._request for run in runs]  # noqa: SLF001  of this module
    return [
        request.spec.policy.source for request in requests if request is not None and request.spec.policy is not None
    ]


def _chosen(figures: str | Sequence[str], table: pl.DataFrame) -> Sequence[str]:
    """Return the figures that a user names; the most used ones if there are none."""
    named = (figures,) if isinstance(figures, str) else figures
    return named or shown_figures(table.to_dicts())


def _pages() -> Any:
    """Return the module that writes pages. Raises InputError without matplotlib."""
    try:
        from pybatsched.report import page  # noqa: PLC0415  an optional dependency
    except ImportError as error:
        raise InputError.not_installed(f"reports need {error.name}", "notebook") from None
    return page


def _table_html(caption: str, table: pl.DataFrame, keys: Sequence[str], figures: Sequence[str]) -> str:
    """Return a table as HTML: its names, and its figures with few digits."""
    keys = [*keys, OTHER_JOBS] if OTHER_JOBS in table.columns else keys
    head = "".join(f"<th>{html.escape(text)}</th>" for text in (*keys, *map(figure_title, figures)))
    rows = []
    for row in table.iter_rows(named=True):
        names = ["" if row[key] is None else str(row[key]) for key in keys]
        cells = (*names, *(_shown(row[name]) for name in figures))
        rows.append(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>")
    return f"<table><caption>{html.escape(caption)}</caption><tr>{head}</tr>{''.join(rows)}</table>"


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.4g}" if isinstance(value, float) and abs(value) < 1e4 else f"{value:,.0f}"
