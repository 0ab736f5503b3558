"""Kill the workers or the parent process of campaigns: finished cells stay, and the rest is run afterwards."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Final

from reliability.crashes import checks, processes
from reliability.crashes.checks import Found, Span
from reliability.crashes.self_kill import Plan

KEEPS: Final = ("figures", "jobs", "files")
FOLDER: Final = "out"
_SPEC: Final = """
name = "crash"
seeds = [1, 2]
keep = "{keep}"
baseline = "fcfs"
[[workload]]
name = "drawn"
generate = {{model = "lublin", procs = 8, jobs = 15, load = 0.9}}
[[platform]]
name = "own"
of_workload = true
[[policy]]
name = "fcfs"
[[policy]]
name = "easy"
options = {{order = ["fcfs", "sjf"]}}
"""


def command(n_workers: int, *more: str) -> list[str]:
    """Return the command that runs the campaign."""
    return ["campaign", "run", "s.toml", "--output", FOLDER, "--workers", str(n_workers), "-q", *more]


def content(folder: Path) -> dict[str, bytes]:
    """Return all that a campaign has kept, by name; all of it is the same for each run, but the marks of kept files."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("_state.json")
    }


def write_spec(place: Path, keep: str) -> None:
    """Make a directory with the campaign's file in it."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "s.toml").write_text(_SPEC.format(keep=keep))


class Undisturbed:
    """An undisturbed campaign of each kind of `keep`: the content of its directory, and how long it takes."""

    def __init__(self, folder: Path) -> None:
        self.whole: dict[str, dict[str, bytes]] = {}
        self.parent: dict[str, Span] = {}
        self.worker: dict[str, Span] = {}
        for keep in KEEPS:
            place = folder / f"whole-{keep}"
            write_spec(place, keep)
            token, note = place / "token", place / "worker.note"
            token.touch()
            plan: Plan = {"note": str(note), "tokens": [str(token)]}
            parent = checks.measured(command(1), place, environ=processes.hooked(plan))
            self.whole[keep] = content(place / FOLDER)
            for spans, notes in ((self.parent, parent.notes), (self.worker, processes.read_notes(note))):
                spans[keep] = Span(notes["calls"], notes["files"])

    def check_kept(self, found: Found, folder: Path, keep: str) -> None:
        """Check what a disturbed campaign has kept: each file is whole, but those that were just written."""
        for name, data in content(folder).items() if folder.exists() else ():
            is_half = ".part" in name or name.endswith(".lock")
            is_whole = self.whole[keep].get(name) == data
            found.expect(is_half or is_whole, f"{name} is not that of an undisturbed campaign")

    def check_resumed(self, found: Found, place: Path, keep: str, *more: str) -> None:
        """Resume a campaign, and check that it equals an undisturbed one."""
        found.run(command(2, "--resume", *more), place, "resumed")
        self.check_whole(found, place / FOLDER, keep)

    def check_whole(self, found: Found, folder: Path, keep: str) -> None:
        """Check that all is as in an undisturbed campaign, byte for byte, and that there is nothing else."""
        whole, now = self.whole[keep], content(folder)
        odd = sorted(name for name in whole.keys() | now.keys() if whole.get(name) != now.get(name))
        found.expect(not odd, f"differs from an undisturbed campaign: {', '.join(odd)}")
        status = processes.run("campaign", "status", str(folder))
        found.expect(status.returncode == 0, f"status: {status.stdout} {status.stderr}")


undisturbed_in = functools.cache(Undisturbed)


class Parent:
    """Kills the process that runs a campaign, with its workers at work."""

    def __init__(self, folder: Path) -> None:
        self._undisturbed = undisturbed_in(folder)

    def attempt(self, place: Path, rng: random.Random) -> Found:
        """Try once: kill it, perhaps kill its continuation, and resume it."""
        keep, found = rng.choice(KEEPS), Found()
        write_spec(place, keep)
        for name, more in (("it", ()), ("again", ("--resume",)))[: rng.choice((1, 1, 2))]:
            moment = self._undisturbed.parent[keep].moment(rng)
            parent = moment.start(command(rng.choice((1, 2)), *more), place, name)
            moment.await_death(parent)
            found.killed(parent, f"{keep}, {moment.how}")
            found.problems += processes.strays()
            self._undisturbed.check_kept(found, place / FOLDER, keep)
        self._undisturbed.check_resumed(found, place, keep)
        return found


class Worker:
    """Kills one or two of the workers of a campaign: it continues with others."""

    def __init__(self, folder: Path) -> None:
        self._undisturbed = undisturbed_in(folder)

    def attempt(self, place: Path, rng: random.Random) -> Found:
        """Try once."""
        keep = rng.choice(KEEPS)
        write_spec(place, keep)
        tokens = [place.with_name(f"{place.name}.token{i}") for i in range(rng.choice((1, 1, 2)))]
        for token in tokens:
            token.touch()
        moment, note = self._undisturbed.worker[keep].moment(rng), place.with_name(f"{place.name}.worker")
        assert moment.plan is not None
        plan: Plan = {"note": str(note), "tokens": [str(token) for token in tokens], **moment.plan}
        parent = processes.start(command(rng.choice((1, 2))), place, environ=processes.hooked(plan))
        parent.ended()
        stage = str(processes.read_notes(note).get("stage", ""))
        found = Found(stage, f"{keep}, {len(tokens)} workers, {moment.how}", processes.strays())
        left = [path.name for path in processes.scratch_of(place).iterdir()]
        found.expect(not left, f"workers have left {', '.join(left)}")
        if parent.code == 0:
            self._undisturbed.check_whole(found, place / FOLDER, keep)
            return found
        # The same cell has lost two workers: it is reported as failed, and may be tried again.
        status = processes.run("campaign", "status", str(place / FOLDER))
        is_reported = "WorkerDied: its process ended with SIGKILL" in status.stdout and len(tokens) == 2
        is_expected = parent.code == 7 and is_reported
        found.expect(is_expected, f"it ended with {parent.code}: {parent.errors[-300:]} {status.stdout}")
        self._undisturbed.check_resumed(found, place, keep, "--retry-failed")
        return found
