"""Report problems in a workload."""

from __future__ import annotations

import argparse
import json
from typing import Final

from pybatsched.cli.common import arguments
from pybatsched.cli.common.progress import loading
from pybatsched.core.fields import FieldModel, MetricFields
from pybatsched.errors import InputError, quantity
from pybatsched.policies import registry
from pybatsched.runs.workloads import check_formats
from pybatsched.workload.checks.lint import METRICS, lint
from pybatsched.workload.report import LintReport

SUMMARY: Final = "Report problems in a workload."
EPILOG: Final = """\
exit codes: 0 the file was read; 2 it cannot be read; with --strict 7 if there are problems other than notes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `workload lint`."""
    arguments.add_file(parser)
    arguments.add_workload_settings(parser, "timezone")
    parser.add_argument("--strict", action="store_true", help="exit with code 7 if there are problems other than notes")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the findings."""
    spec = arguments.workload_spec(args)
    check_formats([spec])
    with loading(f"reading {args.file}"):
        how = {"format": spec.format, "mapping": spec.mapping}
        found = lint(args.file, spec.n_procs, field_readers(), spec.timezone, **how)
    arguments.show(
        json.dumps(found.as_json(arguments.as_option), indent=1) if args.json else "\n".join(lines_of(found))
    )
    return 7 if args.strict and found.is_odd else 0


def field_readers() -> dict[str, type[FieldModel]]:
    """Return the field models of the metrics and of all installed policies. Prints policies that cannot be loaded."""
    readers: dict[str, type[FieldModel]] = {METRICS: MetricFields}
    for name in registry.available():
        try:
            readers[name] = registry.find(name).cls.JobFields
        except InputError as error:
            arguments.say(f"{error}; the job fields of this policy are not checked")
    return readers


def lines_of(found: LintReport) -> list[str]:
    """Return the findings as text, the most frequent first."""
    lines = [f"{found.source}: {found.format}, {quantity(found.n_jobs, 'job')}, {quantity(found.n_procs, 'processor')}"]
    for level, title in (("odd", "odd:"), ("note", "notes:")):
        chosen = [finding for finding in found.findings.values() if finding.level == level]
        lines += [title] * bool(chosen)
        for finding in sorted(chosen, key=lambda finding: -finding.count):
            more = ", ..." if finding.count > len(finding.places) else ""
            plural = "s" if finding.count > 1 else ""
            places = f"{found.where}{plural} {', '.join(map(str, finding.places))}{more}"
            lines += [f"{finding.count:>9,}  {finding.what}", f"{'':11}{places}", f"{'':11}convert: {finding.remedy}"]
    return lines if found.findings else [*lines, "no problems found"]
