"""Run many simulations described in one file, stop and resume them, and put the results into one table."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from pathlib import Path
from typing import Final

from pybatsched.campaign import table, tune as tuning
from pybatsched.campaign.spec import Spec, read_spec
from pybatsched.campaign.store import Store
from pybatsched.cli.common import arguments, campaign_runner, process
from pybatsched.cli.common.arguments import Command
from pybatsched.cli.traces import TRACES
from pybatsched.errors import InputError, Interrupted, quantity
from pybatsched.metrics.compare.confidence import LEVEL
from pybatsched.workload.formats.files import write_text

EPILOG: Final = """\
examples:
  pybatsched campaign run study.toml --output out/study           all cores of this machine
  pybatsched campaign run study.toml --output out/study --resume  continue after an interruption
  pybatsched campaign run study.toml --dask tcp://head:8786       on a Dask cluster
  pybatsched campaign run study.toml --on slurm --jobs 20 --walltime 1h --partition short   in 20 jobs of Slurm
  pybatsched campaign tune study.toml --output out/tune           search the options of a policy
  pybatsched campaign status out/study
  pybatsched campaign table out/study --by policy,options --format markdown

docs/campaigns.md describes the file.
"""
_RUN: Final = """\
A cell is run once: its address is a digest of everything that its result depends on, including pybatsched's code.
Rejected jobs and warnings of runs are counted at the end, also with --quiet.
exit codes: 0 all cells are done; 7 some failed (pybatsched campaign status shows which and why); 8 in some cells no job
completed
"""
_TUNE: Final = """\
examples:
  pybatsched campaign tune study.toml --output out/tune            search as described in the table [tune] of the file
  pybatsched campaign tune study.toml --output out/tune --resume   continue after an interruption
  pybatsched campaign table out/tune --against easy                the test on workloads that the search has not seen

Optuna proposes options; it needs pip install '.[tune]'. The search is deterministic, and its runs are kept, so
that a repeated search continues. See docs/experiments.md.
"""
_N_LINES_SHOWN: Final = 3
_TABLE: Final = """\
examples:
  pybatsched campaign table out/study                                     every point
  pybatsched campaign table out/study --by policy,options --figures mean_wait_s,utilisation
  pybatsched campaign table out/study --format csv > study.csv
  pybatsched campaign table out/study --against easy --figures mean_wait_s   differences, by paired bootstrap
  pybatsched campaign table out/study --quantiles --figures mean_wait_s   medians and quantiles over shaken copies
  pybatsched campaign table out/study --by family,policy --ci 0.95 --format latex --bold-best > study.tex

With --ci, each mean has a confidence interval by Student's t over weeks (or other workloads), else over seeds; n is
their number. With --against, docs/experiments.md explains the columns; it needs pip install '.[compare]'.
LaTeX needs \\usepackage{booktabs}.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the sub-commands of `campaign` and their options."""
    arguments.add_commands(
        parser,
        (
            Command("run", "Run all cells of a campaign that are not done yet.", _RUN, _run_arguments, _run),
            Command(
                "tune",
                "Search the options of a policy that give the best value of a figure.",
                _TUNE,
                _tune_arguments,
                _tune,
            ),
            Command("status", "Show the progress of a campaign and its failed cells.", "", _status_arguments, _status),
            Command("table", "Print the results.", _TABLE, _table_arguments, _table),
        ),
    )


run = arguments.run_chosen


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("spec", metavar="SPEC.toml", help="the description of the campaign")
    add("--output", metavar="DIR", help="where results are kept (default out/NAME)")
    add("--resume", action="store_true", help="continue the campaign in this directory")
    campaign_runner.add_arguments(parser)
    add("--traces", metavar="DIR", help=f"another directory to search for logs (default: ${TRACES})")


def _checked_folders(args: argparse.Namespace, spec: Spec, store: Store) -> list[Path]:
    """Return where logs are searched for. Raises InputError if another campaign is in the directory."""
    if store.has_manifest and not args.resume:
        raise InputError(
            f"{store.folder}: it already contains a campaign; continue it with --resume, or use another --output"
        )
    campaign_runner.check_same_campaign(store, spec)
    return [Path(args.spec).parent, *(Path(path) for path in (args.traces, os.environ.get(TRACES)) if path)]


def _run(args: argparse.Namespace) -> int:
    spec = read_spec(args.spec)
    folder = args.output or f"out/{spec.name}"
    process.raise_interrupted()
    with Store(folder) as store:
        folders = _checked_folders(args, spec, store)
        command = shlex.join(["pybatsched", "campaign", "run", Path(args.spec).name])
        try:
            progress = campaign_runner.run(
                args, spec, store, folders, command, beside=Path(args.spec).parent, source=args.spec
            )
        except (Interrupted, KeyboardInterrupt) as stop:
            if store.has_manifest:
                stop.add_note(f"finished cells are kept in {folder}; continue with --resume")
            raise
    if not args.quiet:
        arguments.say(campaign_runner.outcome_text(progress, folder))
    code = campaign_runner.say_losses(store)
    return 7 if progress.n_failed else code


def _tune_arguments(parser: argparse.ArgumentParser) -> None:
    _run_arguments(parser)
    parser.add_argument(
        "--trials", type=arguments.positive, metavar="N", help="number of trials (default: as in the file)"
    )


def _tune(args: argparse.Namespace) -> int:
    spec = read_spec(args.spec)
    if spec.tune is None:
        raise InputError(f"{args.spec}: expected a table [tune] with policy, figure and options (docs/experiments.md)")
    if args.trials is not None:
        spec = spec.model_copy(update={"tune": spec.tune.model_copy(update={"trials": args.trials})})
    folder = args.output or f"out/{spec.name}"
    process.raise_interrupted()
    with Store(folder) as store:
        folders = _checked_folders(args, spec, store)
        try:
            search = tuning.tune(
                spec,
                store,
                folders,
                campaign_runner.workers(args, spec, store),
                spec_folder=Path(args.spec).parent,
                on_trial=(lambda _trial: None) if args.quiet else _say_trial,
                command=shlex.join(["pybatsched", "campaign", "tune", Path(args.spec).name]),
            )
        except InputError as error:
            raise InputError(f"{args.spec}: {error}") from None
    _print_search(args, folder, search)
    return campaign_runner.say_losses(store)


def _say_trial(trial: tuning.Trial) -> None:
    value = "-" if trial.value is None else f"{trial.value:.6g}"
    best = "-" if trial.best is None else f"{trial.best:.6g}"
    arguments.say(f"trial {trial.number + 1}: {value} ({trial.state}), best {best}")


def _print_search(args: argparse.Namespace, folder: str, search: tuning.Search) -> None:
    """Write the table and the curve of the trials, and print the best options and their test."""
    from pybatsched.report import campaign_charts  # noqa: PLC0415  matplotlib is an extra

    trials = tuning.trials_frame(search)
    write_text(f"{folder}/trials.csv", [table.written(trials, "csv")])
    figure = f"{search.figure}{f', over that of {search.spec.against}' if search.spec.against else ''}"
    try:
        campaign_charts.draw_trials(search.trials, figure, f"{folder}/trials.svg")
    except InputError as error:  # without matplotlib
        arguments.say(f"{error}")
    best = search.best
    options = ", ".join(f"{name} = {json.dumps(value)}" for name, value in best.options.items())
    print(f"best of {quantity(len(search.trials), 'trial')}: {options}")
    n_train, n_test = (quantity(n, "workload") for n in (search.n_train, search.n_test))
    print(f"{figure}: {best.value:.6g} on {n_train} for training; on {n_test} for the test:")
    everything = table.frame(Store(folder))
    columns = [name for name in table.groups_shown(everything) if name != "options"]
    print(table.written(table.grouped(everything, columns, [search.figure]), "text"), end="")
    base = search.spec.against or search.spec.policy
    try:
        found = table.against(everything, base, columns, [search.figure])
        print(f"differences to {base} in the test:")
        print(table.written(found, "text"), end="")
    except InputError as error:
        arguments.say(f"{error}")
    if not args.quiet:
        arguments.say(f"trials in {folder}/trials.csv and trials.svg")


def _status_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="the campaign's directory")


def _status(args: argparse.Namespace) -> int:
    store = Store(args.folder)
    manifest = store.manifest()
    points = {point["address"]: point for point in manifest["points"]}
    results = store.results(points)
    failed = campaign_runner.failures_of(store)
    n_done = len(results) - len(failed)
    print(f"{manifest['name']}: {quantity(len(manifest['points']), 'point')}, {quantity(len(points), 'cell')}")
    print(f"{n_done:,} done, {len(failed):,} failed, {len(points) - len(results):,} left")
    for address, cell, error in failed:
        first, *more = error.splitlines() or ["no error message"]
        print(f"failed: {cell}: {first}", *(f"    {line}" for line in more[-_N_LINES_SHOWN:]), sep="\n")
        if len(more) > _N_LINES_SHOWN:
            print(f"    (the whole error is in {args.folder}/cells/{address}.json)")
    losses, code = campaign_runner.losses_of(store)
    print(*losses, sep="\n", end="\n" if losses else "")
    return 7 if failed else code


def _table_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="DIR", help="the campaign's directory")
    text = f"print means of groups of points, by some of {', '.join(table.POINT)}"
    add("--by", default="", metavar="COLUMNS", help=text)
    usual = ", ".join(table.SHOWN)
    text = f"names of figures, or all (default: {usual}; and rejected jobs or broken promises, if any)"
    add("--figures", metavar="NAMES", help=text)
    text = "output format (default %(default)s)"
    add("--format", choices=("text", "csv", "markdown", "latex"), default="text", help=text)
    text = "print means with confidence intervals of this level, such as 0.95 (default --by: family,policy)"
    add("--ci", metavar="LEVEL", help=text)
    add(
        "--against",
        metavar="POLICY",
        help="print the differences of other policies to this one, with 95 %% confidence intervals (--ci changes the "
        "level) and the probability that a policy is better",
    )
    text = "print percentiles over the runs of each group instead of means (default 5,50,95), for shaken copies"
    add("--quantiles", nargs="?", const="5,50,95", metavar="PERCENTS", help=text)
    text = "with --ci: mark the best mean of the policies of each family in bold (text: a star)"
    add("--bold-best", action="store_true", help=text)


def _table(args: argparse.Namespace) -> int:
    store = Store(args.folder)
    everything = table.frame(store)
    figures = table.shown(everything.iter_rows(named=True))
    if args.figures is not None:
        figures = [name for name in args.figures.split(",") if name]
    if figures == ["all"]:
        figures = [name for name in everything.columns if name not in table.POINT]
    by = [name for name in args.by.split(",") if name]
    if everything.is_empty():
        raise InputError(
            f"{args.folder}: no cell is done; `campaign status` says why cells failed; `campaign run SPEC.toml` runs "
            "failed cells with --retry-failed, and others with --resume"
        )
    if args.bold_best and (args.ci is None or args.format == "csv"):
        raise InputError("--bold-best: works only with --ci, and with --format text, markdown or latex")
    if args.against is not None:
        if args.quantiles is not None or args.bold_best:
            raise InputError("--against: cannot be used with --quantiles or --bold-best")
        chosen = figures if args.figures is not None else ()
        level = LEVEL if args.ci is None else _level(args.ci)
        found = table.against(everything, args.against, by, chosen, level)
        print(table.written(found, args.format), end="")
        if found.is_empty():
            arguments.say(f"no figure has a value under {args.against} and another policy; did any job run?")
    elif args.quantiles is not None:
        if args.ci is not None:
            raise InputError("--ci and --quantiles were both given; expected only one")
        from pybatsched.metrics.compare import grouped  # noqa: PLC0415  polars is slow to import

        percents = _percents(args.quantiles)
        found = grouped.quantile_table(everything, by or table.groups_shown(everything), figures, percents)
        print(table.written(found, args.format), end="")
    elif args.ci is not None:
        from pybatsched.metrics.compare import grouped  # noqa: PLC0415  polars is slow to import

        means = grouped.summary_table(everything, by or table.groups_shown(everything), figures, _level(args.ci))
        print(grouped.FORMATS[args.format](means, bold_best=args.bold_best), end="")
    else:
        print(table.written(table.grouped(everything, by, figures), args.format), end="")
    campaign_runner.say_missing(args.folder, len(store.manifest()["points"]) - everything.height)
    return 0


def _percents(text: str) -> list[float]:
    """Read percentiles. Raises InputError."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--quantiles {text:.40}: expected numbers from 0 to 100, such as 5,50,95") from None


def _level(text: str) -> float:
    """Read a confidence level. Raises InputError."""
    try:
        level = float(text)
    except ValueError:
        level = 0.0
    if not 0 < level < 1:
        raise InputError(f"--ci {text:.40}: expected a confidence level between 0 and 1, such as 0.95")
    return level
