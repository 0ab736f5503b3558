"""Draw a single chart of runs or of a campaign, as SVG, PDF or PNG."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, get_args

from pybatsched.campaign.store import Store
from pybatsched.cli.common import arguments, campaign_runner, run_end
from pybatsched.errors import InputError
from pybatsched.metrics.figure_names import MEASURES, STRETCHES
from pybatsched.metrics.saved_runs import SavedRun, common_tau_s, read_latest
from pybatsched.report import campaign_charts, chart_style
from pybatsched.report.campaign.points import Point, points_of
from pybatsched.report.campaign_charts import CampaignPlotOptions
from pybatsched.report.charts import KINDS, ColorOption, PlotOptions, draw
from pybatsched.report.lines import policies_of, renamed
from pybatsched.report.provenance import labels_of, relabelled


def _listed(charts: Mapping[str, str]) -> str:
    return "\n".join(f"  {name:<15}{about}" for name, about in charts.items())


EPILOG: Final = f"""\
charts:
{_listed({name: one.about for name, one in KINDS.items()})}

charts of a campaign, by its directory, as on its page:
{_listed(campaign_charts.KINDS)}

examples:
  pybatsched plot gantt out/easy --from 3d --to 5d --output gantt.pdf
  pybatsched plot cdf out/fcfs out/easy --measure wait_s --output waits.svg
  pybatsched plot cdf out/fcfs out/easy --label FCFS --label EASY --width column --output waits.pdf
  pybatsched plot ratios out/study --measure mean_wait_s --baseline easy --output waits.pdf
  pybatsched plot means out/study --only kth --label easy=EASY --output means.pdf
  pybatsched plot differences out/study --measure mean_wait_s --baseline easy --output easy.pdf
  pybatsched plot sweep out/study --measure mean_wait_s --output loads.pdf

An axis of values is logarithmic if the largest value is more than 20 times the smallest (or 1, if a value is 0);
--scale changes this, and the printed line shows the result. --scale log of a campaign's chart needs values above 0.
Of more than 12 runs, all runs of a policy are drawn together; --by changes this.
Time axes are in days, hours, minutes or seconds, by their length. Needs matplotlib: pip install '.[plot]'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `plot`."""
    add = parser.add_argument
    add("chart", choices=tuple(dict.fromkeys((*KINDS, *campaign_charts.KINDS))), help="the chart to draw (see below)")
    arguments.add_runs(parser)
    add("--output", required=True, metavar="FILE", help="the file to write: .svg, .pdf or .png")
    text = (
        f"for cdf and boxes: {', '.join(MEASURES)}; {', '.join(STRETCHES)} of jobs with alone_s; or one of their "
        "facts; of a campaign any figure of its table (default %(default)s)"
    )
    add("--measure", default="bounded_slowdown", metavar="NAME", help=text)
    text = "column (3.5 inches), text (7.2 inches, the default) or a number of inches"
    add("--width", default="", metavar="WIDTH", help=text)
    text = (
        "label of the first run, second run, …; or OLD=NEW for some runs or policies, or for policies and workloads "
        "of a campaign (repeatable)"
    )
    add("--label", action="append", default=[], metavar="[OLD=]NEW", help=text)
    arguments.add_span(parser)
    text = "for gantt: by job, wait, partition or GPUs (default %(default)s: by wait if there are over 300 jobs)"
    add("--color", choices=get_args(ColorOption), default="auto", help=text)
    text = "scale of the axis of values; for queue, cdf and boxes (default %(default)s: by the range of values)"
    add("--scale", choices=("auto", "log", "linear"), default="auto", help=text)
    text = "of runs: a line, box or panel for each of these (default %(default)s: policy if there are over 12 runs)"
    add("--by", choices=("auto", "run", "policy"), default="auto", help=text)
    arguments.add_baseline(parser)
    add("--policy", default="", metavar="LABEL", help="of a campaign: draw only this policy")
    text = "of a campaign: draw only this workload or the weeks of this log; may contain * (repeatable)"
    add("--only", action="append", default=[], metavar="WORKLOAD", help=text)
    text = "of a campaign with `each`: a dot for each value of a job field, such as user"
    add("--each", default="", metavar="FIELD", help=text)
    arguments.add_fields_from(parser)
    arguments.add_own_tau(parser)
    run_end.add_partial(parser)


def run(args: argparse.Namespace) -> int:
    """Draw the chart."""
    if len(args.runs) == 1 and (Path(args.runs[0]) / "manifest.json").exists():
        return _plot_campaign(args)
    if args.chart not in KINDS:
        raise InputError(f"{args.chart}: expected the directory of one campaign")
    for name in ("baseline", "policy", "each", "only"):
        if getattr(args, name):
            raise InputError(f"--{name}: works only with a campaign, not with runs; remove it")
    begin_s, end_s = arguments.span(args)
    width = chart_style.width_of(args.width or "text")
    known = labels_of(args.runs)
    runs = [
        replace(read_latest(prefix, args.workload, newest=args.partial), name=label)
        for prefix, label in zip(args.runs, known, strict=True)
    ]
    runs = _relabelled(runs, args.runs, args.label)
    arguments.refuse_to_overwrite_runs(args.output, runs, args.workload)
    runs[0].evaluated.check_measure(args.measure, *(run.evaluated for run in runs[1:]))
    run_end.introduce(run.run_state for run in runs)
    for run in runs:
        if run.left_out_text and args.chart in {"cdf", "boxes"}:
            print(f"{run.prefix}: {run.left_out_text}")
    options = PlotOptions(args.measure, _tau_s(args, runs), args.scale, width, begin_s, end_s, args.color, args.by)
    _print_result(args.output, draw(args.chart, runs, args.output, options))
    run_end.check((run.run_state for run in runs), partial=args.partial)
    return 0


def _relabelled(runs: Sequence[SavedRun], prefixes: Sequence[str], given: Sequence[str]) -> list[SavedRun]:
    """Return runs with new names: one for each run, or OLD=NEW for some runs or policies. Raises InputError."""
    known = [run.label for run in runs]
    of_policies = _by_old_name([name for name in policies_of(runs) if name not in {*known, *prefixes}], given)
    of_runs = [label for label in given if not any(label == f"{old}={new}" for old, new in of_policies.items())]
    labels = dict(zip(known, relabelled(known, of_runs, prefixes), strict=True))
    return renamed(runs, of_policies | {old: new for old, new in labels.items() if old != new})


def _tau_s(args: argparse.Namespace, runs: Sequence[SavedRun]) -> float:
    """Return the bound of bounded slowdowns. Runs may have different ones if the chart shows none."""
    is_by_tau = args.chart in {"cdf", "boxes"} and args.measure == "bounded_slowdown"
    return common_tau_s(runs if is_by_tau else [], args.tau)


def _plot_campaign(args: argparse.Namespace) -> int:
    """Draw a chart of a campaign."""
    (folder,) = args.runs
    if args.chart not in campaign_charts.KINDS:
        raise InputError(f"{args.chart}: expected runs; charts of a campaign are {', '.join(campaign_charts.KINDS)}")
    for name, value in (
        ("-w", args.workload),
        ("--from", args.from_at),
        ("--to", args.to_at),
        ("--color", args.color != "auto"),
        ("--by", args.by != "auto"),
    ):
        if value:
            raise InputError(f"{name}: works only with runs, not with a campaign; remove it")
    store = Store(folder)
    arguments.refuse_to_overwrite(args.output, store.files_read())
    points = points_of(store)
    options = CampaignPlotOptions(
        figure=args.measure,
        baseline=args.baseline or store.manifest()["spec"].get("baseline", ""),
        policy=args.policy,
        each=args.each,
        scale=args.scale,
        width=chart_style.width_of(args.width) if args.width else None,
        only=args.only,
        labels=_labels(points, args.label),
    )
    _print_result(args.output, campaign_charts.draw(args.chart, points, args.output, options))
    missing = [
        point
        for point in campaign_charts.chosen(points, args.only)
        if point.figures is None and args.policy in {"", point.policy}
    ]
    campaign_runner.say_missing(folder, len(missing))
    return 0


def _labels(points: Sequence[Point], given: Sequence[str]) -> dict[str, str]:
    """Read new names of policies, settings and workloads. Raises InputError."""
    known = campaign_charts.names_in(points)
    labels = _by_old_name(known, given)
    for label in given:
        if not any(label == f"{old}={new}" and new.strip() for old, new in labels.items()):
            raise InputError(f"--label {label:.60}: expected OLD=NEW, where OLD is one of {', '.join(known)}")
    return labels


def _by_old_name(known: Sequence[str], given: Sequence[str]) -> dict[str, str]:
    """Return new names by old ones, each given as OLD=NEW. OLD may contain =, as in `easy (order=sjf)=SJF`."""
    return {name: label[len(name) + 1 :] for label in given for name in known if label.startswith(f"{name}=")}


def _print_result(path: str, what: str) -> None:
    """Print one line with the written file and its content."""
    size = Path(path).stat().st_size
    print(f"{path}: {what}; {f'{size / 1e6:.1f} MB' if size >= 1e6 else f'{size / 1e3:.1f} kB'}")
