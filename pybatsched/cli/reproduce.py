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
run again with --retry-failed.
exit codes: 0 all claims hold; 7 a claim does not hold, or a cell failed. Claims that cannot be reproduced are measured
but do not count.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `reproduce`."""
    add = parser.add_argument
    add(
        "study",
        nargs="?",
        metavar="STUDY",
        help=f"one of {', '.join(studies.names())}; without it, all studies are listed",
    )
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
    _check_logs(study, folders, quick=args.quick)
    lacking = {} if args.quick else _missing_logs(spec, folders)
    process.raise_interrupted()
    with Store(folder) as store:
        campaign_runner.check_same_campaign(store, spec)
        progress = campaign_runner.run(
            args, spec, store, folders, f"pybatsched reproduce {study.name}{' --quick' * args.quick}"
        )
        rows = table.frame(store)
    if not args.quiet:
        arguments.say(campaign_runner.outcome_text(progress, folder))
    verdicts = [studies.judge(claim, rows, lacking) for claim in claims]
    lines = [("claim", "published", "measured", "verdict")]
    lines += [(one.claim.says, one.claim.expected, _shown(one.value), one.word) for one in verdicts]
    print(study.title)
    print("\n".join(aligned(lines, "lrrl")))
    for why, n in Counter(one.claim.why for one in verdicts if one.claim.why).items():
        print(f"not reproducible ({n}): {why}")
    for name, n in Counter(one.claim.needs for one in verdicts if one.lacking).items():
        print(f"not measured ({n}): {' '.join(lacking[name])} is missing")
    write_text(store.folder / "verdicts.md", [_as_markdown(study, verdicts)])
    if not rows.is_empty():
        _write_page(store)
    if progress.n_failed:
        arguments.say(
            f"pybatsched campaign status {folder} shows the errors; --retry-failed runs the failed cells again"
        )
    return 7 if progress.n_failed or not all(one.holds for one in verdicts) else 0


def _check_logs(study: studies.Study, folders: list[Path], *, quick: bool) -> None:
    """Raise InputError that names missing logs and how to get them, before anything runs."""
    parts = () if quick else [part for part in study.campaign.workload if not part.optional]
    wanted = dict.fromkeys(file for part in parts for file in part.sources)
    for folder in folders if wanted else ():
        if not folder.is_dir():
            raise InputError(f"--traces {folder}: there is no such directory; expected one with the logs of the study")
        for file in wanted:
            if (folder / file).is_file():
                try:
                    archive.check(folder / file)
                except BrokenPromiseError as error:
                    raise InputError(str(error)) from None
    missing = [file for file in wanted if not any((folder / file).is_file() for folder in folders)]
    if missing:
        names = " ".join(missing)
        raise InputError(
            f"study {study.name}: {quantity(len(missing), 'log')} missing: {names}. Use --traces DIR or set {TRACES}. "
            f"To download: pybatsched traces get {names} --output DIR. To run without logs: --quick"
        )


def _missing_logs(spec: Spec, folders: list[Path]) -> dict[str, list[str]]:
    """Return the missing files of each optional workload whose logs are not all available."""
    missing = {
        part.name: [file for file in part.sources if not any((folder / file).is_file() for folder in folders)]
        for part in spec.workload
        if part.optional
    }
    return {name: files for name, files in missing.items() if files}


def _as_markdown(study: studies.Study, verdicts: list[studies.Verdict]) -> str:
    """Write the verdicts as a page, with the source of each claim."""
    lines = [f"# {study.title}", "", study.about, "", "| claim | source | published | measured | verdict |"]
    lines += ["|---|---|---|---|---|"]
    for one in verdicts:
        claim = one.claim
        verdict = f"{one.word}: {claim.why}" if claim.why else one.word
        lines.append(f"| {claim.says} | {claim.source} | {claim.expected} | {_shown(one.value)} | {verdict} |")
    return "\n".join([*lines, ""])


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _write_page(store: Store) -> None:
    try:
        from pybatsched.report import page  # noqa: PLC0415  Bokeh is an extra
    except ImportError:
        return
    path = store.folder / "report.html"
    write_text(path, [page.of_campaign(store)])
    print(f"the page: {path}")
