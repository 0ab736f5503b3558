"""What is different about a Batsim 5 that is started by us: its options, and the files that it writes.

Its files are made to look like Batsim 4's, so that whatever reads a run reads both: `_schedule.csv` is made from its
`_schedule.json`, and `_jobs.csv` gets the notes on jobs that Batsim 5 itself is not told (which job goes on as which)
and profiles by their names in their workload. Everything else in it is as Batsim wrote it.
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

#: Where the user says what we say to Batsim ourselves.
_SOCKET: Final = "the socket between scheduler and Batsim is found without you"
OURS: Final = {
    "--platform": "give -p before the --",
    "--workload": "give -w before the --",
    "--export": "give -e before the --",
    "--edc-socket-str": _SOCKET,
    "--edc-socket-file": _SOCKET,
    "--edc-library-str": "the scheduler is pybatsched itself",
    "--edc-library-file": "the scheduler is pybatsched itself",
    "--config": "give its options one by one",
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
#: Columns by which notes are written. Who reads the file tells of one that is missing.
_ANEW: Final = {"job_id", "workload_name", "profile", "metadata"}
_NO_NUMBER: Final = re.compile(rb"(:\s*)(-?(?:nan|inf))\b")
#: Options of Batsim 4 that a scheduler asks for itself, and others that are gone, with what to do instead.
_GONE: Final = {
    "--enable-dynamic-jobs": "the scheduler asks for it itself",
    "--acknowledge-dynamic-jobs": "the scheduler asks for it itself",
    "--enable-profile-reuse": "the scheduler asks for it itself",
    "--forward-profiles-on-submission": "the scheduler asks for it itself",
    "--forward-unknown-events": "all events are passed on",
    "--events": "its --external-events have another format: pybatsched workload events --for batsim5",
    "--sched-cfg": "give options of the policy with -o",
    "--sched-cfg-file": "give options of the policy with --config",
    "--add-role-to-hosts": "it is --add-role HOST ROLE there",
    "--socket-endpoint": _SOCKET,
}


def is_five(version: str) -> bool:
    """Tell whether a version of Batsim is one that speaks the new protocol.

    >>> is_five("5.0.0-rc2"), is_five("4.2.1"), is_five("oarteam/batsim:4.0.0")
    (True, False, False)
    """
    major = version.partition(".")[0]
    return major.isdecimal() and int(major) >= 5


def check_gone(options: Mapping[str, list[str]]) -> None:
    """Raise InputError for an option that only Batsim 4 has."""
    for name in options:
        if name in _GONE:
            raise InputError(f"{name!r} among the arguments for Batsim: Batsim 5 has no such option; {_GONE[name]}")


def prefix_of(prefix: str) -> str:
    """Give the prefix of its files by which they are called as those of Batsim 4. It cannot do without a directory."""
    return os.path.abspath(f"{prefix}_")  # noqa: PTH100  with its mark: `out/` is the begin of names in out


def settle_files(prefix: str, notes: Mapping[str, str], *, is_whole: bool) -> None:
    """Make the files of a run look like Batsim 4's, as far as they are there. O(jobs).

    Raises InputError for one that cannot be read or written. Of a run that is not `is_whole` such a file stays as it
    is: something else has gone wrong, which is to be told.
    """
    schedule, jobs = Path(f"{prefix}_schedule.json"), Path(f"{prefix}_jobs.csv")
    with contextlib.nullcontext() if is_whole else contextlib.suppress(InputError):
        if jobs.exists():
            _write_notes(jobs, notes)
        if schedule.exists():
            _write_schedule(schedule, Path(f"{prefix}_schedule.csv"))


def _write_schedule(source: Path, target: Path) -> None:
    try:
        # Means of no job at all are written as nan, which is no JSON.
        said = msgspec.json.decode(_NO_NUMBER.sub(rb'\1"\2"', source.read_bytes()))
        if type(said) is not dict:
            raise ValueError("it is no object")
        with target.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([said.keys(), said.values()])
    except OSError as error:
        raise InputError(f"cannot make {target} of {source}: {error.strerror}") from None
    except (ValueError, msgspec.DecodeError) as error:
        raise InputError(f"{source}: cannot be read: {error}") from None


def _write_notes(path: Path, notes: Mapping[str, str]) -> None:
    """Write the file anew, row by row; one that ends in the middle of a row, or of a letter, ends there again."""
    aside = path.with_name(f"{path.name}.new")
    try:
        _copy_with_notes(path, aside, notes)
        aside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written with the notes on jobs: {error.strerror}") from None


def _copy_with_notes(path: Path, aside: Path, notes: Mapping[str, str]) -> None:
    said_as: Final[Any] = {"newline": "", "encoding": "utf-8", "errors": "surrogateescape"}
    with path.open(**said_as) as old, aside.open("w", **said_as) as new:
        names = old.readline()
        new.write(names)
        places = {name: place for place, name in enumerate(names.rstrip("\n").split(","))}
        for line in old:
            row = line.rstrip("\n").split(",")
            if line.endswith("\n") and len(row) == len(places) and places.keys() >= _ANEW:
                workload = row[places["workload_name"]]
                row[places["profile"]] = row[places["profile"]].removeprefix(f"{workload}!")
                note = notes.get(f"{workload}!{row[places['job_id']]}", "")
                row[places["metadata"]] = f'"{note}"'
                new.write(",".join(row) + "\n")
            else:
                new.write(line)
