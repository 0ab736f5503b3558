"""Print the planned area of each memory class, for the option `areas` of policies for single nodes."""

from __future__ import annotations

import argparse
import json
from typing import Final

from pybatsched.cli.common import arguments
from pybatsched.cli.common.inputs import PLATFORM_HELP
from pybatsched.errors import quantity
from pybatsched.machines import names
from pybatsched.platform.groups import nodes_by_memory
from pybatsched.workload import load
from pybatsched.workload.areas import planned_areas
from pybatsched.workload.walltimes import plain

SUMMARY: Final = "Print the planned area of each memory class of a machine, as JSON."
EPILOG: Final = """\
examples:
  pybatsched workload areas w.json -p rackham         prints, for example, {"128": 52093.1, "256": 12840, "1024": 0}
  pybatsched workload areas w.json -p my_platform.xml > areas.json

The area of a class is the sum of cores x walltime of its jobs, divided by its nodes. See docs/workloads.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options."""
    parser.add_argument("file", metavar="FILE", help="a Batsim workload (JSON), or a log (SWF, Rackham)")
    parser.add_argument("-p", "--platform", required=True, metavar="FILE|NAME", help=PLATFORM_HELP)


def run(args: argparse.Namespace) -> int:
    """Print the areas as JSON, and the number of jobs that fit no class on standard error."""
    n_nodes = nodes_by_memory(names.find(args.platform).read())
    areas = planned_areas(load(args.file), n_nodes)
    if areas.left_out:
        more = ", ..." if len(areas.left_out) > 1 else ""
        arguments.say(
            f"{args.file}: {quantity(len(areas.left_out), 'job')} left out, which need more than the "
            f"{max(n_nodes):g} GB of the largest node (job {areas.left_out[0]}{more})"
        )
    print(json.dumps({str(plain(memory_gb)): area for memory_gb, area in areas.by_class.items()}))
    return 0
