"""Campaigns whose workers or parent process are killed: finished cells stay, and the rest is run afterwards."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Final

from reliability import children, crash_checks, warm_workers
from reliability.crash_checks import Found, Span
from reliability.self_kill import Plan

KEEPS: Final = ("figures", "jobs", "files")
FOLDER: Final = "out"
#: Of so many tries one has workers that are new interpreters; those of the others are forks.
_ONE_IS_NEW: Final = 5
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


def command(n_workers: int = 2, *more: str) -> list[str]:
    """Return the command that runs the campaign."""
    return ["campaign", "run", "s.toml", "--output", FOLDER, "--workers", str(n_workers), "-q", *more]


def content(folder: Path) -> dict[str, bytes]:
    """Return all that a campaign has kept, by name; all of it is the same for each run, but the marks of kept files."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("_state.json")
    }


def written(place: Path, keep: str) -> Path:
    """Make a directory with the campaign's file in it."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "s.toml").write_text(_SPEC.format(keep=keep))
    return place


class Study:
    """An undisturbed campaign of each kind of `keep`: the content of its directory, and how long it takes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.whole: dict[str, dict[str, bytes]] = {}
        self.parent: dict[str, Span] = {}
        self.worker: dict[str, Span] = {}
        for keep in KEEPS:
            place = written(folder / f"whole-{keep}", keep)
            token, note = place / "token", place / "worker.note"
            token.touch()
            plan: Plan = {"note": str(note), "tokens": [str(token)]}
            child = children.start(
                command(1), place, "whole", {}, environ=children.hooked(plan), before=warm_workers.use
            )
            assert child.ended() == 0, child.errors
            self.whole[keep] = content(place / FOLDER)
            self.parent[keep] = crash_checks.counted(child.notes)
            self.worker[keep] = crash_checks.counted(children.noted_in(note))
        # The same with a worker that is a new interpreter, which has to load all modules first.
        place = written(folder / "new", "figures")
        (place / "token").touch()
        plan = {"note": str(place / "note"), "tokens": [str(place / "token")]}
        child = children.start(command(1), place, "new", environ=children.hooked(plan))
        assert child.ended() == 0, child.errors
        self.new_worker = crash_checks.counted(children.noted_in(place / "note"))

    def check_kept(self, found: Found, folder: Path, keep: str) -> None:
        """Check what a disturbed campaign has kept: each file is whole, but those that were just written."""
        whole = self.whole[keep]
        for name, data in content(folder).items() if folder.exists() else ():
            is_half = ".part" in name or name.endswith(".lock")
            found.expect(is_half or whole.get(name) == data, f"{name} is not that of an undisturbed campaign")

    def resumed(self, found: Found, place: Path, keep: str, *more: str) -> None:
        """Resume a campaign, and check that it equals an undisturbed one."""
        crash_checks.ended_well(command(2, "--resume", *more), place, found, "resumed", before=warm_workers.use)
        self.check_whole(found, place / FOLDER, keep)

    def check_whole(self, found: Found, folder: Path, keep: str) -> None:
        """Check that all is as in an undisturbed campaign, byte for byte, and that there is nothing else."""
        whole, now = self.whole[keep], content(folder)
        odd = sorted(name for name in whole.keys() | now.keys() if whole.get(name) != now.get(name))
        found.expect(not odd, f"differs from an undisturbed campaign: {', '.join(odd)}")
        status = children.run("campaign", "status", str(folder))
        found.expect(status.returncode == 0, f"status: {status.stdout} {status.stderr}")


@functools.cache
def study_in(folder: Path) -> Study:
    """Return the one that all kinds of crashes in a directory share."""
    return Study(folder)


class Parent:
    """Kills the process that runs a campaign, with its workers at work."""

    def __init__(self, folder: Path) -> None:
        self._study = study_in(folder)

    def attempt(self, place: Path, rng: random.Random) -> Found:
        """Try once: kill it, perhaps kill its continuation, and resume it."""
        study, keep = self._study, rng.choice(KEEPS)
        written(place, keep)
        found = Found()
        for name, more in (("it", ()), ("again", ("--resume",)))[: rng.choice((1, 1, 2))]:
            moment = study.parent[keep].draw(rng)
            before = warm_workers.use if rng.randrange(_ONE_IS_NEW) else None
            parent = moment.start(command(rng.choice((1, 2)), *more), place, name, before=before)
            moment.await_death(parent)
            found.stage = found.stage or crash_checks.stage_by(parent)
            found.how = f"{keep}, {moment.how}"
            found.expect(parent.code in {0, -9}, f"it ended with {parent.code}: {parent.errors[-300:]}")
            found.problems += children.strays()
            study.check_kept(found, place / FOLDER, keep)
        study.resumed(found, place, keep)
        return found


class Worker:
    """Kills one or two of the workers of a campaign: it continues with others."""

    def __init__(self, folder: Path) -> None:
        self._study = study_in(folder)

    def attempt(self, place: Path, rng: random.Random) -> Found:
        """Try once."""
        study, keep = self._study, rng.choice(KEEPS)
        written(place, keep)
        tokens = [place.with_name(f"{place.name}.token{i}") for i in range(rng.choice((1, 1, 2)))]
        for token in tokens:
            token.touch()
        is_new = not rng.randrange(_ONE_IS_NEW)
        moment = (study.new_worker if is_new else study.worker[keep]).draw(rng)
        note = place.with_name(f"{place.name}.worker")
        assert moment.plan is not None
        plan: Plan = {"note": str(note), "tokens": [str(token) for token in tokens], **moment.plan}
        before = None if is_new else warm_workers.use
        n_workers = rng.choice((1, 2))
        parent = children.start(command(n_workers), place, environ=children.hooked(plan), before=before)
        code = parent.ended()
        parent.kill()
        noted = children.noted_in(note)
        which = "new" if is_new else "forked"
        found = Found(str(noted.get("stage", "")), f"{keep}, {len(tokens)} {which} workers, {moment.how}")
        found.problems += children.strays()
        left = [path.name for path in children.scratch_of(place).iterdir()]
        found.expect(not left, f"workers have left {', '.join(left)}")
        if code == 0:
            study.check_whole(found, place / FOLDER, keep)
            return found
        # The same cell has lost two workers: it is reported as failed, and may be tried again.
        status = children.run("campaign", "status", str(place / FOLDER))
        is_reported = code == 7 and len(tokens) == 2 and "WorkerDied: its process ended with SIGKILL" in status.stdout
        found.expect(is_reported, f"it ended with {code}: {parent.errors[-300:]} {status.stdout}")
        study.resumed(found, place, keep, "--retry-failed")
        return found
