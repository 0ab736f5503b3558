"""Differences of Batsim 5 as a child process: its options, and its output files.

Its files are converted to the format of Batsim 4, so that every reader of a run reads both. `_schedule.csv` is written
from its `_schedule.json`. In `_jobs.csv`, profiles get their names in the workload, and jobs get the metadata that
Batsim 5 does not receive (which job continues which). All other content is unchanged.
"""

from __future__ import annotations

import contextlib
import csv
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from pybatsched.errors import InputError
from pybatsched.live.batsim_options import Option

#: Options that pybatsched passes to Batsim, and how the user sets them instead.
_SOCKET: Final = "pybatsched sets the socket between scheduler and Batsim"
OURS: Final = {
    "--platform": "give -p before the --",
    "--workload": "give -w before the --",
    "--export": "give -e before the --",
    "--edc-socket-str": _SOCKET,
    "--edc-socket-file": _SOCKET,
    "--edc-library-str": "pybatsched is the scheduler",
    "--edc-library-file": "pybatsched is the scheduler",
    "--config": "give its options on the command line",
}
OPTIONS: Final = (
    Option(("-p", "--platform"), 1),
    Option(("-w", "--workload"), 1, is_repeated=True),
    Option(("--ee", "--external-events"), 1, is_repeated=True),
    Option(("-e", "--export"), 1),
    Option(("--trace-machine-state",)),
    Option(("--trace-pstate-changes",)),
    Option(("--trace-probe-data",), 1),
    Option(("-l", "--edc-library-str"), 2),
    Option(("-L", "--edc-library-file"), 2),
    Option(("-s", "--edc-socket-str"), 2),
    Option(("-S", "--edc-socket-file"), 2),
    Option(("--edc-library-load-method",), 1),
    Option(("-m", "--master-host"), 1),
    Option(("-r", "--add-role"), 2, is_repeated=True),
    Option(("--mmax",), 1),
    Option(("--mmax-workload",)),
    Option(("--energy-host",)),
    Option(("--energy-link",)),
    Option(("-E", "--energy")),
    Option(("--sg-cfg",), 1, is_repeated=True),
    Option(("-v", "--verbosity"), 1),
    Option(("-q", "--quiet")),
    Option(("--sg-log",), 1, is_repeated=True),
    Option(("-c", "--config"), 1),
    Option(("--gen-config",), 1),
)
#: Columns that are needed to write notes. Readers of the file report a missing column.
_NOTE_COLUMNS: Final = {"job_id", "workload_name", "profile", "metadata"}
_NO_NUMBER: Final = re.compile(rb"(:\s*)(-?(?:nan|inf))\b")
#: Options of Batsim 4 that Batsim 5 does not have, with the replacement.
_REMOVED: Final = {
    "--enable-dynamic-jobs": "the scheduler requests it",
    "--acknowledge-dynamic-jobs": "the scheduler requests it",
    "--enable-profile-reuse": "the scheduler requests it",
    "--forward-profiles-on-submission": "the scheduler requests it",
    "--forward-unknown-events": "Batsim 5 forwards all events",
    "--events": "its --external-events have another format: pybatsched workload events --for batsim5",
    "--sched-cfg": "give options of the policy with -o",
    "--sched-cfg-file": "give options of the policy with --config",
    "--add-role-to-hosts": "use --add-role HOST ROLE",
    "--socket-endpoint": _SOCKET,
}


def is_five(version: str) -> bool:
    """Return whether a version of Batsim uses the protocol of Batsim 5.

    >>> is_five("5.0.0-rc2"), is_five("4.2.1"), is_five("oarteam/batsim:4.0.0")
    (True, False, False)
    """
    major = version.partition(".")[0]
    return major.isdecimal() and int(major) >= 5


def check_removed(options: Mapping[str, list[str]]) -> None:
    """Raise InputError for an option that only Batsim 4 has."""
    for name in options:
        if name in _REMOVED:
            raise InputError(f"arguments for Batsim: Batsim 5 has no option {name!r}; {_REMOVED[name]}")


def prefix_of(prefix: str) -> str:
    """Return the export prefix with which its files get the names of Batsim 4. It must have a directory."""
    return os.path.abspath(f"{prefix}_")  # noqa: PTH100  keeps a trailing slash: `out/` is a prefix of names in out


def settle_files(prefix: str, notes: Mapping[str, str], *, is_whole: bool) -> None:
    """Convert the files of a run to the format of Batsim 4. O(jobs). Raises InputError, but only if it `is_whole`."""
    schedule, jobs = Path(f"{prefix}_schedule.json"), Path(f"{prefix}_jobs.csv")
    with contextlib.nullcontext() if is_whole else contextlib.suppress(InputError):
        if jobs.exists():
            _write_notes(jobs, notes)
        if schedule.exists():
            _write_schedule(schedule, Path(f"{prefix}_schedule.csv"))


def _write_schedule(source: Path, target: Path) -> None:
    try:
        # Batsim writes the means of a run without jobs as nan, which is not JSON.
        figures = msgspec.json.decode(_NO_NUMBER.sub(rb'\1"\2"', source.read_bytes()))
        if type(figures) is not dict:
            raise ValueError("it is not an object")
        with target.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([figures.keys(), figures.values()])
    except OSError as error:
        raise InputError(f"cannot write {target} from {source}: {error.strerror}") from None
    except (ValueError, msgspec.DecodeError) as error:
        raise InputError(f"{source}: cannot be read: {error}") from None


def _write_notes(path: Path, notes: Mapping[str, str]) -> None:
    """Rewrite the file row by row. A truncated last row or character is copied unchanged."""
    aside = path.with_name(f"{path.name}.new")
    try:
        _copy_with_notes(path, aside, notes)
        aside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise InputError(f"{path}: cannot write the metadata of jobs: {error.strerror}") from None


def _copy_with_notes(path: Path, aside: Path, notes: Mapping[str, str]) -> None:
    how: Final[Any] = {"newline": "", "encoding": "utf-8", "errors": "surrogateescape"}
    with path.open(**how) as old, aside.open("w", **how) as new:
        names = old.readline()
        new.write(names)
        places = {name: place for place, name in enumerate(names.rstrip("\n").split(","))}
        for line in old:
            row = line.rstrip("\n").split(",")
            if line.endswith("\n") and len(row) == len(places) and places.keys() >= _NOTE_COLUMNS:
                workload = row[places["workload_name"]]
                row[places["profile"]] = row[places["profile"]].removeprefix(f"{workload}!")
                note = notes.get(f"{workload}!{row[places['job_id']]}", "")
                row[places["metadata"]] = f'"{note}"'
                new.write(",".join(row) + "\n")
            else:
                new.write(line)
