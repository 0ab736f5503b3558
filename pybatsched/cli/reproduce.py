"""Run a published study again and check each of its numbers."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pybatsched.campaign import studies, table
from pybatsched.campaign.all_cells import Progress
from pybatsched.campaign.spec import Spec
from pybatsched.campaign.store import Store
from pybatsched.cli.common import arguments, campaign_runner, process
from pybatsched.cli.traces import TRACES
from pybatsched.errors import BrokenPromiseError, InputError, quantity
from pybatsched.text_table import aligned
from pybatsched.version import __version__
from pybatsched.workload import archive
from pybatsched.workload.formats.files import write_text

EPILOG: Final = """\
examples:
  pybatsched reproduce easy --quick                   on random workloads, in less than a minute
  pybatsched reproduce easy --traces ~/traces         on the logs of the study
  pybatsched reproduce --all --traces ~/traces        all studies, and a page with a line for each
  pybatsched reproduce easy --traces ~/traces --dask tcp://head:8786   on a Dask cluster
  pybatsched traces get all --output ~/traces         download them first

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
    add("--all", action="store_true", help="run all studies and write a page with a line for each")
    add("--traces", default=os.environ.get(TRACES), metavar="DIR", help=f"where the logs are (default: ${TRACES})")
    add("--quick", action="store_true", help="run a small version on random workloads, without logs")
    add(
        "--output",
        metavar="DIR",
        help="directory of the results (default out/reproduce-STUDY; with --all out, for the directories of studies)",
    )
    campaign_runner.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the campaign of a study, judge its claims and write the page."""
    if args.all:
        if args.study is not None:
            raise InputError(f"--all: expected no study, found {args.study!r:.60}")
        return _run_all(args)
    if args.study is None or args.list:
        for name in studies.names():
            print(f"{name:<16} {_title_of(name)}")
        return 0
    study = studies.read_study(args.study)
    return _reproduced(args, study, args.output or f"out/{_folder_of(study.name, args)}")[1]


def _title_of(name: str) -> str:
    """Return the title of a study, or why it cannot be read: the other studies are still listed."""
    try:
        return studies.read_study(name).title
    except InputError as error:
        return f"(cannot be read: {error})"


def _folder_of(name: str, args: argparse.Namespace) -> str:
    return f"reproduce-{name}{'-quick' if args.quick else ''}"


def _run_all(args: argparse.Namespace) -> int:
    """Run all studies, and write the page with a line for each. Studies without any log are left out."""
    output, codes, outcomes = Path(args.output or "out"), [0], {}
    for name in studies.names():
        folder = _folder_of(name, args)
        try:
            outcome, code = _reproduced(args, studies.read_study(name), str(output / folder))
        except InputError as error:
            arguments.say(f"{name}: {error}")
            continue
        codes.append(code)
        outcomes[folder] = outcome
        print()
    if not outcomes:
        raise InputError("no study could be run")
    for outcome in outcomes.values():
        print(f"{outcome.study.name:<16} {outcome.sentence}")
    try:
        from pybatsched.report import page, study as study_page  # noqa: PLC0415  matplotlib is an extra
    except ImportError:
        return max(codes)
    path = output / f"studies{'-quick' if args.quick else ''}.html"
    lines = [study_page.summary_of(outcome, f"{folder}/report.html") for folder, outcome in outcomes.items()]
    write_text(path, [page.of_studies(lines, is_quick=args.quick)])
    print(f"the page: {path}")
    return max(codes)


def _reproduced(args: argparse.Namespace, study: studies.Study, folder: str) -> tuple[studies.StudyOutcome, int]:
    """Run a study in a directory, print its claims and write its page; return its outcome and the exit code."""
    spec = study.quick_campaign if args.quick else study.campaign
    claims = study.quick_claims if args.quick else study.claims
    folders = [Path(args.traces)] if args.traces else []
    missing = _missing_logs(study, spec, folders)
    spec = spec.model_copy(
        update={"workload": tuple(part.model_copy(update={"optional": True}) for part in spec.workload)}
    )
    process.raise_interrupted()
    begun_at = time.monotonic()
    with Store(folder) as store:
        campaign_runner.check_same_campaign(store, spec)
        progress = campaign_runner.run(
            args, spec, store, folders, f"pybatsched reproduce {study.name}{' --quick' * args.quick}"
        )
        rows = table.frame(store)
        took_s, machine = _timed(store, args, progress, time.monotonic() - begun_at)
    if not args.quiet:
        arguments.say(campaign_runner.outcome_text(progress, folder))
    code = campaign_runner.say_losses(store)
    verdicts = [studies.judge(claim, rows, sorted(missing.keys() & studies.needed(claim, spec))) for claim in claims]
    outcome = studies.StudyOutcome(study, args.quick, tuple(verdicts), took_s, progress.n_cells, machine)
    _print(outcome, missing)
    write_text(store.folder / "verdicts.md", [_as_markdown(outcome)])
    if not rows.is_empty():
        _write_page(store, outcome)
    if progress.n_failed:
        arguments.say(
            f"pybatsched campaign status {folder} shows the errors; --retry-failed runs the failed cells again"
        )
    return outcome, 7 if progress.n_failed or not all(one.holds for one in verdicts) else code


def _print(outcome: studies.StudyOutcome, missing: Mapping[str, Sequence[str]]) -> None:
    """Print the claims with published and measured values, then variants, and what could not be judged."""
    print(outcome.study.title)
    lines = [("claim", "published", "measured", "verdict")]
    lines += [(one.claim.says, one.claim.expected, one.measured, one.word) for one in outcome.judged]
    print("\n".join(aligned(lines, "lrrl")))
    if outcome.variants:
        lines = [("variant of our own", "published for the original", "measured", "")]
        lines += [(one.claim.says, one.claim.expected, one.measured, "") for one in outcome.variants]
        print("\n".join(line.rstrip() for line in aligned(lines, "lrrl")))
    for why, n in Counter(one.claim.why for one in outcome.judged if one.claim.why).items():
        print(f"not reproducible ({n}): {why}")
    lacking = [one for one in outcome.verdicts if one.missing]
    for names, n in Counter(one.missing for one in lacking).items():
        files = dict.fromkeys(file for name in names for file in missing[name])
        print(f"not measured ({n}): missing {' '.join(files)}")
    if lacking:
        of = quantity(len(outcome.verdicts), "claim")
        print(f"{len(lacking):,} of {of} could not be checked, because logs are missing")
    print(outcome.sentence)


def _timed(store: Store, args: argparse.Namespace, progress: Progress, wall_s: float) -> tuple[float, str]:
    """Return the time of all runs of this study in its directory, and the machine; keep both in the directory.

    A run that finds all cells done does not count.
    """
    path = store.folder / "reproduced.json"
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        before_s, machine = float(before["wall_s"]), str(before["machine"])
    except (OSError, ValueError, TypeError, KeyError):
        before_s, machine = 0.0, ""
    if not machine or progress.n_done:
        before_s, machine = before_s + wall_s, _machine(args)
        write_text(path, [json.dumps({"wall_s": before_s, "machine": machine}, indent=1), "\n"])
    return before_s, machine


def _machine(args: argparse.Namespace) -> str:
    """Return what runs the cells: processor, cores, and versions."""
    versions = f"pybatsched {__version__}, Python {platform.python_version()}"
    if args.dask or args.on:
        return f"{f'jobs of {args.on}' if args.on else 'a Dask cluster'}, {versions}"
    try:
        found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        found = None
    model = found[1].strip() if found else platform.processor() or platform.machine()
    n_workers = args.workers or os.cpu_count() or 1
    return f"{quantity(n_workers, 'worker')}, {model} ({quantity(os.cpu_count() or 1, 'core')}), {versions}"


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


def _as_markdown(outcome: studies.StudyOutcome) -> str:
    """Write the verdicts as a page, with the source of each claim."""
    lines = [f"# {outcome.study.title}", "", f"**{outcome.sentence}**", "", outcome.study.about, ""]
    lines += ["| claim | source | published | measured | verdict |", "|---|---|---|---|---|"]
    for one in (*outcome.judged, *outcome.variants):
        claim = one.claim
        verdict = f"{one.word}: {claim.why}" if claim.why else one.word
        lines.append(f"| {claim.says} | {claim.source} | {claim.expected} | {one.measured} | {verdict} |")
    return "\n".join([*lines, ""])


def _write_page(store: Store, outcome: studies.StudyOutcome) -> None:
    try:
        from pybatsched.report import page  # noqa: PLC0415  matplotlib is an extra
    except ImportError:
        return
    path = store.folder / "report.html"
    write_text(path, [page.of_study(store, outcome)])
    print(f"the page: {path}")
