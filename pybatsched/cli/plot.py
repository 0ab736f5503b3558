"""Draw a single figure of runs or of a campaign, as SVG, PDF or PNG."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from pybatsched.campaign.store import Store
from pybatsched.cli.common import arguments, campaign_runner, run_end
from pybatsched.errors import InputError
from pybatsched.metrics.confidence import LEVEL_TEXT
from pybatsched.metrics.figure_names import MEASURES, STRETCHES
from pybatsched.metrics.runs import common_tau_s, read_latest
from pybatsched.report import campaign_figures
from pybatsched.report.campaign.points import points_of
from pybatsched.report.figures import KINDS, FigureOptions, draw

EPILOG: Final = f"""\
figures:
  gantt          which job ran when and where, of one run
  utilisation    processors in use over time, a panel for each run
  queue          waiting jobs over time
  cdf            share of jobs up to each value of a measure
  boxes          quartiles of a measure, whiskers at 5 and 95 per cent, means marked

figures of a campaign, by its directory, as on its page:
  boxes          a figure of its table for each value of the options, by family of workloads
  ratios         ratios of the figure to a baseline on the same workload, platform and seed
  means          means of the figure with {LEVEL_TEXT} confidence intervals, by Student's t over weeks or seeds
  mean-ratios    means of the ratios

examples:
  pybatsched plot gantt out/easy --output gantt.pdf
  pybatsched plot cdf out/fcfs out/easy --measure wait_s --output waits.svg
  pybatsched plot ratios out/study --measure mean_wait_s --baseline easy --output waits.pdf

An axis of values is logarithmic if the largest value is more than 20 times the smallest (or 1, if a value is 0);
--scale changes this, and the printed line shows the result. --scale log of a campaign's figure needs values above 0.
Time axes are in days, hours, minutes or seconds, by their length. Needs matplotlib: pip install 'pybatsched[plot]'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `plot`."""
    add = parser.add_argument
    add("figure", choices=tuple(dict.fromkeys((*KINDS, *campaign_figures.KINDS))), help="what to draw")
    add("runs", nargs="+", metavar="PREFIX|DIR", help="runs, by the start of their file names; or one campaign")
    add("--output", required=True, metavar="FILE", help="the file to write: .svg, .pdf or .png")
    add(
        "--measure",
        default="bounded_slowdown",
        metavar="NAME",
        help=f"for cdf and boxes: {', '.join(MEASURES)}; {', '.join(STRETCHES)} of jobs with alone_s; or one of their "
        "facts; of a campaign any figure of its table (default %(default)s)",
    )
    add(
        "--scale",
        choices=("auto", "log", "linear"),
        default="auto",
        help="scale of the axis of values; not for gantt and utilisation (default %(default)s: by the range of values)",
    )
    add(
        "--baseline",
        default="",
        metavar="POLICY",
        help="of a campaign: compare with this policy (default: the baseline in its file, else its first policy)",
    )
    add("--policy", default="", metavar="LABEL", help="of a campaign: draw only this policy")
    add(
        "--each",
        default="",
        metavar="FIELD",
        help="of a campaign with `each`: a dot for each value of a job field, such as user",
    )
    arguments.add_fields_from(parser)
    arguments.add_own_tau(parser)
    run_end.add_partial(parser)


def run(args: argparse.Namespace) -> int:
    """Draw the figure."""
    if len(args.runs) == 1 and (Path(args.runs[0]) / "manifest.json").exists():
        if args.figure not in campaign_figures.KINDS:
            raise InputError(
                f"{args.figure}: expected runs; figures of a campaign are {', '.join(campaign_figures.KINDS)}"
            )
        if args.workload:
            raise InputError("-w: expected runs with it, found a campaign")
        store = Store(args.runs[0])
        arguments.refuse_to_overwrite(args.output, store.files_read())
        points = points_of(store)
        baseline = args.baseline or store.manifest()["spec"].get("baseline", "")
        about = {"figure": args.measure, "baseline": baseline, "policy": args.policy, "each": args.each}
        _print_result(args.output, campaign_figures.draw(args.figure, points, args.output, scale=args.scale, **about))
        missing = [point for point in points if point.figures is None and args.policy in {"", point.policy}]
        campaign_runner.say_missing(args.runs[0], len(missing))
        return 0
    if args.figure not in KINDS:
        raise InputError(f"{args.figure}: expected the directory of one campaign")
    for name in ("baseline", "policy", "each"):
        if getattr(args, name):
            raise InputError(f"--{name}: expected a campaign with it, found runs")
    runs = [read_latest(prefix, args.workload, newest=args.partial) for prefix in args.runs]
    arguments.refuse_to_overwrite_runs(args.output, runs, args.workload)
    runs[0].evaluated.check_measure(args.measure, *(run.evaluated for run in runs[1:]))
    run_end.introduce(run.run_state for run in runs)
    for run in runs:
        if run.left_out_text and args.figure in {"cdf", "boxes"}:
            print(f"{run.prefix}: {run.left_out_text}")
    is_by_tau = args.figure in {"cdf", "boxes"} and args.measure == "bounded_slowdown"
    tau_s = common_tau_s(runs if is_by_tau else [], args.tau)
    _print_result(args.output, draw(args.figure, runs, args.output, FigureOptions(args.measure, tau_s, args.scale)))
    run_end.check((run.run_state for run in runs), partial=args.partial)
    return 0


def _print_result(path: str, what: str) -> None:
    """Print one line with the written file and its content."""
    size = Path(path).stat().st_size
    print(f"{path}: {what}; {f'{size / 1e6:.1f} MB' if size >= 1e6 else f'{size / 1e3:.1f} kB'}")
