"""Read the command line of Batsim 4.2.1 (and 3.1.0, a subset) as Batsim does.

Names may be abbreviated if unambiguous. Values follow a blank or an equals sign; the value of a short option may follow
it directly. An option that is not repeatable must not be given twice. An empty argument is not a value. ``--help``
works even with unknown options.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

#: The values that `Given.one` returns for options that are not given.
DEFAULTS: Final[Mapping[str, str]] = {
    "--master-host": "master_host",
    "--socket-endpoint": "tcp://localhost:28000",
    "--redis-hostname": "127.0.0.1",
    "--redis-port": "6379",
    "--redis-prefix": "default",
    "--export": "out",
    "--mmax": "0",
    "--verbosity": "information",
    "--workflow-jobs-limit": "0",
}

#: More digits than any 32-bit number has, except for leading zeros.
_MAX_DIGITS: Final = 40


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its names, the long one last, and its number of values."""

    names: tuple[str, ...]
    n_values: int = 0
    is_repeated: bool = False

    @property
    def name(self) -> str:
        """The long name."""
        return self.names[-1]


OPTIONS: Final = (
    Option(("-p", "--platform"), 1),
    Option(("-w", "--workload"), 1, is_repeated=True),
    Option(("-W", "--workflow"), 1, is_repeated=True),
    Option(("--WS", "--workflow-start"), 2, is_repeated=True),
    Option(("--events",), 1, is_repeated=True),
    Option(("-m", "--master-host"), 1),
    Option(("-r", "--add-role-to-hosts"), 1, is_repeated=True),
    Option(("-E", "--energy")),
    Option(("-s", "--socket-endpoint"), 1),
    Option(("--enable-redis",)),
    Option(("--redis-hostname",), 1),
    Option(("--redis-port",), 1),
    Option(("--redis-prefix",), 1),
    Option(("-e", "--export"), 1),
    Option(("--disable-schedule-tracing",)),
    Option(("--disable-machine-state-tracing",)),
    Option(("--mmax",), 1),
    Option(("--mmax-workload",)),
    Option(("--forward-profiles-on-submission",)),
    Option(("--enable-dynamic-jobs",)),
    Option(("--acknowledge-dynamic-jobs",)),
    Option(("--enable-profile-reuse",)),
    Option(("-v", "--verbosity"), 1),
    Option(("-q", "--quiet")),
    Option(("--workflow-jobs-limit",), 1),
    Option(("--ignore-beyond-last-workflow",)),
    Option(("--dump-execution-context",)),
    Option(("--enable-compute-sharing",)),
    Option(("--disable-storage-sharing",)),
    Option(("--no-sched",)),
    Option(("--sched-cfg",), 1),
    Option(("--sched-cfg-file",), 1),
    Option(("--sg-cfg",), 1, is_repeated=True),
    Option(("--sg-log",), 1, is_repeated=True),
    Option(("--forward-unknown-events",)),
    Option(("-h", "--help")),
    Option(("--version",)),
    Option(("--simgrid-version",)),
    Option(("--unittest",)),  # of 3.1.0
    Option(("--link",), 1),  # ours, and
    Option(("--curve",), 1),
)

USAGE: Final = """\
usage: pybatsched batsim -p FILE [-w FILE]... [--events FILE]... [options]
       pybatsched batsim --help | --version | --simgrid-version
       pybatsched batsim --link DIR

Batsim's command line for the embedded simulator: it behaves like Batsim 4.2.1. With --link it puts an executable named
batsim into a directory, for PATH=DIR:$PATH, so that every program that starts batsim starts this one.

inputs:
  -p, --platform FILE               the SimGrid platform
  -w, --workload FILE               a workload (JSON); repeatable: w0, w1, ...
  --events FILE                     external events; repeatable
  -m, --master-host NAME            the host without jobs (default master_host)
  -r, --add-role-to-hosts H,H:ROLE  the role of hosts: master, storage, compute_node; repeatable
  -E, --energy                      simulate energy, and write its files
  --mmax N                          use at most N machines (default 0: all)
  --mmax-workload                   use as many machines as the workloads require (nb_res)

scheduler:
  -s, --socket-endpoint ENDPOINT    the endpoint of the scheduler (default tcp://localhost:28000)
  --sched-cfg TEXT                  its configuration, sent in the first message
  --sched-cfg-file FILE             its configuration, read from a file
  --curve DIR                       only here: encrypt with the keys from `pybatsched keys DIR`
  --no-sched                        no scheduler: all jobs start at 0 on the first machines
  --forward-profiles-on-submission  send the profile with each job
  --enable-dynamic-jobs             allow it to register jobs and profiles
  --acknowledge-dynamic-jobs        send JOB_SUBMITTED for registered jobs
  --enable-profile-reuse            keep profiles after their jobs have ended
  --forward-unknown-events          forward external events of unknown types

machines:
  --enable-compute-sharing          several jobs may share a processor
  --disable-storage-sharing         only one job at a time may use a storage host

output:
  -e, --export PREFIX               prefix of all files (default out): PREFIX_jobs.csv, PREFIX_schedule.csv, ...
  --disable-schedule-tracing        write no PREFIX_schedule.trace
  --disable-machine-state-tracing   write no PREFIX_machine_states.csv
  -v, --verbosity LEVEL             quiet, network-only, information (default) or debug
  -q, --quiet                       same as -v quiet
  --dump-execution-context          print the endpoint and the prefix as JSON, without a run

accepted and ignored: --sg-log, --sg-cfg of parts that this simulator does not have, redis options without
--enable-redis, --workflow-jobs-limit and --ignore-beyond-last-workflow without workflows.
rejected, because the simulator is not SimGrid and has no workflows: --enable-redis, -W, --WS, --unittest, other
--sg-cfg, and workloads with MPI profiles.

exit codes: 0 success, or a deadlock (as in Batsim: see the outputs); 1 to 127 unreadable files (1 platform, 2 workload
or events, 4 workflow); 255 usage; abort (134 in a shell) where Batsim aborts; 2 also for input that only Batsim can
simulate; 4 the scheduler is gone; 5 the scheduler keeps requesting calls (Batsim would continue).
"""


class UsageError(Exception):
    """The command line is not valid for Batsim; the text has the reason."""


@dataclass(slots=True)
class Given:
    """The options of the command line, by long names."""

    values: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Return whether an option was given."""
        return name in self.values

    def one(self, name: str) -> str:
        """Return the value of an option, or Batsim's default."""
        return self.values[name][0][0] if name in self.values else DEFAULTS.get(name, "")

    def integer(self, name: str) -> int | None:
        """Return the 32-bit integer at the start of a value, as C++ does, or None. A port has no other text."""
        found = re.match(r"\s*([+-]?[0-9]+)(.*)", self.one(name), re.ASCII | re.DOTALL)
        if found is None or (found[2] and name == "--redis-port"):
            return None
        number = int(found[1]) if len(found[1]) < _MAX_DIGITS else None
        return number if number is not None and -(2**31) <= number < 2**31 else None

    def all(self, name: str) -> list[str]:
        """Return the values of a repeatable option."""
        return [values[0] for values in self.values.get(name, [])]


def read(argv: Sequence[str]) -> Given:
    """Read a command line. Raises UsageError."""
    given = Given()
    unknown: list[str] = []
    left = list(argv)
    while left:
        word = left.pop(0)
        if word.startswith("--") and word != "--":
            name, equals, value = word.partition("=")
            option = _long(name)
            if option is None:
                unknown.append(f"unknown option {name}")
                continue
            if equals and option.n_values == 0:
                raise UsageError(f"{option.name}: expected no value, found {value!r}")
            _take(given, option, [value] if equals else [], left)
        elif word.startswith("-") and word not in {"-", "--"}:
            unknown += _take_short(given, word, left)
        else:
            unknown.append(f"unexpected argument {word!r}")
    if unknown and not any(map(given.has, ("--help", "--version"))):
        raise UsageError(unknown[0])
    _check(given)
    return given


def _long(name: str) -> Option | None:
    exact = [option for option in OPTIONS if name in option.names]
    found = exact or [option for option in OPTIONS if any(known.startswith(name) for known in option.names)]
    if len(found) > 1:
        raise UsageError(f"{name} is ambiguous: expected {' or '.join(option.name for option in found)}")
    return found[0] if found else None


def _take_short(given: Given, word: str, left: list[str]) -> list[str]:
    """Read short options after one dash; the last may be followed by its value. Return errors of unknown options."""
    letters, unknown = word[1:], []
    while letters:
        name, letters = f"-{letters[0]}", letters[1:]
        option = next((option for option in OPTIONS if name in option.names), None)
        if option is None:
            unknown.append(f"unknown option {name}")
            continue
        if option.n_values:
            _take(given, option, [letters] if letters else [], left)
            break
        _take(given, option, [], left)
    return unknown


def _take(given: Given, option: Option, values: list[str], left: list[str]) -> None:
    while len(values) < option.n_values:
        if not left or left[0] in {"", "--"}:  # after an equals sign, these are values
            raise UsageError(f"{option.name} requires {'a value' if option.n_values == 1 else 'two values'}")
        values.append(left.pop(0))
    if option.name in given.values and not option.is_repeated:
        raise UsageError(f"{option.name}: expected once, found twice")
    given.values.setdefault(option.name, []).append(tuple(values))


def _check(given: Given) -> None:
    if given.has("--simgrid-version") and len(given.values) > 1 and not any(map(given.has, ("--help", "--version"))):
        raise UsageError("--simgrid-version: expected no other options")
    alone = ("--help", "--version", "--simgrid-version", "--unittest", "--link")
    if not any(map(given.has, alone)) and not given.has("--platform"):
        raise UsageError("-p FILE is missing; expected a platform")
    if given.has("--sched-cfg") and given.has("--sched-cfg-file"):
        raise UsageError("--sched-cfg and --sched-cfg-file exclude each other")
