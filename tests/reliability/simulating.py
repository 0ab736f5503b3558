"""Simulations that are killed: alone, or as Batsim for a server of ours."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Final

from pybatsched.results import run_state
from reliability import children, crash_checks, serving
from reliability.crash_checks import Found, Span
from reliability.self_kill import AFTER, BEFORE, MOVING, RUNNING

PREFIX: Final = "out/a"


def command(inputs: Path, policy: str = "easy") -> list[str]:
    """Return the command of the run that is disturbed, or of an earlier one."""
    given = ["simulate", "--procs", str(crash_checks.N_PROCS), "-w", str(inputs / "w.json"), "--policy", policy]
    given += ["-e", PREFIX, "-q"]
    return [*given, "--journal", "j.pbj"] if policy == "easy" else given


class Alone:
    """Undisturbed simulations: an earlier one, and the one to be killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        crash_checks.write_inputs(folder)
        self.old = self._whole("old", "fcfs")
        self.new = self._whole("new", "easy")
        self.journal = (folder / "new" / "j.pbj").read_bytes()
        place = folder / "span"
        place.mkdir()
        span = crash_checks.span_of(self.command(), place)
        self.span = Span(span.calls, span.files, children.seconds_of(self.command(), place))

    def _whole(self, name: str, policy: str) -> dict[str, bytes]:
        place = self._folder / name
        place.mkdir()
        crash_checks.ended_well(self.command(policy), place, found := Found())
        assert not found.problems, found.problems
        return crash_checks.results_at(place / PREFIX)

    def command(self, policy: str = "easy") -> list[str]:
        """Return the command of the run that is disturbed, or of an earlier one."""
        return command(self._folder, policy)


@functools.cache
def alone_in(folder: Path) -> Alone:
    """Return the ones that all kinds of crashes in a directory share."""
    return Alone(folder)


class Simulator:
    """Kills simulations: two of three alone, the others while a server serves them."""

    def __init__(self, folder: Path) -> None:
        self._alone = alone_in(folder)
        self._served = serving.PeerKilled(folder)

    def attempt(self, place: Path, rng: random.Random) -> Found:
        """Try once."""
        if not rng.randrange(3):
            return self._served.attempt(place, rng)
        alone = self._alone
        place.mkdir()
        has_earlier = rng.random() < 0.5
        found = Found()
        if has_earlier:
            crash_checks.ended_well(alone.command("fcfs"), place, found)
        moment = alone.span.draw(rng)
        child = moment.start(alone.command(), place)
        moment.await_death(child)
        found.stage, found.how = crash_checks.stage_by(child, self._stage(place, has_earlier)), moment.how
        found.expect(child.code in {0, -9}, f"it ended with {child.code}: {child.errors[-300:]}")
        crash_checks.check_results(found, place / PREFIX, alone.new, alone.old if has_earlier else None)
        crash_checks.check_journal(found, place / "j.pbj", alone.journal, child.notes.get("n_requests", 0))
        crash_checks.ended_well(alone.command(), place, found)
        crash_checks.check_next_results(found, place / PREFIX, alone.new)
        found.expect((place / "j.pbj").read_bytes() == alone.journal, "the next journal is not an undisturbed one")
        return found

    def _stage(self, place: Path, has_earlier: bool) -> str:
        """Return by its files the stage of a run that was killed from outside."""
        mark = run_state.read(str(place / PREFIX))
        if mark is None or (has_earlier and not mark.moving and "fcfs" in str(mark.about)):
            return BEFORE
        if mark.state is run_state.State.FINISHED:
            return MOVING if mark.moving else AFTER
        return RUNNING
