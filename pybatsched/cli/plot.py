"""Draw a single figure of runs, as SVG, PDF or PNG."""

from __future__ import annotations

import argparse
from typing import Final

from pybatsched.cli import arguments
from pybatsched.metrics.classes import MEASURES
from pybatsched.metrics.runs import read_run
from pybatsched.report.figures import KINDS, draw

EPILOG: Final = """\
figures:
  gantt          which job ran when and where, of one run
  utilisation    processors in use over time
  queue          waiting jobs over time
  cdf            share of jobs up to each value of a measure
  boxes          quartiles of a measure, whiskers at 5 and 95 per cent, means as triangles

examples:
  pybatsched plot gantt out/easy --output gantt.pdf
  pybatsched plot cdf out/fcfs out/easy --measure wait_s --output waits.svg

It needs matplotlib: pip install 'pybatsched[plot]'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `plot`."""
    add = parser.add_argument
    add("figure", choices=tuple(KINDS), help="what to draw")
    add("runs", nargs="+", metavar="PREFIX", help="runs, by the begin of their files' names")
    add("--output", required=True, metavar="FILE", help="the file to write: .svg, .pdf or .png")
    add(
        "--measure", choices=tuple(MEASURES), default="bounded_slowdown", help="for cdf and boxes (default %(default)s)"
    )
    arguments.add_tau(parser)


def run(args: argparse.Namespace) -> int:
    """Draw the figure."""
    draw(args.figure, [read_run(prefix) for prefix in args.runs], args.output, measure=args.measure, tau_s=args.tau)
    return 0
