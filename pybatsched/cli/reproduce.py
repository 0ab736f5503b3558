"""Run a published study again, and say of each number whether it holds."""

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
  pybatsched reproduce backfilling --quick                   on drawn workloads, in under a minute
  pybatsched reproduce backfilling --traces ~/traces         on the logs of the study
  pybatsched reproduce backfilling --traces ~/traces --dask tcp://head:8786   on a Dask cluster
  pybatsched traces get all --output ~/traces                download them first

What was done before is kept in --output and not done again: after an interruption, give the same command. Cells that
failed are run again with --retry-failed.
exit codes: 0 all that should hold does; 7 something does not. What cannot be reproduced is measured all the same.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `reproduce`."""
    add = parser.add_argument
    add("study", nargs="?", metavar="STUDY", help=f"one of {', '.join(studies.names())}; without one they are listed")
    add("--list", action="store_true", help="list the studies, as without one")
    add("--traces", default=os.environ.get(TRACES), metavar="DIR", help=f"where the logs are (default: ${TRACES})")
    add("--quick", action="store_true", help="a small version on drawn workloads, without logs")
    add("--output", metavar="DIR", help="where results are kept and found again (default out/reproduce-STUDY)")
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
    places = [Path(args.traces)] if args.traces else []
    _look_for_logs(study, places, quick=args.quick)
    lacking = {} if args.quick else _left_out(spec, places)
    process.raise_interrupted()
    with Store(folder) as store:
        campaign_runner.refuse_another(store, spec)
        progress = campaign_runner.run(
            args, spec, store, places, f"pybatsched reproduce {study.name}{' --quick' * args.quick}"
        )
        rows = table.frame(store)
    if not args.quiet:
        arguments.say(campaign_runner.told(progress, folder))
    verdicts = [studies.judge(claim, rows, lacking) for claim in claims]
    lines = [("claim", "published", "measured", "verdict")]
    lines += [(one.claim.says, one.claim.expected, _shown(one.value), one.word) for one in verdicts]
    print(study.title)
    print("\n".join(aligned(lines, "lrrl")))
    for why, n in Counter(one.claim.why for one in verdicts if one.claim.why).items():
        print(f"not reproducible ({n}): {why}")
    for name, n in Counter(one.claim.needs for one in verdicts if one.lacking).items():
        print(f"not measured ({n}): {' '.join(lacking[name])} is not at hand")
    write_text(store.folder / "verdicts.md", [_as_markdown(study, verdicts)])
    if not rows.is_empty():
        _write_page(store)
    if progress.n_failed:
        arguments.say(f"pybatsched campaign status {folder} tells why; --retry-failed runs what failed again")
    return 7 if progress.n_failed or not all(one.holds for one in verdicts) else 0


def _look_for_logs(study: studies.Study, places: list[Path], *, quick: bool) -> None:
    """Say which logs are missing and how to get them, before anything runs."""
    parts = () if quick else [part for part in study.campaign.workload if not part.optional]
    wanted = dict.fromkeys(file for part in parts for file in part.sources)
    for place in places if wanted else ():
        if not place.is_dir():
            raise InputError(f"--traces {place}: there is no such directory")
        for file in wanted:
            if (place / file).is_file():
                try:
                    archive.check(place / file)
                except BrokenPromiseError as error:
                    raise InputError(str(error)) from None
    missing = [file for file in wanted if not any((place / file).is_file() for place in places)]
    if missing:
        names = " ".join(missing)
        raise InputError(
            f"study {study.name}: {quantity(len(missing), 'log')} missing: {names}. Give --traces DIR or set {TRACES}; "
            f"with a network, pybatsched traces get {names} --output DIR. Without logs: --quick"
        )


def _left_out(spec: Spec, places: list[Path]) -> dict[str, list[str]]:
    """Give the optional workloads whose logs are not at hand, each with the files that are missing."""
    missing = {
        part.name: [file for file in part.sources if not any((place / file).is_file() for place in places)]
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
        said = f"{one.word}: {claim.why}" if claim.why else one.word
        lines.append(f"| {claim.says} | {claim.source} | {claim.expected} | {_shown(one.value)} | {said} |")
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
