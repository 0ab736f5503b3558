"""Machine instructions per job and per exchange with valgrind, which do not depend on the load of the machine.

    python benchmarks/instructions.py [--write] [SECTION ...]

Each section runs with few and with many jobs. The difference is divided by the difference in jobs (or exchanges), so
that start-up does not count. The figures are compared with those in instructions.json for the same build of Python. The
exit code is 1 if a section needs over 3 % more. ``--write`` stores the new figures, to be committed with the change.
For a Python that is not in the file, instructions are counted without a comparison.

One process imports all modules and prepares the inputs. Each count is a fork of it, which inherits its instructions;
these cancel out as well.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pybatsched.core import decisions as d, events as e
from pybatsched.core.engine import Engine
from pybatsched.platform.model import uniform
from pybatsched.policies import registry
from pybatsched.protocol import Message, v4
from pybatsched.simulator.options import Scenario, SimulationOptions
from pybatsched.simulator.outputs.files import batsim_files
from pybatsched.simulator.run import run_policy, with_needs
from pybatsched.simulator.simulation import SimulatedRun
from pybatsched.workload import Workload, load
from pybatsched.workload.formats import batsim4
from pybatsched.workload.generate.models import Recipe, generate
from pybatsched.workload.inject.deadlines import every, with_deadlines

FEW, MANY = 200, 700
#: The allowed growth of a section; repeated counts differ by less than a third of it.
TOLERANCE: Final = 0.03
KEPT: Final = Path(__file__).with_suffix(".json")

Task = Callable[[], None]
Section = tuple[Task, Task, int]  # with few and with many jobs, and the difference in units


def this_python() -> str:
    """Return the properties of the interpreter that affect the counts."""
    options = sysconfig.get_config_var("CONFIG_ARGS") or ""
    optimised = "optimised" if "--enable-optimizations" in options else "not optimised"
    version = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{version}, {platform.machine()}, {platform.python_compiler()}, {optimised}"


# --- sections ---------------------------------------------------------------------------------------------------


def sections(scratch: Path) -> dict[str, Section]:
    """Return all sections with their inputs."""
    plain = {n: generate(Recipe("lublin", 256, seed=1, n_jobs=n, load=0.9)) for n in (FEW, MANY)}
    urged = {
        n: with_deadlines(jobs, every(len(jobs.jobs), 3, 2), least_s=86_400.0, factor=2.0) for n, jobs in plain.items()
    }
    found: dict[str, Section] = {}
    for policy, jobs, n_procs in (
        ("easy", plain, 256),
        ("conservative", plain, 256),
        ("redirection", plain, 302),
        ("dbf", urged, 256),
    ):
        few, many = (_simulation(jobs[n], n_procs, policy, scratch / f"{policy}-{n}") for n in (FEW, MANY))
        found[policy] = (few, many, MANY - FEW)
    few_messages, many_messages = (_exchanges(plain[n], 256) for n in (FEW, MANY))
    found["codec"] = (_codec(few_messages), _codec(many_messages), len(many_messages) - len(few_messages))
    files = {n: scratch / f"{n}.json" for n in (FEW, MANY)}
    for n, file in files.items():
        batsim4.write(plain[n], file)
    found["loading"] = (lambda: _ignore(load(files[FEW])), lambda: _ignore(load(files[MANY])), MANY - FEW)
    return found


def _ignore(_value: object) -> None:
    """Drop a value."""


def _simulation(workload: Workload, n_procs: int, policy: str, prefix: Path) -> Task:
    """Return a task that simulates a workload and writes its output files."""
    plan = registry.PolicyPlan(registry.find(policy))
    scenario = Scenario(uniform(n_procs), {"w0": workload}, with_needs(SimulationOptions(), plan))
    return lambda: _ignore(run_policy(scenario, plan, batsim_files(str(prefix))))


Exchange = tuple[bytes, Message[d.Decision]]


def _exchanges(workload: Workload, n_procs: int) -> list[Exchange]:
    """Return all exchanges of Batsim with EASY: requests as bytes, replies as messages."""
    engine = Engine(registry.PolicyPlan(registry.find("easy")).make, "easy")
    exchanges: list[Exchange] = []

    def step(now: float, events: Sequence[e.Event]) -> tuple[float, Sequence[d.Decision]]:
        request = v4.encode_events(Message(now, tuple(events)))
        at, decisions = engine.step(now, events)
        exchanges.append((request, Message(at, tuple(decisions))))
        return at, decisions

    scenario = Scenario(uniform(n_procs), {"w0": workload}, SimulationOptions())
    with tempfile.TemporaryDirectory() as scratch:
        SimulatedRun(scenario, step, batsim_files(f"{scratch}/run")).run()
    return exchanges


def _codec(exchanges: list[Exchange]) -> Task:
    """Return a task that decodes requests and encodes replies."""

    def task() -> None:
        for request, reply in exchanges:
            v4.decode_events(request)
            v4.encode_decisions(reply)

    return task


# --- counting ---------------------------------------------------------------------------------------------------


def count_here(wanted: Sequence[str], scratch: Path) -> None:
    """Run all sections, each size in a fork, and print the process ids. Called in the process under valgrind."""
    prepared = sections(scratch)
    gc.collect()
    gc.freeze()  # a garbage collection of the inputs would be a per cent of a small section
    for name in wanted or prepared:
        few, many, n_units = prepared[name]
        pids = [_forked(task) for task in (few, many)]
        print(json.dumps([name, *pids, n_units]), flush=True)


def _forked(task: Task) -> int:
    pid = os.fork()
    if not pid:
        try:
            task()
        except BaseException:  # noqa: BLE001  the parent reports it
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit("a section failed; its error is above")
    return pid


def counted(wanted: Sequence[str]) -> dict[str, int]:
    """Return the instructions per unit of each section."""
    with tempfile.TemporaryDirectory() as scratch:
        command = ["valgrind", "--quiet", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={scratch}/%p"]
        command += [
            "--I1=32768,8,64",
            "--D1=32768,8,64",
            "--LL=1048576,16,64",
        ]  # without effect, but it warns without them
        command += [sys.executable, __file__, "--count-here", scratch, *wanted]
        # The order of sets of strings must be the same in each run.
        environment = os.environ | {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
        found = {}
        for name, few, many, n_units in map(json.loads, output.splitlines()):
            found[name] = (_total(f"{scratch}/{many}") - _total(f"{scratch}/{few}")) // n_units
        return found


def _total(file: str) -> int:
    """Return the instructions of a process from its cachegrind file."""
    last = Path(file).read_text(encoding="utf-8").splitlines()[-1]
    word, _, number = last.partition(" ")
    if word != "summary:":
        raise SystemExit(f"{file}: expected a summary of cachegrind in the last line, found {last[:60]!r}")
    return int(number)


# --- comparing --------------------------------------------------------------------------------------------------


def compared(now: Mapping[str, int], kept: Mapping[str, int]) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the table, and the sections that exceed the tolerance."""
    rows: list[tuple[str, ...]] = []
    worse = []
    for name, n in now.items():
        before = kept.get(name)
        change = "new" if before is None else f"{100 * (n / before - 1):+.1f} %"
        if before is not None and n > before * (1 + TOLERANCE):
            worse.append(name)
            change += "  TOO MANY"
        rows.append((name, f"{n:,}", "" if before is None else f"{before:,}", change))
    return rows, worse


def main() -> None:
    """Count, compare and print."""
    parser = argparse.ArgumentParser(description="Instructions per job and per exchange, under valgrind.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="sections to run (default: all)")
    parser.add_argument("--write", action="store_true", help=f"store the figures in {KEPT.name}")
    parser.add_argument("--count-here", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.count_here is not None:
        count_here(args.sections, args.count_here)
        return
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed (Debian: apt-get install valgrind); nothing was counted")
    everywhere: dict[str, dict[str, int]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    python = this_python()
    now, kept = counted(args.sections), everywhere.get(python, {})
    rows, worse = compared(now, kept)
    print(python)
    for name, n, before, change in [("section", "instructions", "kept", ""), *rows]:
        print(f"  {name:<14}{n:>14}{before:>14}  {change}".rstrip())
    if args.write:
        everywhere[python] = kept | now
        KEPT.write_text(json.dumps(dict(sorted(everywhere.items())), indent=2) + "\n")
        return
    if not kept:
        print(f"{KEPT.name} has no figures of this Python: nothing was compared")
    if worse:
        raise SystemExit(f"over {100 * TOLERANCE:.0f} % more instructions than kept: {', '.join(worse)}")


if __name__ == "__main__":
    main()
