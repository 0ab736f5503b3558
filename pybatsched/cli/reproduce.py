"""Run a published study again and check each of its numbers."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import Final

from pybatsched.campaign import studies, table
from pybatsched.campaign.spec import Spec
from pybatsched.campaign.store import Store
from pybatsched.cli.common import arguments, campaign_runner, process
from pybatsched.cli.traces import TRACES
from pybatsched.errors import BrokenPromiseError, InputError, quantity
from pybatsched.text_table import aligned
from pybatsched.workload import archive
from pybatsched.workload.formats.files import write_text

EPILOG: Final = """\
examples:
  pybatsched reproduce backfilling --quick                   on random workloads, in less than a minute
  pybatsched reproduce backfilling --traces ~/traces         on the logs of the study
  pybatsched reproduce backfilling --traces ~/traces --dask tcp://head:8786   on a Dask cluster
  pybatsched traces get all --output ~/traces                download them first

Finished cells are kept in --output and are not run again: after an interruption, repeat the command. Failed cells are
run again with --retry-failed. Without a log, its runs are left out, and the claims about it are not measured.
exit codes: 0 no claim is false; 7 a claim does not hold, or a cell failed. Claims that cannot be reproduced are
measured but do not count. Claims that were not measured do not count either.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `reproduce`."""
    add = parser.add_argument
    add("study", nargs="?", metavar="STUDY", help="name of an installed study; without it, all studies are listed")
    add("--list", action="store_true", help="list the studies")
    add("--traces", default=os.environ.get(TRACES), metavar="DIR", help=f"where the logs are (default: ${TRACES})")
    add("--quick", action="store_true", help="run a small version on random workloads, without logs")
    add("--output", metavar="DIR", help="directory of the results (default out/reproduce-STUDY)")
    campaign_runner.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the campaign of a study, judge its claims and write the page."""
    if args.study is None or args.list:
        for name in studies.names():
            print(f"{name:<16} {studies.read_study(name).title}")
        return 0
    study = studies.read_study(args.study)
    spec = study.quick_campaign if args.quick else study.campaign
    claims = study.quick_claims if args.quick else study.claims
    folder = args.output or f"out/reproduce-{study.name}{'-quick' if args.quick else ''}"
    folders = [Path(args.traces)] if args.traces else []
    missing = _missing_logs(study, spec, folders)
    spec = spec.model_copy(
        update={"workload": tuple(part.model_copy(update={"optional": True}) for part in spec.workload)}
    )
    process.raise_interrupted()
    with Store(folder) as store:
        campaign_runner.check_same_campaign(store, spec)
        progress = campaign_runner.run(
            args, spec, store, folders, f"pybatsched reproduce {study.name}{' --quick' * args.quick}"
        )
        rows = table.frame(store)
    if not args.quiet:
        arguments.say(campaign_runner.outcome_text(progress, folder))
    code = campaign_runner.say_losses(store)
    verdicts = [studies.judge(claim, rows, sorted(missing.keys() & studies.needed(claim, spec))) for claim in claims]
    lines = [("claim", "published", "measured", "verdict")]
    lines += [(one.claim.says, one.claim.expected, one.measured, one.word) for one in verdicts]
    print(study.title)
    print("\n".join(aligned(lines, "lrrl")))
    for why, n in Counter(one.claim.why for one in verdicts if one.claim.why).items():
        print(f"not reproducible ({n}): {why}")
    lacking = [one for one in verdicts if one.missing]
    for names, n in Counter(one.missing for one in lacking).items():
        files = dict.fromkeys(file for name in names for file in missing[name])
        print(f"not measured ({n}): missing {' '.join(files)}")
    if lacking:
        print(f"{len(lacking):,} of {quantity(len(verdicts), 'claim')} could not be checked, because logs are missing")
    write_text(store.folder / "verdicts.md", [_as_markdown(study, verdicts)])
    if not rows.is_empty():
        _write_page(store, verdicts)
    if progress.n_failed:
        arguments.say(
            f"pybatsched campaign status {folder} shows the errors; --retry-failed runs the failed cells again"
        )
    return 7 if progress.n_failed or not all(one.holds for one in verdicts) else code


def _missing_logs(study: studies.Study, spec: Spec, folders: list[Path]) -> dict[str, list[str]]:
    """Return the missing files of each workload, and print how to get them. Raises InputError."""
    files = dict.fromkeys(file for part in spec.workload for file in part.sources)
    for folder in folders if files else ():
        if not folder.is_dir():
            raise InputError(f"--traces {folder}: there is no such directory; expected one with the logs of the study")
        for file in files:
            if (folder / file).is_file():
                try:
                    archive.check(folder / file)
                except BrokenPromiseError as error:
                    raise InputError(str(error)) from None
    missing = [file for file in files if not any((folder / file).is_file() for folder in folders)]
    by_workload = {part.name: [file for file in part.sources if file in missing] for part in spec.workload}
    found = {name: own for name, own in by_workload.items() if own}
    if missing:
        known = [file for file in missing if file in archive.LOGS]
        get = f" To download: pybatsched traces get {' '.join(known)} --output DIR." if known else ""
        text = (
            f"{quantity(len(missing), 'log')} missing: {' '.join(missing)}. Use --traces DIR or set {TRACES}.{get} "
            "To run without logs: --quick"
        )
        if len(found) == len(by_workload):
            raise InputError(f"study {study.name}: {text}")
        arguments.say(f"left out: {', '.join(found)}; {text}")
    return found


def _as_markdown(study: studies.Study, verdicts: list[studies.Verdict]) -> str:
    """Write the verdicts as a page, with the source of each claim."""
    lines = [f"# {study.title}", "", study.about, "", "| claim | source | published | measured | verdict |"]
    lines += ["|---|---|---|---|---|"]
    for one in verdicts:
        claim = one.claim
        verdict = f"{one.word}: {claim.why}" if claim.why else one.word
        lines.append(f"| {claim.says} | {claim.source} | {claim.expected} | {one.measured} | {verdict} |")
    return "\n".join([*lines, ""])


def _write_page(store: Store, verdicts: list[studies.Verdict]) -> None:
    try:
        from pybatsched.report import page  # noqa: PLC0415  Bokeh is an extra
    except ImportError:
        return
    path = store.folder / "report.html"
    write_text(path, [page.of_campaign(store, claims=verdicts)])
    print(f"the page: {path}")
