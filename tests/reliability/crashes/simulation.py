"""Kill simulations, alone or as Batsim for a server of ours."""

from __future__ import annotations

import functools
import random
import time
from pathlib import Path
from typing import Final

from pybatsched.results import run_state
from reliability.crashes import checks, processes, server
from reliability.crashes.checks import Found, Span
from reliability.crashes.self_kill import AFTER, BEFORE, MOVING, RUNNING

PREFIX: Final = "out/a"
JOURNAL: Final = "j.pbj"


def command(inputs: Path, policy: str = "easy") -> list[str]:
    """Return the command of the run that is disturbed, or of an earlier one."""
    given = ["simulate", "--procs", str(checks.N_PROCS), "-w", str(inputs / "w.json"), "--policy", policy]
    given += ["-e", PREFIX, "-q"]
    return [*given, "--journal", JOURNAL] if policy == "easy" else given


class Undisturbed:
    """Undisturbed simulations: an earlier one, and the one to be killed."""

    def __init__(self, folder: Path) -> None:
        checks.write_inputs(folder)
        self.new_command, self.old_command = command(folder), command(folder, "fcfs")
        notes = {}
        for name, args in (("old", self.old_command), ("new", self.new_command)):
            (folder / name).mkdir()
            notes = checks.measured(args, folder / name).notes
        self.old, self.new = (checks.results_at(folder / name / PREFIX) for name in ("old", "new"))
        self.journal = (folder / "new" / JOURNAL).read_bytes()
        # patience: measured and reported only
        began_at = time.monotonic()
        assert processes.start(self.new_command, folder / "new", is_new=True).ended() == 0
        # patience: measured and reported only
        self.span = Span(notes["calls"], notes["files"], time.monotonic() - began_at)

    def check_next(self, found: Found, place: Path) -> None:
        """Check that the next run in a place is the same as without a crash."""
        found.run(self.new_command, place)
        checks.check_next_results(found, place / PREFIX, self.new)
        found.expect((place / JOURNAL).read_bytes() == self.journal, "the next journal is not an undisturbed one")


undisturbed_in = functools.cache(Undisturbed)


class Simulator:
    """Kills simulations: two of three alone, the others while a server serves them."""

    def __init__(self, folder: Path) -> None:
        self._undisturbed = undisturbed_in(folder)
        self._served = server.PeerKilled(folder)

    def attempt(self, place: Path, rng: random.Random) -> Found:
        """Try once."""
        if not rng.randrange(3):
            return self._served.attempt(place, rng)
        undisturbed, found = self._undisturbed, Found()
        place.mkdir()
        has_earlier = rng.random() < 0.5
        if has_earlier:
            found.run(undisturbed.old_command, place)
        moment = undisturbed.span.moment(rng)
        child = moment.start(undisturbed.new_command, place)
        moment.await_death(child)
        found.killed(child, moment.how, _stage(place, has_earlier))
        checks.check_results(found, place / PREFIX, undisturbed.new, undisturbed.old if has_earlier else None)
        checks.check_journal(found, place / JOURNAL, undisturbed.journal, child.notes.get("n_requests", 0))
        undisturbed.check_next(found, place)
        return found


def _stage(place: Path, has_earlier: bool) -> str:
    """Return by its files the stage of a run that was killed from outside."""
    mark = run_state.read(str(place / PREFIX))
    if mark is None or (has_earlier and not mark.moving and "fcfs" in str(mark.about)):
        return BEFORE
    if mark.state is run_state.State.FINISHED:
        return MOVING if mark.moving else AFTER
    return RUNNING
