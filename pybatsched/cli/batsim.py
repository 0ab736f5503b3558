"""Run the embedded simulator with Batsim's command line, for programs that start Batsim."""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

from pybatsched.cli.common import arguments, process, run_end
from pybatsched.errors import InputError, NotSimulatedError, PeerLostError, RemoteProtocolError, UnfinishedError
from pybatsched.live import keys
from pybatsched.live.batsim_options import USAGE, Given, UsageError, read
from pybatsched.metrics.summary import Result
from pybatsched.results.atomic_files import whole
from pybatsched.runs.build import build
from pybatsched.runs.spec import MachineSpec, RunSpec, WorkloadSpec
from pybatsched.simulator import run as runs
from pybatsched.simulator.no_scheduler import run_all_at_once
from pybatsched.simulator.observers import Observer
from pybatsched.simulator.options import BATSIM, Scenario
from pybatsched.simulator.outputs.files import BATSIM_VERSION, EnergyFiles, JobFiles, MachineStates
from pybatsched.simulator.outputs.paje import ScheduleTrace

#: This line marks an executable that `--link` has written.
_LINK_MARK: Final = (
    "# Batsim's command line in front of pybatsched's embedded simulator; made by: pybatsched batsim --link"
)


def link(directory: Path) -> int:
    """Write an executable `batsim` into a directory. It starts this Python interpreter. Raises InputError."""
    place = directory / "batsim"
    if (place.exists() or place.is_symlink()) and not _is_ours(place):
        raise InputError(
            f"--link {directory}: {place} exists and was not written by pybatsched; expected another directory"
        )
    # -P: a directory `pybatsched` in the working directory must not be imported as the package.
    text = f'#!/bin/sh\n{_LINK_MARK}\nexec {shlex.quote(sys.executable)} -P -m pybatsched batsim "$@"\n'
    with whole(place) as half:
        half.write_text(text)
        half.chmod(0o755)
    print(f"wrote {place}; put its directory first in the PATH: PATH={shlex.quote(str(directory.absolute()))}:$PATH")
    return 0


def _is_ours(place: Path) -> bool:
    try:
        with place.open("rb") as file:
            return _LINK_MARK.encode() in file.read(4096)
    except OSError:
        return False


#: The version of SimGrid that this Batsim uses.
SIMGRID_VERSION: Final = "3.32.0"
BAD_USAGE: Final = 255
NO_PLATFORM, NO_WORKLOAD, NO_WORKFLOW, NO_CUT_WORKFLOW = 0x01, 0x02, 0x04, 0x10

_LEVELS: Final = ("quiet", "network-only", "information", "debug")
#: Prefixes of SimGrid options that would change communication.
_OF_NETWORK: Final = ("network/TCP-gamma", "network/loopback")
#: Prefixes of SimGrid options that have no effect on this simulator.
_NO_EFFECT: Final = ("host/model:ptask_L07", "network/", "smpi/", "contexts/", "debug/", "exception/", "path:", "bmf/")


def run(args: argparse.Namespace) -> int:
    """Run as Batsim would with these arguments. Returns Batsim's exit code."""
    try:
        given = read(args.arguments)
    except UsageError as error:
        short, _, _ = USAGE.partition("\n\n")
        print(f"{short}\npybatsched batsim: {error}; see --help", file=sys.stderr)
        return BAD_USAGE
    if given.has("--link"):
        return link(Path(given.one("--link")))
    for option, text in (("--help", USAGE), ("--version", BATSIM_VERSION), ("--simgrid-version", SIMGRID_VERSION)):
        if given.has(option):
            print(text.rstrip())
            return 0
    return _run(given)


def _run(given: Given) -> int:
    log = _Log(given)
    code, errors = _mistakes(given)
    for text in errors:
        log.print_error(text)
    for roles in given.all("--add-role-to-hosts"):
        if roles.count(":") != 1:
            log.print_error(f"--add-role-to-hosts {roles}: expected one ':', as in host1,host2:storage")
            _abort()
    if given.has("--dump-execution-context"):
        print(_context(given))
        return 0
    if errors:
        return code
    try:
        _check_simulated(given)
        _simulate(given, log)
    except (NotSimulatedError, PeerLostError, UnfinishedError) as error:
        log.print_error(error.spelled(arguments.as_option))
        return error.exit_code
    except (InputError, RemoteProtocolError) as error:
        log.print_error(error.spelled(arguments.as_option))
        _abort()
    return 0


class _Log:
    """The log on standard error, in the form of Batsim's own lines, at the chosen verbosity."""

    def __init__(self, given: Given) -> None:
        level = "quiet" if given.has("--quiet") else given.one("--verbosity")
        self._level = _LEVELS.index(level) if level in _LEVELS else 0
        self._master = given.one("--master-host")

    @property
    def is_quiet(self) -> bool:
        """Whether only errors are printed."""
        return self._level < _LEVELS.index("information")

    def print_error(self, text: str) -> None:
        """Print an error, at any verbosity."""
        print(f"[0.000000] [batsim/ERROR] {text}", file=sys.stderr, flush=True)

    def info(self, text: str) -> None:
        """Print an informational message."""
        if not self.is_quiet:
            print(f"[0.000000] [batsim/INFO] {text}", file=sys.stderr, flush=True)

    def message(self, now: float, is_sent: bool, raw: bytes) -> None:
        """Print a message of the protocol."""
        if self._level:
            what = "Sending" if is_sent else "Received"
            sender = f"{self._master}:Scheduler REQ-REP:(0) {now:.6f}"
            text = raw.decode("utf-8", "replace")
            print(f"[{sender}] [network/INFO] {what} '{text}'", file=sys.stderr, flush=True)


def _mistakes(given: Given) -> tuple[int, list[str]]:
    """Return Batsim's exit code (0 if only values are invalid; nothing is run then), and error messages."""
    code, errors = 0, []
    files = (
        ("--platform", "Platform", NO_PLATFORM),
        ("--workload", "Workload", NO_WORKLOAD),
        ("--workflow", "Workflow", NO_WORKFLOW),
        ("--workflow-start", "Cut workflow", NO_CUT_WORKFLOW),
        ("--events", "Events", NO_WORKLOAD),
    )
    for option, what, bit in files:
        for path in given.all(option):
            if not path or not _exists(path):
                code |= bit
                errors.append(f"{what} file '{path}' cannot be read.")
    errors += [
        f"Cannot read {option} '{given.one(option)}' as an integer."
        for option in ("--redis-port", "--mmax", "--workflow-jobs-limit")
        if given.integer(option) is None
    ]
    if (given.integer("--workflow-jobs-limit") or 0) < 0:
        errors.append(f"--workflow-jobs-limit {given.one('--workflow-jobs-limit')} must not be negative.")
    if given.one("--verbosity") not in _LEVELS:
        errors.append(f"Invalid verbosity level '{given.one('--verbosity')}'; expected one of {', '.join(_LEVELS)}")
    if given.has("--enable-profile-reuse") and not given.has("--enable-dynamic-jobs"):
        errors.append("--enable-profile-reuse is of no use without --enable-dynamic-jobs; is that one missing?")
    return code, errors


def _exists(path: str) -> bool:
    """Return whether a file exists. Any error means no."""
    try:
        Path(path).stat()
    except (OSError, ValueError):
        return False
    return True


def _check_simulated(given: Given) -> None:
    """Raise NotSimulatedError for an option that this simulator does not support."""
    for option, why in (
        ("--enable-redis", "job descriptions in Redis"),
        ("--workflow", "workflows"),
        ("--workflow-start", "workflows"),
        ("--unittest", "Batsim 3's own unit tests"),
    ):
        if given.has(option):
            raise NotSimulatedError(f"{option}: this simulator does not support {why}; run it with Batsim")
    for setting in given.all("--sg-cfg"):
        if not setting.startswith(_NO_EFFECT) or setting.startswith(_OF_NETWORK):
            raise NotSimulatedError(f"--sg-cfg {setting}: this simulator is not SimGrid; run it with Batsim")


def _context(given: Given) -> str:
    return json.dumps(
        {
            "socket_endpoint": given.one("--socket-endpoint"),
            "redis_enabled": given.has("--enable-redis"),
            "redis_hostname": given.one("--redis-hostname"),
            "redis_port": given.integer("--redis-port") or 0,
            "redis_prefix": given.one("--redis-prefix"),
            "export_prefix": given.one("--export"),
            "external_scheduler": not given.has("--no-sched"),
        },
        separators=(",", ":"),
    )


def _simulate(given: Given, log: _Log) -> None:
    scenario = _scenario(given, log)
    prefix = given.one("--export")  # written in place, without lock and mark, as Batsim does
    files: list[Observer] = [JobFiles(prefix), EnergyFiles(prefix)]
    if not given.has("--disable-machine-state-tracing"):
        files.append(MachineStates(prefix))
    if not given.has("--disable-schedule-tracing"):
        files.append(ScheduleTrace(prefix))
    log.info(f"Batsim version: {BATSIM_VERSION} (the embedded simulator of pybatsched)")
    log.info(f"Batsim's export prefix is '{prefix}'.")
    if given.has("--no-sched"):
        run_all_at_once(scenario, files)
        return
    process.raise_interrupted()  # the first process of a container ignores SIGTERM by default
    result = runs.run_external(
        scenario,
        given.one("--socket-endpoint"),
        files,
        on_message=log.message,
        # A container may be stopped when the scheduler exits; the files must be complete even so.
        before_last=process.ignore_next_signal,
        keys=keys.read_client(given.one("--curve")) if given.has("--curve") else None,
    )
    if result.stopped:
        raise UnfinishedError(result.stopped)
    if not result.finished:
        _log_deadlock(result, log, dynamic_jobs=scenario.options.dynamic_jobs)


def _log_deadlock(result: Result, log: _Log, *, dynamic_jobs: bool) -> None:
    if dynamic_jobs and not result.stuck:
        log.print_error(f"Oops! Deadlock detected: {run_end.NOT_CLOSED}")
        return
    log.print_error("Oops! Deadlock detected: nothing runs and nothing is to come, but these jobs are not over:")
    for stuck in result.stuck[: run_end.N_SHOWN]:
        log.print_error(f"job {stuck.job_id}: {stuck.why}")
    if len(result.stuck) > run_end.N_SHOWN:
        log.print_error(f"and {len(result.stuck) - run_end.N_SHOWN:,} more")


def _scenario(given: Given, log: _Log) -> Scenario:
    """Read all inputs, which have the same names as those of `simulate`."""
    for i, path in enumerate(given.all("--workload")):
        log.info(f"Workload 'w{i}' corresponds to workload file '{Path(path).resolve()}'.")
    machine = MachineSpec(
        platform=str(Path(given.one("--platform")).absolute()),  # always a file, never the name of a machine
        energy=given.has("--energy"),
        events=tuple(given.all("--events")),
        master_host=given.one("--master-host"),
        roles=tuple(given.all("--add-role-to-hosts")),
        mmax=max(given.integer("--mmax") or 0, 0),  # a negative value is no limit either
        mmax_workload=given.has("--mmax-workload"),
    )
    spec = RunSpec(
        tuple(WorkloadSpec(path) for path in given.all("--workload")),
        machine,
        dynamic_jobs=given.has("--enable-dynamic-jobs"),
        acknowledge_dynamic_jobs=given.has("--acknowledge-dynamic-jobs"),
        profile_reuse=given.has("--enable-profile-reuse"),
        forward_profiles=given.has("--forward-profiles-on-submission"),
        compute_sharing=given.has("--enable-compute-sharing"),
        storage_sharing=not given.has("--disable-storage-sharing"),
        forward_unknown_events=given.has("--forward-unknown-events") and bool(machine.events),
        sched_cfg=given.one("--sched-cfg"),
        sched_cfg_file=given.one("--sched-cfg-file") or None,
        allow_empty=True,
    )
    built = build(spec, clock=BATSIM)
    if not log.is_quiet:
        for text in (*built.notes, *built.warnings):
            arguments.say(text)
    scenario = built.scenario
    redis: dict[str, Any] = {f"redis_{name}": given.one(f"--redis-{name}") for name in ("hostname", "prefix")}
    options = replace(scenario.options, **redis, redis_port=given.integer("--redis-port") or 0)
    return replace(scenario, options=options)


def _abort() -> NoReturn:
    """End as Batsim does after a fatal error: by SIGABRT, which a shell shows as 134."""
    sys.stdout.flush()
    sys.stderr.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    signal.signal(signal.SIGABRT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGABRT)
    raise SystemExit(128 + signal.SIGABRT)  # never reached
