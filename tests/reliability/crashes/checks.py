"""Common parts of all crash tests: a small workload, times to kill, comparisons, and findings."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from support import fuzzer, platforms

from pybatsched.results import run_state
from pybatsched.results.run_state import MARK, SUFFIXES
from pybatsched.session.journal import JournalReader
from reliability.crashes import processes
from reliability.crashes.processes import Child
from reliability.crashes.self_kill import BEFORE, Plan

N_PROCS: Final = 4
N_JOBS: Final = 40
#: Of a hundred tries so many are killed at any call, and so many at one that touches files; the others by the clock.
_BY_CALLS, _BY_FILES = 35, 50


@dataclass(slots=True)
class Found:
    """The result of one try. `stage` is when it was hit, empty if it ended before; `problems` should be none."""

    stage: str = ""
    how: str = ""
    problems: list[str] = field(default_factory=list)

    def expect(self, is_so: object, what: str) -> None:
        """Record a condition that does not hold."""
        if not is_so:
            self.problems.append(what)

    def killed(self, child: Child, how: str, stage: str = BEFORE) -> None:
        """Record the stage at which a process was killed, by its own note, else as given. It may have ended before."""
        self.stage = self.stage or (str(child.notes.get("stage", stage)) if child.code == -9 else "")
        self.how = how
        self.expect(child.code in {0, -9}, f"it ended with {child.code}: {child.errors[-300:]}")

    def run(self, args: Sequence[str], cwd: Path, name: str = "next") -> None:
        """Run a command that has to end well after what happened."""
        child = processes.start(args, cwd, name)
        self.expect(child.ended() == 0, f"{args[0]} afterwards ended with {child.code}: {child.errors[-300:]}")


@dataclass(frozen=True, slots=True)
class Span:
    """How long an undisturbed command is: in calls, in calls that touch files, in seconds of its own.

    Both counts are given up to the end of each of its stages. Moments are chosen equally from each stage, however
    long it is: otherwise most would fall into imports, and none into the renaming of files.
    """

    calls: Sequence[int]
    files: Sequence[int]
    seconds: float = 0.0

    def moment(self, rng: random.Random) -> Moment:
        """Draw a moment of it."""
        which = rng.randrange(100)
        if which >= _BY_CALLS + _BY_FILES and self.seconds:
            return Moment(None, rng.uniform(0, self.seconds))
        scale, ends = ("calls", self.calls) if which < _BY_CALLS else ("files", self.files)
        stages = [(first + 1, last) for first, last in itertools.pairwise((0, *ends)) if first < last]
        return Moment({"scale": scale, "at": rng.randint(*rng.choice(stages))})


@dataclass(frozen=True, slots=True)
class Moment:
    """When to kill: by a plan of the process itself, or from outside after so many seconds."""

    plan: Plan | None
    after_s: float = 0.0

    def start(self, args: Sequence[str], cwd: Path, name: str = "it") -> Child:
        """Start what is to be killed: by the clock a new interpreter, else a fork."""
        return processes.start(args, cwd, name, self.plan, is_new=self.plan is None)

    def await_death(self, child: Child) -> None:
        """Wait until it was killed, by itself or by us, or has ended."""
        if self.plan is None:
            processes.happens(lambda: child.poll() is not None, self.after_s)
            child.kill()
        else:
            child.ended()

    @property
    def how(self) -> str:
        """Return it as one word."""
        return "clock" if self.plan is None else self.plan["scale"]


def measured(args: Sequence[str], cwd: Path, **how: Any) -> Child:
    """Run a command that is not disturbed, and counts. Raises AssertionError if it does not end well."""
    child = processes.start(args, cwd, "measured", {}, **how)
    assert child.ended() == 0, child.errors
    return child


def write_inputs(folder: Path) -> None:
    """Write a workload and a platform, the same ones each time. All runs use this path, because it is in journals."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "w.json").write_text(json.dumps(fuzzer.random_workload(1, N_JOBS, N_PROCS)))
    hosts = [f'<host id="{name}" speed="1Gf"/>' for name in ("master_host", *(f"h{i}" for i in range(N_PROCS)))]
    (folder / "p.xml").write_text(platforms.text_of(tuple(hosts)))


def results_at(prefix: Path) -> dict[str, bytes]:
    """Return the files of a complete run, at the place that its state file names."""
    found = run_state.find(str(prefix))
    paths = {suffix: found.path(suffix) for suffix in SUFFIXES}
    return {suffix: path.read_bytes() for suffix, path in paths.items() if path.exists()}


def check_results(
    found: Found, prefix: Path, new: dict[str, bytes] | None, earlier: dict[str, bytes] | None = None
) -> None:
    """Check what was left of a run: its own whole results, else the earlier ones, else none; and that no lock is held.

    `new` are its own as they should be, None if it cannot have come to its end.
    """
    mark = run_state.read(str(prefix))
    found.expect(mark is None or not mark.is_alive, "the mark's lock is still held")
    is_there = mark is not None or Path(f"{prefix}_jobs.csv").exists()
    if is_there and run_state.find(str(prefix)).is_whole:
        known = [whole for whole in (new, earlier) if whole is not None]
        found.expect(results_at(prefix) in known, "the results are neither those before nor the new ones")
    else:
        found.expect(earlier is None, "the results before are gone, and there are no new ones")
    shown = processes.run("metrics", str(prefix), "--partial")
    found.expect(shown.returncode == (0 if is_there else 2), f"metrics: {shown.returncode} {shown.stderr:.200}")


def check_next_results(found: Found, prefix: Path, whole: dict[str, bytes]) -> None:
    """Check that the next run has left its own results and nothing else."""
    found.expect(results_at(prefix) == whole, "the results of the next run are not those of an undisturbed one")
    names = {path.name for path in prefix.parent.iterdir()}
    expected = {f"{prefix.name}{suffix}" for suffix in (*whole, MARK)}
    found.expect(names == expected, f"beside the next results there is {sorted(names ^ expected)}")


def check_journal(found: Found, path: Path, whole: bytes, n_requests: int = 0) -> None:
    """Check what a process that was killed at its n-th message has left of its journal.

    It equals an undisturbed one up to a point, is readable up to there, and has all messages before that one.
    """
    n_answered = 0
    if path.exists():
        content = path.read_bytes()
        found.expect(whole.startswith(content), "the journal is no beginning of an undisturbed one")
        n_answered = check_reading(found, path)
    found.expect(n_answered >= n_requests - 1, f"message {n_requests} came, and {n_answered} are in the journal")


def check_reading(found: Found, path: Path) -> int:
    """Check that a journal can be read and replayed up to its last record. Return the number of answered messages."""
    again = processes.run("replay", str(path))
    try:
        reader = JournalReader(path)
        exchanges = list(reader.exchanges())
    except Exception as error:  # noqa: BLE001  whatever it is, it is told
        is_reported = "contains no complete record" in str(error) and "no complete record" in again.stderr
        is_reported = is_reported and again.returncode == 2
        found.expect(is_reported, f"the journal cannot be read: {error}; replay: {again.returncode} {again.stderr:.99}")
        return 0
    n_answered = sum(exchange.is_answered for exchange in exchanges)
    errors = again.stdout + again.stderr
    found.expect(again.returncode == (0 if n_answered else 2), f"replay: {again.returncode} {errors:.200}")
    found.expect(not n_answered or "identical" in errors, f"replay: {errors:.200}")
    if not reader.is_whole and n_answered:
        is_reported = "truncated" in errors or "no end" in errors
        found.expect(is_reported, f"replay does not say that the journal is truncated: {errors:.200}")
    return n_answered
