"""Workloads for experiments: read or generate them, look at their jobs, and change them."""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import polars as pl

from pybatsched.core.derive import delay_of
from pybatsched.core.instants import seconds_text
from pybatsched.errors import InputError, quantity
from pybatsched.experiment.arguments import Time, in_python, public
from pybatsched.experiment.one_run import Folder, RunRequest, run_one, warn_all
from pybatsched.experiment.runs import Run, run_of
from pybatsched.metrics import DEFAULT_TAU_S
from pybatsched.runs.spec import RunSpec, WorkloadSpec
from pybatsched.runs.workloads import Jobs, check_formats, how_read, log_options, read, selection_of
from pybatsched.settings import TIME, takes, whole
from pybatsched.workload import prepare
from pybatsched.workload.checks import lint
from pybatsched.workload.formats import batsim4
from pybatsched.workload.generate.models import Recipe, generate
from pybatsched.workload.job_columns import plain_columns, renamed
from pybatsched.workload.model import Workload
from pybatsched.workload.names import ending, name_of_file, parsed
from pybatsched.workload.report import Finding, Report
from pybatsched.workload.resample.feedback import with_feedback
from pybatsched.workload.resample.shaking import shake
from pybatsched.workload.resample.users import Resampling, resample
from pybatsched.workload.selection import Selection
from pybatsched.workload.statistics import stats
from pybatsched.workload.walltimes import Walltimes
from pybatsched.workload.weeks import Range, WeekChoice, weekly, weeks_of_workload, workloads_of_weeks

#: Fields of jobs that `Log.jobs` has under the same or other names, or not at all.
_KNOWN: Final = frozenset(("id", "subtime", "res", "walltime", "estimate", "profile", "user", "evaluated"))
_COLUMNS: Final = frozenset(("submitted_at", "n_procs", "runtime_s", "walltime_s", "estimate_s"))


@dataclass(frozen=True, eq=False)
class Log:
    """Jobs in the order of their submission, and the size of the machine that they were made for.

    `read_workload` and `generate_workload` make one. Methods return a changed copy. Do not change the dictionaries of
    jobs in `workload`: copies share them.

    >>> log = generate_workload("lublin", n_jobs=100, n_procs=64, seed=1)
    >>> len(log), log.n_procs
    (100, 64)
    >>> len(log.head(10))
    10
    """

    workload: Workload = field(repr=False)
    name: str
    #: The options that the file was read with, for the summary of a run; None if the jobs are not those of a file.
    how_read: Mapping[str, Any] | None = field(default=None, repr=False)
    #: The SHA-256 digest of the file, or of the files of a directory; empty if the jobs are not those of a file.
    file_digest: str = field(default="", repr=False)
    #: Whether the jobs come from a log, whose sizes may be in cores where a platform has nodes.
    is_from_log: bool = field(default=False, repr=False)
    #: How the file was read, also that of a changed copy; None if the jobs were not read from a file.
    _spec: WorkloadSpec | None = field(default=None, repr=False)
    #: The log, the window of it, or the random workload that the jobs come from. Copies of one origin are not
    #: independent, whatever their names; if it is empty, the name decides.
    origin: str = field(default="", repr=False)

    def as_jobs(self) -> Jobs:
        """Return the jobs for a run."""
        name = self.name if self.how_read is None else self.workload.source
        return Jobs(self.workload, name, self.how_read, self.digest, self.is_from_log)

    def __len__(self) -> int:
        return len(self.workload.jobs)

    def __repr__(self) -> str:
        return f"Log({self.name!r}: {quantity(len(self), 'job')} for {quantity(self.n_procs, 'processor')})"

    @cached_property
    def digest(self) -> str:
        """A digest of the content: of the file, or of the jobs if they are not those of a file."""
        if self.file_digest:
            return self.file_digest
        content = [list(self.workload.jobs), self.workload.profiles, self.workload.n_procs]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def n_procs(self) -> int:
        """The processors of the machine that the workload was made for."""
        return self.workload.n_procs

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """One row per job: id, submission, processors, run time, walltime and estimate, user, and its other fields.

        Ids are those of a run, such as w0!42. `runtime_s` is null for a job whose run time depends on the machine.
        `evaluated` is False for the jobs of a warm-up. Fields with lists or objects, such as a `depends_on` of several
        jobs, are left out. A field with the name of one of these columns, such as `n_procs`, becomes `n_procs_field`.
        """
        jobs, profiles = self.workload.jobs, self.workload.profiles
        table = pl.DataFrame(plain_columns(jobs) if isinstance(jobs, list) else jobs.columns())
        runtimes = {name: delay_of(profile, profiles) for name, profile in profiles.items()}

        def column(field: str, name: str, kind: Any = pl.Float64) -> pl.Series:
            known = table[field] if field in table.columns else pl.Series([None] * len(jobs))
            return known.cast(kind, strict=False).alias(name)

        evaluated = [True] * len(jobs)
        if "evaluated" in self.workload.fields:
            evaluated = [value is True for value in self.workload.values("evaluated")]
        profile = column("profile", "runtime_s", pl.String)
        kept = [
            ("w0!" + column("id", "id", pl.String)).alias("id"),
            column("subtime", "submitted_at"),
            column("res", "n_procs", pl.Int64),
            profile.replace_strict(list(runtimes), list(runtimes.values()), return_dtype=pl.Float64).cast(pl.Float64),
            *(_known(column(name, f"{name}_s")) for name in ("walltime", "estimate")),
            column("user", "user", pl.String),
            pl.Series("evaluated", evaluated, pl.Boolean),
        ]
        return pl.DataFrame([*kept, *renamed((one for one in table if one.name not in _KNOWN), _COLUMNS)])

    @cached_property
    def findings(self) -> pl.DataFrame:
        """What is odd in the file, as `pybatsched workload lint` reports it: level, what, count, and how it is read."""
        found: Collection[Finding] = ()
        if (spec := self._spec) is not None:
            how: Any = {"timezone": spec.timezone, "format": spec.format, "mapping": spec.mapping}
            found = lint.lint(spec.file, spec.n_procs, **how).findings.values()
        rows = [(one.level, in_python(one.what), one.count, in_python(one.remedy)) for one in found]
        kinds = {"level": pl.String, "what": pl.String, "count": pl.Int64, "remedy": pl.String}
        return pl.DataFrame(rows, schema=kinds, orient="row")

    @cached_property
    def dropped(self) -> dict[str, int]:
        """The number of jobs that reading has dropped or changed, by rule."""
        report = self.workload.about.get("report")
        rules = report.get("rules", {}) if isinstance(report, dict) else {}
        return {rule: what["count"] for rule, what in rules.items()}

    @property
    def figures(self) -> dict[str, Any]:
        """The figures of `pybatsched workload stats`: offered load, span, distributions of sizes and run times."""
        return stats.summary(stats.sample_workload(self.workload))

    @public
    def window(
        self,
        begin: Time | None = None,
        end: Time | None = None,
        *,
        warm_up: Time = 0,
        cool_down: Time = 0,
        window_clock: str = "first",
    ) -> Log:
        """Return the jobs submitted from `begin` up to `end`, counted from the first submission.

        The window, or its warm-up, then starts at time 0. With the `window_clock` "log", `begin` and `end` are times of
        the log, and the first job moves to time 0. Jobs of the `warm_up` before `begin` and of the `cool_down` after
        `end` are simulated too, but figures leave them out. Without `begin` or `end`, they are the first and the last
        jobs of the log. Raises InputError if no job is left.
        """
        times = {"begin": begin, "end": end, "warm_up": warm_up, "cool_down": cool_down}
        spec = WorkloadSpec.by_name({**times, "window_clock": window_clock})
        made = self._selected(selection_of(spec))
        if spec.begin is None and spec.end is None:
            return made
        last = "the end" if spec.end is None else f"{seconds_text(spec.end)} s"
        return replace(made, origin=f"{self.origin or self.name}, {seconds_text(spec.begin or 0)} s to {last}")

    @public
    def weeks(
        self,
        which: Literal["all"] | Sequence[int] | None = None,
        *,
        utilisation: Range | None = None,
        offered_load: Range | None = None,
        max_weeks: int | None = None,
        keep_ends: bool = False,
        warm_up: Time = 0,
        cool_down: Time = 0,
    ) -> list[Log]:
        """Return weeks of the log, named NAME-week03: all, those with some numbers, or by default the busy ones.

        The weeks are those of `weeks` in a campaign, with the same jobs. Busy weeks have a logged `utilisation` of 0.7
        or more, or in a range, or an `offered_load` in a range. Jobs of the `warm_up` before each week and of the
        `cool_down` after it are simulated too, but figures leave them out. Raises InputError if there is no such week.

        >>> log = generate_workload("lublin", days=15, n_procs=64, seed=1)
        >>> [week.name for week in log.weeks("all")]
        ['lublin-week01', 'lublin-week02', 'lublin-week03']
        """
        if sum(one is not None for one in (which, utilisation, offered_load)) > 1:
            raise InputError("which, utilisation and offered_load: expected only one of them, found several")
        numbers = () if which is None or which == "all" else tuple(whole().read("which", one) for one in which)
        of = WeekChoice(which == "all", numbers, utilisation, offered_load, keep_ends, max_weeks)
        window = {"warm_up": warm_up, "cool_down": cool_down}
        spec = self._spec
        if spec is not None and self.how_read == how_read(spec) and not (spec.begin or spec.end or spec.max_jobs):
            spec = replace(spec, **{name: TIME.read(name, at) for name, at in window.items()})
            found = weekly(spec.file, log_options(spec), selection_of(spec), of, lenient=spec.lenient)
        else:
            weeks = of.of(weeks_of_workload(self.workload), self.name)
            chosen = selection_of(WorkloadSpec.by_name(window))
            found = workloads_of_weeks(self.workload, weeks, chosen, Report(n_read=len(self)))
        made = []
        for week, workload, _ in found:
            end = ending("week", week.number)
            log = self._changed(with_feedback(workload) if spec is not None and spec.feedback else workload)
            made.append(replace(log, name=f"{self.name}{end}", origin=f"{self.origin or self.name}{end}"))
        return made

    @public
    def head(self, n: int) -> Log:
        """Return the first `n` jobs."""
        return self._selected(Selection(max_jobs=whole().read("n", n)))

    def _selected(self, selection: Selection) -> Log:
        """Return the jobs that a selection keeps. The first selection of a file is one that commands can repeat."""
        changed = self._changed(prepare.select(self.workload, selection)[0])
        if self.how_read is None or self.how_read.get("selection"):
            return changed
        how = {**self.how_read, "selection": selection.as_json()}
        return replace(changed, how_read=how, file_digest=self.file_digest)

    @public
    def where(self, condition: Callable[[Mapping[str, Any]], bool] | pl.Expr) -> Log:
        """Return the jobs for which a condition holds: a polars expression over `jobs`, or a function of a row.

        >>> log = generate_workload("lublin", n_jobs=100, n_procs=64, seed=1)
        >>> log.where(lambda job: job["n_procs"] <= 8).jobs["n_procs"].max() <= 8
        True
        """
        if callable(condition):
            kept = [bool(condition(row)) for row in self.jobs.iter_rows(named=True)]
        else:
            try:
                found = self.jobs.select(condition.alias("kept"))["kept"]
            except pl.exceptions.PolarsError as error:
                columns = ", ".join(self.jobs.columns)
                raise InputError(f"condition {condition}: expected one over the columns {columns}: {error}") from None
            if found.dtype != pl.Boolean or len(found) != len(self):
                raise InputError(f"condition {condition}: expected True or False for each job, found {found.dtype}")
            kept = found.to_list()
        places = [place for place, is_kept in enumerate(kept) if is_kept]
        if not places:
            raise InputError(f"{self.name}: expected a condition that some job meets, found none")
        return self._changed(prepare.without_unused(replace(self.workload, jobs=self.workload.at(places), batsim=0)))

    @public
    def scale_load(self, factor: float) -> Log:
        """Return the same jobs with all submission times divided by `factor`: 1.2 is a load that is 20 % higher.

        Deadlines keep their distance from the submission.
        """
        return self._changed(prepare.scale_load(self.workload, factor))

    @public
    def with_load(self, load: float, *, n_procs: int | None = None) -> Log:
        """Return the same jobs with submission times scaled to an offered load, such as 0.9 for 90 %.

        The load is that on `n_procs` processors, by default those of the log: the work of all jobs, divided by the
        capacity of the machine from the first submission to the last.

        >>> log = generate_workload("lublin", n_jobs=100, n_procs=64, seed=1)
        >>> round(log.with_load(0.9).figures["offered_load"], 6)
        0.9
        """
        if n_procs is not None:
            whole().read("n_procs", n_procs)
        return self._changed(prepare.with_load(self.workload, load, n_procs))

    @public
    def shake(self, by: Time = 60, *, seed: int = 0) -> Log:
        """Return the same jobs, with submissions moved by random amounts of at most `by`; see docs/experiments.md.

        Figures of several copies are not those of independent workloads: the copies have the same `origin`.
        """
        name = f"{self.name}{ending('shake', seed)}"
        return replace(self._changed(shake(self.workload, TIME.read("by", by), seed)), name=name)

    @public
    def resample(
        self, *, weeks: int | None = None, seed: int = 0, load: float | None = None, long_term_weeks: int = 12
    ) -> Log:
        """Return a new log of the same users, of `weeks` weeks (default: as many as this log has).

        `load` is the offered load to aim at, by the number of users. docs/experiments.md describes the method.
        """
        options = Resampling(weeks, long_term_weeks, load)
        copy = ending("resample", seed)
        made = self._changed(resample(self.workload, options, seed))
        return replace(made, name=f"{self.name}{copy}", origin=f"{self.origin or self.name}{copy}")

    @public
    def with_feedback(self) -> Log:
        """Return the same jobs, where the next job of a user's session follows the end of the job before.

        The log must have waits and users, or preceding jobs. Raises InputError.
        """
        return self._changed(with_feedback(self.workload))

    @public
    def logged_run(self, *, tau_s: float = DEFAULT_TAU_S) -> Run:
        """Return the schedule that the log recorded, as a run with the label `logged`.

        Jobs start after their logged waits and run as long as in the log. Jobs whose wait is unknown are unfinished.
        Raises InputError if no job has a wait, and if submissions were scaled, shaken or resampled.
        """
        request = RunRequest(self.as_jobs(), self.name, self.origin, RunSpec(tau_s=tau_s))
        folder = Folder()
        warn_all(run_one(request, f"{folder.name}/run"))
        return run_of(request, folder)

    @public
    def with_walltimes(self, rule: str) -> Log:
        """Return the jobs with walltimes by a rule: exact, factor:F, round or none.

        The requested times are those that `read_workload` gives without a rule. Raises InputError for them, and for
        jobs whose run time depends on the machine.
        """
        chosen = Walltimes.parse(rule)
        if chosen.is_by_request:
            raise InputError(
                f"rule: expected exact, factor:F, round or none, found {rule!r}; use read_workload(…, "
                f"walltimes={rule!r}) for the requested times"
            )
        return self._changed(prepare.with_walltimes(self.workload, chosen)[0])

    @public
    def named(self, name: str) -> Log:
        """Return the same jobs under another name, which tables and charts show."""
        return replace(self, name=name)

    @public
    def write(self, path: str | Path) -> None:
        """Write a Batsim workload file (.json or .json.gz). Raises InputError."""
        if not str(path).endswith((".json", ".json.gz")):
            raise InputError(f"{path}: expected a file name that ends in .json or .json.gz")
        batsim4.write(self.workload, str(path))

    def _changed(self, workload: Workload) -> Log:
        return replace(self, workload=workload, how_read=None, file_digest="")

    def _repr_html_(self) -> str:
        figures = self.figures
        rows = {
            "jobs": f"{len(self):,}",
            "processors": f"{self.n_procs:,}",
            "offered load": "-" if figures["offered_load"] is None else f"{figures['offered_load']:.3f}",
            **{rule: quantity(count, "job") for rule, count in self.dropped.items()},
        }
        cells = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in rows.items())
        return f"<table><caption>workload <b>{html.escape(self.name)}</b></caption>{cells}</table>"


@public
@takes(
    WorkloadSpec,
    without=("file", "load", "scale_load"),
    instead={"with_waits": "feedback=…", "load": "simulate(…, load=…)", "scale_load": "simulate(…, scale_load=…)"},
)
def read_workload(path: str | Path, *, name: str | None = None, **settings: Any) -> Log:
    """Read a workload of any format that the commands read: Batsim JSON, SWF, Slurm or a table.

    Files may be compressed by gzip or zstd. `name` is what tables show, by default the name of the file. Raises
    InputError.
    """
    spec = WorkloadSpec(str(path), **settings)
    check_formats([spec])
    jobs = read(spec)
    origin = parsed(f"{Path(path).parent / name_of_file(path)}").unit  # files of shaken copies have that of their log
    name = name or name_of_file(path)
    return Log(jobs.workload, name, jobs.how, jobs.digest, jobs.is_from_log, spec, origin)


@public
def generate_workload(
    model: str,
    *,
    n_procs: int,
    n_jobs: int | None = None,
    days: float | None = None,
    seed: int = 0,
    load: float | None = None,
    walltimes: str = "exact",
    n_users: int = 0,
    name: str | None = None,
) -> Log:
    """Generate a random workload, as `pybatsched workload generate` does. The same seed gives the same jobs.

    `model` is lublin, lublin-batch, lublin-interactive, lublin-all or poisson; `load` is the offered load.
    """
    for argument, count in (("n_procs", n_procs), ("n_jobs", n_jobs)):
        if count is not None:
            whole().read(argument, count)
    rule = Walltimes.parse(walltimes)
    recipe = Recipe(model, n_procs, seed, n_jobs=n_jobs, days=days, load=load, walltimes=rule, n_users=n_users)
    made = generate(recipe)
    return Log(made, name or model, origin=made.source)


def as_log(log: Log | str | Path) -> Log:
    """Return a workload, read from its file if a path is given. Raises InputError."""
    if isinstance(log, Log):
        return log
    if not isinstance(log, str | Path):
        raise InputError(f"log: expected a Log or the path of a file, found {log!r:.60}")
    return read_workload(log)


def _known(seconds: pl.Series) -> pl.Series:
    """Return durations without those below 0: Batsim writes -1 for no walltime."""
    return seconds.set(seconds < 0, None)
