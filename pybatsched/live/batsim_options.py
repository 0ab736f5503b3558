"""The command line of Batsim 4.2.1 (and 3.1.0, whose options are among them), read as Batsim reads it.

Names may be cut short as long as they are clear, values stand behind a blank or an equals sign (a short option's may
stand right behind it), and what may be given once is an error when given twice. An empty word is no value. Who asks for
help gets it, whatever options there are not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

#: What `Given.one` gives of options that are not given.
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

#: No number of 32 bits has as many, zeros in front of it apart.
_MAX_DIGITS: Final = 40


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its names, the long one last, and how many values stand behind it."""

    names: tuple[str, ...]
    n_values: int = 0
    is_repeated: bool = False

    @property
    def name(self) -> str:
        """The long name."""
        return self.names[-1]


def _flag(*names: str) -> Option:
    return Option(names)


def _one(*names: str) -> Option:
    return Option(names, 1)


def _many(*names: str, n_values: int = 1) -> Option:
    return Option(names, n_values, is_repeated=True)


OPTIONS: Final = (
    _one("-p", "--platform"),
    _many("-w", "--workload"),
    _many("-W", "--workflow"),
    _many("--WS", "--workflow-start", n_values=2),
    _many("--events"),
    _one("-m", "--master-host"),
    _many("-r", "--add-role-to-hosts"),
    _flag("-E", "--energy"),
    _one("-s", "--socket-endpoint"),
    _flag("--enable-redis"),
    _one("--redis-hostname"),
    _one("--redis-port"),
    _one("--redis-prefix"),
    _one("-e", "--export"),
    _flag("--disable-schedule-tracing"),
    _flag("--disable-machine-state-tracing"),
    _one("--mmax"),
    _flag("--mmax-workload"),
    _flag("--forward-profiles-on-submission"),
    _flag("--enable-dynamic-jobs"),
    _flag("--acknowledge-dynamic-jobs"),
    _flag("--enable-profile-reuse"),
    _one("-v", "--verbosity"),
    _flag("-q", "--quiet"),
    _one("--workflow-jobs-limit"),
    _flag("--ignore-beyond-last-workflow"),
    _flag("--dump-execution-context"),
    _flag("--enable-compute-sharing"),
    _flag("--disable-storage-sharing"),
    _flag("--no-sched"),
    _one("--sched-cfg"),
    _one("--sched-cfg-file"),
    _many("--sg-cfg"),
    _many("--sg-log"),
    _flag("--forward-unknown-events"),
    _flag("-h", "--help"),
    _flag("--version"),
    _flag("--simgrid-version"),
    _flag("--unittest"),  # of 3.1.0
    _one("--link"),  # ours, and
    _one("--curve"),
)

USAGE: Final = """\
usage: pybatsched batsim -p FILE [-w FILE]... [--events FILE]... [options]
       pybatsched batsim --help | --version | --simgrid-version
       pybatsched batsim --link DIR

Batsim's command line, in front of the embedded simulator: it behaves as Batsim 4.2.1. With --link it puts an executable
named batsim into a directory, for PATH=DIR:$PATH, so that whatever starts a batsim starts this one.

inputs:
  -p, --platform FILE               the SimGrid platform
  -w, --workload FILE               a workload (JSON); repeatable: w0, w1, ...
  --events FILE                     external events; repeatable
  -m, --master-host NAME            the host that computes nothing (default master_host)
  -r, --add-role-to-hosts H,H:ROLE  the role of hosts: master, storage, compute_node; repeatable
  -E, --energy                      simulate energy, and write the files about it
  --mmax N                          use N machines at most (default 0: all)
  --mmax-workload                   use as many machines as the workloads say (nb_res)

scheduler:
  -s, --socket-endpoint ENDPOINT    where it waits (default tcp://localhost:28000)
  --sched-cfg TEXT                  its configuration, told in the first message
  --sched-cfg-file FILE             the same from a file
  --curve DIR                       ours: speak to it with the keys that `pybatsched keys DIR` has made
  --no-sched                        no scheduler: all jobs begin at once, on the first machines
  --forward-profiles-on-submission  tell the profile with each job
  --enable-dynamic-jobs             let it register jobs and profiles
  --acknowledge-dynamic-jobs        tell it of the jobs that it has registered
  --enable-profile-reuse            keep profiles whose jobs have ended
  --forward-unknown-events          pass on events of kinds that Batsim does not know

machines:
  --enable-compute-sharing          several jobs may have one processor
  --disable-storage-sharing         one job at a time may have a storage host

output:
  -e, --export PREFIX               begin of all names (default out): PREFIX_jobs.csv, PREFIX_schedule.csv, ...
  --disable-schedule-tracing        write no PREFIX_schedule.trace
  --disable-machine-state-tracing   write no PREFIX_machine_states.csv
  -v, --verbosity LEVEL             quiet, network-only, information (default) or debug
  -q, --quiet                       the same as -v quiet
  --dump-execution-context          print the endpoint and the prefix as JSON, and run nothing

understood, and without effect here: --sg-log, --sg-cfg of what this simulator has no part of, redis options without
--enable-redis, --workflow-jobs-limit and --ignore-beyond-last-workflow without workflows.
refused, because the simulator has no network and runs no workflows: --enable-redis, -W, --WS, --unittest, other
--sg-cfg, and workloads with communication, storage or MPI profiles.

exit codes: 0 all well, or all that was left could not go on (as Batsim: look at the outputs); 1 to 127 files that
cannot be read (1 platform, 2 workload or events, 4 workflow); 255 usage; abort (134 in a shell) what Batsim does not
survive; 2 also what only Batsim can do; 4 the scheduler is gone, 5 it wants to be called for ever (Batsim goes on).
"""


class UsageError(Exception):
    """The command line is none of Batsim's; the text says why."""


@dataclass(slots=True)
class Given:
    """What was given on the command line, by long names."""

    values: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Tell whether an option was given."""
        return name in self.values

    def one(self, name: str) -> str:
        """Give the value of an option, or Batsim's default."""
        return self.values[name][0][0] if name in self.values else DEFAULTS.get(name, "")

    def integer(self, name: str) -> int | None:
        """Give the whole number that a value begins with, in 32 bits, as C++ reads it; None if there is none.

        Nothing may stand behind a port.
        """
        found = re.match(r"\s*([+-]?[0-9]+)(.*)", self.one(name), re.ASCII | re.DOTALL)
        if found is None or (found[2] and name == "--redis-port"):
            return None
        number = int(found[1]) if len(found[1]) < _MAX_DIGITS else None
        return number if number is not None and -(2**31) <= number < 2**31 else None

    def all(self, name: str) -> list[str]:
        """Give the values of an option that may be repeated."""
        return [values[0] for values in self.values.get(name, [])]


def read(argv: Sequence[str]) -> Given:
    """Read a command line. Raises UsageError."""
    given = Given()
    strangers: list[str] = []
    left = list(argv)
    while left:
        word = left.pop(0)
        if word.startswith("--") and word != "--":
            name, equals, value = word.partition("=")
            option = _long(name)
            if option is None:
                strangers.append(f"there is no option {name}")
                continue
            if equals and option.n_values == 0:
                raise UsageError(f"{option.name} takes no value, got {value!r}")
            _take(given, option, [value] if equals else [], left)
        elif word.startswith("-") and word not in {"-", "--"}:
            strangers += _take_short(given, word, left)
        else:
            strangers.append(f"unexpected argument {word!r}")
    if strangers and not any(map(given.has, ("--help", "--version"))):
        raise UsageError(strangers[0])
    _check(given)
    return given


def _long(name: str) -> Option | None:
    exact = [option for option in OPTIONS if name in option.names]
    found = exact or [option for option in OPTIONS if any(known.startswith(name) for known in option.names)]
    if len(found) > 1:
        raise UsageError(f"{name} is not clear: {' or '.join(option.name for option in found)}?")
    return found[0] if found else None


def _take_short(given: Given, word: str, left: list[str]) -> list[str]:
    """Take short options that share a dash; the value of one may stand right behind it. Tells which there are not."""
    letters, strangers = word[1:], []
    while letters:
        name, letters = f"-{letters[0]}", letters[1:]
        option = next((option for option in OPTIONS if name in option.names), None)
        if option is None:
            strangers.append(f"there is no option {name}")
            continue
        if option.n_values:
            _take(given, option, [letters] if letters else [], left)
            break
        _take(given, option, [], left)
    return strangers


def _take(given: Given, option: Option, values: list[str], left: list[str]) -> None:
    while len(values) < option.n_values:
        values.append(_next_value(option, left))
    if option.name in given.values and not option.is_repeated:
        raise UsageError(f"{option.name} is given twice")
    given.values.setdefault(option.name, []).append(tuple(values))


def _next_value(option: Option, left: list[str]) -> str:
    """Take the next word as a value. One that is empty or `--` is none; behind an equals sign it would be."""
    if not left or left[0] in {"", "--"}:
        raise UsageError(f"{option.name} requires {'a value' if option.n_values == 1 else 'two values'}")
    return left.pop(0)


def _check(given: Given) -> None:
    if given.has("--simgrid-version") and len(given.values) > 1 and not any(map(given.has, ("--help", "--version"))):
        raise UsageError("--simgrid-version stands alone")
    alone = ("--help", "--version", "--simgrid-version", "--unittest", "--link")
    if not any(map(given.has, alone)) and not given.has("--platform"):
        raise UsageError("-p FILE is missing")
    if given.has("--sched-cfg") and given.has("--sched-cfg-file"):
        raise UsageError("--sched-cfg and --sched-cfg-file exclude each other")
